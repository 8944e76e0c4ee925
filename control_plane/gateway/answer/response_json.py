"""A response as OpenAI's Responses API has it, while it runs and when it has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from control_plane.contracts.conversation import Turn, TurnStatus
from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.worker import Done
from control_plane.gateway.answer.item_json import text_part

# OpenAI's word for each error of ours that a response can end in; our own is in its message.
_SERVER_ERROR = "server_error"


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """What does not change while a response runs. ``settings`` are what it tells of its request."""

    id: str
    created_unix: float
    model: str
    answer_id: str
    conversation_id: str
    previous_id: str
    settings: Mapping[str, Any]

    def json(
        self,
        status: TurnStatus,
        text: str | None = None,
        *,
        done: Done | None = None,
        completed_unix: float | None = None,
        error: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """``text`` None: nothing was said."""
        told = self.settings
        return {
            "id": self.id,
            "object": "response",
            "created_at": int(self.created_unix),
            "status": str(status),
            "completed_at": int(completed_unix) if completed_unix and status is TurnStatus.COMPLETED else None,
            "background": False,
            "error": error,
            "incomplete_details": {"reason": "max_output_tokens"} if status is TurnStatus.INCOMPLETE else None,
            "instructions": told.get("instructions"),
            "max_output_tokens": told.get("max_output_tokens"),
            "model": self.model,
            "output": [] if text is None else [self.message(text, status)],
            "parallel_tool_calls": False,
            "previous_response_id": self.previous_id or None,
            "conversation": {"id": self.conversation_id} if self.conversation_id else None,
            "reasoning": {"effort": None, "summary": None},
            "safety_identifier": told.get("safety_identifier"),
            "service_tier": "default",
            "store": told.get("store", True),
            "temperature": told.get("temperature", 1.0),
            "text": {"format": {"type": "text"}, **told.get("text", {})},
            "tool_choice": "none",
            "tools": [],
            "top_p": told.get("top_p", 1.0),
            "truncation": "disabled",
            "usage": None if done is None else usage(done),
            "user": told.get("user"),
            "metadata": told.get("metadata", {}),
        }

    def message(self, text: str | None, status: TurnStatus) -> dict[str, Any]:
        """The output item; ``text`` None: its text has not begun."""
        return {
            "id": self.answer_id,
            "type": "message",
            "role": "assistant",
            "status": status.of_item,
            "content": [] if text is None else [text_part(text)],
        }


def usage(done: Done) -> dict[str, Any]:
    return {
        "input_tokens": done.prompt_tokens,
        "input_tokens_details": {"cached_tokens": done.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": done.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": done.prompt_tokens + done.output_tokens,
    }


def error_json(error: InferDeckError) -> dict[str, Any]:
    return {"code": _SERVER_ERROR, "message": f"{error.message} ({error.code})"}


def stored_response(turn: Turn) -> dict[str, Any]:
    """A response that is read from the store."""
    head = ResponseHead(
        turn.id,
        turn.created_unix,
        turn.model,
        turn.answer_id,
        turn.conversation_id,
        turn.previous_id,
        turn.settings,
    )
    done = Done(turn.prompt_tokens, turn.cached_tokens, turn.output_tokens) if turn.prompt_tokens else None
    error = None
    if turn.status is TurnStatus.FAILED:
        error = {"code": _SERVER_ERROR, "message": f"The response ended before it was whole ({turn.reason})."}
    said = turn.answer is not None and turn.status is not TurnStatus.IN_PROGRESS
    text = turn.answer.text if said and turn.answer is not None else None
    return head.json(turn.status, text, done=done, completed_unix=turn.ended_unix, error=error)
