from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from control_plane.contracts.fleet import WorkerPhase
from lessons.answers import Misread, Score
from lessons.loader import load
from lessons.model import Check, Do, Lesson, Observe, Predict, Quiz
from lessons.player import NotYet, Player
from lessons.progress import LessonRecord, Progress, ProgressLost, State
from lessons.score import score_words
from tests.unit.lessons.folders import lesson_folder
from tests.unit.lessons.scripted_stage import ScriptedStage


@pytest.fixture
def lesson(tmp_path: Path) -> Lesson:
    return load(lesson_folder(tmp_path))


@pytest.fixture
def stage() -> ScriptedStage:
    return ScriptedStage()


async def to(player: Player, step_id: str) -> None:
    """Forward with the lesson's own answers."""
    while player.step.id != step_id:
        step = player.step
        if player.here.state is not State.OPEN:
            await player.forward()
            continue
        if isinstance(step, Predict):
            player.commit(step.reference)
        elif isinstance(step, Quiz):
            player.commit("b")
        elif isinstance(step, Check):
            await player.solve()
        if isinstance(step, Do | Observe | Check):
            assert (await player.act()).ok
        await player.forward()


@pytest.fixture
async def player(lesson: Lesson, stage: ScriptedStage) -> Player:
    made = Player(lesson, stage, Progress())
    await made.start()
    return made


async def test_a_lesson_is_played_screen_by_screen_to_its_end(player: Player, stage: ScriptedStage) -> None:
    assert (player.label, player.index, player.page) == ("simulated nothing", 0, 0)
    await player.forward()
    assert (player.index, player.page) == (0, 1)
    await to(player, "remember")
    assert player.last
    assert not await player.forward()
    assert player.record.finished
    assert player.record.settled() == len(player.lesson.steps)
    assert stage.asked == [
        "start sim 1", "1 call (mine)", "inferdeck cordon w-1", "inferdeck uncordon w-1",
    ]  # fmt: skip


async def test_no_open_step_is_passed(player: Player) -> None:
    for step in player.lesson.steps[1:-1]:
        await to(player, step.id)
        with pytest.raises(NotYet):
            await player.forward()


async def test_predictions_are_committed_before_the_experiment_and_stand_beside_it(player: Player) -> None:
    await to(player, "guess-first")
    player.commit("0.07")
    await player.forward()
    with pytest.raises(NotYet, match="commit a prediction"):
        await player.forward()
    player.back()
    player.commit("0.061")
    await player.forward()
    player.commit("a")
    await player.forward()
    reply = await player.act()
    assert [(predict.id, told.score, told.right) for predict, told in reply.outcomes] == [
        ("guess-first", Score.CLOSE, "60 ms"),
        ("guess-tokens", Score.OFF, "b) 64, as many as were asked for"),
    ]
    assert [row.text for row in reply.rows] == ["60 ms", "64 tokens"]
    assert player.results() == replace(reply, verdicts=(), answer="")
    player.back()
    assert player.results().rows == ()
    with pytest.raises(NotYet, match="measured already"):
        player.commit("b")


async def test_an_experiment_waits_for_its_predictions(lesson: Lesson, stage: ScriptedStage) -> None:
    progress = Progress()
    progress.lesson(lesson.name).at = "experiment"
    player = Player(lesson, stage, progress)
    await player.start()
    with pytest.raises(NotYet, match="guess-first, guess-tokens"):
        await player.act()
    assert stage.asked == ["start sim 1"]


@pytest.mark.parametrize("text", ["", "soon", "nan", "inf", "1 2"])
async def test_what_is_no_answer_commits_nothing(player: Player, text: str) -> None:
    await to(player, "guess-first")
    with pytest.raises(Misread, match="no number"):
        player.commit(text)
    assert player.here.state is State.OPEN


async def test_an_experiment_that_shows_no_effect_says_so_and_can_be_run_again(
    player: Player, stage: ScriptedStage
) -> None:
    await to(player, "experiment")
    stage.cut = 4
    reply = await player.act()
    assert not reply.ok
    assert reply.message == "Its effect did not show this time. Run it again."
    assert reply.answer == ""
    assert player.here.state is State.OPEN
    stage.cut = 0
    assert (await player.act()).ok
    assert player.record.measured["tokens"] == 64.0


async def test_a_look_at_the_checks_changes_nothing(player: Player) -> None:
    await to(player, "experiment")
    assert [verdict.holds for verdict in await player.glance()] == [False]
    assert player.record.measured == {}
    await to(player, "repair")
    assert [verdict.holds for verdict in await player.glance()] == [False]
    assert player.here.tries == 0


async def test_wrong_answers_get_the_hint_that_is_meant_for_them(player: Player) -> None:
    await to(player, "question")
    wrong = player.commit("A")
    assert (wrong.ok, wrong.message, wrong.answer) == (False, "The hint for who answers so.", "")
    right = player.commit(" b ")
    assert (right.ok, right.answer) == (True, "What is right, and why.")
    assert player.here.tries == 2


async def test_failed_checks_get_one_hint_after_the_other_and_then_the_reason(player: Player) -> None:
    await to(player, "repair")
    told = [(await player.act()).message for _ in range(3)]
    assert told[0] == "`inferdeck get workers` shows what is wrong."
    assert told[1] == "`inferdeck uncordon w-1`"
    assert told[2] == "a worker takes new requests: is 0 workers, should be at least 1 worker"
    assert player.hints_shown() == player.step.words.hints
    await player.solve()
    reply = await player.act()
    assert (reply.ok, reply.answer) == (True, "A cordon holds until somebody takes it back.")


async def test_skipping_is_recorded_and_tells_the_answer(player: Player, stage: ScriptedStage) -> None:
    told = {}
    while not player.last:
        told[player.step.id] = (await player.skip()).answer
        await player.forward()
    assert told["question"] == "b) The right answer\n\nWhat is right, and why."
    assert told["repair"] == "inferdeck uncordon w-1\n\nA cordon holds until somebody takes it back."
    assert not stage.cordoned
    assert player.record.skipped() == 6
    assert player.record.measured == {"first": None, "tokens": None}


async def test_what_lasts_of_a_skipped_experiment_is_done_all_the_same(tmp_path: Path, stage: ScriptedStage) -> None:
    calls = 'do = "calls"\ncalls = [{ name = "mine"'
    policy = 'do = "policy"\nset = ["routing.profile=round_robin"]\n[[step.action]]\n'
    player = Player(load(lesson_folder(tmp_path, {calls: policy + calls})), stage, Progress())
    await player.start()
    await to(player, "experiment")
    await player.skip()
    assert stage.asked == ["start sim 1", "inferdeck policy set routing.profile=round_robin"]


async def test_a_skipped_prediction_still_hears_what_was_right(player: Player) -> None:
    await to(player, "guess-first")
    await player.skip()
    await to(player, "experiment")
    (_, told), _ = (await player.act()).outcomes
    assert (told.predicted, told.score, told.right) == ("skipped", Score.OFF, "60 ms")


async def test_hints_end(player: Player) -> None:
    await to(player, "guess-first")
    assert [player.hint(), player.hint()] == ["A hint for who asks for one.", ""]


async def test_progress_outlives_the_player_and_lasting_changes_are_made_again(
    lesson: Lesson, stage: ScriptedStage, tmp_path: Path
) -> None:
    path = tmp_path / "home" / "learn.json"
    player = Player(lesson, stage, Progress.read(path))
    await player.start()
    await to(player, "repair")
    assert json.loads(path.read_text())[lesson.name]["at"] == "repair"
    stage.asked.clear()
    again = Player(lesson, stage, Progress.read(path))
    await again.start()
    assert (again.step.id, stage.asked, stage.cordoned) == ("repair", ["start sim 1", "inferdeck cordon w-1"], True)
    assert again.record.measured == {"first": 0.06, "tokens": 64.0}
    await again.reset()
    assert (again.index, again.record.settled()) == (0, 0)


FLOOD = '''[[step.action]]
do = "calls"
count = 3
at_once = 3
background = true
calls = [{ name = "flood" }]
[[step.action]]
do = "cordon"'''


@pytest.fixture
def flooded(tmp_path: Path) -> Lesson:
    """Its break leaves calls running."""
    return load(lesson_folder(tmp_path / "flooded", {'[[step.action]]\ndo = "cordon"': FLOOD}))


async def test_calls_that_were_left_running_run_again_on_a_new_platform(flooded: Lesson, stage: ScriptedStage) -> None:
    progress = Progress()
    player = Player(flooded, stage, progress)
    await player.start()
    await to(player, "repair")
    stage.asked.clear()
    await Player(flooded, stage, progress).start()
    flood = "3 calls (flood), 3 at a time"
    assert stage.asked == ["start sim 1", flood, "inferdeck cordon w-1"]
    await to(player, "remember")
    stage.asked.clear()
    await Player(flooded, stage, progress).start()
    assert stage.asked == ["start sim 1", "inferdeck cordon w-1", "inferdeck uncordon w-1"], "they were dealt with"


async def test_what_is_done_can_be_set_off_again(flooded: Lesson, stage: ScriptedStage) -> None:
    player = Player(flooded, stage, Progress())
    await player.start()
    await to(player, "repair")
    assert not player.repeats
    player.back()
    assert player.repeats
    stage.asked.clear()
    assert (await player.act()).ok
    assert stage.asked[1:] == ["3 calls (flood), 3 at a time", "inferdeck cordon w-1"]
    assert stage.asked[0].startswith("inferdeck cancel"), "what is left of the first ones goes first"


async def test_an_experiment_that_is_run_again_keeps_what_it_showed(player: Player, stage: ScriptedStage) -> None:
    await to(player, "question")
    player.back()
    stage.cut = 4
    reply = await player.act()
    assert (reply.ok, reply.message) == (False, "Its effect did not show this time. Run it again.")
    assert player.record.measured["tokens"] == 64.0
    assert player.here.state is State.DONE
    stage.cut, stage.ttft_s = 0, 0.08
    assert (await player.act()).ok
    assert player.record.measured["first"] == 0.08


async def test_no_experiment_runs_again_on_a_platform_that_was_changed_since(player: Player) -> None:
    await to(player, "repair")
    while player.step.id != "experiment":
        player.back()
    assert not player.repeats
    with pytest.raises(NotYet, match="changed the platform"):
        await player.act()


async def test_a_check_says_that_the_platform_is_on_its_way_and_keeps_the_hint(
    player: Player, stage: ScriptedStage
) -> None:
    await to(player, "repair")
    stage.phase = WorkerPhase.STARTING
    assert (await player.act()).message == "w-1 was not ready yet: look again in a moment."
    assert player.hints_shown() == ()
    assert stage.phase is WorkerPhase.READY, "it came while the check looked"
    assert (await player.act()).message == player.step.words.hints[0]


async def test_a_finished_lesson_begins_anew(lesson: Lesson, stage: ScriptedStage) -> None:
    progress = Progress()
    player = Player(lesson, stage, progress)
    await player.start()
    await to(player, "remember")
    await player.forward()
    again = Player(lesson, stage, progress)
    await again.start()
    assert (again.index, again.record.finished, again.record.settled()) == (0, False, 0)


async def test_who_looks_back_at_a_finished_lesson_keeps_it_and_runs_nothing(
    lesson: Lesson, stage: ScriptedStage
) -> None:
    progress = Progress()
    player = Player(lesson, stage, progress)
    await player.start()
    await to(player, "remember")
    await player.forward()
    before = dict(progress.lesson(lesson.name).measured)
    stage.asked.clear()
    back = Player(lesson, stage, progress, back=True)
    await back.start()
    while await back.forward():
        assert not back.repeats
    assert back.record.finished
    assert back.record.measured == before
    assert [asked for asked in stage.asked if not asked.startswith("start")] == []
    await back.reset()
    assert (back.index, back.record.settled()) == (0, 0)


def test_the_score_tells_of_predictions_and_of_what_was_skipped(lesson: Lesson) -> None:
    record = LessonRecord("", True, {}, {})
    guesses = [step for step in lesson.steps if isinstance(step, Predict)]
    assert score_words(lesson, record) == f"0 of {len(guesses)} predictions right"
    number = next(step for step in guesses if step.asks == "number")
    record.of(number.id).answer = "0,06"
    record.measured[number.value] = 0.06
    record.of(lesson.steps[0].id).state = State.SKIPPED
    told = f"1 of {len(guesses)} predictions right; 1 of {len(lesson.steps)} steps skipped"
    assert score_words(lesson, record) == told
    record.measured[number.value] = 0.066
    assert f"0 of {len(guesses)} predictions right, 1 close" in score_words(lesson, record)
    record.of(number.id).answer = "no number any more"
    assert score_words(lesson, record).startswith(f"0 of {len(guesses)}")


def test_a_step_that_is_gone_from_the_file_is_no_place_to_resume(lesson: Lesson, stage: ScriptedStage) -> None:
    progress = Progress()
    progress.lesson(lesson.name).at = "no-such-step"
    assert Player(lesson, stage, progress).index == 0


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"a": 1}', '{"a": {"at": "x", "finished": false, "measured": {"b": []}, "steps": {}}}']
)
def test_a_file_that_is_not_ours_is_never_written_over(tmp_path: Path, text: str) -> None:
    path = tmp_path / "learn.json"
    path.write_text(text)
    with pytest.raises(ProgressLost, match=r"learn\.json is no progress file") as caught:
        Progress.read(path)
    assert caught.value.hint == f"mv {path} {path}.old"
    assert path.read_text() == text
