"""A call that was made, as its router sent it on."""

from __future__ import annotations

from typing import Any

import pytest

from console.learn.calls import Made
from console.learn.request_forms import request_forms, routed_call
from console.learn.wire import WireAnswer
from control_plane.contracts.errors import NotFound
from control_plane.contracts.fleet import RequestPhase, RequestView
from control_plane.contracts.policy import Policy
from control_plane.contracts.timeline import Timeline
from control_plane.contracts.wire.generate import read_generate, write_generate
from control_plane.contracts.worker import Generate, Sampling
from lessons.actions import Shape

VIEW = RequestView("7-1-1-x", "g1", "m", RequestPhase.FINISHED, arrival_unix=12.5, tier="enterprise")


def made(prompt: Any, **sampling: Any) -> Made:
    body = {"model": "m", "prompt": prompt, "max_tokens": 4, "stream": True, "ignore_eos": True} | sampling
    return Made("7-1-1-x", Shape("x"), "/completions", body, WireAnswer())


class Client:
    """``inferdeck`` as far as it is asked here."""

    access: Client

    def __init__(self) -> None:
        self.access = self

    async def timeline(self, request_id: str) -> Timeline:
        assert request_id == VIEW.id
        return Timeline(VIEW)

    async def policy(self) -> Policy:
        return Policy()


def test_its_worker_hears_what_it_had() -> None:
    heard = read_generate(write_generate(1, routed_call(made([300, 7]), VIEW, Policy())))
    # A tier that is served first has the lower priority there.
    assert heard == Generate(1, VIEW.id, (300, 7), Sampling(max_tokens=4, ignore_eos=True), -10, "", True, 12.5)


def test_all_that_was_asked_of_sampling_goes_along() -> None:
    asked = made([300], min_tokens=2, temperature=0, ignore_eos=False)
    heard = read_generate(write_generate(1, routed_call(asked, VIEW, Policy())))
    assert heard.sampling == Sampling(max_tokens=4, min_tokens=2, temperature=0.0)


async def test_both_forms_are_of_the_whole_prompt() -> None:
    client: Any = Client()
    few, many = [await request_forms(client, made([300] * count)) for count in (10, 1010)]
    assert (many.json.size - few.json.size, many.protobuf.size - few.protobuf.size) == (4000, 2000 + 2)


async def test_a_call_that_was_not_made_or_is_text_has_no_forms() -> None:
    client: Any = Client()
    for none in (None, made("text")):
        with pytest.raises(NotFound, match="no such call of token ids"):
            await request_forms(client, none)
