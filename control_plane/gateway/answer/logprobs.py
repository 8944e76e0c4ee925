"""Log probabilities of generated tokens, in the shapes of both routes.

Every generated token has an entry, in the chunk of the step that made it, also when a stop string then cut its text
away. Control tokens (the end of the sequence) have none: they are no text. So the entries' bytes, joined, are the
content and what a stop string cut. A token that is not whole characters is shown with escapes; its ``bytes`` are exact.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

from control_plane.contracts.worker import TokenLogprob

FLOOR = -9999.0
"""What stands for the log probability of the impossible, which JSON has no number for."""


_dumps = json.JSONEncoder(separators=(",", ":")).encode


def shown(token: bytes) -> str:
    return token.decode("utf-8", "backslashreplace")


def finite(logprob: float) -> float:
    return max(logprob, FLOOR) if logprob == logprob else FLOOR


def text_tokens(entries: Sequence[TokenLogprob], control_ids: frozenset[int]) -> list[TokenLogprob]:
    return [entry for entry in entries if entry.token_id not in control_ids]


class Logprobs(Protocol):
    """Those of one choice, made into JSON as they come: all at once, many would keep the loop from everyone else."""

    def add(self, entries: Sequence[TokenLogprob]) -> None: ...

    def json(self) -> str: ...


class ChatLogprobs:
    """``{"content": […], "refusal": null}``."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Sequence[TokenLogprob] = ()) -> None:
        self._entries: list[str] = []
        self.add(entries)

    def add(self, entries: Sequence[TokenLogprob]) -> None:
        self._entries += [
            _dumps({**_entry(entry), "top_logprobs": [_entry(other) for other in entry.top]}) for entry in entries
        ]

    def json(self) -> str:
        return f'{{"content":[{",".join(self._entries)}],"refusal":null}}'


class CompletionLogprobs:
    """The older shape. ``offset`` is the one in characters at which the next entry begins."""

    __slots__ = ("_logprobs", "_offsets", "_tokens", "_tops", "offset")

    def __init__(self, entries: Sequence[TokenLogprob] = (), offset: int = 0) -> None:
        self.offset = offset
        self._tokens: list[str] = []
        self._logprobs: list[str] = []
        self._tops: list[str] = []
        self._offsets: list[str] = []
        self.add(entries)

    def add(self, entries: Sequence[TokenLogprob]) -> None:
        for entry in entries:
            token = shown(entry.token)
            self._tokens.append(_dumps(token))
            self._logprobs.append(_dumps(finite(entry.logprob)))
            self._tops.append(_dumps({shown(other.token): finite(other.logprob) for other in entry.top}))
            self._offsets.append(str(self.offset))
            self.offset += len(token)

    def json(self) -> str:
        columns = {
            "tokens": self._tokens,
            "token_logprobs": self._logprobs,
            "top_logprobs": self._tops,
            "text_offset": self._offsets,
        }
        return "{" + ",".join(f'"{name}":[{",".join(column)}]' for name, column in columns.items()) + "}"


def _entry(entry: TokenLogprob) -> dict[str, Any]:
    return {"token": shown(entry.token), "logprob": finite(entry.logprob), "bytes": list(entry.token)}
