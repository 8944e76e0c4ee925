"""A lesson at its keys."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from console.tui.learn.lesson_screen import LessonScreen
from control_plane.contracts.fleet import Event
from lessons.progress import Progress, State
from tests.snapshots.memory import NOW
from tests.unit.console.tui.learn.harness import (
    NAME,
    TO_THE_FIRST_QUESTION,
    keys,
    lesson,
    to_the_experiment,
    to_the_repair,
    two_workers,
)
from tests.unit.console.tui.test_sizes import check
from tests.unit.lessons.folders import lesson_folder


async def test_a_lesson_from_its_first_screen_to_its_last(tmp_path: Path) -> None:
    async with lesson(tmp_path) as seen:
        assert "One idea." in seen.text
        await to_the_experiment(seen)
        await seen.do("enter")
        assert "time to first token" in seen.text
        assert "60 ms" in seen.text
        await seen.do("right", "right", "right")
        assert "What is asked?" in seen.text
        await seen.do("a", "enter")
        assert "The hint for who answers so." in seen.text
        await seen.do("b", "enter")
        assert "What is right, and why." in seen.text
        await seen.do("right", "enter")
        assert "✓ no worker takes new requests" in seen.text
        await seen.do("right", "enter")
        assert "✗ a worker takes new requests: is 0 workers, should be at least 1 worker" in seen.said
        assert "hint inferdeck get workers shows what is wrong." in seen.said
        await seen.do("s")
        assert "skipped: so it is" in seen.text
        assert "inferdeck uncordon w-1" in seen.text
        await seen.do("right")
        assert "What to remember" in seen.text
        assert "[→] finish" in seen.text
        await seen.do("right")
        assert seen.record.finished
        assert "lessons" in seen.lines[0]
        assert not seen.stage.closed, "the next lesson may want the same platform"
    assert Progress.read(tmp_path / "learn.json").lesson(NAME).steps["repair"].state is State.SKIPPED


async def test_a_view_that_no_widget_has_is_told(tmp_path: Path) -> None:
    show = '[[step]]\nkind = "show"\nid = "look"\nview = "client"\n\n[[step]]\nkind = "predict"\nid = "guess-tokens"'
    folder = lesson_folder(
        tmp_path / "told",
        {'[[step]]\nkind = "predict"\nid = "guess-tokens"': show},
        {"# guess-tokens": "# look\nLook.\n\n# guess-tokens"},
    )
    async with lesson(tmp_path, folder=folder) as seen:
        await seen.do(*keys(*TO_THE_FIRST_QUESTION, *"0.06", "enter"))
        assert seen.screen.player.step.id == "look"
        assert seen.screen.live.told == ("client ",)
        assert "client" in seen.text
        await seen.do("v")
        assert seen.screen.live.pin.view == "workers"
        await seen.do("right")
        assert seen.screen.live.pin.view == "requests"
        await seen.do("left")
        assert seen.screen.live.pin.view == "told"
        assert seen.screen.live.told == ("client ",)


async def test_a_number_is_typed_and_letters_are_still_keys(tmp_path: Path) -> None:
    async with lesson(tmp_path) as seen:
        await seen.do(*TO_THE_FIRST_QUESTION)
        await seen.do("enter")
        assert "type a number first" in seen.text
        await seen.do("1", "2", "x", "backspace", "backspace", "h", "full_stop", "5")
        assert "> 1.5" in seen.text
        assert "A hint for who asks for one." in seen.text
        await seen.do("h")
        assert "there is no other hint" in seen.text
        await seen.do("enter")
        assert seen.record.steps["guess-first"].answer == "1.5"
        assert seen.screen.player.step.id == "guess-tokens"


async def test_a_number_is_typed_with_its_unit_and_no_letter_of_it_skips(tmp_path: Path) -> None:
    async with lesson(tmp_path) as seen:
        await seen.do(*TO_THE_FIRST_QUESTION, "2", "1", "space", "m", "s")
        assert seen.screen.player.step.id == "guess-first"
        assert "> 21 ms" in seen.text
        assert "[s] skip" not in seen.text
        await seen.do("enter")
        assert seen.record.steps["guess-first"].answer == "21 ms"
        await seen.do("a", "enter", "enter")
        assert "you said 21 ms, it is 60 ms" in seen.said


async def test_an_experiment_without_effect_is_run_again_and_gives_no_answer_away(tmp_path: Path) -> None:
    async with lesson(tmp_path) as seen:
        await to_the_experiment(seen)
        seen.stage.cut = 4
        await seen.do("enter")
        assert "Its effect did not show this time." in seen.said
        assert "[Enter] run it again" in seen.said
        assert "60 tokens" not in seen.said
        assert "the whole answer came" not in seen.said
        seen.stage.cut = 0
        await seen.do("enter")
        assert "measured" in seen.said


async def test_a_break_is_set_off_again_by_who_comes_back_to_it(tmp_path: Path) -> None:
    async with lesson(tmp_path) as seen:
        await to_the_repair(seen)
        await seen.do("left")
        assert "[→] go on" in seen.said
        assert "[Enter] do it again" in seen.said
        cordons = seen.stage.asked.count("inferdeck cordon w-1")
        await seen.do("enter")
        assert seen.stage.asked.count("inferdeck cordon w-1") == cordons + 1
        assert "✓ no worker takes new requests" in seen.said
        await seen.do("enter")
        assert seen.screen.player.step.id == "repair", "just done, Enter goes on"


async def test_what_failed_is_told_once(tmp_path: Path) -> None:
    async with lesson(tmp_path) as seen:
        await to_the_repair(seen)
        await seen.do("enter", "enter", "enter")
        assert seen.said.count("is 0 workers") == 1


@pytest.mark.parametrize("size", [(80, 24), (100, 30)])
@pytest.mark.parametrize("step", ["idea", "guess-first", "experiment", "break"])
async def test_a_step_that_names_a_command_says_where_it_is_typed(
    tmp_path: Path, size: tuple[int, int], step: str
) -> None:
    words = {"idea": "on a screen of its own.", "guess-first": "One call", "experiment": "Run it.", "break": "Break it"}
    text = words[step]
    folder = lesson_folder(tmp_path / "named", words={text: f"See `inferdeck get workers`. {text}"})
    async with lesson(tmp_path, size=size, folder=folder) as seen:
        while seen.screen.player.step.id != step or "See inferdeck get workers" not in seen.said:
            assert "--home" not in seen.said
            await seen.do("s" if seen.standing.waits else "right")
        assert "--home /a/home" in seen.said


async def test_at_80x24_what_failed_and_its_hint_are_on_one_page(tmp_path: Path) -> None:
    long = "Repair it, by whatever means you have, and look. " * 9
    hint = "Look at `inferdeck get workers`, and then at\nthe worker that takes no calls."
    folder = lesson_folder(
        tmp_path / "long", words={"Repair it.": long, "`inferdeck get workers` shows what is wrong.": hint}
    )
    async with lesson(tmp_path, size=(80, 24), folder=folder) as seen:
        await to_the_repair(seen)
        await seen.do("enter")
        assert "✗ a worker takes new requests" in seen.said
        assert "hint Look at inferdeck get workers, and then at the worker that takes no calls." in seen.said
        assert "--home /a/home" in seen.said
        assert "[Enter] look whether it is done" in seen.said
        await seen.do("left")
        assert "Repair it, by whatever means" in seen.said


async def test_what_is_no_number_is_told_and_stays(tmp_path: Path) -> None:
    async with lesson(tmp_path) as seen:
        await seen.do(*TO_THE_FIRST_QUESTION, "1", "full_stop", "full_stop", "enter")
        assert "'1..' is no number" in seen.said
        assert "> 1.." in seen.text


async def test_a_prediction_can_be_changed_until_its_experiment_has_run(tmp_path: Path) -> None:
    async with lesson(tmp_path) as seen:
        await to_the_experiment(seen)
        await seen.do("left", "left")
        assert "> 0.06" in seen.text
        await seen.do("backspace", "9", "enter")
        assert seen.record.steps["guess-first"].answer == "0.09"
        await seen.do("right", "enter")
        assert seen.record.steps["experiment"].state is State.DONE
        await seen.do("left", "left", "left", "9", "enter")
        assert seen.record.steps["guess-first"].answer == "0.09"


async def test_the_result_stands_beside_the_prediction(tmp_path: Path) -> None:
    async with lesson(tmp_path) as seen:
        await to_the_experiment(seen)
        await seen.do("enter")
        row = next(line for line in seen.lines if "time to first token" in line)
        assert "60 ms      60 ms" in row
        tokens = next(line for line in seen.lines if "tokens of the answer" in line)
        assert " b " in tokens
        assert "64" in tokens
        assert "✓ right: b) 64, as many as were asked for" in seen.said
        await seen.do("right")
        assert "Why it came out so." in seen.text


async def test_an_experiment_wants_its_predictions_first(tmp_path: Path) -> None:
    async with lesson(tmp_path) as seen:
        await seen.do(*TO_THE_FIRST_QUESTION, "s")
        assert seen.record.steps["guess-first"].state is State.SKIPPED
        assert seen.screen.player.step.id == "guess-tokens"
        await seen.do("right")
        assert "commit a prediction first" in seen.said
        assert seen.screen.player.step.id == "guess-tokens"


async def test_while_it_runs_the_words_stay_and_the_view_moves(tmp_path: Path) -> None:
    async with lesson(tmp_path) as seen:
        await to_the_experiment(seen)
        seen.stage.gate.clear()
        await seen.press("enter")
        await seen.hear_workers()
        await seen.pass_time(3.0)
        assert "Run it." in seen.text
        assert "it runs: 3s" in seen.text
        await seen.press("right", "left", "h", "s", "r", "enter")
        assert "Run it." in seen.text
        assert isinstance(seen.app.screen, LessonScreen)
        seen.stage.gate.set()
        await seen.until(lambda: not seen.standing.busy)
        assert "measured" in seen.text
        assert seen.stage.asked.count("1 call (mine)") == 1


async def test_the_live_view_is_an_operators(tmp_path: Path) -> None:
    async with lesson(tmp_path) as seen:
        await to_the_repair(seen)
        assert "workers" in seen.text
        await seen.press("tab", "down", "ctrl+o")
        assert "Cordon worker w-2" in seen.text
        await seen.press("y")
        await seen.until(lambda: ("cordon", "w-2") in [done[:2] for done in seen.platform.done])
        assert isinstance(seen.app.screen, LessonScreen)
        await seen.press("enter")
        assert "worker ▸ w-2" in seen.text
        await seen.press("escape", "escape")
        assert not seen.screen.looks
        seen.stage.cordoned = False
        await seen.do("enter")
        assert "✓ done" in seen.text
        assert "A cordon holds until somebody takes it back." in seen.said


async def test_what_was_made_to_fail_is_for_the_learner_to_find(tmp_path: Path) -> None:
    async with lesson(tmp_path) as seen:
        events = tuple(
            Event(number, NOW + number, kind, "worker/w-2", words)
            for number, (kind, words) in enumerate([("failure_injected", "made to fail"), ("cordoned", "taken out")], 1)
        )
        await seen.hear(replace(two_workers(), events=events))
        await seen.command("events")
        assert "made to fail" in seen.text
        await seen.press("escape")
        while seen.screen.live.pin.view != "events":
            await seen.press("v")
        assert "taken out" in seen.text
        assert "made to fail" not in seen.text


async def test_the_live_view_can_be_turned(tmp_path: Path) -> None:
    async with lesson(tmp_path) as seen:
        shown = []
        for _ in range(4):
            shown.append(seen.screen.live.pin.view)
            await seen.press("v")
        assert sorted(shown) == ["engine", "events", "requests", "workers"]
        await seen.press("v")
        turned = seen.screen.live.pin
        await seen.do("right")
        assert seen.screen.live.pin == turned, "it is the same step"


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (96, 24), (160, 48)])
async def test_every_size(tmp_path: Path, size: tuple[int, int]) -> None:
    async with lesson(tmp_path, size=size) as seen:
        check(seen)
        await to_the_repair(seen)
        for _ in range(4):
            check(seen)
            await seen.press("v")
        await seen.do("enter", "s")
        check(seen)
        assert "skipped" in seen.text


async def test_resizing_and_too_small(tmp_path: Path) -> None:
    async with lesson(tmp_path) as seen:
        await to_the_experiment(seen)
        for size in ((40, 10), (1, 1), (80, 24), (200, 16), (60, 60)):
            await seen.pilot.resize_terminal(*size)
            await seen.settle()
            check(seen)
            await seen.press("v")
        assert "Run it." in seen.text


async def test_a_sheet_that_is_longer_than_its_place_is_read_in_parts(tmp_path: Path) -> None:
    async with lesson(tmp_path, size=(60, 16)) as seen:
        await to_the_repair(seen)
        await seen.do("enter", "h", "h")
        assert "[→] more of it" in seen.text
        first = seen.text
        read = first
        while "more of it" in seen.text:
            await seen.do("right")
            read += seen.text
        assert seen.screen.player.step.id == "repair"
        assert "should be at least 1 worker" in " ".join(read.split())
        await seen.do(*["left"] * read.count("more of it"))
        assert seen.text == first


async def test_a_name_that_is_to_be_typed_is_in_one_piece(tmp_path: Path) -> None:
    name = "routing.models.gpt-4o.target=smollm2-135m"
    old = "`inferdeck get workers` shows what is wrong."
    folder = lesson_folder(tmp_path / "long", words={old: f"`inferdeck policy set {name}`"})
    async with lesson(tmp_path, folder=folder) as seen:
        await to_the_repair(seen)
        assert name not in seen.text
        await seen.do("h")
        assert name in seen.text
        check(seen)
