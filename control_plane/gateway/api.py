"""What one API of generation has of its own: how its bodies are read, and how its answers are told.

Everything between, from the tokenizer to the router, is the same for all: ``calls.py``.
"""

from __future__ import annotations

from typing import Any, Protocol

from control_plane.contracts.errors import InvalidRequest
from control_plane.gateway.answer.bodies import Body, chat_body, completion_body
from control_plane.gateway.answer.events import ChatEvents, CompletionEvents, Events
from control_plane.gateway.answer.heading import Heading
from control_plane.gateway.answer.logprobs import ChatLogprobs, CompletionLogprobs, Logprobs
from control_plane.gateway.answer.response_events import ResponseEvents, response_body
from control_plane.gateway.answer.response_json import ResponseHead
from control_plane.gateway.prompt.model_prompt import ModelPrompt
from control_plane.gateway.schema.generation import Generation, read_chat, read_completion
from control_plane.gateway.schema.responses import read_response
from control_plane.gateway.schema.thread import Thread

_MESSAGE_CHARACTERS = 64
"""What rendering a message costs beside its text, as characters of text."""


class Api(Protocol):
    """``name`` is what router, logs and metrics call it, ``param`` the field that its prompt is in."""

    @property
    def name(self) -> str: ...

    @property
    def param(self) -> str: ...

    @property
    def logprobs(self) -> type[Logprobs]:
        """The shape of log probabilities in a whole answer."""
        ...

    def read(self, body: dict[str, Any]) -> Generation:
        """Raises InvalidRequest."""
        ...

    def answer_id(self, request_id: str, generation: Generation) -> str: ...

    def characters(self, generation: Generation) -> int:
        """How much text there is to tokenise."""
        ...

    def tokenise(self, prompt: ModelPrompt, generation: Generation) -> list[int]:
        """Called in a thread. Raises InvalidRequest."""
        ...

    def events(self, heading: Heading, generation: Generation, prompt: ModelPrompt) -> Events: ...

    def body(self, heading: Heading, generation: Generation, prompt: ModelPrompt) -> Body: ...


class _OfMessages:
    logprobs: type[Logprobs] = ChatLogprobs

    def characters(self, generation: Generation) -> int:
        messages = generation.messages
        size = sum(_MESSAGE_CHARACTERS + len(message["content"]) for message in messages)
        if generation.tools or any("tool_calls" in message for message in messages):
            size += generation.body_bytes
        return size

    def tokenise(self, prompt: ModelPrompt, generation: Generation) -> list[int]:
        return prompt.chat(generation.messages, generation.tools)


class ResponsesApi(_OfMessages):
    """``/v1/responses``: one answer of text."""

    name = "responses"
    param = "input"

    def read(self, body: dict[str, Any]) -> Generation:
        return read_response(body)

    def answer_id(self, request_id: str, generation: Generation) -> str:
        return _thread(generation).turn_id

    def tokenise(self, prompt: ModelPrompt, generation: Generation) -> list[int]:
        told = [{"role": "system", "content": generation.instructions}] if generation.instructions else []
        try:
            return prompt.chat(told + generation.messages)
        except InvalidRequest as error:
            if error.param == "messages":
                error.param = self.param
            raise

    def events(self, heading: Heading, generation: Generation, prompt: ModelPrompt) -> Events:
        return ResponseEvents(_head(heading, generation))

    def body(self, heading: Heading, generation: Generation, prompt: ModelPrompt) -> Body:
        return response_body(_head(heading, generation))


def _thread(generation: Generation) -> Thread:
    assert generation.thread is not None
    return generation.thread


def _head(heading: Heading, generation: Generation) -> ResponseHead:
    thread = _thread(generation)
    return ResponseHead(
        heading.id,
        heading.created,
        heading.model,
        thread.answer_id,
        thread.conversation_id,
        thread.previous_id,
        thread.settings,
    )


class ChatApi(_OfMessages):
    name = "chat"
    param = "messages"

    def read(self, body: dict[str, Any]) -> Generation:
        return read_chat(body)

    def answer_id(self, request_id: str, generation: Generation) -> str:
        return f"chatcmpl-{request_id}"

    def events(self, heading: Heading, generation: Generation, prompt: ModelPrompt) -> Events:
        return ChatEvents(heading, with_usage=generation.include_usage)

    def body(self, heading: Heading, generation: Generation, prompt: ModelPrompt) -> Body:
        return chat_body(heading)


class CompletionApi:
    name = "completions"
    param = "prompt"
    logprobs: type[Logprobs] = CompletionLogprobs

    def read(self, body: dict[str, Any]) -> Generation:
        return read_completion(body)

    def answer_id(self, request_id: str, generation: Generation) -> str:
        return f"cmpl-{request_id}"

    def characters(self, generation: Generation) -> int:
        return len(generation.prompt)

    def tokenise(self, prompt: ModelPrompt, generation: Generation) -> list[int]:
        ids = prompt.completion(generation.prompt)
        if generation.echo:
            generation.echoed = prompt.text_of(generation.prompt)
        return ids

    def events(self, heading: Heading, generation: Generation, prompt: ModelPrompt) -> Events:
        return CompletionEvents(heading, with_usage=generation.include_usage, echo=generation.echoed)

    def body(self, heading: Heading, generation: Generation, prompt: ModelPrompt) -> Body:
        return completion_body(heading, generation.echoed)


CHAT = ChatApi()
COMPLETIONS = CompletionApi()
RESPONSES = ResponsesApi()
