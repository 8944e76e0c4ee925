"""Being there for a platform: start it, stay while it runs, and bring it down with everything that belongs to it."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

from console.cli.exits import INTERRUPTED, OK, TIMED_OUT, code_of, tell
from console.client import OperatorClient
from console.home import Home, State
from console.launch import ControlPlane, StartFailed, wait_until_ready
from console.plain.event_line import event_line
from console.plain.progress import StartProgress
from console.plain.terminal import say, width
from console.stopping import stop
from console.text import literal
from control_plane.contracts.errors import InferDeckError, RequestTimeout
from control_plane.contracts.fleet import Snapshot

Show = Callable[[State, Snapshot], Awaitable[None]]

GRACE_S = 10.0
"""How long running requests may go on after Ctrl-C; a second Ctrl-C ends them at once."""

RESTARTS = 3
RESTART_WINDOW_S = 60.0


class Interrupts:
    """SIGINT, SIGTERM and SIGHUP as something that can be awaited, once each."""

    def __init__(self) -> None:
        self.first: signal.Signals | None = None
        self._queue: asyncio.Queue[signal.Signals] = asyncio.Queue()

    @contextlib.contextmanager
    def caught(self) -> Iterator[Interrupts]:
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        for number in numbers:
            loop.add_signal_handler(number, self._heard, number)
        try:
            yield self
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _heard(self, number: signal.Signals) -> None:
        self.first = self.first or number
        self._queue.put_nowait(number)

    async def next(self) -> signal.Signals:
        return await self._queue.get()


async def attend(
    home: Home, config: Path | None, timeout_s: float, show: Show, *, detach: bool, arguments: Sequence[str] = ()
) -> int:
    """Start the platform, and unless ``detach``, stay with it to its end. Returns the exit code.

    ``arguments`` are further ones of the control plane's command.
    """
    with Interrupts().caught() as interrupts:
        attendant = Attendant(home, config, interrupts, detach=detach, arguments=arguments)
        try:
            code = await attendant.start(timeout_s, show)
            if code is None and not detach:
                code = await attendant.stay()
            return OK if code is None else code
        finally:
            attendant.own.let_go()


class Attendant:
    """Whoever started a control plane and answers for it."""

    def __init__(
        self,
        home: Home,
        config: Path | None,
        interrupts: Interrupts,
        *,
        detach: bool,
        arguments: Sequence[str] = (),
    ) -> None:
        self.home = home
        self._config = config
        self._interrupts = interrupts
        self._detach = detach
        self._arguments = arguments
        self.own = ControlPlane.start(home, config=config, detached=detach, arguments=arguments)

    async def start(self, timeout_s: float, show: Show) -> int | None:
        """An exit code if it did not come up; None once it serves."""
        waiting = asyncio.create_task(wait_shown(self.home, timeout_s, self.own))
        interrupt = asyncio.create_task(self._interrupts.next())
        await asyncio.wait((waiting, interrupt), return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError, InferDeckError):
                await waiting
            say("interrupted while starting: stopping what has started")
            await self._bring_down(grace_s=0.0)
            return INTERRUPTED
        interrupt.cancel()
        try:
            await show(*waiting.result())
        except InferDeckError as error:
            other = self.home.running()
            if other is not None and other.pid != self.own.process.pid:
                say(f"already up in {literal(self.home.shown)}, started by another command")
                await show(*await wait_shown(self.home, timeout_s))
                return OK
            partial = isinstance(error, RequestTimeout) or (isinstance(error, StartFailed) and error.partial)
            if partial and self._detach:
                _tell_log(error)
                hint = f"{self.home.up_command('top')}  or  {self.home.up_command('down')}"
                tell(f"{error.message}; it goes on in the background", hint)
                return TIMED_OUT
            return await self._failed(error)
        return None

    async def stay(self) -> int:
        """Until an interrupt or somebody's ``down``. A control plane that dies is started again."""
        following = asyncio.create_task(_tell_events(self.home))
        deaths: list[float] = []
        try:
            while (code := await self._ended()) is not None:
                if code == 0:
                    await stop(self.home, grace_s=0.0, say=say)
                    say("stopped")
                    return OK
                deaths = [at for at in deaths if time.monotonic() - at < RESTART_WINDOW_S] + [time.monotonic()]
                failure = self.own.failure(code)
                if len(deaths) > RESTARTS:
                    return await self._failed(failure)
                say(f"{literal(failure.message)}: starting it again, gateways and workers go on", "watch")
                self.own.let_go()
                self.own = ControlPlane.start(self.home, config=self._config, detached=False, arguments=self._arguments)
                self.own.took_over = True  # what runs in the home is still ours
        finally:
            following.cancel()
        say("stopping; once more ends what runs at once")
        await self._bring_down(grace_s=GRACE_S)
        say("everything is down")
        return INTERRUPTED if self._interrupts.first is signal.SIGINT else OK

    async def end(self, interrupts: Interrupts) -> None:
        """Bring everything down, from another event loop than the one it was started in."""
        self._interrupts = interrupts
        await self._bring_down(grace_s=GRACE_S)
        self.own.let_go()
        say("everything is down")

    async def _ended(self) -> int | None:
        """The control plane's exit code when it ends, None when an interrupt comes first."""
        ended = asyncio.create_task(self.own.ended())
        interrupt = asyncio.create_task(self._interrupts.next())
        await asyncio.wait((ended, interrupt), return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        interrupt.cancel()
        return None if interrupt.done() and not interrupt.cancelled() else ended.result()

    async def _failed(self, error: InferDeckError) -> int:
        await self._bring_down(grace_s=0.0)
        _tell_log(error)
        tell(error.message, error.hint or self._doctor())
        return code_of(error)

    def _doctor(self) -> str:
        """The command that looks at the settings that this platform was to run with."""
        words = self.home.up_command("doctor")
        return f"{words} --config {shlex.quote(str(self._config))}" if self._config is not None else words

    async def _bring_down(self, *, grace_s: float) -> None:
        """Stop everything; another interrupt in the meantime takes the grace away."""
        stopping = asyncio.create_task(self._stop(grace_s))
        while not stopping.done():
            interrupt = asyncio.create_task(self._interrupts.next())
            await asyncio.wait((stopping, interrupt), return_when=asyncio.FIRST_COMPLETED)
            if interrupt.done() and not stopping.done():
                say("ending what runs")
                stopping.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await stopping
                stopping = asyncio.create_task(self._stop(0.0))
            interrupt.cancel()
        stopping.result()

    async def _stop(self, grace_s: float) -> None:
        process = self.own.process
        state = self.home.running()
        if process.poll() is None and (state is None or state.pid != process.pid):
            process.terminate()  # it has not said yet where it is
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s + 10.0):
                    await self.own.ended()
        if self.own.took_over:
            await stop(self.home, grace_s=grace_s, say=say)
        if process.poll() is None:
            process.kill()
            await self.own.ended()


async def wait_shown(home: Home, timeout_s: float, own: ControlPlane | None = None) -> tuple[State, Snapshot]:
    """Wait until everything serves, with the progress on stderr."""
    progress = StartProgress(news_only=own is None)
    turning = asyncio.create_task(_turn(progress))
    try:
        return await wait_until_ready(home, timeout_s=timeout_s, progress=progress, own=own)
    finally:
        turning.cancel()
        progress.clear()


async def _turn(progress: StartProgress) -> None:
    while True:
        progress.tick()
        await asyncio.sleep(0.1)


def _tell_log(error: InferDeckError) -> None:
    if isinstance(error, StartFailed) and error.log:
        say("the end of its log:", "quiet")
        for line in error.log:
            say(f"  {line}", "quiet")


async def _tell_events(home: Home) -> None:
    """Every event from now on, as a line of narration."""
    since: int | None = None
    while True:
        with contextlib.suppress(InferDeckError):
            async with OperatorClient(home.target()) as client:
                if since is None:
                    since = max((event.seq for event in (await client.get_snapshot()).events), default=0)
                async for event in client.events(since, follow=True):
                    since = event.seq
                    say(event_line(event, width(sys.stderr)))
        await asyncio.sleep(0.5)
