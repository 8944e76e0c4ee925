"""Which addresses are this machine's own, and which need protection on the way."""

from __future__ import annotations

import ipaddress
from typing import Literal

MutualTls = Literal["auto"] | bool


def is_loopback(host: str) -> bool:
    """Whether nothing but this machine can reach the host. Names are not looked up: only ``localhost`` counts."""
    bare = host.strip("[]").partition("%")[0].rstrip(".").lower()
    if bare == "localhost" or bare.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def is_any(host: str) -> bool:
    """Whether the host stands for every address that the machine has."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False


def wants_mutual_tls(mode: MutualTls, host: str) -> bool:
    """The one switch, for one address to listen on: "auto" protects what others can reach."""
    return mode if isinstance(mode, bool) else not is_loopback(host)


def reachable(host: str) -> str:
    """Where a process of this machine finds what listens on the host."""
    return {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "::": "[::1]"}.get(host, host)
