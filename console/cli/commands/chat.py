"""``chat``: ask the model, once or in turns."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from console import figures
from console.cli.command import USE, Place, command
from console.cli.effect import Effect
from console.cli.exits import INTERRUPTED, Ended, tell
from console.cli.options import ApiKeyEnvOption, ApiKeyFilesOption, CaOption, OutputOption, UrlOption
from console.cli.output import Format, write_data
from console.plain.terminal import flush, interactive, out, say
from console.text import literal
from control_plane.contracts.errors import InferDeckError, InvalidRequest
from control_plane.contracts.model_choice import OVERRIDE, REASON_HEADER

if TYPE_CHECKING:
    import asyncio

    from console.api_access import ApiKey
    from console.completion import Answer
    from console.http import Connections

Message = dict[str, str]


@command("chat", USE, Effect.RUNS)
def chat(
    place: Place,
    prompt: Annotated[
        list[str] | None, typer.Argument(metavar="PROMPT", help="What to ask. Without it: in turns, or from a pipe.")
    ] = None,
    model: Annotated[str | None, typer.Option("-m", "--model", help="Model. [default: the first one offered]")] = None,
    system: Annotated[str | None, typer.Option("--system", metavar="TEXT", help="System prompt.")] = None,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", min=1, help="Longest answer.")] = None,
    temperature: Annotated[float | None, typer.Option("--temperature", min=0.0, max=2.0)] = None,
    seed: Annotated[int | None, typer.Option("--seed")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Take the answer in one piece, not streamed.")] = False,
    url: UrlOption = None,
    ca: CaOption = None,
    api_key_file: ApiKeyFilesOption = None,
    api_key_env: ApiKeyEnvOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Ask the model and stream its answer. Ctrl-C ends the answer, wherever it runs.

    The answer goes to stdout; TTFT, ITL and tokens to stderr. With --server the call goes to that platform's gateway,
    by the API key that is named.
    """
    import asyncio

    from console.api_access import offer_of
    from console.cli.calls import calls_of
    from console.http import Connections

    if output is Format.NAME:
        raise InvalidRequest("an answer has no name: -o table, json or yaml", param="output")
    with asyncio.Runner() as runner:
        endpoint, [key, *_] = runner.run(calls_of(place, url, ca, api_key_file, api_key_env))
        offer = runner.run(offer_of(endpoint, key, model))
        body: dict[str, Any] = {"model": offer.model, "stream": not plain}
        if not plain:
            body["stream_options"] = {"include_usage": True}
        options = {"max_tokens": max_tokens, "temperature": temperature, "seed": seed}
        body |= {option: value for option, value in options.items() if value is not None}
        talk = Talk(runner, Connections(endpoint), key, body, system, output)
        talk.simulated = bool(offer.simulated)
        talk.models = "" if url is not None else place.command("get models")
        try:
            if prompt:
                talk.ask(" ".join(prompt))
            elif interactive():
                named = literal(offer.model) + (" (simulated)" if offer.simulated else "")
                say(f"{named} at {endpoint.url}. Ctrl-D leaves, Ctrl-C ends an answer, /reset starts anew.", "quiet")
                talk.turns()
            else:
                text = sys.stdin.read().strip()
                if not text:
                    raise InvalidRequest("nothing was asked: give a prompt, or pipe one in", param="prompt")
                talk.ask(text)
        finally:
            talk.connections.close()


class Talk:
    """A conversation: the messages so far, and how to ask. ``simulated``: whose answers measure no engine; ``models``:
    the command that lists what can be asked."""

    def __init__(
        self,
        runner: asyncio.Runner,
        connections: Connections,
        key: ApiKey,
        body: dict[str, Any],
        system: str | None,
        output: Format,
    ) -> None:
        self.connections = connections
        self._runner = runner
        self._key = key
        self._body = body
        self._start: list[Message] = [{"role": "system", "content": system}] if system else []
        self._messages = list(self._start)
        self._output = output
        self.simulated = False
        self.models = ""

    def turns(self) -> None:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  # editing and history for input()
        left = False
        while True:
            try:
                text = input("> ").strip()
                left = False
            except EOFError:
                sys.stderr.write("\n")
                return
            except KeyboardInterrupt:
                sys.stderr.write("\n")
                if left:
                    raise Ended(INTERRUPTED) from None
                left = True
                say("Ctrl-D leaves; so does Ctrl-C once more", "quiet")
                continue
            if text == "/reset":
                self._messages = list(self._start)
                say("forgotten", "quiet")
            elif text:
                try:
                    self.ask(text)
                except InferDeckError as error:
                    tell(error.message, error.hint)
                except Ended as ended:
                    if ended.code != INTERRUPTED:
                        raise

    def ask(self, text: str) -> None:
        """Ask and print the answer. Raises the call's error; Ended when it was interrupted."""
        from console.api_access import error_of
        from console.completion import Answer

        asked = [*self._messages, {"role": "user", "content": text}]
        shown = self._output in (Format.TABLE, Format.WIDE)
        answer = Answer(_write if shown else None)
        body = {**self._body, "messages": asked}
        try:
            self._runner.run(answer.run(self.connections, "/chat/completions", self._key.secret, body))
        except KeyboardInterrupt:
            if shown and answer.token_times:
                out("")
            say(f"cancelled after {figures.plural(len(answer.token_times), 'token')}", "watch")
            raise Ended(INTERRUPTED) from None
        finally:
            flush()
        whole = "".join(answer.text)
        if shown and answer.token_times and not whole.endswith("\n"):
            out("")
        if not answer.ok:
            raise error_of(answer, self._key, self.models)
        self._messages = [*asked, {"role": "assistant", "content": whole}]
        if not shown:
            write_data(measured(answer, whole) | {"simulated": self.simulated}, self._output)
        say(("simulated · " if self.simulated else "") + stopwatch(answer), "quiet")


def _write(text: str, at: float) -> None:
    out(literal(text, keep="\n\t"), end="")
    flush()


def measured(answer: Answer, whole: str) -> dict[str, Any]:
    """An answer and its figures, as data; durations in seconds."""
    from console.load.tally import quantiles

    low, high = quantiles(answer.gaps_s, 0.5, 0.99)
    return {
        "answer": whole,
        "finish_reason": answer.finish_reason or None,
        "usage": answer.usage,
        "ttft_s": answer.ttft_s,
        "itl_p50_s": low,
        "itl_p99_s": high,
        "duration_s": answer.ended - answer.started,
    }


def stopwatch(answer: Answer) -> str:
    """One line: what a client's stopwatch says of the answer."""
    from console.load.tally import quantiles

    low, high = quantiles(answer.gaps_s, 0.5, 0.99)
    parts = []
    if len(answer.token_times) > 1:
        parts += [
            f"TTFT {figures.seconds(answer.ttft_s)}",
            f"ITL p50 {figures.seconds(low)} p99 {figures.seconds(high)}",
        ]
    took = answer.ended - answer.started
    tokens = answer.output_tokens
    parts.append(f"{figures.plural(tokens, 'token')} in {figures.seconds(took)}")
    if len(answer.token_times) > 1 and (decode := answer.token_times[-1] - answer.token_times[0]) > 0:
        parts.append(f"{figures.rate((tokens - 1) / decode)} tok/s")
    if answer.prompt_tokens is not None:
        cached = f" ({answer.cached_tokens} cached)" if answer.cached_tokens else ""
        parts.append(f"prompt {answer.prompt_tokens}{cached}")
    if REASON_HEADER in answer.headers:
        parts.append(f"by {literal(answer.headers.get(OVERRIDE, '?'))}")
    if answer.finish_reason == "length":
        parts.append("cut at its length limit")
    return " · ".join(parts)
