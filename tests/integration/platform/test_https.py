"""HTTPS and mutual TLS as a person has them: ``cert``, ``up``, ``chat``, ``load``, ``get`` and the OpenAI client."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import openai
import pytest

from control_plane.contracts.identity import Credentials
from control_plane.trust.keyring import Keyring
from tests.integration.platform.rig import Platform, scripted

SECURE = 'tls = "local"\n[security]\nmutual_tls = true\n[api]'


@pytest.fixture
def secure(make_platform: Callable[..., Platform]) -> Platform:
    return make_platform(scripted(1).replace("[api]", SECURE))


def test_the_platform_uses_its_own_authority_by_itself(secure: Platform, tmp_path: Path) -> None:
    planned = secure.run("cert", "server", "api.example.com", "--dry-run").stdout
    assert planned.startswith("would make a certificate authority in ")
    assert "and make the gateways' certificate for api.example.com, localhost" in planned
    assert not (secure.home / "tls" / "ca.key").exists()
    made = secure.run("cert", "server", "api.example.com")
    assert "api.example.com" in made.stdout
    assert "made: server" in made.stderr
    facts = secure.up()
    (url,) = facts["gateway_urls"]
    ca = secure.home / "tls" / "ca.pem"
    assert (url.startswith("https://127.0.0.1:"), facts["gateway_ca"]) == (True, str(ca))
    assert secure.run("chat", "hi", "--max-tokens", "4").stdout.strip()
    assert json.loads(secure.run("load", "-n", "4", "-c", "2", "-o", "json").stdout)["requests"]["ok"] == 4
    assert len(secure.read("get", "workers")) == 1
    key = secure.run("key", "--reveal").stdout.strip()
    key_file = secure.home / "api.key"

    # Somebody elsewhere knows the authority by its file, or does not know us.
    elsewhere = ("chat", "hi", "--url", f"{url}/v1", "--api-key-file", str(key_file), "--max-tokens", "4")
    stranger = secure.run(*elsewhere, code=6)
    assert "hint: --ca FILE" in stranger.stderr
    assert secure.run(*elsewhere, "--ca", str(ca)).stdout.strip()
    clear = ("chat", "hi", "--url", f"{url.replace('https', 'http')}/v1", "--api-key-file", str(key_file))
    assert f"speaks HTTPS only\nhint: --url {url}/v1\n" in secure.run(*clear, code=6).stderr
    with httpx.Client(verify=ssl.create_default_context(cafile=str(ca))) as http:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, http_client=http, max_retries=0)
        assert [model.id for model in client.models.list()] == ["tiny-model"]
    script = "import openai; print([m.id for m in openai.OpenAI(max_retries=0).models.list()])"
    environment = {
        **secure.environment,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": key,
        "SSL_CERT_FILE": str(ca),
    }
    ran = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.strip() == "['tiny-model']"

    # An operator elsewhere: one file and the operator key.
    planned = secure.run("cert", "client", "anna", "--out", str(tmp_path / "anna.pem"), "--dry-run")
    assert planned.stdout == (
        f"would make {tmp_path}/anna.pem, an operator's certificate for anna, good for 30 days (dry run)\n"
    )
    assert not (tmp_path / "anna.pem").exists()
    made = secure.run("cert", "client", "anna", "--out", str(tmp_path / "anna.pem"))
    assert [line.split()[0] for line in made.stdout.splitlines()] == ["CERT", "anna"], "what was made, and nothing else"
    assert (tmp_path / "anna.pem").stat().st_mode & 0o777 == 0o600
    there = ("get", "workers", "--server", facts["api_address"], "--home", str(tmp_path / "none"))
    there += ("--operator-key-file", str(secure.home / "operator.key"))
    unknown = secure.run(*there, code=4).stderr
    assert "speaks mutual TLS, and no certificate was named\nhint: inferdeck cert client NAME --out FILE" in unknown
    assert "tiny-1" in secure.run(*there, "--operator-cert-file", str(tmp_path / "anna.pem")).stdout

    # A name that callers come by is not taken away unasked.
    asked = secure.run("cert", "server", "other.example.com", code=2).stderr
    assert "callers who come by api.example.com are refused from then on" in asked
    assert "hint: inferdeck cert server --yes other.example.com" in asked
    assert "api.example.com" in secure.run("cert", "server", "api.example.com", "other.example.com").stdout

    # Renewed under everything that runs.
    secure.run("cert", "renew")
    assert secure.run("chat", "hi", "--max-tokens", "4").stdout.strip()
    assert len(secure.read("get", "workers")) == 1
    checks = {check["name"]: check["verdict"] for check in secure.read("doctor", "--quick")["checks"]}
    assert {checks[name] for name in ("https", "mutual tls", "certificates")} == {"ok"}
    secure.run("down")


def test_a_certificate_of_ones_own_is_known_on_this_machine_under_any_name(
    make_platform: Callable[..., Platform], tmp_path: Path
) -> None:
    own = Credentials.read(Keyring(tmp_path / "company").make_server(["api.example.com"]))
    (tmp_path / "cert.pem").write_bytes(own.certificate)
    (tmp_path / "key.pem").write_bytes(own.key)
    files = f'tls_cert = "{tmp_path}/cert.pem"\ntls_key = "{tmp_path}/key.pem"\n[api]'
    platform = make_platform(scripted(1).replace("[api]", files))
    assert platform.up()["gateway_urls"][0].startswith("https://")
    assert platform.run("chat", "hi", "--max-tokens", "4").stdout.strip()
    platform.run("down")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bogus",), "cert bogus: there are show, server, client, renew"),
        (("server",), "which host names and addresses is it for?"),
        (("server", "a b"), "'a b' is not a host name or address"),
        (("client", "anna"), "a client's certificate needs a name, and --out FILE"),
        (("renew", "everything"), 'renew takes nothing (everything but the authority) or "ca"'),
    ],
)
def test_what_cert_does_not_understand(secure: Platform, words: tuple[str, ...], said: str) -> None:
    assert secure.run("cert", *words, code=2).stderr.startswith(f"error: {said}")
