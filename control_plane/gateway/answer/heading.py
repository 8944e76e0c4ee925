"""What every part of one answer has, and what it says of its use of tokens."""

from __future__ import annotations

from dataclasses import dataclass

from control_plane.contracts.worker import Done
from control_plane.gateway.answer.json_text import quoted


@dataclass(frozen=True, slots=True)
class Heading:
    """The same in every chunk of one answer. ``created`` is Unix time in seconds."""

    id: str
    created: int
    model: str
    fingerprint: str

    def json(self, kind: str) -> str:
        """The beginning of an answer's JSON, up to its first choice."""
        return (
            f'{{"id":{quoted(self.id)},"object":"{kind}","created":{self.created},"model":{quoted(self.model)},'
            f'"system_fingerprint":{quoted(self.fingerprint)},"choices":['
        )


def usage_json(done: Done) -> str:
    return (
        f'{{"prompt_tokens":{done.prompt_tokens},"completion_tokens":{done.output_tokens},'
        f'"total_tokens":{done.prompt_tokens + done.output_tokens},'
        f'"prompt_tokens_details":{{"cached_tokens":{done.cached_tokens}}}}}'
    )
