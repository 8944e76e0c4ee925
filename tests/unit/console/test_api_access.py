"""Where the API of a platform is, as it is seen from here."""

from __future__ import annotations

import pytest

from console.api_access import endpoint_at
from console.home import Target, Unreachable
from tests.unit.console.fake_operator import KEY, FakeOperator, serve


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1"),
        ("http://0.0.0.0:8080", "http://localhost:8080/v1"),
        ("https://[::]:8443", "https://localhost:8443/v1"),
        ("http://api.example.com:80", "http://api.example.com:80/v1"),
    ],
)
async def test_a_gateway_is_reached_where_its_operators_api_is(url: str, seen: str) -> None:
    operator = FakeOperator()
    [gateway] = operator.state.gateways
    operator.update(gateways=(type(gateway)("g0", 1, "", False), type(gateway)("g1", 2, url, True)))
    server, address = serve(operator)
    try:
        target = Target(address.replace("127.0.0.1", "localhost"), KEY, "there")
        assert (await endpoint_at(target)).url == seen
        operator.update(gateways=())
        with pytest.raises(Unreachable, match="has no gateway yet"):
            await endpoint_at(target)
    finally:
        server.stop(None).wait()


def test_a_gateway_that_only_its_own_machine_reaches_is_none_from_here() -> None:
    from console.api_access import _seen_from_here

    assert _seen_from_here("http://0.0.0.0:8080", "10.0.0.5:8090") == "http://10.0.0.5:8080"
    with pytest.raises(Unreachable, match="which only its own machine can reach"):
        _seen_from_here("http://127.0.0.1:8080", "10.0.0.5:8090")
