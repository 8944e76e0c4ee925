"""Whose certificates an HTTPS endpoint may show."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from console.home import shown_path
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.identity import pem_blocks
from control_plane.contracts.paths import expanded


@dataclass(frozen=True, slots=True)
class Trust:
    """The system's authorities, unless ``ca`` is a PEM file with others.

    ``pinned`` is the file of a server on this machine: exactly the certificate in it will do, under whatever name the
    server is reached.
    """

    ca: str = ""
    pinned: str = ""

    def context(self) -> ssl.SSLContext:
        """Raises InvalidRequest for a file that cannot be used."""
        path = Path(self.pinned or self.ca)
        try:
            if self.pinned:
                certificates = [block for label, block in pem_blocks(path.read_text("ascii")) if label == "CERTIFICATE"]
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname = False
                context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
                context.load_verify_locations(cadata=certificates[0])
            elif self.ca:
                context = ssl.create_default_context(cafile=expanded(path))
            else:
                context = ssl.create_default_context()
        except (OSError, ValueError, IndexError) as error:
            why = error.strerror if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else None
            raise InvalidRequest(
                f"{shown_path(path)}: {why or 'holds no certificate (PEM)'}", param="ca", hint="--ca FILE"
            ) from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context
