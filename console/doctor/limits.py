"""Where rate limits are counted, and whether that place answers."""

from __future__ import annotations

import re
import socket
from importlib import metadata

from console.doctor.finding import Finding, fail, ok, warn

_TIMEOUT_S = 1.0
_PLACE = re.compile(r"\w+://(?:[^/]*@)?(?P<host>[^/:?]+)(?::(?P<port>\d+))?")


def limits(url: str, gateways: int) -> Finding:
    """``url`` is the setting ``limits.url``, perhaps with its password cut out."""
    if not url:
        if gateways < 2:
            return ok("limits", "counted in the gateway")
        message = f"each of {gateways} gateways counts for itself: a key has {gateways} times its limits"
        return warn("limits", message, "set limits.url to a Valkey or Redis server")
    try:
        metadata.version("valkey")
    except metadata.PackageNotFoundError:
        return fail("limits", "limits.url needs the Python package valkey", "pip install 'inferdeck[valkey]'")
    found = _PLACE.match(url)
    if found is None:
        return fail("limits", "limits.url names no server", "write it like valkey://127.0.0.1:6379/0")
    host, port = found["host"], int(found["port"] or 6379)
    try:
        socket.create_connection((host, port), _TIMEOUT_S).close()
    except OSError as error:
        why = error.strerror or type(error).__name__
        return warn("limits", f"the store at {host}:{port} does not answer: {why}", "start it, or correct limits.url")
    return ok("limits", f"shared, in {host}:{port}")
