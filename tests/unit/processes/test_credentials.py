from __future__ import annotations

from pathlib import Path

import pytest

from control_plane.contracts.addresses import MutualTls
from control_plane.processes.serve import _credentials
from control_plane.settings import ApiSettings, GatewaySettings, SecuritySettings, Settings
from control_plane.trust.certificate import CertificateFacts
from control_plane.trust.keyring import Keyring


def made(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("mode", "host", "secure"),
    [
        ("auto", "127.0.0.1", False),
        ("auto", "0.0.0.0", True),
        ("auto", "10.0.0.5", True),
        (True, "127.0.0.1", True),
        (False, "0.0.0.0", False),
    ],
)
def test_the_operators_api_is_secure_by_its_address_or_by_the_switch(
    tmp_path: Path, mode: MutualTls, host: str, secure: bool
) -> None:
    settings = Settings(
        gateway=GatewaySettings(replicas=2), api=ApiSettings(host=host), security=SecuritySettings(mutual_tls=mode)
    )
    keyring = Keyring(tmp_path / "tls")
    own = _credentials(keyring, settings)
    assert own == (str(keyring.folder / "peers" / "control-plane.pem") if secure else "")
    peers = {"control-plane.pem", "operator.pem", "gateway-g1.pem", "gateway-g2.pem"}
    assert made(tmp_path) == (peers | {"ca.key", "ca.pem"} if secure else set())


def test_a_gateways_own_certificate_is_for_the_host_that_it_listens_on(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path / "tls")
    assert _credentials(keyring, Settings(gateway=GatewaySettings(host="10.0.0.5", tls="local"))) == ""
    assert CertificateFacts.read(keyring.server).covers("10.0.0.5")
    assert CertificateFacts.read(keyring.server).covers("127.0.0.1")
