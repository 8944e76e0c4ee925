from __future__ import annotations

import datetime as dt
import ssl
import stat
import time
from pathlib import Path

import pytest
from cryptography import x509

from control_plane.contracts.errors import InvalidRequest, SettingsError
from control_plane.contracts.identity import Credentials, Peer, client_context, peers_in
from control_plane.trust.authority import Authority, replace
from control_plane.trust.certificate import CertificateFacts, server_context, server_problems
from control_plane.trust.keyring import PEER_LIFE, Keyring


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    return Keyring(tmp_path / "tls")


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    """A whole handshake in memory. Raises ssl.SSLError where one side refuses the other."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname=name),
    ]
    for _ in range(8):
        for end in ends:
            try:
                end.do_handshake()
                end.read()
            except ssl.SSLWantReadError:
                pass


def mutual(path: Path) -> ssl.SSLContext:
    own = Credentials.read(path)
    context = server_context(path, path)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=own.authority.decode())
    return context


def test_private_files_are_private_and_the_authoritys_certificate_is_not(keyring: Keyring) -> None:
    keyring.ensure_peer(Peer.WORKER, "tiny-1")
    keyring.ensure_server("127.0.0.1")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in keyring.folder.rglob("*") if path.is_file()}
    assert modes == {"ca.key": 0o600, "ca.pem": 0o644, "server.pem": 0o600, "worker-tiny-1.pem": 0o600}
    assert stat.S_IMODE(keyring.folder.stat().st_mode) == 0o700
    assert b"PRIVATE" not in keyring.ca.read_bytes()


def test_peers_know_each_other(keyring: Keyring) -> None:
    worker, gateway = keyring.ensure_peer(Peer.WORKER, "tiny-1"), keyring.ensure_peer(Peer.GATEWAY, "g1")
    handshake(mutual(worker), client_context(gateway), Peer.WORKER.host)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(mutual(gateway), client_context(gateway), Peer.WORKER.host)


def test_another_homes_authority_is_a_stranger_on_both_sides(keyring: Keyring, tmp_path: Path) -> None:
    other = Keyring(tmp_path / "other")
    worker, stranger = keyring.ensure_peer(Peer.WORKER, "tiny-1"), other.ensure_peer(Peer.GATEWAY, "g1")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(mutual(worker), client_context(stranger), Peer.WORKER.host)
    trusting = client_context(stranger)
    trusting.load_verify_locations(keyring.ca)
    with pytest.raises(ssl.SSLError):
        handshake(mutual(worker), trusting, Peer.WORKER.host)


def test_the_gateways_certificate_proves_no_peer_and_is_no_clients(keyring: Keyring) -> None:
    worker, server = keyring.ensure_peer(Peer.WORKER, "tiny-1"), keyring.ensure_server("127.0.0.1")
    with pytest.raises(ssl.SSLError):
        handshake(mutual(worker), client_context(server), Peer.WORKER.host)
    for host in ("worker.inferdeck.internal", "INFERDECK.internal", "x.operator.inferdeck.internal"):
        with pytest.raises(InvalidRequest):
            keyring.make_server([host])
    assert peers_in(["worker.inferdeck.internal", "gateway.example.com"]) == {Peer.WORKER}


def test_what_is_good_stays_and_what_is_past_half_of_its_life_is_made_anew(keyring: Keyring) -> None:
    path = keyring.ensure_peer(Peer.GATEWAY, "g1")
    first = CertificateFacts.read(path)
    assert CertificateFacts.read(keyring.ensure_peer(Peer.GATEWAY, "g1")).serial == first.serial
    assert keyring.renew() == ()
    assert first.not_after - time.time() == pytest.approx(PEER_LIFE.total_seconds(), abs=60)
    authority = keyring._ca()
    old = authority.issue("x", [Peer.GATEWAY.host], dt.timedelta(minutes=4), server=True, client=True)
    replace(path, old, 0o600)
    assert keyring.renew() == (path,)
    renewed = CertificateFacts.read(path)
    assert renewed.not_after > time.time() + 3600
    assert renewed.names == (Peer.GATEWAY.host,)


def test_credentials_of_an_authority_that_is_gone_are_made_anew(keyring: Keyring) -> None:
    path = keyring.ensure_peer(Peer.GATEWAY, "g1")
    before = Credentials.read(path).authority
    (keyring.folder / "ca.key").unlink()
    keyring.ca.unlink()
    again = Keyring(keyring.folder)
    assert Credentials.read(again.ensure_peer(Peer.GATEWAY, "g1")).authority != before
    assert Credentials.read(path).authority == again.ca.read_bytes()


def test_a_renewed_authority_is_still_known_to_those_that_trust_the_old_one(keyring: Keyring, tmp_path: Path) -> None:
    keyring.ensure_server("127.0.0.1")
    kept = tmp_path / "kept.pem"
    kept.write_bytes(keyring.ca.read_bytes())
    changed = keyring.renew_authority()
    assert set(changed) == {keyring.ca, keyring.server}
    assert kept.read_bytes() != keyring.ca.read_bytes()
    for ca in (kept, keyring.ca):
        client = ssl.create_default_context(cafile=str(ca))
        handshake(server_context(keyring.server, keyring.server), client, "127.0.0.1")


def test_two_that_make_the_authority_at_once_end_with_one(tmp_path: Path) -> None:
    one, other = Keyring(tmp_path / "tls"), Keyring(tmp_path / "tls")
    first, second = one.ensure_peer(Peer.GATEWAY, "g1"), other.ensure_peer(Peer.WORKER, "w1")
    assert Credentials.read(first).authority == Credentials.read(second).authority
    assert Authority.open(tmp_path / "tls").pem == one.ca.read_bytes()


def test_the_servers_names_grow_with_the_host_and_keep_what_was_asked_for(keyring: Keyring) -> None:
    keyring.make_server(["api.example.com", "10.0.0.5", "[2001:db8::1]"])
    asked = CertificateFacts.read(keyring.ensure_server("127.0.0.1"))
    for host in ("api.example.com", "10.0.0.5", "2001:db8::1", "[::1]", "localhost", "127.0.0.1"):
        assert asked.covers(host), host
    assert not asked.covers("example.com")
    serial = asked.serial
    grown = CertificateFacts.read(keyring.ensure_server("192.0.2.7"))
    assert grown.covers("192.0.2.7")
    assert grown.covers("api.example.com")
    assert grown.serial != serial


@pytest.mark.parametrize("host", ["", "a b", "-x.com", "x" * 254, "a..b", "http://a", "a/b", "1.2.3.999"])
def test_what_is_no_host_is_refused(keyring: Keyring, host: str) -> None:
    with pytest.raises(InvalidRequest):
        keyring.make_server([host])


def test_an_operators_file_is_good_for_as_long_as_asked_and_overwrites_nothing(
    keyring: Keyring, tmp_path: Path
) -> None:
    out = tmp_path / "anna.pem"
    keyring.make_client(out, "anna", 2)
    certificate = x509.load_pem_x509_certificate(Credentials.read(out).certificate)
    facts = CertificateFacts.of(certificate)
    assert facts.names == (Peer.OPERATOR.host,)
    assert facts.not_after - time.time() == pytest.approx(2 * 86_400, abs=60)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    with pytest.raises(InvalidRequest):
        keyring.make_client(out, "anna", 2)


class TestServerProblems:
    """What keeps a gateway from using a certificate is said by file."""

    @pytest.fixture
    def pair(self, keyring: Keyring, tmp_path: Path) -> tuple[Path, Path]:
        own = Credentials.read(keyring.make_server(["api.example.com"]))
        certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
        certificate.write_bytes(own.certificate)
        key.write_bytes(own.key)
        return certificate, key

    def test_a_good_pair(self, pair: tuple[Path, Path]) -> None:
        for host in ("api.example.com", "0.0.0.0", "::", "10.9.8.7", "127.0.0.1"):
            assert server_problems(*pair, host, time.time()) == []

    def test_another_name(self, pair: tuple[Path, Path]) -> None:
        ((which, why),) = server_problems(*pair, "www.example.com", time.time())
        assert which == "cert"
        assert "is not for www.example.com: it names api.example.com" in why

    def test_times(self, pair: tuple[Path, Path]) -> None:
        ((which, late),) = server_problems(*pair, "127.0.0.1", time.time() + 1e9)
        ((_, early),) = server_problems(*pair, "127.0.0.1", time.time() - 1e9)
        assert which == "cert"
        assert f"{pair[0]} expired on 20" in late
        assert f"{pair[0]} is not valid before 20" in early

    def test_files(self, pair: tuple[Path, Path], tmp_path: Path, keyring: Keyring) -> None:
        certificate, key = pair
        missing, words = tmp_path / "none.pem", tmp_path / "words.pem"
        words.write_text("hello")

        def told(certificate: Path, key: Path) -> list[tuple[str, str]]:
            return server_problems(certificate, key, "127.0.0.1", time.time())

        assert told(missing, key) == [("cert", f"{missing} cannot be read: no such file or directory")]
        assert told(words, key) == [("cert", f"{words} holds no certificate (PEM)")]
        assert told(certificate, missing) == [("key", f"{missing} cannot be read: no such file or directory")]
        ((which, why),) = told(certificate, words)
        assert (which, "is not a private key that can be used" in why) == ("key", True)
        other = tmp_path / "other.pem"
        other.write_bytes(Credentials.read(keyring.make_server(["api.example.com"])).key)
        assert told(certificate, other) == [("key", f"{other} is not the key of {certificate}")]


def test_credentials_that_are_none_are_told(tmp_path: Path) -> None:
    path = tmp_path / "x.pem"
    for text in ("", "hello", "-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n"):
        path.write_text(text)
        with pytest.raises(SettingsError, match="in one file"):
            Credentials.read(path)
    with pytest.raises(SettingsError, match="cannot be read"):
        Credentials.read(tmp_path / "none")
    assert "PRIVATE" not in repr(Credentials(b"PRIVATE", b"", b""))
