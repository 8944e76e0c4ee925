"""Several gateways of a platform and the server that they share their limits in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.platform.conftest import MakePlatform
from tests.integration.platform.rig import scripted, until
from tests.valkey_server import ValkeyServer, valkey_server


@pytest.fixture
def server() -> Iterator[ValkeyServer]:
    with valkey_server() as started:
        yield started


def test_a_store_of_limits_that_goes_is_seen_everywhere(make_platform: MakePlatform, server: ValkeyServer) -> None:
    config = scripted(1).replace("[api]", "replicas = 2\n[api]") + f'[limits]\nurl = "{server.url}"\n'
    platform = make_platform(config)
    platform.up()
    stores = lambda: {gateway.limit_store for gateway in platform.snapshot().gateways}  # noqa: E731
    until(lambda: stores() == {"up"}, "both gateways have the store")
    assert "shared" in platform.run("get", "gateways", "-o", "wide").stdout
    server.kill()
    until(lambda: stores() == {"down"}, "the store is missed, also while nobody calls")
    assert platform.run("get", "gateways").stdout.count("limit store down") == 2
    doctor = platform.run("doctor", "--quick", "--config", str(platform.config_path), code=None).stdout
    assert f"the store at 127.0.0.1:{server.port} does not answer" in doctor
    assert platform.run("chat", "hello").stdout.strip()
    server.start()
    until(lambda: stores() == {"up"}, "the store is back")
    told = platform.run("events").stdout
    # On a busy machine a store may be thought to be gone that is only slow.
    assert told.count("the store of rate limits does not answer") >= 2
    assert told.count("the store of rate limits answers again") >= 2
    platform.run("down", "--yes")
    platform.nothing_left()
