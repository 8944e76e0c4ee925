from __future__ import annotations

from typing import Any

import pytest

from control_plane.contracts.errors import Conflict, InvalidRequest
from control_plane.contracts.step import StepFinished, StepKind, StepWaiting
from workers.engine.sim.config import SchedulerConfig
from workers.engine.sim.request import SimRequest
from workers.engine.sim.scheduled import Scheduled
from workers.engine.sim.scheduler import WAITING_SHOWN, SimScheduler

TOKEN = 7


def scheduler(**settings: Any) -> SimScheduler:
    values: dict[str, Any] = {
        "block_size": 4,
        "total_blocks": 16,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 16,
        "max_model_len": 64,
    }
    return SimScheduler(SchedulerConfig(**{**values, **settings}))


def request(request_id: str, prompt: int = 4, max_tokens: int = 4, first: int = 0, **fields: Any) -> SimRequest:
    return SimRequest(request_id, list(range(first, first + prompt)), max_tokens, **fields)


def step(sim: SimScheduler, ended: dict[str, str] | None = None) -> tuple[Scheduled, tuple[StepFinished, ...]]:
    scheduled = sim.schedule(0.0)
    return scheduled, sim.complete(scheduled, dict.fromkeys(scheduled.due, (TOKEN,)), ended)


def batch(scheduled: Scheduled) -> dict[str, int]:
    return {row.request_id: row.tokens for row in scheduled.rows}


def drain(sim: SimScheduler) -> list[StepFinished]:
    finished: list[StepFinished] = []
    while sim.has_work():
        finished += step(sim)[1]
    return finished


def test_a_request_from_its_first_step_to_its_last() -> None:
    sim = scheduler()
    sim.add(request("a", prompt=6, max_tokens=3, priority=2))
    scheduled, finished = step(sim)
    (row,) = scheduled.rows
    assert (row.kind, row.tokens, row.computed, row.prompt_tokens) == (StepKind.LAST_PREFILL, 6, 0, 6)
    assert (row.joined, row.resumed, row.new_blocks, row.blocks, row.priority) == (True, False, (1, 2), 2, 2)
    assert finished == ()
    (row,) = step(sim)[0].rows
    assert (row.kind, row.tokens, row.computed, row.output_tokens) == (StepKind.DECODE, 1, 6, 1)
    assert (row.joined, row.new_blocks, row.blocks) == (False, (), 2)
    scheduled, finished = step(sim)
    assert scheduled.step == 3
    assert finished == (StepFinished("a", "length", output_tokens=3, freed_blocks=2),)
    assert not sim.has_work()
    # Two blocks became full and can still be hit: of the nine tokens the last was never computed.
    assert sim.counts() == (0, 2, 14)


def test_a_long_prompt_is_computed_in_chunks_beside_decodes() -> None:
    sim = scheduler(max_num_batched_tokens=8)
    sim.add(request("short", prompt=3, max_tokens=9))
    step(sim)
    sim.add(request("long", prompt=18, first=100))
    kinds = []
    for _ in range(3):
        scheduled, _ = step(sim)
        kinds.append((batch(scheduled), scheduled.rows[1].kind, scheduled.due))
    assert kinds == [
        ({"short": 1, "long": 7}, StepKind.PREFILL, ("short",)),
        ({"short": 1, "long": 7}, StepKind.PREFILL, ("short",)),
        ({"short": 1, "long": 4}, StepKind.LAST_PREFILL, ("short", "long")),
    ]


def test_prompts_that_are_not_chunked_wait_for_a_step_with_room() -> None:
    sim = scheduler(max_num_batched_tokens=64, enable_chunked_prefill=False)
    sim.add(request("a", prompt=40, max_tokens=2))
    sim.add(request("b", prompt=30, first=100, max_tokens=2))
    assert [batch(step(sim)[0]) for _ in range(2)] == [{"a": 40}, {"a": 1}]
    assert batch(step(sim)[0]) == {"b": 30}


def test_the_long_prefill_threshold_holds_only_beside_others() -> None:
    sim = scheduler(long_prefill_token_threshold=5)
    sim.add(request("a", prompt=12))
    assert batch(step(sim)[0]) == {"a": 12}
    sim.add(request("b", prompt=12, first=100))
    assert batch(step(sim)[0]) == {"a": 1, "b": 5}
    fair = scheduler(long_prefill_token_threshold=5, long_prefill_token_threshold_adaptive=True)
    for name in "ab":
        fair.add(request(name, prompt=12, first=ord(name) * 100))
    assert batch(step(fair)[0]) == {"a": 8, "b": 8}


def test_no_more_run_than_there_are_seats() -> None:
    sim = scheduler(max_num_seqs=2)
    for name in "abc":
        sim.add(request(name, prompt=2))
    scheduled, _ = step(sim)
    assert batch(scheduled) == {"a": 2, "b": 2}
    assert (scheduled.waiting, scheduled.waiting_total) == ((StepWaiting("c", 2),), 1)
    assert sim.running() == ("a", "b")
    assert sim.sizes() == (2, 1)


def test_the_waiting_are_admitted_by_priority_then_arrival_then_id() -> None:
    sim = scheduler(policy="priority", max_num_seqs=1, max_num_batched_tokens=1)
    sim.add(request("d", priority=1, arrival=0.0))
    sim.add(request("c", priority=0, arrival=2.0))
    sim.add(request("b", priority=0, arrival=1.0))
    sim.add(request("a", priority=0, arrival=2.0))
    assert [waiting.request_id for waiting in sim.waiting()] == ["b", "a", "c", "d"]
    assert [waiting.request_id for waiting in sim.waiting(1)] == ["b"]


def test_full_blocks_of_an_equal_prefix_are_hit_but_never_the_last_token() -> None:
    sim = scheduler()
    sim.add(request("a", prompt=12, max_tokens=1))
    step(sim)
    sim.add(request("again", prompt=12))
    sim.add(request("longer", prompt=15))
    rows = step(sim)[0].rows
    # Twelve tokens fill three blocks, but one token has to be computed, and so its block.
    assert [(row.cached_tokens, row.computed, row.tokens) for row in rows] == [(8, 8, 4), (12, 12, 3)]
    assert rows[0].new_blocks[:2] == rows[1].new_blocks[:2] == (1, 2)
    assert [(block.block, block.references) for block in sim.snapshot().shared] == [(1, 2), (2, 2)]


def test_prefixes_are_shared_only_among_equal_salts() -> None:
    sim = scheduler(max_num_batched_tokens=64)
    for name, salt in (("a", ""), ("b", "x"), ("c", "x"), ("d", "")):
        sim.add(request(name, prompt=9, cache_salt=salt))
    assert [row.cached_tokens for row in step(sim)[0].rows] == [0, 0, 8, 8]


def test_without_a_prefix_cache_nothing_is_hit_or_kept() -> None:
    sim = scheduler(enable_prefix_caching=False)
    for name in "ab":
        sim.add(request(name, prompt=8, max_tokens=1))
    assert [row.cached_tokens for row in step(sim)[0].rows] == [0, 0]
    assert sim.counts() == (0, 0, 16)


def test_a_conversations_next_turn_hits_the_answer_too() -> None:
    sim = scheduler()
    sim.add(SimRequest("turn-1", list(range(6)), max_tokens=7))
    drain(sim)
    sim.add(SimRequest("turn-2", [*range(6), *[TOKEN] * 7, 50, 51], max_tokens=1))
    assert step(sim)[0].rows[0].cached_tokens == 12


def test_the_last_admitted_is_preempted_and_comes_back_first() -> None:
    sim = scheduler(total_blocks=6, max_model_len=24)
    sim.add(request("a", prompt=8, max_tokens=9))
    sim.add(request("b", prompt=8, max_tokens=9, first=100))
    sim.add(request("c", prompt=8, max_tokens=9, first=200))
    step(sim)
    # Each has two full blocks and wants a third: two get one.
    scheduled, _ = step(sim)
    assert (batch(scheduled), scheduled.preempted) == ({"a": 1, "b": 1}, ())
    for _ in range(3):
        step(sim)
    scheduled, _ = step(sim)
    assert (batch(scheduled), scheduled.preempted) == ({"a": 1}, ("b",))
    assert scheduled.waiting == (StepWaiting("b", 13, preempted=True), StepWaiting("c", 8))
    ended: tuple[StepFinished, ...] = ()
    while "b" not in batch(scheduled):
        assert not any(end.request_id == "c" for end in ended)
        scheduled, ended = step(sim)
    row = next(row for row in scheduled.rows if row.request_id == "b")
    assert (row.resumed, row.joined, row.output_tokens, row.kind) == (True, False, 5, StepKind.LAST_PREFILL)
    assert row.blocks == len(row.new_blocks)
    assert [end.request_id for end in drain(sim)] == ["b", "c"]


def test_under_priority_the_least_important_is_preempted_even_when_it_was_scheduled_already() -> None:
    sim = scheduler(policy="priority", total_blocks=4, max_model_len=16)
    sim.add(request("low", prompt=4, max_tokens=9, priority=5, first=100))
    step(sim)
    sim.add(request("high", prompt=8, max_tokens=5, arrival=1.0))
    scheduled, _ = step(sim)
    assert batch(scheduled) == {"low": 1, "high": 8}
    scheduled, _ = step(sim)
    assert (batch(scheduled), scheduled.preempted, scheduled.tokens) == ({"high": 1}, ("low",), 1)


def test_the_whole_prompt_must_fit_before_its_first_chunk_is_computed() -> None:
    def admitted(**settings: Any) -> dict[str, int]:
        sim = scheduler(total_blocks=8, max_model_len=32, max_num_batched_tokens=8, **settings)
        sim.add(request("a", prompt=7))
        step(sim)
        sim.add(request("b", prompt=28, first=100))
        return batch(step(sim)[0])

    assert admitted() == {"a": 1}
    assert admitted(scheduler_reserve_full_isl=False) == {"a": 1, "b": 7}


def test_the_watermark_keeps_blocks_free_but_not_for_a_request_alone() -> None:
    sim = scheduler(watermark=0.5)
    sim.add(request("a", prompt=16, max_tokens=2))
    sim.add(request("b", prompt=36, max_tokens=1, first=100))
    assert batch(step(sim)[0]) == {"a": 16}
    # Eight of the sixteen blocks stay free: of the other eight, b's first chunk would fit, but all of b does not.
    assert batch(step(sim)[0]) == {"a": 1}
    assert batch(step(sim)[0]) == {"b": 16}


def test_the_cached_block_freed_longest_ago_goes_first_and_tails_before_heads() -> None:
    sim = scheduler(total_blocks=4, max_model_len=16, max_num_batched_tokens=32)
    sim.add(request("a", prompt=8, max_tokens=1))
    step(sim)
    sim.add(request("b", prompt=8, max_tokens=1, first=100))
    step(sim)
    assert sim.snapshot().cached_free == (2, 1, 4, 3)
    sim.add(request("c", prompt=12, max_tokens=1, first=200))
    assert step(sim)[0].rows[0].new_blocks == (2, 1, 4)


def test_max_model_len_ends_a_request() -> None:
    sim = scheduler(max_model_len=8)
    sim.add(request("a", prompt=6, max_tokens=100))
    assert drain(sim) == [StepFinished("a", "length", output_tokens=2, freed_blocks=2)]


def test_the_caller_says_which_token_was_the_last() -> None:
    sim = scheduler()
    sim.add(request("a", max_tokens=9))
    step(sim)
    assert step(sim, {"a": "stop"})[1] == (StepFinished("a", "stop", output_tokens=2, freed_blocks=2),)


def test_without_its_token_a_request_stays_where_it_is() -> None:
    sim = scheduler()
    sim.add(request("a"))
    sim.complete(sim.schedule(0.0), {})
    idle = sim.schedule(0.0)
    assert (idle.rows, idle.tokens, idle.step) == ((), 0, 1)


def test_an_abort_frees_at_once_and_is_told_once() -> None:
    sim = scheduler(max_num_seqs=1, max_num_batched_tokens=4)
    sim.add(request("a", prompt=8, max_tokens=3))
    sim.add(request("b"))
    step(sim)
    assert sim.abort("b")
    assert sim.abort("a")
    assert not sim.abort("a")
    assert not sim.abort("nobody")
    assert sim.counts().used == 0
    assert sim.has_work()
    scheduled, finished = step(sim)
    assert scheduled.rows == ()
    assert finished == (StepFinished("b", "abort"), StepFinished("a", "abort", freed_blocks=1))
    assert not sim.has_work()


def test_a_token_that_comes_after_the_abort_is_lost() -> None:
    sim = scheduler()
    sim.add(request("a"))
    scheduled = sim.schedule(0.0)
    sim.abort("a")
    assert sim.complete(scheduled, {"a": (TOKEN,)}) == (StepFinished("a", "abort", freed_blocks=1),)
    assert not sim.has_work()


def test_an_id_can_be_used_again_when_its_request_has_ended() -> None:
    sim = scheduler()
    sim.add(request("a", max_tokens=1))
    with pytest.raises(Conflict) as refused:
        sim.add(request("a"))
    assert refused.value.param == "request_id"
    step(sim)
    sim.add(request("a"))


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"prompt": 0}, "prompt_token_ids", "invalid_request"),
        ({"prompt": 64}, "prompt_token_ids", "context_length_exceeded"),
        ({"max_tokens": 0}, "max_tokens", "invalid_request"),
    ],
)
def test_what_vllm_refuses_is_refused(fields: dict[str, int], param: str, code: str) -> None:
    sim = scheduler()
    with pytest.raises(InvalidRequest) as refused:
        sim.add(request("a", **fields))
    assert (refused.value.param, refused.value.code) == (param, code)
    assert not sim.has_work()


def test_the_prefix_cache_can_be_forgotten_while_nobody_has_blocks() -> None:
    sim = scheduler()
    sim.add(request("a", prompt=8, max_tokens=1))
    step(sim)
    sim.add(request("b", prompt=3))
    step(sim)
    assert not sim.reset_prefix_cache()
    drain(sim)
    assert sim.reset_prefix_cache()
    assert sim.counts() == (0, 0, 16)
    sim.add(request("c", prompt=8))
    assert step(sim)[0].rows[0].cached_tokens == 0


def test_a_step_tells_the_head_of_a_long_queue_and_its_length() -> None:
    sim = scheduler(max_num_seqs=1)
    for number in range(100):
        sim.add(request(f"r{number}"))
    scheduled, _ = step(sim)
    assert [waiting.request_id for waiting in scheduled.waiting] == [f"r{number}" for number in range(1, 65)]
    assert (len(scheduled.waiting), scheduled.waiting_total) == (WAITING_SHOWN, 99)


def test_the_snapshot_is_the_whole_cache() -> None:
    sim = scheduler()
    sim.add(request("a", prompt=6))
    sim.add(request("b", prompt=6))
    step(sim)
    snapshot = sim.snapshot(taken_unix=5.0)
    assert (snapshot.step, snapshot.taken_unix, snapshot.block_size, snapshot.total_blocks) == (1, 5.0, 4, 16)
    assert [(table.request_id, table.blocks, table.computed) for table in snapshot.tables] == [
        ("a", (1, 2), 6),
        ("b", (1, 3), 6),
    ]
    assert [(block.block, block.references) for block in snapshot.shared] == [(1, 2)]
    assert (snapshot.used_blocks, snapshot.cached_free_blocks, snapshot.free_blocks) == (3, 0, 13)
