"""The events of a stream, made by joining text: one is made for every token.

``Events`` is one call's. Its methods give events ready to send.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from control_plane.contracts.worker import Done, TokenLogprob
from control_plane.gateway.answer.heading import Heading, usage_json
from control_plane.gateway.answer.json_text import quoted
from control_plane.gateway.answer.logprobs import ChatLogprobs, CompletionLogprobs

DONE_EVENT = b"data: [DONE]\n\n"


class Events(Protocol):
    @property
    def after(self) -> str:
        """What follows the quoted text in an event of plain text; ``before`` is what comes before it."""
        ...

    def before(self, choice: int) -> str: ...

    def opening(self, choice: int) -> str:
        """The event that opens a choice; empty where there is nothing to say."""
        ...

    def with_logprobs(self, choice: int, text: str, logprobs: Sequence[TokenLogprob]) -> str: ...

    def closing(self, choice: int, finish: str) -> str: ...

    def usage(self, done: Done) -> str:
        """The event that has no choices but what the call used."""
        ...


class ChatEvents:
    """Of ``/v1/chat/completions``."""

    def __init__(self, heading: Heading, *, with_usage: bool) -> None:
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

    def usage(self, done: Done) -> str:
        return f'{self._open}],"usage":{usage_json(done)}}}\n\n'


class CompletionEvents:
    """Of ``/v1/completions``. ``echo`` is text that comes before what is generated."""

    def __init__(self, heading: Heading, *, with_usage: bool, echo: str = "") -> None:
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

    def usage(self, done: Done) -> str:
        return f'{self._open}],"usage":{usage_json(done)}}}\n\n'
