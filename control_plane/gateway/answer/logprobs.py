"""Log probabilities of generated tokens, in the shapes of both routes.

Every generated token has an entry, in the chunk of the step that made it, also when a stop string then cut its text
away. Control tokens (the end of the sequence) have none: they are no text. So the entries' bytes, joined, are the
content and what a stop string cut. A token that is not whole characters is shown with escapes; its ``bytes`` are exact.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from control_plane.contracts.worker import TokenLogprob

FLOOR = -9999.0
"""What stands for the log probability of the impossible, which JSON has no number for."""


def shown(token: bytes) -> str:
    return token.decode("utf-8", "backslashreplace")


def finite(logprob: float) -> float:
    return max(logprob, FLOOR) if logprob == logprob else FLOOR


def text_tokens(entries: Sequence[TokenLogprob], control_ids: frozenset[int]) -> list[TokenLogprob]:
    return [entry for entry in entries if entry.token_id not in control_ids]


def chat_logprobs(entries: Sequence[TokenLogprob]) -> str:
    """``{"content": […], "refusal": null}`` as JSON text."""
    content = [{**_entry(entry), "top_logprobs": [_entry(other) for other in entry.top]} for entry in entries]
    return json.dumps({"content": content, "refusal": None}, separators=(",", ":"))


def completion_logprobs(entries: Sequence[TokenLogprob], offset: int) -> tuple[str, int]:
    """The older shape as JSON text, and the offset in characters at which the next entries begin."""
    tokens = [shown(entry.token) for entry in entries]
    offsets = []
    for token in tokens:
        offsets.append(offset)
        offset += len(token)
    value: dict[str, Any] = {
        "tokens": tokens,
        "token_logprobs": [finite(entry.logprob) for entry in entries],
        "top_logprobs": [{shown(other.token): finite(other.logprob) for other in entry.top} for entry in entries],
        "text_offset": offsets,
    }
    return json.dumps(value, separators=(",", ":")), offset


def _entry(entry: TokenLogprob) -> dict[str, Any]:
    return {"token": shown(entry.token), "logprob": finite(entry.logprob), "bytes": list(entry.token)}
