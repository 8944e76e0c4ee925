"""The events of a response's stream, and its whole body. Each event has a number, and so is made by itself."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from control_plane.contracts.conversation import TurnStatus
from control_plane.contracts.errors import InferDeckError, RequestCancelled
from control_plane.contracts.worker import Done, TokenLogprob
from control_plane.gateway.answer.bodies import Body, Choice
from control_plane.gateway.answer.item_json import text_part
from control_plane.gateway.answer.json_text import quoted
from control_plane.gateway.answer.response_json import ResponseHead, error_json

_DELTA = "response.output_text.delta"


def response_body(head: ResponseHead) -> Body:
    def make(choices: Sequence[Choice], done: Done) -> str:
        status = _ended(choices[0].finish)
        return json.dumps(head.json(status, choices[0].text, done=done, completed_unix=time.time()))

    return make


class ResponseEvents:
    """Of ``/v1/responses``: one message with one part of text."""

    fixed = False
    after = ""

    def __init__(self, head: ResponseHead) -> None:
        self._head = head
        self._number = 0
        self._texts: list[str] = []
        self._status = TurnStatus.IN_PROGRESS
        self._where = f'"item_id":{quoted(head.answer_id)},"output_index":0,"content_index":0'

    def before(self, choice: int) -> str:
        return ""

    def opening(self, choice: int) -> str:
        running = TurnStatus.IN_PROGRESS
        response = self._head.json(running)
        return (
            self._event("response.created", response=response)
            + self._event("response.in_progress", response=response)
            + self._event("response.output_item.added", output_index=0, item=self._head.message(None, running))
            + self._part("response.content_part.added", part=text_part(""))
        )

    def with_logprobs(self, choice: int, text: str, logprobs: Sequence[TokenLogprob]) -> str:
        self._texts.append(text)
        number, self._number = self._number, self._number + 1
        return (
            f'event: {_DELTA}\ndata: {{"type":"{_DELTA}",{self._where},"delta":{quoted(text)},"logprobs":[],'
            f'"sequence_number":{number}}}\n\n'
        )

    def closing(self, choice: int, finish: str) -> str:
        self._status = _ended(finish)
        text = "".join(self._texts)
        return (
            self._part("response.output_text.done", text=text, logprobs=[])
            + self._part("response.content_part.done", part=text_part(text))
            + self._event("response.output_item.done", output_index=0, item=self._head.message(text, self._status))
        )

    def ending(self, done: Done) -> str:
        response = self._head.json(self._status, "".join(self._texts), done=done, completed_unix=time.time())
        return self._event(f"response.{self._status}", response=response)

    def failure(self, error: InferDeckError) -> bytes:
        """The error itself, and the response as far as it came."""
        status = TurnStatus.CANCELLED if isinstance(error, RequestCancelled) else TurnStatus.FAILED
        response = self._head.json(status, "".join(self._texts), error=error_json(error))
        told = self._event("error", code=error.code, message=error.message, param=error.param)
        return (told + self._event("response.failed", response=response)).encode()

    def _part(self, kind: str, **fields: Any) -> str:
        return self._event(kind, item_id=self._head.answer_id, output_index=0, content_index=0, **fields)

    def _event(self, kind: str, **fields: Any) -> str:
        number, self._number = self._number, self._number + 1
        data = {"type": kind, **fields, "sequence_number": number}
        # Escaped throughout, so that it is one line to everyone.
        return f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"


def _ended(finish: str) -> TurnStatus:
    return TurnStatus.INCOMPLETE if finish == "length" else TurnStatus.COMPLETED
