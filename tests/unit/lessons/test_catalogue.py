from __future__ import annotations

from pathlib import Path

import pytest

from control_plane.contracts.errors import InvalidRequest, NotFound
from lessons.catalogue import folder_of, folders, write_new
from lessons.loader import load
from lessons.model import Observe, Predict


@pytest.mark.parametrize("name", ["7", "07", "07-worker-selection", "worker-selection", "worker", "WORKER-selection"])
def test_a_lesson_is_found_by_number_and_by_name(name: str) -> None:
    assert folder_of(name).name == "07-worker-selection"


def test_what_is_no_lesson_is_told_with_those_that_are() -> None:
    with pytest.raises(NotFound, match="did you mean 07-worker-selection"):
        folder_of("worker-selektion")
    with pytest.raises(NotFound, match=r"did you mean 05-kv-cache-fills-up\? There are 01-api-two-kinds, "):
        folder_of("kv-cash")
    with pytest.raises(NotFound, match="; there are 01-api-two-kinds, "):
        folder_of("zzz")
    with pytest.raises(NotFound, match="several are"):
        folder_of("-")


def test_a_path_is_a_folder_of_ones_own(tmp_path: Path) -> None:
    assert folder_of(f"{tmp_path}/mine") == tmp_path / "mine"


def test_a_new_lesson_is_sound_and_nothing_is_written_over(tmp_path: Path) -> None:
    folder = write_new("12-my-own-lesson", tmp_path / "deep")
    assert load(folder).title == "My own lesson"
    with pytest.raises(InvalidRequest, match="is there already"):
        write_new("12-my-own-lesson", tmp_path / "deep")


@pytest.mark.parametrize("name", ["mine", "1-mine", "12-Mine", "12-", "../12-mine", "12_mine"])
def test_names_that_are_none_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidRequest, match="like 12-my-lesson"):
        write_new(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_lessons_have_numbers_of_their_own() -> None:
    numbers = [folder.name[:2] for folder in folders()]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: folder.name)
def test_every_experiment_has_its_why(folder: Path) -> None:
    lesson = load(folder)
    for step in lesson.steps:
        if isinstance(step, Observe):
            about = [each.words.answer for each in lesson.steps if isinstance(each, Predict) and each.about == step.id]
            assert any([step.words.answer, *about]), f"{step.id} measures, and nobody says why it came out so"
