"""What a lesson may do to its sandbox: a small vocabulary of actions with parameters.

In a lesson file an action is a table with ``do`` and the parameters, which are the fields below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from lessons.crash_action import Crash
from lessons.key_actions import MakeKey, SetKey
from lessons.plan_action import PlanOf

POOL = "w"
"""The sandbox's one pool; its workers are ``w-1``, ``w-2``, …"""

ROUNDS: Final = 300
"""How often a request is written and read."""

NO_KEYS: Final = ("none", "wrong")
"""What a call may name instead of a key: none at all, and one that nobody ever made."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of call: ``name`` is what measures ask for, lengths are tokens. Prompts are new every time, unless
    ``prefix_tokens`` say how many at their beginning are the same in all calls of the same name; with ``prefixes`` the
    calls of a name have so many beginnings in turn. Each experiment, and each run of one, has others. ``prefix_of``:
    the beginnings are those that the name's calls had last.

    ``leave_after``: the client closes the stream after so many pieces of text; 0 stays to the end. ``stream`` false:
    the answer comes in one piece. ``tier``: whose key it is made with; without one, the sandbox's own. ``key``: one
    that the lesson makes, by its name, or one of ``NO_KEYS``.

    ``api`` "models" asks for the list of models, and nothing else counts. ``text`` is asked instead of token ids, and
    answered greedily, so that every learner reads the same; a chat needs it. ``model``: the name that is asked for;
    without one, the sandbox's model. ``ignore_eos`` false: the answer may end before ``output_tokens``, but for its
    first ``min_tokens``. ``hops``: the way of each of its tokens is wanted; a stream asks the gateway for it.

    ``conversation``: the name of one that a chat goes on with, and is kept in. The first call that names it makes it;
    where an experiment runs again, what it asks is asked where it was asked first.
    """

    name: str
    prompt_tokens: int = 32
    output_tokens: int = 32
    prefix_tokens: int = 0
    prefixes: int = 1
    prefix_of: str = ""
    leave_after: int = 0
    stream: bool = True
    tier: Literal["", "enterprise", "paid", "free"] = ""
    key: str = ""
    api: Literal["completions", "chat", "models"] = "completions"
    text: str = ""
    model: str = ""
    ignore_eos: bool = True
    hops: bool = False
    min_tokens: int = 0
    conversation: str = ""


@dataclass(frozen=True, slots=True)
class Calls:
    """``count`` calls of these shapes, one shape after the other and again from the first. ``at_once`` at a time, each
    next one when one ends; or, with ``rate``, so many a second, whatever runs.

    ``background``: go on once the first ``at_once`` of them are in the platform, or with ``heard`` once each of these
    has its first text; otherwise, when the last has ended.
    """

    word: ClassVar[str] = "calls"
    lasting: ClassVar[bool] = False

    calls: tuple[Shape, ...]
    count: int = 1
    at_once: int = 1
    rate: float = 0.0
    background: bool = False
    heard: bool = False

    def told(self) -> str:
        names = " and ".join(dict.fromkeys(shape.name for shape in self.calls))
        how = f"{self.rate:g} a second" if self.rate else f"{min(self.at_once, self.count)} at a time"
        talks = " and ".join(dict.fromkeys(shape.conversation for shape in self.calls if shape.conversation))
        said = f" in the conversation {talks}" if talks else ""
        return f"{self.count} {'call' if self.count == 1 else 'calls'} ({names}){said}" + (
            f", {how}" if self.count > 1 else ""
        )


@dataclass(frozen=True, slots=True)
class SetPolicy:
    """``PATH=VALUE`` assignments to the policy, as ``inferdeck policy set`` takes them."""

    word: ClassVar[str] = "policy"
    lasting: ClassVar[bool] = True

    set: tuple[str, ...]

    def told(self) -> str:
        return f"inferdeck policy set {' '.join(self.set)}"


@dataclass(frozen=True, slots=True)
class Cordon:
    """The worker gets no new requests."""

    word: ClassVar[str] = "cordon"
    lasting: ClassVar[bool] = True

    worker: str

    def told(self) -> str:
        return f"inferdeck cordon {self.worker}"


@dataclass(frozen=True, slots=True)
class Uncordon:
    """The worker gets requests again."""

    word: ClassVar[str] = "uncordon"
    lasting: ClassVar[bool] = True

    worker: str

    def told(self) -> str:
        return f"inferdeck uncordon {self.worker}"


@dataclass(frozen=True, slots=True)
class Scale:
    """So many workers are wanted; goes on when they are there, and those beyond are gone."""

    word: ClassVar[str] = "scale"
    lasting: ClassVar[bool] = True

    replicas: int

    def told(self) -> str:
        return f"inferdeck scale {POOL}={self.replicas}"


@dataclass(frozen=True, slots=True)
class Inject:
    """A failure of a simulated worker, see ``inferdeck inject``. ``for_s`` 0: until it is healed."""

    word: ClassVar[str] = "inject"
    lasting: ClassVar[bool] = True

    worker: str
    kind: Literal["crash", "engine_dies", "stall", "slow"]
    factor: float = 2.0
    for_s: float = 0.0

    def told(self) -> str:
        more = f" --factor {self.factor:g}" if self.kind == "slow" else ""
        return f"inferdeck inject {self.worker} {self.kind}{more}" + (f" --for {self.for_s:g}s" if self.for_s else "")


@dataclass(frozen=True, slots=True)
class Heal:
    """All failures of the worker end."""

    word: ClassVar[str] = "heal"
    lasting: ClassVar[bool] = True

    worker: str

    def told(self) -> str:
        return f"inferdeck inject {self.worker} --heal"


@dataclass(frozen=True, slots=True)
class Cancel:
    """An operator's cancel of every call of this name that runs."""

    word: ClassVar[str] = "cancel"
    lasting: ClassVar[bool] = False

    calls: str

    def told(self) -> str:
        return "inferdeck cancel REQUEST, for each of inferdeck get requests"


@dataclass(frozen=True, slots=True)
class Wait:
    """Until no call of the lesson runs any more, those in the background too.

    ``at_most_s`` seconds; 0: however long it takes.
    """

    word: ClassVar[str] = "wait"
    lasting: ClassVar[bool] = False

    at_most_s: float = 0.0

    def told(self) -> str:
        return (
            f"wait {self.at_most_s:g} s, or until every call has ended"
            if self.at_most_s
            else "wait until every call has ended"
        )


@dataclass(frozen=True, slots=True)
class Settle:
    """Until there are as many ready workers as are wanted, and no other."""

    word: ClassVar[str] = "settle"
    lasting: ClassVar[bool] = False

    def told(self) -> str:
        return "wait until every worker is ready"


@dataclass(frozen=True, slots=True)
class Encode:
    """The request of the last of these calls, as its router sends it to a worker, is written and read as JSON and as
    protobuf, many times, with a stopwatch."""

    word: ClassVar[str] = "encode"
    lasting: ClassVar[bool] = False

    calls: str

    def told(self) -> str:
        return f"write and read that request as JSON and as protobuf, {ROUNDS} times each"


@dataclass(frozen=True, slots=True)
class EngineArguments:
    """The platform ends, with every call, and is there again with these engine arguments beside the sandbox's others:
    what an engine takes only at its start. Keys, policy and home stay."""

    word: ClassVar[str] = "engine_args"
    lasting: ClassVar[bool] = True

    args: Mapping[str, Any]

    def told(self) -> str:
        wanted = ", ".join(f"{name} = {value}" for name, value in self.args.items())
        return f"inferdeck down, {wanted} in lesson.toml, inferdeck up"


Action = (
    Calls
    | SetPolicy
    | MakeKey
    | SetKey
    | Cordon
    | Uncordon
    | Scale
    | Inject
    | Crash
    | Heal
    | Cancel
    | Wait
    | Settle
    | PlanOf
    | Encode
    | EngineArguments
)

ACTIONS: dict[str, type[Action]] = {kind.word: kind for kind in Action.__args__}
