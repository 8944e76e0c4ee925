"""Who is who between our processes: peers, and the one file that proves which one it is.

A credentials file is PEM: a private key, its certificate, and the certificate of the authority that signed both ends.
The peer stands in the certificate as the DNS name ``PEER.inferdeck.internal``. A client asks for the name of the peer
that it wants to talk to, so which one answers is checked with its certificate, wherever it listens. Peers are
processes; roles are people's (``contracts.access.Role``).
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

from control_plane.contracts.errors import SettingsError

DOMAIN: Final = "inferdeck.internal"

_BEGIN, _END = "-----BEGIN ", "-----END "


class Peer(StrEnum):
    CONTROL_PLANE = "control-plane"
    GATEWAY = "gateway"
    ROUTER = "router"
    WORKER = "worker"
    OPERATOR = "operator"

    @property
    def host(self) -> str:
        """The name that its certificate has."""
        return f"{self}.{DOMAIN}"


def peers_in(names: list[str]) -> frozenset[Peer]:
    """The peers that a certificate's DNS names stand for."""
    return frozenset(peer for peer in Peer if peer.host in names)


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """What a credentials file holds, as PEM."""

    key: bytes
    certificate: bytes
    authority: bytes

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Raises SettingsError where there is no such file, or it is none."""
        try:
            text = Path(path).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "not PEM"
            raise SettingsError(f"{path}: credentials cannot be read: {why}", hint="inferdeck cert") from None
        keys: list[str] = []
        certificates: list[str] = []
        for label, block in pem_blocks(text):
            (keys if label.endswith("PRIVATE KEY") else certificates).append(block)
        if len(keys) != 1 or len(certificates) < 2:
            raise SettingsError(
                f"{path}: a private key, its certificate and its authority's are needed in one file",
                hint="inferdeck cert",
            )
        *own, authority = certificates
        return cls(keys[0].encode(), "".join(own).encode(), authority.encode())


def pem_blocks(text: str) -> list[tuple[str, str]]:
    """Label and text of every block of a PEM file, in order."""
    blocks: list[tuple[str, str]] = []
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(_BEGIN):
            lines = [line]
        elif lines:
            lines.append(line)
            if line.startswith(_END):
                blocks.append((line.removeprefix(_END).rstrip("-"), "\n".join(lines) + "\n"))
                lines = []
    return blocks


def server_context(path: str | Path) -> ssl.SSLContext:
    """For a server of ours: TLS 1.2 or later, and nobody connects who has no certificate of the same authority.

    Raises SettingsError for credentials that cannot be read."""
    credentials = Credentials.read(path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    _load(context, credentials, path)
    return context


def client_context(path: str | Path) -> ssl.SSLContext:
    """For our own HTTP/2 client: TLS 1.2 or later, our certificate, and no authority but the file's own."""
    credentials = Credentials.read(path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(context, credentials, path)
    context.set_alpn_protocols(["h2"])
    return context


def _load(context: ssl.SSLContext, credentials: Credentials, path: str | Path) -> None:
    try:
        context.load_verify_locations(cadata=credentials.authority.decode())
        context.load_cert_chain(path)
    except (ssl.SSLError, OSError) as error:
        raise SettingsError(f"{path}: the credentials do not fit together: {error}", hint="inferdeck cert") from None
