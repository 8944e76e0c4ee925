"""A lesson's folder as a ``Lesson``: ``lesson.toml`` has the steps, ``words.md`` what is said.

Everything that is wrong is told at once, by file, line and column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

from control_plane.contracts.toml_places import KeyPath, Place, place_of
from control_plane.contracts.toml_text import TomlWrong, read_toml
from lessons.actions import ACTIONS, Action
from lessons.checks import Bounds, Expect
from lessons.faults import BadLesson, Fault, nearest
from lessons.fields import read_table
from lessons.measures import MEASURES, Measure, Measured
from lessons.model import (
    KINDS,
    Check,
    Do,
    Lesson,
    Measuring,
    Observe,
    Option,
    Predict,
    Quiz,
    Reveal,
    Sandbox,
    Show,
    Step,
    View,
    Words,
)
from lessons.rules import check
from lessons.words import Section, sections

STEPS_FILE, WORDS_FILE = "lesson.toml", "words.md"

_BOUNDS = tuple(each.name for each in fields(Bounds))
VIEWS: tuple[str, ...] = get_args(View)


@dataclass(frozen=True, slots=True)
class _Head:
    title: str
    minutes: int
    about: str
    seed: int = 0


@dataclass(frozen=True, slots=True)
class _Named:
    name: str
    label: str


@dataclass(frozen=True, slots=True)
class _Says:
    says: str


@dataclass(frozen=True, slots=True)
class _Answer:
    text: str
    says: str = ""
    right: bool = False


@dataclass(frozen=True, slots=True)
class _Showing:
    view: str
    of: str = ""
    concepts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Teaching:
    concepts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Asking:
    about: str
    value: str
    asks: str
    reference: str
    within: float = 0.25


def load(folder: Path) -> Lesson:
    """Raises BadLesson with every fault there is."""
    reading = _Reading(folder, *_toml(folder / STEPS_FILE))
    lesson = reading.lesson(_text(folder / WORDS_FILE))
    if lesson is not None:
        for path, message in check(lesson):
            reading.blame(path, message)
    if reading.faults:
        raise BadLesson(reading.faults)
    assert lesson is not None
    return lesson


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadLesson([Fault(str(path), Place(1, 1), f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        place = Place(before.count(b"\n") + 1, error.start - before.rfind(b"\n"))
        raise BadLesson([Fault(str(path), place, "not a UTF-8 text")]) from None


def _toml(path: Path) -> tuple[dict[str, Any], dict[KeyPath, Place]]:
    try:
        return read_toml(_text(path))
    except TomlWrong as error:
        raise BadLesson([Fault(str(path), error.place, f"not valid TOML: {error.what}")]) from None


@dataclass(slots=True)
class _Reading:
    folder: Path
    tree: Mapping[str, Any]
    places: dict[KeyPath, Place]
    faults: list[Fault] = field(default_factory=list)
    units: dict[str, str] = field(default_factory=dict)
    """Of every measured value, by its name."""

    def blame(self, path: KeyPath, message: str) -> None:
        self.faults.append(Fault(str(self.folder / STEPS_FILE), place_of(self.places, path), message))

    def blame_words(self, place: Place, message: str) -> None:
        self.faults.append(Fault(str(self.folder / WORDS_FILE), place, message))

    def lesson(self, words: str) -> Lesson | None:
        head = read_table(_Head, self.tree, (), self.blame, ("sandbox", "step"))
        sandbox = read_table(Sandbox, self.tree.get("sandbox", {}), ("sandbox",), self.blame)
        told = sections(words, self.blame_words)
        raw = self.tree.get("step", [])
        if not isinstance(raw, list) or not raw or not all(isinstance(each, dict) for each in raw):
            self.blame(("step",), "steps are written as [[step]], at least one")
            return None
        self._name_units(raw)
        steps = [self._step(("step", index), each, told) for index, each in enumerate(raw)]
        known = {each.get("id") for each in raw}
        for name, section in told.items():
            if name not in known:
                meant = nearest(name, [each for each in known if isinstance(each, str)])
                self.blame_words(section.place, f"no step {name!r} in {STEPS_FILE}; {meant}")
        if self.faults or head is None or sandbox is None:
            return None
        return Lesson(
            name=self.folder.name,
            folder=self.folder,
            title=head.title,
            about=head.about,
            minutes=head.minutes,
            seed=head.seed,
            sandbox=sandbox,
            steps=tuple(step for step in steps if step is not None),
        )

    def _name_units(self, raw: Sequence[Mapping[str, Any]]) -> None:
        """Predictions come before the step that measures, and ask in its unit."""
        for step in raw:
            for each in step.get("measure", []) if isinstance(step.get("measure"), list) else []:
                if isinstance(each, dict) and isinstance(each.get("of"), str) and each["of"] in MEASURES:
                    unit = MEASURES[each["of"]].unit
                    if each["of"] == "measured":
                        unit = self.units.get(str(each.get("value")), "")
                    self.units[str(each.get("name"))] = unit

    def _step(self, path: KeyPath, raw: Mapping[str, Any], told: Mapping[str, Section]) -> Step | None:
        kind, step_id = raw.get("kind"), raw.get("id")
        if not isinstance(kind, str) or kind not in KINDS:
            said = f"unknown kind {kind!r}; " if kind is not None else "kind is missing; "
            self.blame((*path, "kind"), said + nearest(str(kind), KINDS))
            return None
        if not isinstance(step_id, str) or not step_id:
            self.blame((*path, "id"), "id is missing: a name by which words.md and progress know the step")
            return None
        section = told.get(step_id)
        if section is None:
            self.blame((*path, "id"), f"{WORDS_FILE} has no words for it: # {step_id}")
            return None
        return self._made(kind, path, raw, step_id, section.words())

    def _made(self, kind: str, path: KeyPath, raw: Mapping[str, Any], step_id: str, words: Words) -> Step | None:
        before = len(self.faults)
        made: Step | None = None
        if kind == "reveal":
            self._only(path, raw, ())
            made = Reveal(step_id, words)
        elif kind == "show":
            found = read_table(_Showing, raw, path, self.blame, ("kind", "id"))
            if found is not None:
                if found.view not in VIEWS:
                    self.blame((*path, "view"), f"unknown view {found.view!r}; {nearest(found.view, VIEWS)}")
                made = Show(step_id, words, found.view, found.of, found.concepts)  # type: ignore[arg-type]  # checked just now
        elif kind == "do":
            self._only(path, raw, ("concepts", "action", "expect"))
            actions, expects = self._actions(path, raw, "action"), self._expects(path, raw)
            made = Do(step_id, words, actions, expects, self._concepts(path, raw))
        elif kind == "observe":
            self._only(path, raw, ("concepts", "action", "measure", "expect"))
            actions, measures = self._actions(path, raw, "action"), self._measurings(path, raw)
            made = Observe(step_id, words, actions, measures, self._expects(path, raw), self._concepts(path, raw))
        elif kind == "check":
            self._only(path, raw, ("concepts", "probe", "expect", "reference"))
            reference, probe = self._actions(path, raw, "reference"), self._actions(path, raw, "probe")
            made = Check(step_id, words, self._expects(path, raw), reference, probe, self._concepts(path, raw))
        elif kind == "quiz":
            self._only(path, raw, ("option",))
            made = Quiz(step_id, words, self._options(path, raw))
        else:
            made = self._predict(path, raw, step_id, words)
        return made if len(self.faults) == before else None

    def _predict(self, path: KeyPath, raw: Mapping[str, Any], step_id: str, words: Words) -> Step | None:
        found = read_table(_Asking, raw, path, self.blame, ("kind", "id", "option"))
        options = self._options(path, raw)
        if found is None:
            return None
        if found.asks not in ("number", "choice", "worker"):
            self.blame((*path, "asks"), f"{found.asks!r} cannot be asked; there are number, choice and worker")
        unit = self.units.get(found.value, "")
        asks: Any = found.asks
        return Predict(step_id, words, found.about, found.value, unit, asks, found.reference, options, found.within)

    def _only(self, path: KeyPath, raw: Mapping[str, Any], known: Sequence[str]) -> None:
        every = ("kind", "id", *known)
        for name in raw:
            if name not in every:
                self.blame((*path, name), f"unknown key {name!r}; {nearest(name, every)}")

    def _concepts(self, path: KeyPath, raw: Mapping[str, Any]) -> tuple[int, ...]:
        found = read_table(_Teaching, {k: v for k, v in raw.items() if k == "concepts"}, path, self.blame)
        return found.concepts if found is not None else ()

    def _tables(self, path: KeyPath, raw: Mapping[str, Any], key: str) -> list[tuple[KeyPath, Mapping[str, Any]]]:
        entries = raw.get(key, [])
        if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
            self.blame((*path, key), f"tables are needed: [[step.{key}]]")
            return []
        return [((*path, key, index), each) for index, each in enumerate(entries)]

    def _actions(self, path: KeyPath, raw: Mapping[str, Any], key: str) -> tuple[Action, ...]:
        found = (self._tagged(ACTIONS, "do", where, entry, ("do",)) for where, entry in self._tables(path, raw, key))
        return tuple(each for each in found if each is not None)

    def _measurings(self, path: KeyPath, raw: Mapping[str, Any]) -> tuple[Measuring, ...]:
        found = []
        for where, entry in self._tables(path, raw, "measure"):
            names = read_table(_Named, {k: v for k, v in entry.items() if k in ("name", "label")}, where, self.blame)
            measure = self._measure(where, entry, ("of", "name", "label"))
            if names is not None and measure is not None:
                found.append(Measuring(names.name, names.label, measure))
        return tuple(found)

    def _expects(self, path: KeyPath, raw: Mapping[str, Any]) -> tuple[Expect, ...]:
        found = []
        for where, entry in self._tables(path, raw, "expect"):
            says = read_table(_Says, {k: v for k, v in entry.items() if k == "says"}, where, self.blame)
            bounds = self._bounds(where, entry)
            measure = self._measure(where, entry, ("of", "says", *_BOUNDS))
            if bounds is not None and not bounds.given:
                self.blame(where, f"what should it be? One of {', '.join(_BOUNDS)} is needed")
            elif says is not None and bounds is not None and measure is not None:
                unit = self.units.get(measure.value, "") if isinstance(measure, Measured) else measure.unit
                found.append(Expect(measure, bounds, says.says, unit))
        return tuple(found)

    def _options(self, path: KeyPath, raw: Mapping[str, Any]) -> tuple[Option, ...]:
        found = []
        for where, entry in self._tables(path, raw, "option"):
            answer = read_table(_Answer, entry, where, self.blame, _BOUNDS)
            bounds = self._bounds(where, entry)
            if answer is not None and bounds is not None:
                found.append(Option(answer.text, answer.says, answer.right, bounds))
        return tuple(found)

    def _bounds(self, path: KeyPath, raw: Mapping[str, Any]) -> Bounds | None:
        return read_table(Bounds, {k: v for k, v in raw.items() if k in _BOUNDS}, path, self.blame)

    def _measure(self, path: KeyPath, raw: Mapping[str, Any], besides: Sequence[str]) -> Measure | None:
        found: Measure | None = self._tagged(MEASURES, "of", path, raw, besides)
        return found

    def _tagged(self, kinds: Mapping[str, type[Any]], tag: str, path: KeyPath, raw: Any, besides: Sequence[str]) -> Any:
        """The one of several dataclasses that the table names."""
        word = raw.get(tag)
        if not isinstance(word, str) or word not in kinds:
            said = f"unknown {word!r}; " if word is not None else f"{tag} is missing; "
            self.blame((*path, tag), said + nearest(str(word), kinds))
            return None
        mine = {name: value for name, value in raw.items() if name not in besides}
        return read_table(kinds[word], mine, path, self.blame)
