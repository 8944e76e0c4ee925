"""What a gateway says of the model that a call would go to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from console.home import Unreachable
from console.http import Broken, Connections, Endpoint
from control_plane.contracts.errors import InferDeckError, InvalidRequest, NotFound, Unauthenticated, from_reason
from control_plane.contracts.model_choice import OVERRIDE, ModelChoice, Score, ScorePart

_AUTO = "auto"
_AUTO_HINT = "inferdeck policy set routing.models.auto.small=MODEL routing.models.auto.large=MODEL"
"""Nobody has a model called auto before the policy says what it chooses from."""


@dataclass(frozen=True, slots=True)
class WouldBe:
    """``data`` is the answer as it came."""

    choice: ModelChoice
    ready_workers: int
    price_per_hour: float | None
    data: Mapping[str, Any]


async def ask(endpoint: Endpoint, key: str, body: Mapping[str, Any], override: str | None = None) -> WouldBe:
    """Raises the gateway's refusal, or Unreachable."""
    heard = _Whole()
    connections = Connections(endpoint)
    headers = {OVERRIDE: override} if override is not None else {}
    try:
        await connections.ask(endpoint.request("POST", "/route", key, body, headers), heard)
    except Broken as error:
        raise Unreachable(f"{endpoint.url} ended the connection: {error}") from None
    finally:
        connections.close()
    try:
        answer = json.loads(heard.data)
    except ValueError:
        raise InferDeckError(f"{endpoint.url}/route answers HTTP {heard.status}, and no JSON") from None
    if heard.status != 200:
        raise _refusal(answer, heard.status, endpoint, str(body.get("model")))
    score = answer["score"]
    choice = ModelChoice(
        asked=answer["asked"],
        model=answer["model"],
        reason=answer["reason"] or "",
        instead_of=answer["instead_of"] or "",
        threshold=answer["threshold"] or 0.0,
        score=None if score is None else Score(score["total"], tuple(ScorePart(**part) for part in score["parts"])),
    )
    return WouldBe(choice, answer["ready_workers"], answer["price_per_hour"], answer)


def _refusal(answer: Any, status: int, endpoint: Endpoint, asked: str) -> InferDeckError:
    told = answer.get("error") if isinstance(answer, dict) else None
    code, message = (told.get("code"), told.get("message")) if isinstance(told, dict) else (None, None)
    words = f"{message or 'refused'} (HTTP {status}{f', {code}' if code else ''})"
    if status in (401, 403):
        return Unauthenticated(words, hint="--api-key-file FILE")
    if status == 404 and asked == _AUTO:
        return NotFound(words, hint=_AUTO_HINT)
    if status == 404:
        return NotFound(words, hint="inferdeck get models")
    if status == 400:
        return InvalidRequest(words, hint="inferdeck get models")
    return from_reason(str(code), f"{endpoint.url}: {words}")


class _Whole:
    def __init__(self) -> None:
        self.status = 0
        self.data = bytearray()

    def head(self, status: int, headers: dict[str, str], at: float) -> None:
        self.status = status

    def body(self, data: bytes, at: float) -> None:
        self.data += data
