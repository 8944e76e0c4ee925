"""The credentials of one home: made when they are first wanted, and made anew before they expire.

::

    tls/ca.key        the authority, private        tls/server.pem         the gateways' HTTPS, tls = "local"
    tls/ca.pem        the same, for clients         tls/peers/ROLE-ID.pem  a process's own, between processes
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
import socket
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
from cryptography import x509

from control_plane.contracts.addresses import is_any, is_loopback
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.identity import DOMAIN, Credentials, Peer
from control_plane.trust.authority import Authority, replace
from control_plane.trust.certificate import CertificateFacts

SERVER_LIFE: Final = dt.timedelta(days=90)
PEER_LIFE: Final = dt.timedelta(days=4)
"""Renewed at half of it: without a control plane its processes can still find each other anew for two days."""

_RENEWED_AT: Final = 0.5
_HOST: Final = re.compile(r"(\*\.)?([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.?")


@dataclass(frozen=True, slots=True)
class Entry:
    """One credentials file. ``kind``: ca, server or peer."""

    kind: str
    name: str
    path: Path
    facts: CertificateFacts


class Keyring:
    """Safe to use from several threads; blocks for files, and a millisecond for each key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._authority: Authority | None = None
        self._lock = threading.Lock()

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def server(self) -> Path:
        return self.folder / "server.pem"

    def peer(self, peer: Peer, name: str = "") -> Path:
        return self.folder / "peers" / (f"{peer}-{name}.pem" if name else f"{peer}.pem")

    def ensure_peer(self, peer: Peer, name: str = "") -> Path:
        """Credentials of one of our processes, good for two days and more."""
        path = self.peer(peer, name)
        with self._lock:
            if self._due(path):
                self._write_peer(path, peer)
        return path

    def ensure_server(self, host: str) -> Path:
        """The gateways' certificate for a host to listen on, beside the names that it has already."""
        with self._lock:
            facts = self._facts(self.server)
            wanted = [*_names_of(host)]
            missing = [name for name in wanted if facts is None or not facts.covers(name)]
            if missing or self._due(self.server):
                self._write_server([*(facts.names if facts is not None else ()), *missing])
        return self.server

    @staticmethod
    def server_names(hosts: Iterable[str]) -> list[str]:
        """What a server's certificate for these hosts names: they, and this machine's own. Raises InvalidRequest."""
        return list(dict.fromkeys([*map(_checked, hosts), *_names_of("localhost")]))

    def dropped(self, hosts: Iterable[str]) -> list[str]:
        """The names that the server's certificate has now, and would not have with these."""
        facts, names = self._facts(self.server), self.server_names(hosts)
        return [name for name in facts.names if name not in names] if facts is not None else []

    def make_server(self, hosts: Iterable[str]) -> Path:
        """A new certificate for exactly these names and addresses, and this machine's own. Raises InvalidRequest."""
        names = self.server_names(hosts)
        with self._lock:
            self._write_server(names)
        return self.server

    @staticmethod
    def check_client(path: Path) -> None:
        """Raises InvalidRequest for a file that is there, or cannot be."""
        if path.exists():
            raise InvalidRequest(f"{path} is there already", param="out", hint="choose another file")
        if not path.parent.is_dir():
            raise InvalidRequest(f"there is no folder {path.parent}", param="out")

    def make_client(self, path: Path, name: str, days: float) -> Path:
        """Credentials for an operator elsewhere. Raises InvalidRequest for a file that is there, or cannot be."""
        self.check_client(path)
        with self._lock:
            data = self._ca().issue(
                f"inferdeck operator {name}", [Peer.OPERATOR.host], dt.timedelta(days=days), server=False, client=True
            )
        replace(path, data, 0o600)
        return path

    def renew(self, *, all_of_them: bool = False) -> tuple[Path, ...]:
        """Make anew what is due, or everything but the authority. Returns the files that changed."""
        changed = []
        with self._lock:
            for entry in self._leaves():
                if not all_of_them and not self._due(entry.path):
                    continue
                if entry.kind == "server":
                    self._write_server(entry.facts.names)
                elif (peer := _peer_of(entry.path)) is not None:
                    self._write_peer(entry.path, peer)
                changed.append(entry.path)
        return tuple(changed)

    def renew_authority(self) -> tuple[Path, ...]:
        """Ten more years for the same authority, and everything signed anew."""
        with self._lock:
            self._authority = self._ca().renew(self.folder)
        return (self.ca, *self.renew(all_of_them=True))

    def forget(self, peer: Peer, name: str) -> None:
        self.peer(peer, name).unlink(missing_ok=True)

    def entries(self) -> tuple[Entry, ...]:
        """What there is; the authority is made where there is none."""
        with self._lock:
            authority = CertificateFacts.of(self._ca().certificate)
            return (Entry("ca", "ca", self.ca, authority), *self._leaves())

    def _ca(self) -> Authority:
        if self._authority is None or not self.ca.exists() or self.ca.read_bytes() != self._authority.pem:
            self._authority = Authority.open(self.folder)
        return self._authority

    def _leaves(self) -> list[Entry]:
        found = [("server", self.server)] if self.server.exists() else []
        found += [("peer", path) for path in sorted((self.folder / "peers").glob("[!.]*.pem"))]
        entries = []
        for kind, path in found:
            facts = self._facts(path)
            if facts is not None:
                entries.append(Entry(kind, path.stem, path, facts))
        return entries

    def _due(self, path: Path) -> bool:
        """Not there, not ours, or past half of its life."""
        try:
            credentials = Credentials.read(path)
            certificate = x509.load_pem_x509_certificate(credentials.certificate)
        except Exception:
            return True
        facts = CertificateFacts.of(certificate)
        half = facts.not_before + _RENEWED_AT * (facts.not_after - facts.not_before)
        ours = credentials.authority == self._ca().pem and self._ca().signed(certificate)
        return not ours or not facts.not_before <= time.time() < half

    @staticmethod
    def _facts(path: Path) -> CertificateFacts | None:
        try:
            return CertificateFacts.read(path)
        except ValueError:
            return None

    def _write_peer(self, path: Path, peer: Peer) -> None:
        authority = self._ca()
        path.parent.mkdir(mode=0o700, exist_ok=True)
        data = authority.issue(f"inferdeck {path.stem}", [peer.host], PEER_LIFE, server=True, client=True)
        replace(path, data, 0o600)

    def _write_server(self, names: Iterable[str]) -> None:
        data = self._ca().issue("inferdeck gateway", dict.fromkeys(names), SERVER_LIFE, server=True, client=False)
        replace(self.server, data, 0o600)


def _peer_of(path: Path) -> Peer | None:
    return next((peer for peer in Peer if path.stem == peer or path.stem.startswith(f"{peer}-")), None)


def _checked(host: str) -> str:
    bare = host.strip("[]").lower()
    if bare == DOMAIN or bare.endswith(f".{DOMAIN}"):
        raise InvalidRequest(f"{host!r}: names in {DOMAIN} are for the platform's own processes", param="names")
    named = len(bare) <= 253 and _HOST.fullmatch(bare) and not bare.rstrip(".").rpartition(".")[2].isdecimal()
    if not named and not _is_address(bare):
        raise InvalidRequest(f"{host!r} is not a host name or address", param="names")
    return bare


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _names_of(host: str) -> list[str]:
    """The names by which callers may come to a host that is listened on."""
    local = ["localhost", "127.0.0.1", "::1"]
    if is_loopback(host):
        return list(dict.fromkeys([*local, host.strip("[]")]))
    if not is_any(host):
        return [*local, host.strip("[]")]
    addresses = {
        entry.address
        for entries in psutil.net_if_addrs().values()
        for entry in entries
        if entry.family in (socket.AF_INET, socket.AF_INET6) and "%" not in entry.address
    }
    own = socket.gethostname().lower()
    return list(dict.fromkeys([*local, *([own] if _HOST.fullmatch(own) else []), *sorted(addresses)]))
