"""A lesson as it is written: its sandbox, and its steps in order. What happened in one is the player's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from lessons.actions import Action
from lessons.checks import Bounds, Expect
from lessons.measures import Measure

Asks = Literal["number", "choice", "worker"]
View = Literal[
    "workers", "requests", "blocks", "steps", "events", "tokens", "wire", "waterfall", "hops", "client", "conversation"
]


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The platform that a lesson has for itself: one pool called ``w``. Lessons whose sandboxes are equal share it.

    ``routers``: that are processes of their own; 0: its gateway has one inside. ``profile``: how its router chooses at
    first. ``engine_args`` and ``max_context`` are those of a pool's settings; ``policy`` are assignments to its policy,
    as ``inferdeck policy set`` takes them.
    """

    engine: Literal["sim", "vllm"] = "sim"
    replicas: int = 1
    routers: int = 0
    profile: Literal["prefix_aware", "least_load", "balanced", "round_robin"] = "prefix_aware"
    max_context: int = 0
    engine_args: Mapping[str, Any] = field(default_factory=dict)
    policy: tuple[str, ...] = ()

    @property
    def runs_on(self) -> str:
        """For whoever asks before there is a platform that says it."""
        return "the simulator" if self.engine == "sim" else "real vLLM"


@dataclass(frozen=True, slots=True)
class Words:
    """Markdown of one step: what is said before it, screen by screen, hints from the gentlest on, and the answer."""

    pages: tuple[str, ...]
    hints: tuple[str, ...] = ()
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Option:
    """One of several answers. Of a quiz, ``right`` or not; of a prediction, right where what was measured is within
    ``bounds``. ``says`` is for who chose it and is wrong."""

    text: str
    says: str = ""
    right: bool = False
    bounds: Bounds = field(default_factory=Bounds)


@dataclass(frozen=True, slots=True)
class Measuring:
    """A measure under the name by which predictions and later measures know it; ``label`` is for people."""

    name: str
    label: str
    measure: Measure


@dataclass(frozen=True, slots=True)
class Reveal:
    """Something said, an idea a screen."""

    kind: ClassVar[str] = "reveal"
    id: str
    words: Words


@dataclass(frozen=True, slots=True)
class Show:
    """A view of the sandbox as it is now. ``of`` names a worker where the view is of one; the calls whose last one is
    shown, as it went over the wire, its waterfall, or the way of its tokens; a conversation; or is the text whose
    tokens are shown."""

    kind: ClassVar[str] = "show"
    id: str
    words: Words
    view: View
    of: str = ""
    concepts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Do:
    """Actions that the learner sets off."""

    kind: ClassVar[str] = "do"
    id: str
    words: Words
    actions: tuple[Action, ...]
    expects: tuple[Expect, ...] = ()
    concepts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Predict:
    """``about`` is the observe step that will tell, ``value`` the name of the measure there. ``reference`` is what a
    thoughtful learner might say. A number counts as close when it is off by no more than the fraction ``within``."""

    kind: ClassVar[str] = "predict"
    id: str
    words: Words
    about: str
    value: str
    unit: str
    asks: Asks
    reference: str
    options: tuple[Option, ...] = ()
    within: float = 0.25


@dataclass(frozen=True, slots=True)
class Observe:
    """An experiment: actions, then what was measured while they ran."""

    kind: ClassVar[str] = "observe"
    id: str
    words: Words
    actions: tuple[Action, ...]
    measures: tuple[Measuring, ...]
    expects: tuple[Expect, ...] = ()
    concepts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """Something that the learner has to bring about by whatever means. ``probe`` runs before each look;
    ``reference`` are actions that do it."""

    kind: ClassVar[str] = "check"
    id: str
    words: Words
    expects: tuple[Expect, ...]
    reference: tuple[Action, ...]
    probe: tuple[Action, ...] = ()
    concepts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Quiz:
    """A question with one right answer among several."""

    kind: ClassVar[str] = "quiz"
    id: str
    words: Words
    options: tuple[Option, ...]


Step = Reveal | Show | Do | Predict | Observe | Check | Quiz

Live = Show | Do | Observe | Check
"""The steps on the running system. Their ``concepts`` are those that they show: numbers of ``CONCEPTS``, from 1."""

KINDS: dict[str, type[Step]] = {kind.kind: kind for kind in (Reveal, Show, Do, Predict, Observe, Check, Quiz)}


@dataclass(frozen=True, slots=True)
class Lesson:
    """``name`` is its folder's, like ``07-worker-selection``. ``seed`` decides lengths' order and arrivals, so a class
    with the same seed sees like numbers."""

    name: str
    folder: Path
    title: str
    about: str
    minutes: int
    seed: int
    sandbox: Sandbox
    steps: tuple[Step, ...]

    @property
    def number(self) -> int:
        return int(self.name.partition("-")[0])

    @property
    def concepts(self) -> tuple[int, ...]:
        """Those of its steps, in the steps' order."""
        return tuple(dict.fromkeys(each for step in self.steps if isinstance(step, Live) for each in step.concepts))

    def step(self, step_id: str) -> Step:
        return next(step for step in self.steps if step.id == step_id)
