"""The events of a stream, made by joining text: one is made for every token.

``Events`` is one call's. Its methods give events ready to send.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.worker import Done, TokenLogprob
from control_plane.gateway.answer.heading import Heading, usage_json
from control_plane.gateway.answer.json_text import quoted
from control_plane.gateway.answer.logprobs import ChatLogprobs, CompletionLogprobs
from control_plane.gateway.error_body import error_event

DONE_EVENT = "data: [DONE]\n\n"


class Events(Protocol):
    @property
    def fixed(self) -> bool:
        """Whether an event of plain text is ``before``, the quoted text and ``after``, the same each time; where it is
        not, ``with_logprobs`` makes it, without any."""
        ...

    @property
    def after(self) -> str: ...

    def before(self, choice: int) -> str: ...

    def opening(self, choice: int) -> str:
        """The events that open a choice; empty where there is nothing to say."""
        ...

    def with_logprobs(self, choice: int, text: str, logprobs: Sequence[TokenLogprob]) -> str: ...

    def closing(self, choice: int, finish: str) -> str: ...

    def ending(self, done: Done) -> str:
        """The last events of an answer that is whole."""
        ...

    def failure(self, error: InferDeckError) -> bytes:
        """The last events of one that failed after its first."""
        ...


class ChatEvents:
    """Of ``/v1/chat/completions``."""

    fixed = True

    def __init__(self, heading: Heading, *, with_usage: bool) -> None:
        self._with_usage = with_usage
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

    def with_logprobs(self, choice: int, text: str, logprobs: Sequence[TokenLogprob]) -> str:
        return (
            f'{self.before(choice)}{quoted(text)}}},"logprobs":{ChatLogprobs(logprobs).json()},'
            f'"finish_reason":null}}{self._close}'
        )

    def closing(self, choice: int, finish: str) -> str:
        return f'{self._open}{{"index":{choice},"delta":{{}},"logprobs":null,"finish_reason":"{finish}"}}{self._close}'

    def ending(self, done: Done) -> str:
        return self.usage(done) + DONE_EVENT if self._with_usage else DONE_EVENT

    def failure(self, error: InferDeckError) -> bytes:
        return error_event(error)

    def usage(self, done: Done) -> str:
        """The event that has no choices but what the call used."""
        return f'{self._open}],"usage":{usage_json(done)}}}\n\n'


class CompletionEvents:
    """Of ``/v1/completions``. ``echo`` is text that comes before what is generated."""

    fixed = True

    def __init__(self, heading: Heading, *, with_usage: bool, echo: str = "") -> None:
        self._with_usage = with_usage
        self._echo = echo
        self._open = "data: " + heading.json("text_completion")
        self._close = '],"usage":null}\n\n' if with_usage else "]}\n\n"
        self._offsets: dict[int, int] = {}
        self.after = ',"logprobs":null,"finish_reason":null}' + self._close

    def before(self, choice: int) -> str:
        return f'{self._open}{{"index":{choice},"text":'

    def opening(self, choice: int) -> str:
        return f"{self.before(choice)}{quoted(self._echo)}{self.after}" if self._echo else ""

    def with_logprobs(self, choice: int, text: str, logprobs: Sequence[TokenLogprob]) -> str:
        shown = CompletionLogprobs(logprobs, self._offsets.get(choice, 0))
        self._offsets[choice] = shown.offset
        return f'{self.before(choice)}{quoted(text)},"logprobs":{shown.json()},"finish_reason":null}}{self._close}'

    def closing(self, choice: int, finish: str) -> str:
        return f'{self.before(choice)}"","logprobs":null,"finish_reason":"{finish}"}}{self._close}'

    def ending(self, done: Done) -> str:
        return self.usage(done) + DONE_EVENT if self._with_usage else DONE_EVENT

    def failure(self, error: InferDeckError) -> bytes:
        return error_event(error)

    def usage(self, done: Done) -> str:
        """The event that has no choices but what the call used."""
        return f'{self._open}],"usage":{usage_json(done)}}}\n\n'
