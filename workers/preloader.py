"""Imports vLLM once and forks each worker from there: a worker is ready seconds sooner, and shares the memory.

``python -m workers.preloader --fd N`` talks over socket N in lines of JSON. In: ``{"op": "spawn", "spec": PATH}``.
Out: ``{"op": "ready", "import_s": S}`` when the imports are done (spawns before that wait), then for each spawn
``{"op": "spawned", "spec": PATH, "pid": N}`` or ``{"op": "error", "spec": PATH, "message": TEXT}``. At the end of the
input it exits; its workers live on.

It has one thread, no event loop and no gRPC, so that a fork copies nothing that runs.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import random
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from control_plane import telemetry
from control_plane.contracts.worker_spec import WorkerSpec

_log = logging.getLogger(__name__)
_CRASHED = 1
_MOST_BYTES = 1 << 20


class Preloader:
    """Answers spawn requests on a connected socket. ``load`` does the imports, ``work`` is a worker's whole life."""

    def __init__(self, control: socket.socket, load: Callable[[], None], work: Callable[[WorkerSpec], int]) -> None:
        self._control = control
        self._load = load
        self._work = work
        self._buffer = b""

    def serve(self) -> None:
        """Returns at the end of the input."""
        woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake)
        started = time.monotonic()
        self._load()
        # The imports are for ever, and a collection in a worker would copy their pages.
        gc.collect()
        gc.freeze()
        self._say({"op": "ready", "import_s": round(time.monotonic() - started, 3)})
        while True:
            waiting: list[Any] = [self._control, woken]
            readable = select.select(waiting, [], [])[0]
            if woken in readable:
                os.read(woken, 4096)
                _reap()
            if self._control in readable and not self._hear():
                return

    def _hear(self) -> bool:
        """Whether there may be more to come."""
        try:
            data = self._control.recv(65_536)
        except ConnectionError:
            return False
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._obey(line)
        if len(self._buffer) > _MOST_BYTES:
            _log.error("a request has no end")
            return False
        return bool(data)

    def _obey(self, line: bytes) -> None:
        path = ""
        try:
            request = json.loads(line)
            path = str(request["spec"])
            if request["op"] != "spawn":
                raise ValueError(f"unknown op {request['op']!r}")
            spec = WorkerSpec.load(Path(path))
            pid = os.fork()
        except (OSError, ValueError, TypeError, KeyError) as error:
            self._say({"op": "error", "spec": path, "message": f"{type(error).__name__}: {error}"})
            return
        if not pid:
            self._become(spec)
        _log.info("forked a worker", extra={"worker_id": spec.worker_id, "worker_pid": pid})
        self._say({"op": "spawned", "spec": path, "pid": pid})

    def _become(self, spec: WorkerSpec) -> NoReturn:
        """The life of the forked process. It never returns into the preloader's loop, nor into its exit handlers."""
        code = _CRASHED
        try:
            self._control.close()
            os.setsid()
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            _redirect(Path(spec.log_path))
            _name_process(f"inferdeck worker {spec.worker_id}")
            random.seed()
            code = self._work(spec)
        except BaseException:
            logging.exception("the worker crashed")
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _say(self, message: dict[str, Any]) -> None:
        try:
            self._control.sendall(json.dumps(message).encode() + b"\n")
        except ConnectionError:
            _log.warning("nobody hears: %s", message.get("op"))


def _redirect(log_path: Path) -> None:
    log_path.parent.mkdir(parents=True, exist_ok=True)
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.close(nothing)


def _name_process(title: str) -> None:
    """In ``ps`` all workers would look like their preloader."""
    try:
        from setproctitle import setproctitle
    except ImportError:
        return
    setproctitle(title)


def _reap() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        _log.info("a worker ended", extra={"worker_pid": pid, "exit_code": os.waitstatus_to_exitcode(status)})


def _load() -> None:
    from workers.engine import vllm_env

    vllm_env.prepare_import(on_cpu=True)
    from workers import lifecycle  # noqa: F401
    from workers.engine import vllm_engine

    vllm_engine.preload()


def _work(spec: WorkerSpec) -> int:
    from workers import lifecycle

    return lifecycle.run(spec)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m workers.preloader", description="Forks workers. See the module.")
    parser.add_argument("--fd", type=int, required=True, help="a connected stream socket to its owner")
    options = parser.parse_args(arguments)
    telemetry.setup_logging("preloader", pid=os.getpid())
    Preloader(socket.socket(fileno=options.fd), _load, _work).serve()
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # What was imported need not be taken apart, and complains if it is.
    os._exit(code)
