"""What came since a lesson began: a platform has a past, of other lessons, of those who tried, and of its own start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from console.tui.live.board import View
from control_plane.contracts.fleet import Snapshot, WorkerView


@dataclass(frozen=True, slots=True)
class Since:
    """``at`` is the platform's wall clock when the lesson began; ``tokens`` what each worker had computed until it, or
    its last experiment, did: its start, prompt tokens, and those out of its cache."""

    at: float = 0.0
    tokens: Mapping[str, tuple[str, int, int]] = field(default_factory=dict)

    @classmethod
    def found(cls, snapshot: Snapshot | None) -> Self:
        """A platform that nobody looked at has no past."""
        return cls() if snapshot is None else cls(snapshot.taken_unix).counted(snapshot.workers)

    def counted(self, workers: Iterable[WorkerView]) -> Self:
        """Hits are those from now on, of workers that are as these."""
        return replace(self, tokens={worker.id: _tokens(worker) for worker in workers})

    def of(self, view: View) -> View:
        """Without the requests and events of before."""
        snapshot = view.snapshot
        if not self.at or snapshot is None:
            return view
        requests = tuple(request for request in snapshot.requests if request.arrival_unix >= self.at)
        events = tuple(event for event in view.events if event.at_unix >= self.at)
        return replace(view, snapshot=replace(snapshot, requests=requests), events=events)

    def hits(self, worker: WorkerView) -> float | None:
        """The share of its prompt tokens that came out of its cache; None while there were none."""
        instance, prompt, cached = _tokens(worker)
        begun, prompt_before, cached_before = self.tokens.get(worker.id, ("", 0, 0))
        if begun == instance:
            prompt, cached = prompt - prompt_before, cached - cached_before
        return cached / prompt if prompt > 0 else None


def _tokens(worker: WorkerView) -> tuple[str, int, int]:
    load = worker.load
    return (load.instance_id, load.prompt_tokens, load.cached_tokens) if load is not None else ("", 0, 0)
