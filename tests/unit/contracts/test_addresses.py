from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.addresses import is_any, is_loopback, wants_mutual_tls


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.2", "127.255.255.254", "::1", "[::1]", "localhost", "LOCALHOST.", "::ffff:127.0.0.1"]
)
def test_loopback(host: str) -> None:
    assert is_loopback(host)
    assert not wants_mutual_tls("auto", host)


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "[::]", "10.0.0.5", "192.168.1.2", "fe80::1%eth0", "2001:db8::1", "example.com",
     "127.0.0.1.nip.io", "localhost.example.com", "", "::ffff:10.0.0.1"],
)  # fmt: skip
def test_what_others_can_reach(host: str) -> None:
    assert not is_loopback(host)
    assert wants_mutual_tls("auto", host)


@given(st.ip_addresses())
def test_addresses_are_taken_as_the_standard_has_them(address: object) -> None:
    mapped = getattr(address, "ipv4_mapped", None)
    assert is_loopback(str(address)) == getattr(mapped or address, "is_loopback")  # noqa: B009


@given(st.text(max_size=20))
def test_a_switch_that_is_set_is_what_counts(host: str) -> None:
    assert wants_mutual_tls(True, host)
    assert not wants_mutual_tls(False, host)


def test_any() -> None:
    assert [host for host in ("0.0.0.0", "::", "[::]", "127.0.0.1", "x") if is_any(host)] == ["0.0.0.0", "::", "[::]"]
