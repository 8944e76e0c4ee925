"""The JSON of answers, whole and in chunks, made by joining text: a chunk is made once per token.

A ``Shape`` is one call's. Its ``chunk`` methods give events of a stream, ready to send; ``whole`` gives a body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from control_plane.contracts.worker import Done, TokenLogprob
from control_plane.gateway.answer.json_text import quoted
from control_plane.gateway.answer.logprobs import chat_logprobs, completion_logprobs

DONE_EVENT = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Heading:
    """What is the same in every part of one answer."""

    id: str
    created: int
    model: str
    fingerprint: str

    def json(self, kind: str) -> str:
        return (
            f'{{"id":{quoted(self.id)},"object":"{kind}","created":{self.created},"model":{quoted(self.model)},'
            f'"system_fingerprint":{quoted(self.fingerprint)},"choices":['
        )


@dataclass(slots=True)
class Choice:
    """One whole choice. ``logprobs`` None: not asked for."""

    text: str
    finish: str
    logprobs: Sequence[TokenLogprob] | None


def usage_json(done: Done) -> str:
    return (
        f'{{"prompt_tokens":{done.prompt_tokens},"completion_tokens":{done.output_tokens},'
        f'"total_tokens":{done.prompt_tokens + done.output_tokens},'
        f'"prompt_tokens_details":{{"cached_tokens":{done.cached_tokens}}}}}'
    )


class Shape(Protocol):
    def before(self, choice: int) -> str:
        """Text of a content event before the quoted text of the choice; ``after`` is what follows it."""
        ...

    @property
    def after(self) -> str: ...

    def opening(self, choice: int) -> str:
        """The event that opens a choice; empty where the route has none."""
        ...

    def content(self, choice: int, text: str, logprobs: Sequence[TokenLogprob]) -> str:
        """A content event with log probabilities."""
        ...

    def closing(self, choice: int, finish: str) -> str: ...

    def usage(self, done: Done) -> str:
        """The event that has no choices but what the call used."""
        ...

    def whole(self, choices: Sequence[Choice], done: Done) -> str: ...


class ChatShape:
    """``/v1/chat/completions``."""

    def __init__(self, heading: Heading, *, with_usage: bool) -> None:
        self._heading = heading
        self._open = "data: " + heading.json("chat.completion.chunk")
        self._close = '],"usage":null}\n\n' if with_usage else "]}\n\n"
        self.after = '},"logprobs":null,"finish_reason":null}' + self._close

    def before(self, choice: int) -> str:
        return f'{self._open}{{"index":{choice},"delta":{{"content":'

    def opening(self, choice: int) -> str:
        return (
            f'{self._open}{{"index":{choice},"delta":{{"role":"assistant","content":""}},'
            f'"logprobs":null,"finish_reason":null}}{self._close}'
        )

    def content(self, choice: int, text: str, logprobs: Sequence[TokenLogprob]) -> str:
        return (
            f'{self.before(choice)}{quoted(text)}}},"logprobs":{chat_logprobs(logprobs)},'
            f'"finish_reason":null}}{self._close}'
        )

    def closing(self, choice: int, finish: str) -> str:
        return f'{self._open}{{"index":{choice},"delta":{{}},"logprobs":null,"finish_reason":"{finish}"}}{self._close}'

    def usage(self, done: Done) -> str:
        return f'{self._open}],"usage":{usage_json(done)}}}\n\n'

    def whole(self, choices: Sequence[Choice], done: Done) -> str:
        parts = ",".join(
            f'{{"index":{index},"message":{{"role":"assistant","content":{quoted(choice.text)},"refusal":null}},'
            f'"logprobs":{"null" if choice.logprobs is None else chat_logprobs(choice.logprobs)},'
            f'"finish_reason":"{choice.finish}"}}'
            for index, choice in enumerate(choices)
        )
        return f'{self._heading.json("chat.completion")}{parts}],"usage":{usage_json(done)}}}'


class CompletionShape:
    """``/v1/completions``. ``echo`` is text that comes before what is generated."""

    def __init__(self, heading: Heading, *, with_usage: bool, echo: str = "") -> None:
        self._heading = heading
        self._echo = echo
        self._open = "data: " + heading.json("text_completion")
        self._close = '],"usage":null}\n\n' if with_usage else "]}\n\n"
        self._offsets: dict[int, int] = {}
        self.after = ',"logprobs":null,"finish_reason":null}' + self._close

    def before(self, choice: int) -> str:
        return f'{self._open}{{"index":{choice},"text":'

    def opening(self, choice: int) -> str:
        return f"{self.before(choice)}{quoted(self._echo)}{self.after}" if self._echo else ""

    def content(self, choice: int, text: str, logprobs: Sequence[TokenLogprob]) -> str:
        shown, self._offsets[choice] = completion_logprobs(logprobs, self._offsets.get(choice, len(self._echo)))
        return f'{self.before(choice)}{quoted(text)},"logprobs":{shown},"finish_reason":null}}{self._close}'

    def closing(self, choice: int, finish: str) -> str:
        return f'{self.before(choice)}"","logprobs":null,"finish_reason":"{finish}"}}{self._close}'

    def usage(self, done: Done) -> str:
        return f'{self._open}],"usage":{usage_json(done)}}}\n\n'

    def whole(self, choices: Sequence[Choice], done: Done) -> str:
        parts = ",".join(
            f'{{"index":{index},"text":{quoted(self._echo + choice.text)},'
            f'"logprobs":{self._logprobs(choice)},"finish_reason":"{choice.finish}"}}'
            for index, choice in enumerate(choices)
        )
        return f'{self._heading.json("text_completion")}{parts}],"usage":{usage_json(done)}}}'

    def _logprobs(self, choice: Choice) -> str:
        return "null" if choice.logprobs is None else completion_logprobs(choice.logprobs, len(self._echo))[0]
