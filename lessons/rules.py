"""What a lesson must be beyond the types of its fields. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.toml_places import KeyPath
from lessons.actions import NO_KEYS, Action, Calls, Encode, EngineArguments, Heal, Inject, Shape
from lessons.answers import WORKER, Misread, read_answer
from lessons.checks import Expect
from lessons.concepts import CONCEPTS
from lessons.crash_action import Crash
from lessons.faults import nearest
from lessons.key_actions import MakeKey, SetKey
from lessons.measures import Measure
from lessons.model import Check, Do, Lesson, Live, Observe, Predict, Quiz, Reveal, Show, Step
from lessons.plan_action import PlanOf

MOST_MINUTES: Final = 20
MOST_CRASHES: Final = 5

_NAME: Final = re.compile(r"\d\d-[a-z0-9]+(-[a-z0-9]+)*")
_ID: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_CALL: Final = re.compile(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*")
"""It is a part of a request's id."""

Problem = tuple[KeyPath, str]


def check(lesson: Lesson) -> Iterator[Problem]:
    """Every rule that is broken: the key, and a message for people."""
    if not _NAME.fullmatch(lesson.name):
        yield (), f"the folder {lesson.name!r} is not called like 07-worker-selection"
    if not 1 <= lesson.minutes <= MOST_MINUTES:
        yield ("minutes",), f"1 to {MOST_MINUTES}"
    if not 1 <= lesson.sandbox.replicas <= 8:
        yield ("sandbox", "replicas"), "1 to 8"
    yield from _order(lesson)
    every = [action for step in lesson.steps for action in _actions(step)]
    calls = {shape.name for action in every for shape in _shapes(action)}
    plans = {action.name for action in every if isinstance(action, PlanOf)}
    measured: set[str] = set()
    keys: set[str] = set()
    for index, step in enumerate(lesson.steps):
        path: KeyPath = ("step", index)
        yield from ((path, message) for message in _keys(step, keys))
        yield from ((path + key, message) for key, message in _step(lesson, step))
        yield from ((path + key, message) for key, message in _named(step, calls, plans, measured))
        if isinstance(step, Observe):
            measured |= {each.name for each in step.measures}
    yield from _whole(lesson)


def _order(lesson: Lesson) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    measured: dict[str, int] = {}
    for index, step in enumerate(lesson.steps):
        if not _ID.fullmatch(step.id):
            yield ("step", index, "id"), f"{step.id!r} is no id: lower-case letters, digits and inner hyphens"
        if step.id in seen:
            yield ("step", index, "id"), f"{step.id!r} is there twice (also step {seen[step.id] + 1})"
        seen.setdefault(step.id, index)
        for number, each in enumerate(step.measures if isinstance(step, Observe) else ()):
            if each.name in measured:
                yield ("step", index, "measure", number, "name"), f"{each.name!r} is measured before already"
            measured.setdefault(each.name, index)
    for index, step in enumerate(lesson.steps):
        if not isinstance(step, Predict):
            continue
        at = seen.get(step.about, -1)
        about = lesson.steps[at] if at > index else None
        if not isinstance(about, Observe):
            known = [each.id for each in lesson.steps[index:] if isinstance(each, Observe)]
            yield ("step", index, "about"), f"{step.about!r} is no observe step after it; {nearest(step.about, known)}"
        elif step.value not in {each.name for each in about.measures}:
            known = [each.name for each in about.measures]
            yield (
                ("step", index, "value"),
                f"{step.about} does not measure {step.value!r}; {nearest(step.value, known)}",
            )


def _step(lesson: Lesson, step: Step) -> Iterator[Problem]:
    if not step.words.pages:
        yield ("id",), "nothing is said at this step"
    if isinstance(step, Do | Observe) and not step.actions:
        yield (), "nothing is done: [[step.action]] is missing"
    if isinstance(step, Live) and not all(1 <= each <= len(CONCEPTS) for each in step.concepts):
        yield ("concepts",), f"numbers of concepts, 1 to {len(CONCEPTS)}"
    if isinstance(step, Observe) and not step.measures:
        yield (), "nothing is measured: [[step.measure]] is missing"
    if isinstance(step, Check):
        if not step.expects:
            yield (), "nothing is checked: [[step.expect]] is missing"
        if not step.reference:
            yield (), "no way out is known: [[step.reference]] is missing"
    if isinstance(step, Check | Quiz) and not step.words.hints:
        yield ("id",), f"words.md has no ## hint under # {step.id}"
    if isinstance(step, Check | Quiz | Predict) and not step.words.answer:
        yield ("id",), f"words.md has no ## answer under # {step.id}"
    if isinstance(step, Show):
        yield from _show(lesson, step)
    if isinstance(step, Quiz):
        yield from _quiz(step)
    if isinstance(step, Predict):
        yield from _predict(step)
    for action in _actions(step):
        if isinstance(action, Calls):
            yield from _calls(action)
        if isinstance(action, PlanOf):
            yield from _plan(action)
        if isinstance(action, Inject | Heal | Crash) and lesson.sandbox.engine != "sim":
            yield (), f"{action.word} is for simulated workers"
        if isinstance(action, EngineArguments) and not action.args:
            yield (), "args is empty"
        if isinstance(action, Crash) and not 1 <= action.times <= MOST_CRASHES:
            yield (), f"times: 1 to {MOST_CRASHES}"


def _show(lesson: Lesson, step: Show) -> Iterator[Problem]:
    if step.view in ("blocks", "steps") and not WORKER.fullmatch(step.of):
        yield ("of",), f"the worker whose {step.view} are shown, like w-1"
    if step.view == "tokens" and not step.of:
        yield ("of",), "the text whose tokens are shown"
    before = lesson.steps[: lesson.steps.index(step)]
    shapes = [shape for each in before for action in _actions(each) for shape in _shapes(action)]
    names = {shape.name for shape in shapes if shape.hops or step.view != "hops"}
    if step.view in ("wire", "waterfall", "hops") and step.of not in names:
        yield ("of",), f"no calls before this are named {step.of!r}; {nearest(step.of, sorted(names))}"
    talks = {shape.conversation for shape in shapes} - {""}
    if step.view == "conversation" and step.of not in talks:
        yield ("of",), f"no call before this is in a conversation {step.of!r}; {nearest(step.of, sorted(talks))}"


def _keys(step: Step, made: set[str]) -> Iterator[str]:
    """Keys are made before they are used. Adds those that this step makes."""
    for action in _actions(step):
        if isinstance(action, MakeKey):
            made.add(action.name)
        used = [action.key] if isinstance(action, SetKey) else [shape.key for shape in _shapes(action)]
        for name in used:
            if name and name not in made and not (isinstance(action, Calls) and name in NO_KEYS):
                yield f"no key {name!r} is made before this; {nearest(name, sorted(made))}"


def _plan(action: PlanOf) -> Iterator[Problem]:
    try:
        action.worked_out()
    except InferDeckError as error:
        yield (), f"this cannot be worked out: {error.message}"


def _calls(action: Calls) -> Iterator[Problem]:
    if not action.calls:
        yield (), "calls is empty"
    if not 1 <= action.count <= 2000 or not 1 <= action.at_once <= 500 or not 0 <= action.rate <= 1000:
        yield (), "1 to 2000 calls, 1 to 500 at once, a rate of at most 1000"
    for shape in action.calls:
        if not _CALL.fullmatch(shape.name):
            yield (), f"{shape.name!r} is no name of a call: letters, digits and inner hyphens"
        if shape.prompt_tokens < 1 or shape.output_tokens < 1 or not 0 <= shape.prefix_tokens <= shape.prompt_tokens:
            yield (), f"{shape.name}: prompts and answers have at least one token, prefixes are part of prompts"
        if shape.prefixes < 1 or ((shape.prefixes > 1 or shape.prefix_of) and not shape.prefix_tokens):
            yield (), f"{shape.name}: prefixes, one at least, have prefix_tokens"
        if not 0 <= shape.min_tokens <= shape.output_tokens:
            yield (), f"{shape.name}: min_tokens are 0 to output_tokens"
        if shape.leave_after and not shape.stream:
            yield (), f"{shape.name}: only a stream can be left after so many pieces"
        if shape.api == "chat" and not shape.text:
            yield (), f"{shape.name}: a chat has a text"
        if shape.key and shape.tier:
            yield (), f"{shape.name}: a key has its tier already"
        if shape.conversation and (shape.api != "chat" or shape.key in NO_KEYS):
            yield (), f"{shape.name}: a conversation is of chats, and of a key's owner"


def _quiz(step: Quiz) -> Iterator[Problem]:
    if len(step.options) < 2 or sum(option.right for option in step.options) != 1:
        yield (), "two or more [[step.option]], one of them right = true"
    for index, option in enumerate(step.options):
        if not option.right and not option.says:
            yield ("option", index), "says is missing: a hint for who answers so"


def _predict(step: Predict) -> Iterator[Problem]:
    if step.asks == "choice":
        if len(step.options) < 2 or not all(option.bounds.given for option in step.options):
            yield (), "a choice wants two or more [[step.option]] with bounds that the measured value decides by"
    elif step.options:
        yield ("option",), f"options are for a choice, this asks for a {step.asks}"
    try:
        read_answer(step, step.reference)
    except Misread as error:
        yield ("reference",), error.message


def _named(step: Step, calls: set[str], plans: set[str], measured: set[str]) -> Iterator[Problem]:
    """Names that measures use must be those of something."""
    known = set(measured)
    measures: list[tuple[KeyPath, Measure]] = []
    for index, each in enumerate(step.measures if isinstance(step, Observe) else ()):
        yield from _known(each.measure, ("measure", index), calls, plans, known)
        known.add(each.name)
    measures += [(("expect", index), each.measure) for index, each in enumerate(_expects(step))]
    for path, measure in measures:
        yield from _known(measure, path, calls, plans, known)
    for action in _actions(step):
        if isinstance(action, Encode) and action.calls not in calls:
            yield (), f"no calls are named {action.calls!r}; {nearest(action.calls, sorted(calls))}"
    for shape in (shape for action in _actions(step) for shape in _shapes(action)):
        if shape.prefix_of and shape.prefix_of not in calls:
            yield (), f"{shape.name}: no calls are named {shape.prefix_of!r}; {nearest(shape.prefix_of, sorted(calls))}"
    for action in _actions(step):
        if isinstance(action, Crash) and action.calls not in calls:
            yield (), f"crash: no calls are named {action.calls!r}; {nearest(action.calls, sorted(calls))}"


def _known(measure: Measure, path: KeyPath, calls: set[str], plans: set[str], measured: set[str]) -> Iterator[Problem]:
    for key, known, none in (
        ("calls", calls, "no calls are"),
        ("ended", calls, "no calls are"),
        ("plan", plans, "no plan is"),
    ):
        name = getattr(measure, key, "")
        if name and name not in known:
            yield (*path, key), f"{none} named {name!r}; {nearest(name, sorted(known))}"
    for key in ("value", "to"):
        value = getattr(measure, key, "")
        if value and value not in measured:
            yield (*path, key), f"{value!r} is not measured before this; {nearest(value, sorted(measured))}"
    worker = getattr(measure, "worker", "")
    if worker and not WORKER.fullmatch(worker):
        yield (*path, "worker"), f"{worker!r} is no worker of a sandbox; they are w-1, w-2, …"


def _whole(lesson: Lesson) -> Iterator[Problem]:
    """What makes it a lesson: predict, see, break, repair, remember."""
    kinds = [type(step) for step in lesson.steps]
    if kinds.count(Predict) < 2:
        yield ("step",), f"at least two predictions are wanted, there are {kinds.count(Predict)}"
    if Observe not in kinds:
        yield ("step",), 'an experiment is wanted: kind = "observe"'
    if not lesson.concepts:
        yield ("step",), "no step says which concept it shows: concepts = [2] at a show, do, observe or check"
    if Check not in kinds:
        yield ("step",), 'something to repair is wanted: kind = "check"'
    if kinds[-1] is not Reveal:
        yield ("step", len(kinds) - 1), "the last step reveals what to remember"


def _actions(step: Step) -> Sequence[Action]:
    if isinstance(step, Do | Observe):
        return step.actions
    return (*step.probe, *step.reference) if isinstance(step, Check) else ()


def _expects(step: Step) -> Sequence[Expect]:
    return step.expects if isinstance(step, Do | Observe | Check) else ()


def _shapes(action: Action) -> Sequence[Shape]:
    return action.calls if isinstance(action, Calls) else ()
