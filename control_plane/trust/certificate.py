"""A certificate as facts, and whether a server can use one with its key."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography import x509

from control_plane.contracts.addresses import is_any
from control_plane.contracts.errors import SettingsError
from control_plane.contracts.identity import pem_blocks

_KEY_TYPES = "RSA, EC or Ed25519, without a passphrase"


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """``names`` are DNS names and addresses; times are Unix times in seconds."""

    subject: str
    issuer: str
    names: tuple[str, ...]
    not_before: float
    not_after: float
    serial: int

    @classmethod
    def of(cls, certificate: x509.Certificate) -> Self:
        try:
            found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            names = [*found.get_values_for_type(x509.DNSName)]
            names += [str(address) for address in found.get_values_for_type(x509.IPAddress)]
        except x509.ExtensionNotFound:
            names = []
        return cls(
            subject=certificate.subject.rfc4514_string(),
            issuer=certificate.issuer.rfc4514_string(),
            names=tuple(names),
            not_before=certificate.not_valid_before_utc.timestamp(),
            not_after=certificate.not_valid_after_utc.timestamp(),
            serial=certificate.serial_number,
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        """Of the first certificate in a PEM file. Raises ValueError, in words, for a file that has none."""
        try:
            text = path.read_text(encoding="ascii")
        except UnicodeDecodeError:
            raise ValueError(f"{path} is no PEM file") from None
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None
        blocks = [block for label, block in pem_blocks(text) if label == "CERTIFICATE"]
        if not blocks:
            raise ValueError(f"{path} holds no certificate (PEM)")
        try:
            return cls.of(x509.load_pem_x509_certificate(blocks[0].encode()))
        except ValueError:
            raise ValueError(f"{path} holds a certificate that cannot be understood") from None

    def covers(self, host: str) -> bool:
        """Whether clients that ask for this host accept the certificate, as far as names go."""
        try:
            wanted = str(ipaddress.ip_address(host.strip("[]")))
        except ValueError:
            wanted = host.rstrip(".").lower()
        parent = wanted.partition(".")[2]
        return any(name.lower() in (wanted, f"*.{parent}" if parent else wanted) for name in self.names)


def server_problems(certificate: Path, key: Path, host: str, now: float) -> list[tuple[str, str]]:
    """What keeps a server on ``host`` from using the two files: which of them ("cert", "key"), and why, for people."""
    try:
        facts = CertificateFacts.read(certificate)
    except ValueError as error:
        return [("cert", str(error))]
    problems = []
    if facts.not_after <= now:
        problems.append(("cert", f"{certificate} expired on {day(facts.not_after)}"))
    elif facts.not_before > now:
        problems.append(("cert", f"{certificate} is not valid before {day(facts.not_before)}"))
    if (wrong := _wrong_host(facts, host)) is not None:
        problems.append(("cert", f"{certificate} {wrong}"))
    if (reason := _unreadable_key(key)) is not None:
        problems.append(("key", reason))
    elif not problems:
        try:
            server_context(certificate, key)
        except SettingsError as error:
            problems.append(("key", error.message))
    return problems


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """For HTTPS: TLS 1.2 or later, HTTP/1.1, no renegotiation. Raises SettingsError where the files do not do."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    try:
        # A passphrase would be asked for on a terminal that is not there.
        context.load_cert_chain(certificate, key, password=lambda: "")
    except ssl.SSLError as error:
        if "MISMATCH" in (error.reason or ""):
            raise SettingsError(f"{key} is not the key of {certificate}") from None
        raise SettingsError(f"{key} is not a private key that can be used ({_KEY_TYPES})") from None
    except OSError as error:
        raise SettingsError(f"{error.filename or key} cannot be read: {error.strerror or error}") from None
    context.set_alpn_protocols(["http/1.1"])
    return context


def day(unix: float) -> str:
    return dt.datetime.fromtimestamp(unix, dt.UTC).strftime("%Y-%m-%d %H:%M UTC")


def _wrong_host(facts: CertificateFacts, host: str) -> str | None:
    """A name that is listened on has to be covered. Of an address that can't be asked: clients may come by a name."""
    if not facts.names:
        return "names no host (no subject alternative name): no client would accept it"
    if is_any(host) or facts.covers(host):
        return None
    if _is_address(host) and not all(map(_is_address, facts.names)):
        return None
    return f"is not for {host}: it names {', '.join(facts.names[:5])}"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return False
    return True


def _unreadable_key(key: Path) -> str | None:
    try:
        with key.open("rb"):
            pass
    except OSError as error:
        return f"{key} cannot be read: {(error.strerror or str(error)).lower()}"
    return None
