from __future__ import annotations

import json
import statistics

import pytest

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.worker import Generate, Sampling
from workers.engine.modelless.script import PLAIN
from workers.engine.modelless.tokenizer import ByteTokenizer, builtin_files
from workers.engine.sim.answers import SimAnswers

TOKENIZER = ByteTokenizer(builtin_files())
ANSWERS = SimAnswers(TOKENIZER, 100)


def ids(request_id: str = "r", prompt: tuple[int, ...] = (1, 2, 3), choice: int = 0, **sampling: object) -> list[int]:
    asked = Sampling(**{"max_tokens": 4000, **sampling})  # type: ignore[arg-type]
    return [token for step in ANSWERS.steps(Generate(1, request_id, prompt, asked), PLAIN, choice) for token in step]


def test_a_seed_says_the_same_and_others_say_others() -> None:
    assert ids("a", seed=5) == ids("b", seed=5)
    assert ids(seed=5) != ids(seed=6)
    assert ids(seed=5) != ids(seed=5, choice=1)
    assert ids(seed=5) != ids(seed=5, prompt=(9,))


def test_without_a_seed_the_request_decides_and_greedy_the_prompt() -> None:
    assert ids("a") == ids("a") != ids("b")
    assert ids("a", temperature=0.0) == ids("b", temperature=0.0)


def test_it_is_text_of_the_length_that_was_asked_for() -> None:
    tokens = ids(max_tokens=300, ignore_eos=True)
    assert len(tokens) == 300
    text = TOKENIZER.decode(tokens).decode()
    assert text.isascii()
    assert text.count(".") > 10
    assert TOKENIZER.eos_id not in tokens


def test_left_alone_it_ends_by_itself_and_answers_differ_in_length() -> None:
    answers = [ids(str(n)) for n in range(200)]
    assert all(answer[-1] == TOKENIZER.eos_id for answer in answers)
    assert 80 < statistics.median(map(len, answers)) < 125
    assert max(map(len, answers)) > 2 * min(map(len, answers))


def test_min_tokens_and_max_tokens_bound_it() -> None:
    assert all(len(ids(str(n), min_tokens=500)) > 500 for n in range(20))
    assert len(ids(max_tokens=1)) == 1
    assert all(len(ids(str(n), max_tokens=20)) <= 20 for n in range(20))


def test_an_answer_that_is_held_to_json_is_json_and_then_ends() -> None:
    schema = '{"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"]}'
    for asked, value in (({"json_schema": schema}, {"a": 3}), ({"json_object": True}, None)):
        tokens = ids(**asked)  # type: ignore[arg-type]
        assert tokens[-1] == TOKENIZER.eos_id
        said = json.loads(TOKENIZER.decode(tokens))
        assert isinstance(said, dict)
        assert value is None or said == value
        assert ids("other", **asked) == tokens  # type: ignore[arg-type]
        long = ids(min_tokens=200, **asked)  # type: ignore[arg-type]
        assert len(long) == 201
        assert json.loads(TOKENIZER.decode(long)) == said


def test_what_an_answer_cannot_be_held_to_is_refused_by_name() -> None:
    for asked, param in (({"json_schema": '{"not": {}}'}, "response_format"), ({"regex": "a+"}, "regex")):
        with pytest.raises(InvalidRequest) as refused:
            ids(**asked)
        assert refused.value.param == param
