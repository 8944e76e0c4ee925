"""What is refused at the start because callers' keys would not be safe, by file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from control_plane.contracts.errors import SettingsError
from control_plane.contracts.identity import Credentials
from control_plane.settings import Home, Settings, load_settings
from control_plane.trust.keyring import Keyring


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def read(tmp_path: Path, home: Home, text: str) -> Settings:
    path = tmp_path / "deck.toml"
    path.write_text(text)
    return load_settings(path, home)


def refused(tmp_path: Path, home: Home, text: str) -> str:
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, home, text)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'deck.toml'}:")
    return message.removeprefix(f"{tmp_path / 'deck.toml'}:")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "gateway.example.com"])
def test_plain_http_that_others_can_reach_has_to_be_asked_for(tmp_path: Path, home: Home, host: str) -> None:
    text = f'[gateway]\nhost = "{host}"\n'
    said = refused(tmp_path, home, text)
    assert said.startswith(f"2: gateway.host: {host} can be reached by others")
    assert "insecure = true" in said
    assert read(tmp_path, home, text + "insecure = true\n").gateway.insecure
    assert read(tmp_path, home, text + 'tls = "local"\n').gateway.https


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.0.0.9"])
def test_loopback_needs_nothing(tmp_path: Path, home: Home, host: str) -> None:
    assert not read(tmp_path, home, f'[gateway]\nhost = "{host}"\n').gateway.https


def test_files_are_found_beside_the_settings_and_checked(tmp_path: Path, home: Home) -> None:
    own = Credentials.read(Keyring(tmp_path / "tls").make_server(["api.example.com"]))
    (tmp_path / "cert.pem").write_bytes(own.certificate)
    (tmp_path / "key.pem").write_bytes(own.key)
    text = '[gateway]\nhost = "0.0.0.0"\ntls_cert = "cert.pem"\ntls_key = "key.pem"\n'
    settings = read(tmp_path, home, text)
    assert (settings.gateway.tls_cert, settings.gateway.https) == (str(tmp_path / "cert.pem"), True)
    wrong = refused(tmp_path, home, text.replace("0.0.0.0", "other.example.com"))
    assert wrong.startswith(f"3: gateway.tls_cert: {tmp_path / 'cert.pem'} is not for other.example.com")
    (tmp_path / "key.pem").write_bytes(Credentials.read(Keyring(tmp_path / "b").make_server(["x.com"])).key)
    mismatch = refused(tmp_path, home, text)
    assert mismatch == f"4: gateway.tls_key: {tmp_path / 'key.pem'} is not the key of {tmp_path / 'cert.pem'}"
    (tmp_path / "key.pem").unlink()
    assert refused(tmp_path, home, text).startswith(f"4: gateway.tls_key: {tmp_path / 'key.pem'} cannot be read")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('tls = "yes"', "2: gateway.tls: 'yes': \"local\" takes"),
        ('tls_cert = "x"', "2: gateway.tls_cert: its key is missing"),
        ('tls_key = "x"', "2: gateway.tls_key: its certificate is missing"),
        ('tls = "local"\ntls_cert = "x"', "2: gateway.tls: is a certificate of our own"),
        ('cors_origins = ["*"]', "2: gateway.cors_origins: '*' is not an exact origin"),
        ('cors_origins = ["https://a.example/"]', "2: gateway.cors_origins: 'https://a.example/' is not an exact"),
        ('cors_origins = ["null"]', "2: gateway.cors_origins: 'null' is not an exact"),
        ('cors_origins = "https://a.example"', "2: gateway.cors_origins: a list of texts is needed"),
        ('[security]\nmutual_tls = "yes"', '3: security.mutual_tls: "auto", true or false is needed'),
        ("[security]\nmutual_tls = 1", '3: security.mutual_tls: "auto", true or false is needed'),
    ],
)
def test_what_is_wrong_is_told_by_its_line(tmp_path: Path, home: Home, lines: str, said: str) -> None:
    assert refused(tmp_path, home, f"[gateway]\n{lines}\n").startswith(said)
