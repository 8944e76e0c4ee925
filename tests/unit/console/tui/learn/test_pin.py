from __future__ import annotations

from pathlib import Path

import pytest

from console.tui.learn.pin import TOLD, VIEWS, Pin, pinned
from console.tui.live.part import Part
from lessons.catalogue import folders
from lessons.loader import load
from lessons.model import Show
from tests.unit.console.tui.learn.test_draft import EVERY_KIND
from tests.unit.lessons.folders import lesson_folder


def test_each_step_of_a_fleet_looks_at_what_it_is_about() -> None:
    lesson = load(EVERY_KIND)
    pins = {step.id: pinned(lesson, index) for index, step in enumerate(lesson.steps)}
    assert pins["idea"] == Pin("workers"), "nothing is looked at before it: what will be"
    assert pins["inside"] == Pin("engine", "w-1", Part.BLOCKS)
    assert pins["guess-full"] == pins["experiment"] == pins["why"] == Pin("workers")
    assert pins["repair"] == pins["remember"] == Pin("workers")


def test_of_one_worker_the_inside_is_looked_at(tmp_path: Path) -> None:
    measure = 'name = "first"\nlabel = "time to first token"\nof = "ttft"\ncalls = "mine"'
    inside = 'name = "first"\nlabel = "KV cache"\nof = "kv_peak"'
    outside = load(lesson_folder(tmp_path / "a"))
    lesson = load(lesson_folder(tmp_path / "b", {measure: inside}))
    at = [step.id for step in lesson.steps].index("experiment")
    assert pinned(outside, at) == Pin("requests")
    assert pinned(lesson, at) == Pin("engine", "w-1")
    assert pinned(lesson, 1) == Pin("engine", "w-1"), "what a prediction is about"
    kept = load(lesson_folder(tmp_path / "d", {measure: 'name = "first"\nlabel = "turns"\nof = "kept"'}))
    assert pinned(kept, at) == Pin("requests")
    moved = load(lesson_folder(tmp_path / "f", {measure: 'name = "first"\nlabel = "moved"\nof = "moved"'}))
    assert pinned(moved, at) == Pin("requests")
    other = 'name = "first"\nlabel = "workers that are cordoned"\nof = "cordoned"\nworker = "w-1"'
    show = '[[step]]\nkind = "show"\nid = "look"\nview = "events"\n\n[[step]]\nkind = "predict"\nid = "guess-tokens"'
    predict = '[[step]]\nkind = "predict"\nid = "guess-tokens"'
    changes = {measure: other, predict: show}
    words = {"# guess-tokens": "# look\nLook.\n\n# guess-tokens"}
    neither = load(lesson_folder(tmp_path / "c", changes, words))
    at = [step.id for step in neither.steps].index("experiment")
    assert pinned(neither, at) == Pin("events"), "what was looked at before"
    steps = load(lesson_folder(tmp_path / "e", {predict: show.replace('"events"', '"steps"\nof = "w-1"')}, words))
    look = [step.id for step in steps.steps].index("look")
    assert pinned(steps, look) == Pin("engine", "w-1", Part.STEPS)
    assert pinned(steps, len(steps.steps) - 1).part is Part.ALL, "what stands still is its own step's"
    repair = [step.id for step in lesson.steps].index("repair")
    assert pinned(lesson, repair) == Pin("workers")


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: folder.name)
def test_every_step_of_every_lesson_has_a_view_that_there_is(folder: Path) -> None:
    lesson = load(folder)
    workers = {f"w-{number}" for number in range(1, lesson.sandbox.replicas + 1)}
    for index in range(len(lesson.steps)):
        pin = pinned(lesson, index)
        assert pin.view in VIEWS or (pin.view == TOLD and isinstance(lesson.steps[index], Show))
        assert (pin.of in workers) if pin.view == "engine" else True
