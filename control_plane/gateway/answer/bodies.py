"""Whole answers as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from control_plane.contracts.worker import Done
from control_plane.gateway.answer.heading import Heading, usage_json
from control_plane.gateway.answer.json_text import quoted
from control_plane.gateway.answer.logprobs import Logprobs


@dataclass(slots=True)
class Choice:
    """One whole choice. ``logprobs`` None: not asked for."""

    text: str
    finish: str
    logprobs: Logprobs | None


Body = Callable[[Sequence[Choice], Done], str]


def chat_body(heading: Heading) -> Body:
    """Bodies of ``/v1/chat/completions``."""

    def make(choices: Sequence[Choice], done: Done) -> str:
        parts = ",".join(
            f'{{"index":{index},"message":{{"role":"assistant","content":{quoted(choice.text)},"refusal":null}},'
            f'"logprobs":{"null" if choice.logprobs is None else choice.logprobs.json()},'
            f'"finish_reason":"{choice.finish}"}}'
            for index, choice in enumerate(choices)
        )
        return f'{heading.json("chat.completion")}{parts}],"usage":{usage_json(done)}}}'

    return make


def completion_body(heading: Heading, echo: str = "") -> Body:
    """Bodies of ``/v1/completions``; ``echo`` is text that comes before what is generated."""

    def make(choices: Sequence[Choice], done: Done) -> str:
        parts = ",".join(
            f'{{"index":{index},"text":{quoted(echo + choice.text)},'
            f'"logprobs":{"null" if choice.logprobs is None else choice.logprobs.json()},'
            f'"finish_reason":"{choice.finish}"}}'
            for index, choice in enumerate(choices)
        )
        return f'{heading.json("text_completion")}{parts}],"usage":{usage_json(done)}}}'

    return make
