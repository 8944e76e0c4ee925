"""Whether a port can be listened on, and who has it."""

from __future__ import annotations

import errno
import socket

import psutil

from control_plane.contracts.errors import Conflict
from control_plane.settings import Settings


def check_port(setting: str, host: str, port: int, settings: Settings) -> None:
    """Raise Conflict, which says who has the port, where it cannot be listened on."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as error:
        section = setting.partition(".")[0]
        file = settings.path or "the config file"
        if error.errno == errno.EADDRINUSE:
            raise Conflict(
                f"{setting} {port} on {host} is taken{_holder(port)}",
                param=setting,
                hint=f"set port in [{section}] of {file} to another one, or to 0 for any free one",
            ) from None
        raise Conflict(
            f"cannot listen on {host}:{port} ({setting}): {error.strerror or error}",
            param=setting,
            hint=f"set host and port in [{section}] of {file}",
        ) from None


def _holder(port: int) -> str:
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
                return f" by process {connection.pid} ({psutil.Process(connection.pid).name()})"
    except psutil.Error:
        pass
    return ""
