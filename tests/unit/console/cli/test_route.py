"""``inferdeck route``, and what lists say of names that lead to models."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest

from control_plane.contracts.fleet import ModelView
from control_plane.contracts.model_choice import ModelChoice, Score, ScorePart
from tests.unit.console.cli.conftest import CHOICE
from tests.unit.console.conftest import Command
from tests.unit.console.fake_operator import FakeOperator, request
from tests.unit.console.openai_server import OpenAIServer

CHOSEN = ModelChoice(
    "auto",
    "smollm2-135m",
    "auto takes the small one",
    threshold=0.4,
    score=Score(0.1, (ScorePart("length", 0.2, 0.5, "1600 characters"), ScorePart("code", 0.0, 0.4))),
)


def test_the_model_the_reason_and_every_part_of_the_score(inferdeck: Command, endpoint: OpenAIServer) -> None:
    ran = inferdeck("route", "Prove", "it", "--max-tokens", "9", "--user", "ann", "--url", endpoint.url)
    assert ran.code == 0, ran.err
    assert ran.out.splitlines() == [
        "model       big\\x1b[31m",
        "asked for   auto",
        "why         auto takes the large one, big",
        "score       0.50, large from 0.4 on",
        "            reasoning  1.00 × 0.5 = 0.50   prove, theorem",
        "workers     2 ready",
        "price       7.25 a worker and hour",
    ]
    [call] = endpoint.calls
    assert (call.path, call.headers.get("x-inferdeck-model")) == ("/v1/route", None)
    assert call.body == {
        "model": "auto",
        "messages": [{"role": "user", "content": "Prove it"}],
        "max_tokens": 9,
        "user": "ann",
    }


def test_a_model_that_is_simply_asked_for(inferdeck: Command, endpoint: OpenAIServer) -> None:
    ran = inferdeck("route", "hi", "-m", "plain", "--url", endpoint.url)
    assert ran.out.splitlines() == ["model       plain", "workers     2 ready", "price       – a worker and hour"]


def test_other_forms(inferdeck: Command, endpoint: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("from a pipe"))
    assert json.loads(inferdeck("route", "--url", endpoint.url, "-o", "json").out) == CHOICE
    assert endpoint.calls[-1].body["messages"][0]["content"] == "from a pipe"
    assert inferdeck("route", "x", "--url", endpoint.url, "-o", "name").out == "model/big\\x1b[31m\n"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("hi", "-m", "nope"), 3, "no: model_not_found (HTTP 404, model_not_found)"),
        (("hi", "-m", "nope"), 3, "hint: inferdeck get models"),
        (("before the policy",), 3, "hint: inferdeck policy set routing.models.auto.small=MODEL"),
        (("hi", "--override", "odd"), 2, "no: invalid_value (HTTP 400, invalid_value)"),
        (("hi", "--override", "a\nb: c"), 2, "cannot be sent"),
        (("  ",), 2, "what would be asked?"),
    ],
)
def test_refusals_have_their_codes(
    inferdeck: Command, endpoint: OpenAIServer, words: tuple[str, ...], code: int, message: str
) -> None:
    ran = inferdeck("route", *words, "--url", endpoint.url)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err


def test_lists_show_where_names_lead(operator: FakeOperator, inferdeck: Command) -> None:
    plain = inferdeck("get", "models").out
    assert "LEADS TO" not in plain
    [model] = operator.state.models
    auto = ModelView("auto", "", ready_workers=2, kind="auto", leads_to="a, from 0.4 on b", targets=("a", "b"))
    operator.update(models=(replace(model, fallback=("b",), price_per_hour=2.5), auto))
    head, first, second = inferdeck("get", "models", "-o", "wide").out.splitlines()
    assert head.split() == [
        "NAME", "POOL", "ENGINE", "CONTEXT", "READY", "WORKERS", "KIND", "LEADS", "TO", "FALLBACK", "SOURCE", "PRICE/H",
    ]  # fmt: skip
    assert first.split() == [
        "smollm2-135m", "smollm2", "vllm", "2,048", "2", "model", "–", "b", "builtin:smollm2-135m", "2.5",
    ]  # fmt: skip
    assert "auto   a, from 0.4 on b" in second
    told = json.loads(inferdeck("get", "model/auto", "-o", "json").out)
    assert (told["kind"], told["targets"], told["price_per_hour"]) == ("auto", ["a", "b"], None)
    described = inferdeck("describe", "model/auto").out
    assert "auto        a, from 0.4 on b" in described
    assert "price       2.5 a worker and hour" in inferdeck("describe", "model/smollm2-135m").out


def test_a_request_tells_what_was_asked_for_why_and_what_it_cost(operator: FakeOperator, inferdeck: Command) -> None:
    operator.update(requests=(request("req-1", choice=CHOSEN, worker_s=1.5, cost=0.003),))
    lines = inferdeck("describe", "request/req-1").out.splitlines()
    assert "model       smollm2-135m · asked for auto" in lines
    assert "why         auto takes the small one" in lines
    assert "score       0.10, large from 0.4 on" in lines
    assert "            length     0.20 × 0.5 = 0.10   1600 characters" in lines
    assert "            code       0.00 × 0.4 = 0.00   –" in lines
    assert "cost        0.003 (1.50 s of a worker's time, shared out, at 7.2 an hour)" in lines
    told = json.loads(inferdeck("get", "request/req-1", "-o", "json").out)
    assert (told["choice"]["asked"], told["cost"], told["choice"]["score"]["total"]) == ("auto", 0.003, 0.1)


def test_a_request_whose_pool_has_no_price_has_no_cost(operator: FakeOperator, inferdeck: Command) -> None:
    operator.update(requests=(request("req-1", worker_s=1.5), request("req-2")))
    said = inferdeck("describe", "request/req-1").out
    assert "cost        – (1.50 s of a worker's time, shared out; its pool has no price_per_hour)" in said
    assert "asked for" not in said
    assert "cost        –\n" in inferdeck("describe", "request/req-2").out
    assert json.loads(inferdeck("get", "request/req-1", "-o", "json").out)["cost"] is None
