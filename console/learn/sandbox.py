"""The platform that lessons play on: a home, ports and keys of its own, and gone when the lesson is."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from console.api_access import trust_of
from console.facts import base_url
from console.home import Home, State, read_key
from console.http import Endpoint
from console.launch import ControlPlane, Progress, wait_until_ready
from console.stopping import stop
from console.to_the_end import to_the_end
from control_plane.contracts.errors import InferDeckError, Unavailable
from control_plane.contracts.fleet import Snapshot
from lessons.actions import POOL
from lessons.model import Sandbox

CONFIG = "lesson.toml"
"""The platform's settings, in its home."""

START_S = 600.0
"""A real engine may have to convert its model first."""


class SandboxGone(Unavailable):
    """The lesson's platform has ended by itself."""


def settings_text(sandbox: Sandbox) -> str:
    """As the control plane reads it. Strings, numbers and lists are written alike in TOML and in JSON."""
    pool = {"name": POOL, "engine": sandbox.engine, "replicas": sandbox.replicas}
    if sandbox.max_context:
        pool["max_context"] = sandbox.max_context
    lines = ["[gateway]", "port = 0", "[api]", "port = 0", "[router]", f'profile = "{sandbox.profile}"']
    if sandbox.routers:
        lines.append(f"replicas = {sandbox.routers}")
    lines.append("[[pool]]")
    lines += [f"{name} = {json.dumps(value)}" for name, value in pool.items()]
    if sandbox.engine_args:
        lines.append("[pool.engine_args]")
        lines += [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in sandbox.engine_args.items()]
    return "\n".join(lines) + "\n"


class RunningSandbox:
    """Close it, or die, and nothing of it is left running."""

    def __init__(self, home: Home, own: ControlPlane, sandbox: Sandbox) -> None:
        self.home = home
        self.sandbox = sandbox
        self._own = own
        self._config = home.path / CONFIG

    @classmethod
    async def start(cls, sandbox: Sandbox, progress: Progress) -> tuple[RunningSandbox, Snapshot]:
        """Raises StartFailed, WrongSettings or RequestTimeout; then nothing is left."""
        folder = Path(tempfile.mkdtemp(prefix="inferdeck-lesson-"))
        config = folder / CONFIG
        made = None
        try:
            config.write_text(settings_text(sandbox), encoding="utf-8")
            home = Home(folder)
            made = cls(home, ControlPlane.start(home, config=config, detached=False), sandbox)
            _, snapshot = await wait_until_ready(home, timeout_s=START_S, progress=progress, own=made._own)
            return made, snapshot
        except BaseException:
            if made is not None:
                await to_the_end(asyncio.create_task(made.close()))
            else:
                shutil.rmtree(folder, ignore_errors=True)
            raise

    @property
    def state(self) -> State:
        """Raises SandboxGone."""
        state = self.home.running()
        if state is None or not state.gateway_urls:
            raise SandboxGone("the lesson's platform is gone", hint="inferdeck learn")
        return state

    @property
    def as_wanted(self) -> bool:
        """Whether it runs with the settings of its sandbox, and was started here: a learner may have done it again."""
        state = self.home.running()
        is_own = state is not None and state.pid == self._own.process.pid
        return is_own and self._config.read_text(encoding="utf-8") == settings_text(self.sandbox)

    async def restart(self, engine_args: Mapping[str, Any], progress: Progress) -> None:
        """The same platform again, with these engine arguments beside the sandbox's own; see ``start`` for errors."""
        await self._stop()
        changed = replace(self.sandbox, engine_args={**self.sandbox.engine_args, **engine_args})
        self._config.write_text(settings_text(changed), encoding="utf-8")
        self._own = ControlPlane.start(self.home, config=self._config, detached=False)
        await wait_until_ready(self.home, timeout_s=START_S, progress=progress, own=self._own)

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint.parse(base_url(self.state.gateway_urls[0]), trust_of(self.home))

    @property
    def key(self) -> str:
        return read_key(Path(self.state.api_key_path))

    async def close(self) -> None:
        """Cancelled, or where it raises what ``stop`` raises, the home is still there, since something may run in it:
        close it again."""
        await self._stop()
        shutil.rmtree(self.home.path, ignore_errors=True)

    async def _stop(self) -> None:
        try:
            if self.home.running() is not None:
                # A learner may have taken its key away; it still ends without its lifeline.
                with suppress(InferDeckError):
                    await stop(self.home, grace_s=0.0)
        finally:
            self._own.let_go()
        await self._own.ended()
        await stop(self.home, grace_s=0.0)
