"""The certificate that new connections are answered with; renewed on disk, it is renewed here."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from pathlib import Path
from typing import Final

from control_plane.contracts.errors import SettingsError
from control_plane.trust.certificate import CertificateFacts, day, server_context, server_problems

POLL_S: Final = 1.0

log = logging.getLogger(__name__)


class ServerCertificate:
    """``context`` is the last good one; connections that are open keep theirs. Raises SettingsError if none is good.

    ``host`` is what the gateway listens on. ``not_after`` is Unix time in seconds.
    """

    def __init__(self, certificate: Path, key: Path, host: str) -> None:
        self._certificate = certificate
        self._key = key
        self._host = host
        self._seen = self._tried = self._stamp()
        self.context, self.not_after = self._load()

    async def watch(self) -> None:
        """Look at the files again and again. Both may be written one after the other: what still changes can wait."""
        while True:
            await asyncio.sleep(POLL_S)
            stamp = await asyncio.to_thread(self._stamp)
            settled, self._seen = stamp == self._seen, stamp
            if not settled or stamp == self._tried:
                continue
            self._tried = stamp
            try:
                self.context, self.not_after = await asyncio.to_thread(self._load)
            except SettingsError as error:
                log.error(
                    "the new certificate is not used, the last one stays",
                    extra={"cause": error.message, "expires": day(self.not_after)},
                )
            else:
                log.info("a new certificate is in use", extra={"expires": day(self.not_after)})

    def _load(self) -> tuple[ssl.SSLContext, float]:
        for which, message in server_problems(self._certificate, self._key, self._host, time.time()):
            raise SettingsError(message, param=f"gateway.tls_{which}", hint="inferdeck doctor")
        facts = CertificateFacts.read(self._certificate)
        return server_context(self._certificate, self._key), facts.not_after

    def _stamp(self) -> tuple[tuple[int, int, int], ...]:
        """What of the two files changes when one is written or replaced."""
        found = []
        for path in (self._certificate, self._key):
            try:
                stat = path.stat()
                found.append((stat.st_ino, stat.st_mtime_ns, stat.st_size))
            except OSError:
                found.append((0, 0, 0))
        return tuple(found)
