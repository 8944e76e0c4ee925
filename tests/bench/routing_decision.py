"""``python -m tests.bench.routing_decision``: what one decision costs, with a fleet and an index of the largest kind.

A thousand endpoints, a million indexed blocks, prompts of 8,000 tokens: the whole of ``Placement.place`` but sending,
and its parts. Prompts begin like ones that were named before, and end in 256 tokens of their own; ``new_prompt`` is the
whole for prompts that nobody has seen. And what the index takes and takes in: bytes per block, events per second. Times
are CPU, of one thread.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from random import Random

from control_plane.contracts.call import RoutedCall
from control_plane.contracts.fleet import Endpoint, EndpointSet, ModelView, WorkerPhase
from control_plane.contracts.kv_events import KvBatch, KvEvent, KvFrame, KvSnapshot
from control_plane.contracts.worker import Load, ModelInfo, Sampling, WorkerInfo, WorkerState
from control_plane.router.ledger import Ledger
from control_plane.router.placement import Placement
from control_plane.router.prompt_blocks import PromptBlocks
from control_plane.router.requests import Request
from control_plane.router.scheduling.profile import PROFILES, Decision

MODEL = "bench"
BLOCK = 16


class NoLink:
    def generate(self, number: int, call: RoutedCall) -> None:
        pass

    def abort(self, number: int) -> None:
        pass

    def close(self) -> None:
        pass


class NoOwner:
    def first_token(self, request: Request) -> None:
        pass

    def ending(self, *_: object) -> None:
        pass

    def left(self, *_: object) -> None:
        pass


class NoSink:
    def delta(self, delta: object) -> None:
        pass

    def failed(self, error: object) -> None:
        pass


def fleet(endpoints: int, blocks: int) -> EndpointSet:
    model = ModelInfo(MODEL, max_context=131_072, block_size=BLOCK, total_blocks=2 * blocks, max_num_seqs=256)
    made = []
    for number in range(endpoints):
        name, instance = f"w{number}", f"w{number}-i"
        info = WorkerInfo(name, instance, 1, model=model, kv_events=True)
        load = Load(instance, 1.0, WorkerState.READY, running=number % 7, kv_usage=(number % 50) / 100)
        made.append(Endpoint(name, instance, "", "pool", MODEL, WorkerPhase.READY, info=info, load=load))
    return EndpointSet(1, tuple(made), (ModelView(MODEL, "pool"),))


def timed(what: Callable[[], object]) -> float:
    begun = time.thread_time_ns()
    what()
    return (time.thread_time_ns() - begun) / 1e9


def quantiles(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return {"p50_us": round(cuts[49] * 1e6, 1), "p99_us": round(cuts[98] * 1e6, 1)}


def measure(profile: str, endpoints: int, blocks: int, tokens: int, decisions: int) -> dict[str, object]:
    dice, now = Random(1), 1000.0
    placement = Placement(PROFILES[profile](Random(2)), Ledger("bench"), lambda: now)
    placement.targets.apply(fleet(endpoints, blocks // endpoints), now)
    targets = placement.targets
    for target in targets.all():
        target.link = NoLink()
        target.up()
    prompts = [[dice.randrange(32_000) for _ in range(tokens)] for _ in range(16)]
    chains = [PromptBlocks("").names(prompt, BLOCK) for prompt in prompts]
    each = blocks // endpoints
    for number, target in enumerate(targets.all()):
        # A chain that many share, more or less of it; the rest is the endpoint's own.
        shared = chains[number % len(chains)][: dice.randrange(each)]
        own = [dice.getrandbits(64) for _ in range(each - len(shared))]
        target.mirror.apply(KvFrame(target.instance_id, KvSnapshot(1, (*shared, *own))))
    gc.collect()
    gc.freeze()
    hashing, looking, deciding, whole, new = [], [], [], [], []

    def place(name: str, prompt: list[int], spent_in: list[float]) -> tuple[RoutedCall, Request, Decision]:
        call = RoutedCall(name, MODEL, prompt, Sampling(max_tokens=256), True, 0.0, now, session=name)
        request = Request(NoOwner(), call, NoSink(), 1, now)  # type: ignore[arg-type]
        spent = time.thread_time_ns()
        decision = placement.place(request)
        spent_in.append((time.thread_time_ns() - spent) / 1e9)
        return call, request, decision

    def own(count: int) -> list[int]:
        return [dice.randrange(32_000) for _ in range(count)]

    for number in range(decisions):
        _, request, decision = place(f"n{number}", own(tokens), new)
        assert decision.chosen is not None
        targets.of(decision.chosen).detach(request, now)
        prompt = [*prompts[number % 16][: tokens - 256], *own(256)]
        call, request, decision = place(f"r{number}", prompt, whole)
        assert decision.chosen is not None
        if number % 2:
            targets.of(decision.chosen).detach(request, now)
        blocks_of = PromptBlocks("")
        hashing.append(timed(lambda made=blocks_of, call=call: made.names(call.prompt_token_ids, BLOCK)))  # type: ignore[misc]
        looking.append(
            timed(lambda made=blocks_of, call=call: targets.cached(MODEL, call.prompt_token_ids, made))  # type: ignore[misc]
        )
        ask = replace_ask(placement, request, call)
        deciding.append(timed(lambda ask=ask: placement._decide(ask, now)))  # type: ignore[misc]
    names = sum(len(target.shelf) for target in targets.all())
    size = targets.index.bytes()
    return {
        "profile": profile,
        "endpoints": endpoints,
        "blocks_held": names,
        "names": len(targets.index),
        "prompt_tokens": tokens,
        "decision": quantiles(whole[16:]),
        "new_prompt": quantiles(new),
        "of_it_hashing": quantiles(hashing),
        "of_it_look_up": quantiles(looking),
        "of_it_profile": quantiles(deciding),
        "index_bytes_per_block": round(size / names, 1),
        "events_per_s": round(events_per_s(placement)),
    }


def replace_ask(placement: Placement, request: Request, call: RoutedCall) -> object:
    from control_plane.router.scheduling.candidate import Ask

    cached = placement.targets.cached(call.model, call.prompt_token_ids, request.blocks)
    return replace(Ask(call.model, len(call.prompt_token_ids), 8256, 8256.0), cached=cached)


def events_per_s(placement: Placement, rounds: int = 200, at_once: int = 64) -> float:
    """Blocks told as stored and as removed, in batches of as many."""
    dice = Random(3)
    target = placement.targets.all()[0]
    seq = target.mirror.seq
    spent = 0.0
    gone: tuple[int, ...] = tuple(dice.getrandbits(64) for _ in range(at_once))
    for _ in range(rounds):
        new = tuple(dice.getrandbits(64) for _ in range(at_once))
        seq += 1
        frame = KvFrame(target.instance_id, batches=(KvBatch(seq, (KvEvent(stored=new), KvEvent(removed=gone))),))
        spent += timed(lambda frame=frame: target.mirror.apply(frame))  # type: ignore[misc]
        gone = new
    return rounds * at_once * 2 / spent


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.routing_decision", description=__doc__)
    parser.add_argument("--endpoints", type=int, default=1000)
    parser.add_argument("--blocks", type=int, default=1_000_000)
    parser.add_argument("--tokens", type=int, default=8000)
    parser.add_argument("--decisions", type=int, default=1000)
    parser.add_argument("--profiles", default=",".join(PROFILES))
    options = parser.parse_args()
    for profile in options.profiles.split(","):
        row = measure(profile, options.endpoints, options.blocks, options.tokens, options.decisions)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
