"""What was seen of a sandbox since a moment: the one thing that measures and checks look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from control_plane.contracts.fleet import Event, RequestView, Snapshot
from control_plane.contracts.sizing.plan import Plan
from control_plane.contracts.step import BlockSnapshot, EngineStep
from lessons.conversation import ItemSeen
from lessons.encoded import BothForms
from lessons.hops import TokenHops

Value = float | str
"""A number in its measure's unit, or a word: a worker's id, an error's code."""


@dataclass(frozen=True, slots=True)
class CallSeen:
    """One call as its client saw it, and what the platform says of the same request.

    ``error`` is the code that the client was told, empty where there was none; ``left``: the client closed the stream
    itself. Durations are seconds of the client's stopwatch; ``gaps_s`` lie between pieces of text. ``worker_id`` is
    the last one that had it, empty where none had; ``retries``: how often it went on at another. ``status`` is HTTP's,
    0 where there was no answer; the names in ``headers`` are in lower case. ``events``: those of a stream, with the
    last one that says that it is over; 0 where the answer came in one piece. ``finish``: why the answer ended.
    ``stages_s``: where its time went, in seconds, in their order. ``request_id`` is the call's name in the platform,
    and in engine steps. ``hops``: the way of each of its tokens, where it asked for that. Of a call in a conversation:
    its name, what was ``asked``, and the text that was ``heard``.
    """

    name: str
    ok: bool
    error: str = ""
    left: bool = False
    ttft_s: float | None = None
    gaps_s: tuple[float, ...] = ()
    duration_s: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    worker_id: str = ""
    retries: int = 0
    request_id: str = ""
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    events: int = 0
    finish: str = ""
    stages_s: Mapping[str, float] = field(default_factory=dict)
    hops: tuple[TokenHops, ...] = ()
    conversation: str = ""
    asked: str = ""
    heard: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """``snapshot`` and ``blocks`` are now; ``calls`` (those that ended), ``requests`` (all that the platform had,
    whoever made them), ``steps`` and ``events`` came since the moment that was marked. ``lost_steps``: so many of them
    were not kept. ``measured``: what this lesson measured before, by name; ``plans``: what was worked out since, by
    name; ``encoded``: the requests that were written and read since, by their calls' name. ``conversations`` are those
    of the calls, read back now, by name. ``running``: the names of the calls that have not ended."""

    snapshot: Snapshot
    calls: tuple[CallSeen, ...] = ()
    steps: Mapping[str, tuple[EngineStep, ...]] = field(default_factory=dict)
    blocks: Mapping[str, BlockSnapshot] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    profile: str = ""
    lost_steps: int = 0
    requests: tuple[RequestView, ...] = ()
    measured: Mapping[str, Value | None] = field(default_factory=dict)
    plans: Mapping[str, Plan] = field(default_factory=dict)
    encoded: Mapping[str, BothForms] = field(default_factory=dict)
    conversations: Mapping[str, tuple[ItemSeen, ...]] = field(default_factory=dict)
    running: tuple[str, ...] = ()
