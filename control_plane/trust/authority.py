"""The home's own certificate authority: an EC key that only its owner can read, and what it signs."""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from control_plane.contracts.errors import SettingsError

AUTHORITY_DAYS: Final = 3650

_SKEW = dt.timedelta(minutes=5)
"""Clocks differ: what is signed now has been valid for a moment."""


class Authority:
    """``certificate`` is public, its file is what clients are given as ``--cacert``."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self.certificate = certificate

    @classmethod
    def open(cls, folder: Path) -> Self:
        """The authority in a folder, made at its first use. Raises SettingsError for files that are none."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / "ca.key"
        if not path.exists():
            made = cls._new()
            draft = folder / f".ca.key.{os.getpid()}.{secrets.token_hex(4)}"
            write_private(draft, made._private_pem() + made.pem)
            try:
                # Whoever is first wins: two authorities would not trust each other.
                with contextlib.suppress(FileExistsError):
                    os.link(draft, path)
            finally:
                draft.unlink()
        try:
            data = path.read_bytes()
            key = serialization.load_pem_private_key(data, password=None)
            certificate = x509.load_pem_x509_certificate(data[data.index(b"-----BEGIN CERTIFICATE") :])
        except (OSError, ValueError) as error:
            raise SettingsError(f"{path}: not a certificate authority: {error}", hint=f"rm -r {folder}") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise SettingsError(f"{path}: not a key of this program's", hint=f"rm -r {folder}")
        authority = cls(key, certificate)
        public = folder / "ca.pem"
        if not public.exists() or public.read_bytes() != authority.pem:
            replace(public, authority.pem, 0o644)
        return authority

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def renew(self, folder: Path) -> Self:
        """The same authority for another ten years: what it has signed stays good."""
        made = type(self)(self._key, _self_signed(self._key))
        replace(folder / "ca.key", made._private_pem() + made.pem, 0o600)
        replace(folder / "ca.pem", made.pem, 0o644)
        return made

    def issue(self, name: str, hosts: Iterable[str], lifetime: dt.timedelta, *, server: bool, client: bool) -> bytes:
        """A new key with a certificate for it and ours, as one PEM. ``hosts`` are DNS names and addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = dt.datetime.now(dt.UTC)
        usages = [ExtendedKeyUsageOID.SERVER_AUTH] * server + [ExtendedKeyUsageOID.CLIENT_AUTH] * client
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(self.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _SKEW)
            .not_valid_after(min(now + lifetime, self.certificate.not_valid_after_utc))
            .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        certificate = builder.sign(self._key, hashes.SHA256())
        return _pem_of(key) + certificate.public_bytes(serialization.Encoding.PEM) + self.pem

    def signed(self, certificate: x509.Certificate) -> bool:
        try:
            certificate.verify_directly_issued_by(self.certificate)
        except Exception:
            return False
        return True

    @classmethod
    def _new(cls) -> Self:
        key = ec.generate_private_key(ec.SECP256R1())
        return cls(key, _self_signed(key))

    def _private_pem(self) -> bytes:
        return _pem_of(self._key)


def write_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    """A new file that was never anything but private. Raises FileExistsError."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(data)


def replace(path: Path, data: bytes, mode: int) -> None:
    """Whoever reads sees the old file or the new one, never a part."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        write_private(draft, data, mode)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _self_signed(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    # A name of its own: two homes' authorities are not to be taken for each other.
    digest = x509.SubjectKeyIdentifier.from_public_key(key.public_key()).digest.hex()
    name = _name(f"InferDeck local CA {digest[:8]}")
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + dt.timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return builder.sign(key, hashes.SHA256())


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return x509.DNSName(host)


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
