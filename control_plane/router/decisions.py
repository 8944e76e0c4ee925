"""The last decisions of a router: kept in a ring, told and scored again when somebody asks. Pure."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from control_plane.contracts.decision import (
    DECISIONS_KEPT,
    CandidateView,
    DecisionAnswer,
    DecisionQuestion,
    DecisionView,
    RejectedView,
)
from control_plane.contracts.routing import RoutingProfile
from control_plane.router.scheduling.candidate import Ask, Candidate
from control_plane.router.scheduling.kept import COPIED, Attempt, Kept, Values, keep
from control_plane.router.scheduling.pickers import chances
from control_plane.router.scheduling.profile import Decision, Profile
from control_plane.router.scheduling.reasons import reason_words
from control_plane.router.scheduling.rescoring import rescored

_NO_INPUT: Final = frozenset(
    {
        "worker_id",
        "instance_id",
        "model",
        "ready",
        "cordoned",
        "connected",
        "refusing_until",
        "sampled_mono",
        "slot",
        "block_size",
    }
)
"""What filters read, or is told otherwise."""


class Decisions:
    """``counts`` are all decisions that picked somebody, by model, profile and worker; ``left_out`` how often an
    endpoint was left out of a decision, by model and reason. One that waits, and looks again, counts once.

    A request that finds nobody looks again and again: of those decisions only the newest is kept, beside the ring.
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.left_out: Counter[tuple[str, str]] = Counter()
        self._ring: deque[Kept] = deque()
        self._of: dict[str, deque[Kept]] = {}
        self._waiting: OrderedDict[str, Kept] = OrderedDict()
        self._number = 0

    def __len__(self) -> int:
        return len(self._ring)

    @property
    def last(self) -> Kept:
        """The newest one that picked somebody; there is one."""
        return self._ring[-1]

    def looks(self, request_id: str) -> int:
        """How often this request has found nobody since it was sent somewhere last."""
        waiting = self._waiting.get(request_id)
        return waiting.attempt.looks + 1 if waiting is not None else 0

    def keep(self, attempt: Attempt, profile: Profile, ask: Ask, decision: Decision, now: float) -> None:
        """To be called before anything else changes the candidates."""
        self._number += 1
        kept = keep(self._number, attempt, profile, ask, decision, now)
        request_id = attempt.request_id
        waiting = self._waiting.pop(request_id, None)
        if kept.chosen or waiting is None:
            for reason, count in kept.rejected_by.items():
                self.left_out[ask.model, reason] += count
        if not kept.chosen:
            self._waiting[request_id] = kept
            if len(self._waiting) > DECISIONS_KEPT:
                self._waiting.popitem(last=False)
            return
        self.counts[ask.model, profile.name, kept.chosen] += 1
        if waiting is not None:
            self._add(waiting)
        self._add(kept)

    def _add(self, kept: Kept) -> None:
        self._ring.append(kept)
        self._of.setdefault(kept.attempt.request_id, deque()).append(kept)
        if len(self._ring) > DECISIONS_KEPT:
            request_id = self._ring.popleft().attempt.request_id
            mine = self._of[request_id]
            mine.popleft()
            if not mine:
                del self._of[request_id]

    def of(self, request_id: str) -> Sequence[Kept]:
        """Every decision about this request that is kept, oldest first."""
        waiting = self._waiting.get(request_id)
        return [*self._of.get(request_id, ()), *([waiting] if waiting is not None else [])]

    def newest(self, count: int, after: int = 0) -> Sequence[Kept]:
        """The newest so many, those that wait included, of those with a greater number than ``after``, oldest first.
        An ``after`` that has not come yet is of an earlier router of this name, and counts for nothing."""
        after = after if after <= self._number else 0
        fresh = [kept for kept in islice(reversed(self._ring), count) if kept.number > after]
        fresh += [kept for kept in islice(reversed(self._waiting.values()), count) if kept.number > after]
        return sorted(fresh, key=lambda kept: kept.number)[-count:]


def answering(decisions: Decisions, router_id: str, question: DecisionQuestion) -> Callable[[], DecisionAnswer]:
    """What has to be looked up is looked up now; the rest, which takes its time, may be done on another thread."""
    count = min(question.last, DECISIONS_KEPT) if question.last else DECISIONS_KEPT
    if question.request_id:
        found = decisions.of(question.request_id)
    elif question.again is None:
        found = decisions.newest(count, question.after)
    else:
        found = [kept for kept in decisions.newest(DECISIONS_KEPT, question.after) if kept.chosen][-count:]
    return lambda: _answer(found, router_id, question)


def _answer(found: Sequence[Kept], router_id: str, question: DecisionQuestion) -> DecisionAnswer:
    if question.again is None:
        views = tuple(decision_view(kept, router_id, question.candidates) for kept in found)
        return DecisionAnswer(question.number, views)
    try:
        return DecisionAnswer(question.number, rescored=rescored(router_id, found, question.again))
    except KeyError as error:
        return DecisionAnswer(question.number, error=f"this router does not know {error.args[0]}")


def decision_view(kept: Kept, router_id: str, most: int = 0) -> DecisionView:
    """The decision as operators see it; ``most``: at most so many candidates of each kind, 0 is all. Who was picked is
    always among them."""
    attempt, profile = kept.attempt, kept.profile
    rows = [index for index, row in enumerate(kept.rows) if not most or index < most or row[0] == kept.chosen]
    odds = _odds(kept)
    return DecisionView(
        number=kept.number,
        router_id=router_id,
        request_id=attempt.request_id,
        attempt=attempt.number,
        at_unix=attempt.at_unix,
        model=kept.ask.model,
        profile=profile.name,
        by=RoutingProfile(
            {scorer.name: weight for scorer, weight in profile.scorers}, profile.picker.name, profile.temperature
        ),
        scorers=tuple(scorer.name for scorer, _ in profile.scorers) if kept.rows else (),
        candidates=tuple(_candidate_view(kept, index, odds[index]) for index in rows),
        more_candidates=kept.candidates - len(rows),
        rejected=tuple(
            RejectedView(values[0], reason, reason_words(reason, kept.ask, Candidate(*values), kept.now))
            for reason, values in kept.left_out[: most or None]
        ),
        rejected_by=kept.rejected_by,
        chosen=kept.chosen,
        waited_s=attempt.waited_s,
        looks=attempt.looks + 1,
        prompt_tokens=kept.ask.prompt_tokens,
        expected_tokens=kept.ask.expected_tokens,
        continued_tokens=attempt.continued,
    )


def _odds(kept: Kept) -> Sequence[float]:
    temperature = kept.profile.temperature
    return chances(kept.totals, temperature) if temperature and kept.totals else [0.0] * len(kept.totals)


def _candidate_view(kept: Kept, index: int, chance: float) -> CandidateView:
    values = kept.rows[index]
    candidate = Candidate(*values)
    return CandidateView(
        worker_id=candidate.worker_id,
        instance_id=candidate.instance_id,
        scores=tuple(column[index] for column in kept.columns),
        total=kept.totals[index],
        chance=chance,
        sample_age_s=max(0.0, kept.now - candidate.sampled_mono) if candidate.sampled_mono else None,
        stale=not candidate.fresh(kept.now),
        inputs=dict(_inputs(values)) | _cached(kept, candidate),
    )


def _cached(kept: Kept, candidate: Candidate) -> dict[str, float]:
    """Tokens of the prompt that it was believed to have cached, where anybody was."""
    return {"cached_tokens": float(kept.ask.cached_at(candidate))} if kept.ask.cached else {}


def _inputs(values: Values) -> Iterator[tuple[str, float]]:
    for name, value in zip(COPIED, values, strict=True):
        if name not in _NO_INPUT and isinstance(value, int | float):
            yield name, float(value)
