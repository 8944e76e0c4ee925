"""``load``: make traffic and measure what a client sees."""

from __future__ import annotations

import math
import signal
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from console.cli.command import USE, Place, command
from console.cli.durations import duration
from console.cli.effect import Effect
from console.cli.exits import FAILED, INTERRUPTED, TIMED_OUT, Ended
from console.cli.options import ApiKeyEnvOption, ApiKeyFilesOption, CaOption, OutputOption, UrlOption
from console.cli.output import Format, write_data
from console.plain.terminal import dumb, is_terminal, out, width
from control_plane.contracts.errors import InvalidRequest

if TYPE_CHECKING:
    from console.api_access import ApiKey
    from console.http import Endpoint
    from console.load.plan import Plan
    from console.load.runner import Run

LIVE_EVERY_S = 0.5


@command("load", USE, Effect.RUNS)
def load(
    place: Place,
    model: Annotated[str | None, typer.Option("-m", "--model", help="Model. [default: the first one offered]")] = None,
    concurrency: Annotated[
        int, typer.Option("-c", "--concurrency", min=1, max=10_000, help="Closed loop: calls at a time.")
    ] = 8,
    rate: Annotated[float, typer.Option("--rate", min=0.0, help="Open loop: calls a second, whatever runs.")] = 0.0,
    constant: Annotated[bool, typer.Option("--constant", help="Open loop: evenly spaced, not Poisson.")] = False,
    requests: Annotated[int, typer.Option("-n", "--requests", min=0, help="End after so many calls.")] = 0,
    for_: Annotated[
        str | None,
        typer.Option("--duration", metavar="DURATION", help="Start no call after. [default: 30s, without -n]"),
    ] = None,
    prompt_tokens: Annotated[
        str, typer.Option("--prompt-tokens", metavar="LENGTH", help="About: 128, 64-256 or lognormal:128,0.5.")
    ] = "64",
    output_tokens: Annotated[
        str, typer.Option("--output-tokens", metavar="LENGTH", help="At most (max_tokens), likewise.")
    ] = "64",
    prefixes: Annotated[
        int, typer.Option("--prefixes", min=0, max=10_000, help="System prompts that calls share.")
    ] = 0,
    prefix_tokens: Annotated[int, typer.Option("--prefix-tokens", min=1, max=100_000, help="Length of each.")] = 256,
    plain: Annotated[bool, typer.Option("--plain", help="Calls that are not streamed.")] = False,
    completions: Annotated[
        bool, typer.Option("--completions", help="/completions instead of /chat/completions.")
    ] = False,
    cancel: Annotated[
        float, typer.Option("--cancel", min=0.0, max=1.0, help="Fraction of calls whose client leaves early.")
    ] = 0.0,
    temperature: Annotated[float | None, typer.Option("--temperature", min=0.0)] = None,
    ignore_eos: Annotated[
        bool, typer.Option("--ignore-eos", help="Ask for exactly the output length (a vLLM extension).")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", help="The same seed makes the same calls.")] = 0,
    call_timeout: Annotated[str, typer.Option("--call-timeout", metavar="DURATION")] = "10m",
    url: UrlOption = None,
    ca: CaOption = None,
    api_key_file: ApiKeyFilesOption = None,
    api_key_env: ApiKeyEnvOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Make traffic and measure TTFT, ITL and tokens/s with a client's stopwatch.

    Against the platform's gateway, that of another platform with --server and its API key, or any OpenAI endpoint with
    --url. Closed loop: -c calls at a time; after a failure a caller waits 0.1 s, and up to 1 s where more follow. Open
    loop: --rate calls a second, whatever fails. Exits 1 when no call succeeds, 5 when some fail.
    """
    import asyncio

    from console.cli.calls import calls_of
    from console.load.plan import Plan
    from console.load.shape import Length

    if output is Format.NAME:
        raise InvalidRequest("a load run has no name: -o table, json or yaml", param="output")
    if not math.isfinite(rate):
        raise InvalidRequest("--rate must be a finite number of calls a second", param="rate")
    limit = duration(for_, "--duration") if for_ is not None else (0.0 if requests else 30.0)
    endpoint, keys = asyncio.run(calls_of(place, url, ca, api_key_file, api_key_env))
    plan = Plan(
        model=model or "",
        concurrency=concurrency,
        rate=rate,
        poisson=not constant,
        requests=requests,
        duration_s=limit,
        prompt=Length.parse(prompt_tokens, "--prompt-tokens"),
        output=Length.parse(output_tokens, "--output-tokens"),
        prefixes=prefixes,
        prefix_tokens=prefix_tokens,
        stream=not plain,
        chat=not completions,
        cancel=cancel,
        keys=len(keys),
        seed=seed,
        temperature=temperature,
        ignore_eos=ignore_eos,
    )
    code = _run(plan, endpoint, keys, duration(call_timeout, "--call-timeout"), output, ours=url is None)
    if code:
        raise Ended(code)


def _run(
    plan: Plan, endpoint: Endpoint, keys: list[ApiKey], call_timeout_s: float, output: Format, *, ours: bool
) -> int:
    import asyncio
    import contextlib
    from dataclasses import replace

    import uvloop

    from console.api_access import offer_of
    from console.load.report import summary, summary_lines
    from console.load.runner import Run

    run: Run | None = None
    simulated: bool | None = None

    async def go() -> None:
        nonlocal run, simulated
        offer = await offer_of(endpoint, keys[0], plan.model, lists_all=ours)
        named, simulated = replace(plan, model=offer.model), offer.simulated
        run = Run(named, endpoint, [key.secret for key in keys], call_timeout_s=call_timeout_s or 1e9)
        watching = asyncio.create_task(_live(run))
        try:
            await run.go()
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

    async def attended() -> None:
        going = asyncio.ensure_future(go())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, going.cancel)
        await going

    interrupted = False
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(attended())
    except (KeyboardInterrupt, asyncio.CancelledError):
        if run is None:
            raise KeyboardInterrupt from None
        interrupted = True
    assert run is not None
    data = summary(run, [key.name for key in keys], simulated=simulated)
    if output in (Format.JSON, Format.YAML):
        write_data(data, output)
    else:
        for line in summary_lines(data):
            out(line)
    if interrupted:
        return INTERRUPTED
    if run.tally.failed:
        return TIMED_OUT if run.tally.ok else FAILED
    return 0


async def _live(run: Run) -> None:
    """One line that is written over, on a terminal only."""
    import asyncio

    from console.load.report import live_line

    if not is_terminal(sys.stderr) or dumb():
        return
    try:
        while True:
            sys.stderr.write("\r\x1b[K" + live_line(run, (width(sys.stderr) or 80) - 1))
            sys.stderr.flush()
            await asyncio.sleep(LIVE_EVERY_S)
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
