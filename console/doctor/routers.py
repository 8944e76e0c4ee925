"""Whether the routers that gateways share are there."""

from __future__ import annotations

import socket

from console.doctor.finding import Finding, ok, warn
from console.home import Home

_TIMEOUT_S = 1.0


def routers(home: Home, replicas: int) -> Finding:
    """``replicas`` is the setting ``router.replicas``."""
    if not replicas:
        return ok("routers", "one inside each gateway")
    addresses = home.router_addresses()
    if not addresses and home.running() is None:
        return ok("routers", f"{replicas} processes of their own, when the platform is up")
    silent = [address for address in addresses if not _answers(address)]
    if len(addresses) < replicas or silent:
        there = len(addresses) - len(silent)
        return warn("routers", f"{there} of {replicas} answer", "inferdeck get routers; inferdeck logs router/r1")
    return ok("routers", f"{replicas} processes of their own: {', '.join(addresses)}")


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT_S).close()
    except (OSError, ValueError):
        return False
    return True
