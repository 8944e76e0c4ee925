"""What the router believes of prefix caches, from a call's submission to its end."""

from __future__ import annotations

from control_plane.contracts.block_hash import block_hashes
from control_plane.contracts.kv_events import KvBatch, KvEvent, KvFrame, KvSnapshot
from control_plane.contracts.kv_mirror import KvMirror
from control_plane.contracts.worker import Load, WorkerState
from control_plane.router.beliefs import AGAIN_S, MOST, Beliefs
from control_plane.router.placement import LOOKED_AT
from control_plane.router.requests import Request
from control_plane.router.targets import Target
from tests.unit.router.stage import Stage, StageWorker

BLOCK = 16
PROMPT = list(range(100))
NAMES = block_hashes(PROMPT, BLOCK)


def stage(*names: str, profile: str = "prefix_aware") -> Stage:
    made = Stage(profile=profile)
    made.start(*names, block_size=BLOCK, total_blocks=100)
    return made


def target(made: Stage, worker_id: str) -> Target:
    return made.dispatcher.targets.by_worker(worker_id)


def tell(made: Stage, worker_id: str, *stored: int, removed: tuple[int, ...] = ()) -> KvMirror:
    """The worker's events say so; the first ones are a snapshot."""
    mirror, instance = target(made, worker_id).mirror, target(made, worker_id).instance_id
    if not mirror.instance_id:
        mirror.apply(KvFrame(instance, KvSnapshot(1, stored)))
    else:
        events = (KvEvent(stored=stored), KvEvent(removed=removed))
        assert mirror.apply(KvFrame(instance, batches=(KvBatch(mirror.seq + 1, events),)))
    return mirror


def believed(made: Stage, prompt: list[int] = PROMPT, salt: str = "") -> dict[str, int]:
    """By worker, what the router takes to be cached of a prompt."""
    request = Request(made.dispatcher, made.call(prompt=prompt, salt=salt), None, 0, made.now)  # type: ignore[arg-type]
    found = made.dispatcher.targets.cached("tiny", prompt, request.blocks)
    return {t.worker_id: found[t.shelf.slot] if found else 0 for t in made.dispatcher.targets.all()}


def test_a_call_goes_where_its_prompt_is_and_its_view_says_what_was_believed() -> None:
    made = stage("a", "b", "c")
    for name in "ac":
        tell(made, name)
    tell(made, "b", *NAMES[:4])
    made.submit("r1", prompt=PROMPT)
    assert made.where("r1") == "b"
    [view] = made.ledger.take(made.now).active
    assert view.predicted_cached_tokens == 64
    made.link("b").finish("r1", cached=64)
    [view] = made.ledger.take(made.now).ended
    assert (view.predicted_cached_tokens, view.cached_tokens) == (64, 64)


def test_the_last_token_is_never_believed_to_be_cached() -> None:
    made = stage("a")
    tell(made, "a", *NAMES)
    assert believed(made, PROMPT[:96]) == {"a": 80}
    assert believed(made, PROMPT[:97]) == {"a": 96}
    assert believed(made, PROMPT[:16]) == {"a": 0}
    assert believed(made, []) == {"a": 0}


def test_a_call_on_its_way_counts_and_one_that_came_to_nothing_does_not() -> None:
    made = stage("a")
    tell(made, "a")
    handle, _ = made.submit("r1", prompt=PROMPT)
    assert believed(made) == {"a": 96}
    handle.cancel("client_left")  # type: ignore[attr-defined]
    assert believed(made) == {"a": 0}
    made.submit("r2", prompt=PROMPT)
    tell(made, "a", *NAMES)
    made.link("a").finish("r2")
    assert believed(made) == {"a": 96}
    tell(made, "a", removed=tuple(NAMES[2:]))
    assert believed(made) == {"a": 32}


def test_an_engine_without_events_is_estimated_with_its_answers() -> None:
    made = stage("a")
    made.submit("r1", prompt=PROMPT, max_tokens=40)
    for _ in range(30):
        made.link("a").token("r1")
    made.link("a").finish("r1", output_tokens=31)
    longer = [*PROMPT, *[7] * 31, 5]
    assert believed(made, longer) == {"a": 128}


def test_tenants_share_nothing() -> None:
    made = stage("a", "b")
    tell(made, "a", *block_hashes(PROMPT, BLOCK, "one"))
    tell(made, "b", *block_hashes(PROMPT, BLOCK, "two"))
    assert believed(made, salt="one") == {"a": 96, "b": 0}
    assert believed(made, salt="two") == {"a": 0, "b": 96}
    assert believed(made) == {"a": 0, "b": 0}


def test_a_worker_that_starts_again_has_nothing_before_anything_is_sent_to_it() -> None:
    """R04."""
    made = stage("a", "b")
    tell(made, "a", *NAMES)
    tell(made, "b")
    made.publish(
        StageWorker("a", "a-i2", block_size=BLOCK, total_blocks=100),
        StageWorker("b", "b-i1", block_size=BLOCK, total_blocks=100),
    )
    assert believed(made) == {"a": 0, "b": 0}
    assert len(made.dispatcher.targets.index) == 0
    assert target(made, "a").belief().blocks == 0


def test_a_failed_worker_is_believed_to_have_nothing() -> None:
    from control_plane.contracts.fleet import WorkerPhase

    made = stage("a")
    tell(made, "a", *NAMES)
    made.workers["a"].phase = WorkerPhase.FAILED
    made.publish()
    assert believed(made) == {"a": 0}
    assert not target(made, "a").belief().told


def test_a_thousand_workers_that_came_and_went_leave_nothing() -> None:
    """R04."""
    made = stage("stays")
    tell(made, "stays", *NAMES)
    index = made.dispatcher.targets.index
    for number in range(0, 1000, 10):
        fresh = [StageWorker(f"w{n}", f"i{n}", block_size=BLOCK, total_blocks=100) for n in range(number, number + 10)]
        made.publish(made.workers["stays"], *fresh)
        for worker in fresh:
            tell(made, worker.worker_id, *NAMES, 1000 + number)
    made.publish(made.workers["stays"])
    assert (len(index), index.slots <= 21, len(made.links)) == (len(NAMES), True, 1001)
    assert believed(made) == {"stays": 96}


def test_one_that_leaves_is_known_until_its_calls_are_over() -> None:
    made = stage("a", "b")
    tell(made, "a", *NAMES)
    made.submit("r1", prompt=PROMPT)
    assert made.where("r1") == "a"
    made.publish(made.workers["b"])
    assert len(made.dispatcher.targets.index) == len(NAMES)
    made.link("a").finish("r1")
    assert len(made.dispatcher.targets.index) == 0


def test_a_call_that_goes_on_elsewhere_is_looked_up_with_what_it_has_said() -> None:
    made = stage("a", "b", "c")
    longer = [*PROMPT, *[7] * 30]
    for name in "bc":
        tell(made, name)
    tell(made, "a", *NAMES)
    made.submit("r1", prompt=PROMPT, max_tokens=60)
    for _ in range(30):
        made.link("a").token("r1")
    tell(made, "c", *block_hashes(longer, BLOCK))
    made.link("a").down()
    assert made.where("r1") == "c"
    [view] = made.ledger.take(made.now).active
    assert view.predicted_cached_tokens == 128
    made.link("c").finish("r1")
    made.check()


def test_workers_of_one_model_may_have_blocks_of_different_sizes() -> None:
    made = Stage(profile="prefix_aware")
    made.publish(
        StageWorker("a", "a-i1", block_size=16, total_blocks=100),
        StageWorker("b", "b-i1", block_size=32, total_blocks=100),
        StageWorker("none", "n-i1"),
    )
    tell(made, "a", *NAMES[:2])
    tell(made, "b", *block_hashes(PROMPT, 32))
    assert believed(made) == {"a": 32, "b": 96, "none": 0}
    made.submit("r1", prompt=PROMPT)
    assert made.where("r1") == "b"


def test_a_session_comes_back_to_its_worker_while_that_lives() -> None:
    made = stage("a", "b", "c", "d")
    made.submit("r1", session="chat")
    home = made.where("r1")
    made.link(home).finish("r1")
    target(made, home).candidate.work = 0.0
    made.submit("r2", session="chat")
    assert made.where("r2") == home
    made.link(home).down()
    assert made.where("r2") not in ("", home)
    assert believed(made, [1, 2, 3]) == dict.fromkeys("abcd", 0)


def test_work_that_was_given_fades() -> None:
    made = stage("a")
    tell(made, "a", *NAMES[:2])
    made.submit("r1", prompt=PROMPT)
    candidate = target(made, "a").candidate
    assert candidate.work == 100 - 32
    made.now += 60.0
    made.workers["a"].load = Load("a-i1", made.now, WorkerState.READY)
    made.publish()
    assert candidate.work == 34


def test_reports_tell_news_and_each_worker_in_its_turn() -> None:
    count = MOST + 10
    made = stage(*(f"w{number}" for number in range(count)))
    beliefs = Beliefs(made.dispatcher.targets)
    first, second = beliefs.take(0.0), beliefs.take(0.5)
    assert (len(first), len(second)) == (MOST, 10)
    assert {belief.worker_id for belief in (*first, *second)} == set(made.workers)
    assert beliefs.take(1.0) == ()
    tell(made, "w0", *NAMES)
    assert beliefs.take(1.5) == ()  # not its turn
    [news] = beliefs.take(2.0)
    assert (news.worker_id, news.instance_id, news.blocks, news.told, news.seq) == ("w0", "w0-i1", 6, True, 1)
    target(made, "w0").heard_kv(5.0)
    assert beliefs.take(2.5) == beliefs.take(3.0) == ()
    beliefs.put_back([news])
    assert beliefs.take(3.5) == ()
    assert [belief.worker_id for belief in beliefs.take(4.0)] == ["w0"]
    assert len(beliefs.take(0.5 + AGAIN_S)) + len(beliefs.take(1.0 + AGAIN_S)) >= count - 1


def test_among_very_many_the_holder_is_found_and_whoever_is_usable() -> None:
    made = stage(*(f"w{number}" for number in range(LOOKED_AT + 50)))
    tell(made, "w299", *NAMES)
    made.submit("r1", prompt=PROMPT)
    assert made.where("r1") == "w299"
    assert made.dispatcher.placement.decisions.last.candidates <= LOOKED_AT
    for worker in made.workers.values():
        worker.cordoned = worker.worker_id != "w177"
    made.publish()
    for number in range(4):
        made.submit(f"only{number}", prompt=PROMPT)
        assert made.where(f"only{number}") == "w177"
