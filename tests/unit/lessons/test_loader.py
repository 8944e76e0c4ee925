from __future__ import annotations

from pathlib import Path

import pytest

from lessons.catalogue import folders
from lessons.faults import BadLesson
from lessons.loader import load
from lessons.model import Check, Observe, Predict, Reveal
from tests.unit.lessons.folders import lesson_folder

CALLS = 'do = "calls"\ncalls = [{ name = "mine", prompt_tokens = 32, output_tokens = 64 }]'
OBSERVE = 'step]]\nkind = "observe"'


def faults(folder: Path) -> list[str]:
    """Without the folder's path."""
    with pytest.raises(BadLesson) as caught:
        load(folder)
    assert caught.value.hint.startswith("edit ")
    return [line.removeprefix(f"{folder}/") for line in caught.value.message.splitlines()]


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: folder.name)
def test_every_lesson_that_comes_with_the_program_is_sound(folder: Path) -> None:
    lesson = load(folder)
    assert lesson.number == int(folder.name[:2])
    assert isinstance(lesson.steps[-1], Reveal)


def test_a_lesson_is_read_with_its_words_and_units(tmp_path: Path) -> None:
    lesson = load(lesson_folder(tmp_path))
    assert lesson.title == "My lesson"
    assert lesson.sandbox.engine_args == {"profile": "a100-80gb-llama-3.1-8b"}
    idea, first = lesson.steps[0], lesson.steps[1]
    assert len(idea.words.pages) == 2
    assert isinstance(first, Predict)
    assert (first.unit, first.words.hints, first.words.answer) == (
        "s",
        ("A hint for who asks for one.",),
        "Why it came out so.",
    )
    experiment = lesson.step("experiment")
    assert isinstance(experiment, Observe)
    assert experiment.expects[0].unit == "tokens"
    repair = lesson.step("repair")
    assert isinstance(repair, Check)
    assert repair.reference[0].told() == "inferdeck uncordon w-1"


def place(folder: Path, file: str, at: str) -> str:
    """Where a text stands: its last occurrence."""
    before = (folder / file).read_text().rpartition(at)[0]
    return f"{file}:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"


@pytest.mark.parametrize(
    ("old", "new", "at", "what"),
    [
        ("minutes = 5", "minute = 5", "minute =", "unknown key 'minute'; did you mean minutes?"),
        (
            'kind = "reveal"\nid = "idea"',
            'kind = "reveel"\nid = "idea"',
            'kind = "reveel"',
            "unknown kind 'reveel'; did you mean reveal?",
        ),
        ("seed = 1\n", "seed = 1 2\n", "2\n\n[sandbox]", "not valid TOML: "),
        ("seed = 1", 'seed = "1"', "seed", "a whole number is needed, not '1'"),
        ('engine = "sim"', 'engine = "simm"', "engine =", "'simm' is none of these; did you mean sim?"),
        (
            "output_tokens = 64",
            "output_token = 64",
            "output_token ",
            "unknown key 'output_token'; did you mean output_tokens?",
        ),
        ('of = "ttft"', 'of = "tfft"', 'of = "tfft"', "unknown 'tfft'; did you mean ttft?"),
        ('do = "cordon"', 'do = "cordn"', 'do = "cordn"', "unknown 'cordn'; did you mean cordon?"),
        ("below = 64\n", "", 'step]]\nkind = "predict"\nid = "guess-tokens"', "a choice wants two or more"),
        (
            'of = "ttft"\ncalls = "mine"',
            'of = "ttft"\ncalls = "miny"',
            'calls = "miny"',
            "no calls are named 'miny'; did you mean mine?",
        ),
        (
            'value = "first"',
            'value = "frist"',
            'value = "frist"',
            "experiment does not measure 'frist'; did you mean first?",
        ),
        (
            'about = "experiment"',
            'about = "experimant"',
            'about = "experimant"',
            "'experimant' is no observe step after it",
        ),
        ('reference = "0.05"', 'reference = "soon"', 'reference = "soon"', "'soon' is no number (s)"),
        (
            'says = "The hint for who answers so."\n',
            "",
            'step.option]]\ntext = "A wrong answer"',
            "says is missing: a hint",
        ),
        ("right = true\n", "", 'step]]\nkind = "quiz"', "two or more [[step.option]]"),
        ("concepts = [2] ", "concepts = [99]", "concepts = [99]", "numbers of concepts, 1 to 28"),
        ("concepts = [2] ", "concepts = 2", "concepts = 2", "a list is needed"),
        (
            'kind = "reveal"\nid = "idea"',
            'kind = "show"\nid = "idea"\nview = "wire"\nof = "mine"',
            'of = "mine"',
            "no calls before this are named 'mine'",
        ),
        (
            'kind = "reveal"\nid = "idea"',
            'kind = "show"\nid = "idea"\nview = "tokens"',
            "step]]                        # the words",
            "the text whose tokens are shown",
        ),
        (
            'name = "mine", prompt_tokens = 32',
            'name = "two words", prompt_tokens = 32',
            'step]]\nkind = "observe"',
            "'two words' is no name of a call",
        ),
        (
            'name = "mine", prompt_tokens = 32',
            'name = "mine", api = "chat"',
            'step]]\nkind = "observe"',
            "mine: a chat has a text",
        ),
        (
            'name = "mine", prompt_tokens = 32',
            'name = "mine", key = "shop"',
            'step]]\nkind = "observe"',
            "no key 'shop' is made before this",
        ),
        (
            'do = "cordon"\nworker = "w-1"',
            'do = "set_key"\nkey = "none"\nset = ["rpm=1"]',
            'step]]\nkind = "do"',
            "no key 'none' is made before this",
        ),
        (
            CALLS,
            CALLS.replace("64 }", "64, prefixes = 2 }"),
            OBSERVE,
            "mine: prefixes, one at least, have prefix_tokens",
        ),
        (
            CALLS,
            CALLS.replace("64 }", '64, prefix_tokens = 9, prefix_of = "miny" }'),
            OBSERVE,
            "mine: no calls are named 'miny'; did you mean mine?",
        ),
        (
            CALLS,
            f'{CALLS}\n[[step.action]]\ndo = "encode"\ncalls = "miny"',
            OBSERVE,
            "no calls are named 'miny'; did you mean mine?",
        ),
        (
            'kind = "reveal"\nid = "idea"',
            'kind = "show"\nid = "idea"\nview = "hops"\nof = "mine"',
            'of = "mine"',
            "no calls before this are named 'mine'; known are ",
        ),
        (
            CALLS,
            'do = "plan"\nname = "p"\nmodel = "Llama-3.1-70B"\ngpu = "H1000"\ncontext = 8192',
            OBSERVE,
            "this cannot be worked out: no GPU 'H1000' is known here",
        ),
        (
            'kind = "reveal"\nid = "idea"',
            'kind = "show"\nid = "idea"\nview = "conversation"\nof = "talk"',
            'of = "talk"',
            "no call before this is in a conversation 'talk'",
        ),
        (
            CALLS,
            CALLS.replace("64 }", "64, min_tokens = 65 }"),
            OBSERVE,
            "mine: min_tokens are 0 to output_tokens",
        ),
        (
            CALLS,
            CALLS.replace("64 }", '64, conversation = "talk" }'),
            OBSERVE,
            "mine: a conversation is of chats, and of a key's owner",
        ),
        (
            CALLS,
            CALLS.replace("prompt_tokens = 32", 'api = "chat", text = "hi", conversation = "talk", key = "none"'),
            OBSERVE,
            "mine: a conversation is of chats, and of a key's owner",
        ),
        (
            CALLS,
            'do = "crash"\ncalls = "miny"',
            OBSERVE,
            "crash: no calls are named 'miny'",
        ),
        (
            CALLS,
            CALLS + '\n[[step.action]]\ndo = "crash"\ncalls = "mine"\ntimes = 6',
            OBSERVE,
            "times: 1 to 5",
        ),
        (
            'of = "ttft"\ncalls = "mine"',
            'of = "plan_gpus"\nplan = "p"',
            'plan = "p"',
            "no plan is named 'p'; known are ",
        ),
    ],
)
def test_a_fault_is_told_with_line_and_column(tmp_path: Path, old: str, new: str, at: str, what: str) -> None:
    folder = lesson_folder(tmp_path, {old: new})
    assert any(line.startswith(f"{place(folder, 'lesson.toml', at)}: {what}") for line in faults(folder)), faults(
        folder
    )


@pytest.mark.parametrize(
    ("old", "new", "at", "what"),
    [
        ("# idea", "# ideal", "# ideal", "no step 'ideal' in lesson.toml; did you mean idea?"),
        ("## hint\nA gentle", "## hnt\nA gentle", "hnt", "unknown part 'hnt'; there are ## hint and ## answer"),
        ("Run it.", "", "# experiment", "a screen without words"),
        ("A gentle hint.", "", "## hint\n\n", "## hint is empty"),
        ("One idea.", "long " * 100, "# idea", "5"),
        ("# idea", "before\n# idea", "before", "words before the first # step"),
        ("# break", "# question", "question", "# question is there twice"),
    ],
)
def test_a_fault_in_the_words_is_told_with_its_line(tmp_path: Path, old: str, new: str, at: str, what: str) -> None:
    folder = lesson_folder(tmp_path, words={old: new})
    assert any(line.startswith(f"{place(folder, 'words.md', at)}: {what}") for line in faults(folder)), faults(folder)


def test_a_step_whose_words_lack_a_part_is_told_at_its_id(tmp_path: Path) -> None:
    folder = lesson_folder(tmp_path, words={"## answer\nWhat is right, and why.\n": ""})
    assert faults(folder) == [
        f"{place(folder, 'lesson.toml', 'id = ' + chr(34) + 'question')}: words.md has no ## answer under # question"
    ]


def test_only_simulated_workers_die_on_demand(tmp_path: Path) -> None:
    crash = {'do = "cordon"\nworker = "w-1"': 'do = "crash"\ncalls = "mine"'}
    load(lesson_folder(tmp_path / "sim", crash))
    folder = lesson_folder(tmp_path / "vllm", crash | {'engine = "sim"': 'engine = "vllm"'})
    at = place(folder, "lesson.toml", 'step]]\nkind = "do"')
    assert faults(folder) == [f"{at}: crash is for simulated workers"]


def test_an_id_is_there_once(tmp_path: Path) -> None:
    words = {"# break\nBreak it: the only worker takes no new requests.\n": ""}
    folder = lesson_folder(tmp_path, {'id = "break"': 'id = "question"'}, words)
    assert faults(folder)[0] == (
        f"{place(folder, 'lesson.toml', 'id = ' + chr(34) + 'question')}: 'question' is there twice (also step 5)"
    )


def test_all_faults_are_told_at_once_and_in_order(tmp_path: Path) -> None:
    changes = {"minutes = 5": 'minutes = "5"', 'of = "ttft"': 'of = "t"'}
    folder = lesson_folder(tmp_path, changes, {"# idea": "# no"})
    wanted = [
        ("lesson.toml", "minutes"),
        ("lesson.toml", 'id = "idea"'),
        ("lesson.toml", 'of = "t"'),
        ("words.md", "# no"),
    ]
    assert [line.partition(": ")[0] for line in faults(folder)] == [place(folder, *each) for each in wanted]


def test_files_that_are_missing_or_no_text_are_told(tmp_path: Path) -> None:
    folder = lesson_folder(tmp_path)
    (folder / "words.md").write_bytes(b"# idea\n\xff\xfe")
    assert faults(folder) == ["words.md:2:1: not a UTF-8 text"]
    (folder / "lesson.toml").unlink()
    assert faults(folder) == ["lesson.toml:1:1: cannot be read: No such file or directory"]


def test_a_lesson_has_predictions_an_experiment_something_to_repair_and_an_end(tmp_path: Path) -> None:
    folder = lesson_folder(tmp_path)
    (folder / "lesson.toml").write_text(
        'title = "T"\nabout = "a"\nminutes = 5\n[[step]]\nkind = "reveal"\nid = "idea"\n'
        '[[step]]\nkind = "show"\nid = "break"\nview = "workers"\n'
    )
    (folder / "words.md").write_text("# idea\nx\n# break\ny\n")
    assert {line.split(": ", 1)[1] for line in faults(folder)} == {
        "at least two predictions are wanted, there are 0",
        'an experiment is wanted: kind = "observe"',
        'something to repair is wanted: kind = "check"',
        "no step says which concept it shows: concepts = [2] at a show, do, observe or check",
        "the last step reveals what to remember",
    }
