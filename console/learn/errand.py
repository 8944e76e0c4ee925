"""A call of the gateway that generates nothing, and is answered with JSON."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from console.completion import Answer, Body
from console.http import Connections, Endpoint
from control_plane.contracts.errors import InferDeckError

TRIES: Final = 5
RETRY_S: Final = 1.0
"""A 503 passes: a platform that has just begun may not have read its keys yet."""


async def errand(endpoint: Endpoint, path: str, key: str, body: Body | None = None) -> dict[str, Any]:
    """Without a body it only reads. Raises Unreachable, or InferDeckError for what is refused."""
    connections = Connections(endpoint)
    try:
        for _ in range(TRIES):
            answer = Answer()
            await answer.run(connections, path, key, body)
            if answer.status != 503:
                break
            await asyncio.sleep(RETRY_S)
    finally:
        connections.close()
    if answer.status != 200:
        raise InferDeckError(answer.error_message or f"{path} answers HTTP {answer.status}")
    told: dict[str, Any] = json.loads(answer.raw)
    return told
