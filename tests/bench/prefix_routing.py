"""``python -m tests.bench.prefix_routing``: how much of each prompt its worker had cached, for every routing profile.

The chats of ``prefix_workload`` over simulated workers with caches of 40 % of the working set each, one call at a time
and sixteen at a time. Virtual time, real routers, the simulator's scheduler with the step times of a named GPU: figures
depend on the seed alone. ``bound`` is what one cache without bounds would have had of the same calls in the same order.
``--real`` replays fewer of the chats on two real vLLM workers on the CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from control_plane.router.scheduling.profile import PROFILES
from tests.bench.prefix_workload import best_hits, working_set, workload
from tests.virtual_fleet import Told, VirtualFleet, config
from workers.engine.sim.profile import profile_of
from workers.engine.sim.settings import SimSettings

BLOCK = 16
GPU = "h100-llama-3.1-8b"
CACHE = 0.4
CONCURRENCY = 16
ESTIMATED = "prefix_aware, no events"


@dataclass(frozen=True, slots=True)
class Result:
    """``hit``: cached ÷ prompt tokens; ``bound``: the most there could be. Load is the busiest worker ÷ the mean, by
    prompt tokens computed and by calls. ``exact``: calls whose cached tokens were predicted right. TTFT in seconds."""

    hit: float
    bound: float
    computed: float
    calls: float
    exact: float
    ttft: tuple[float, float, float]

    def row(self) -> dict[str, float]:
        p50, p90, p99 = (round(value * 1000, 1) for value in self.ttft)
        return {
            "hit": round(self.hit, 4),
            "bound": round(self.bound, 4),
            "of_bound": round(self.hit / self.bound, 4),
            "computed_max_mean": round(self.computed, 3),
            "calls_max_mean": round(self.calls, 3),
            "predicted_exactly": round(self.exact, 4),
            "ttft_ms_p50": p50,
            "ttft_ms_p90": p90,
            "ttft_ms_p99": p99,
        }


def simulated(profile: str, workers: int, *, loaded: bool, seed: int) -> Result:
    """One run of the whole workload."""
    settings = SimSettings(profile=GPU)
    fleet = VirtualFleet(
        workers,
        config(int(CACHE * working_set(BLOCK, seed=seed)), block_size=BLOCK),
        profile_of(settings).timer,
        profile="prefix_aware" if profile == ESTIMATED else profile,
        events=profile != ESTIMATED,
        seed=seed,
    )
    made, order = workload(seed)
    waiting, busy = list(order), set[int]()

    def next_turn() -> None:
        number = next((each for each in waiting if each not in busy), None)
        if number is None:
            return
        waiting.remove(number)
        busy.add(number)
        prompt, answer = made[number].prompt()

        def ended(told: Told) -> None:
            assert told.error is None
            busy.discard(number)
            next_turn()
            if len(busy) < min(CONCURRENCY if loaded else 1, len(waiting)):
                next_turn()

        fleet.ask(prompt, answer, then=ended)

    for _ in range(CONCURRENCY if loaded else 1):
        next_turn()
    return result(fleet.run(), [f"w{number}" for number in range(1, workers + 1)], BLOCK)


def result(all_told: Sequence[Told], workers: Sequence[str], block_size: int) -> Result:
    computed, calls = Counter[str](), Counter[str]()
    for told in all_told:
        computed[told.worker_id] += told.prompt_tokens - told.cached
        calls[told.worker_id] += 1
    prompt = sum(told.prompt_tokens for told in all_told)
    cuts = statistics.quantiles([told.ttft_s for told in all_told], n=100, method="inclusive")
    return Result(
        hit=sum(told.cached for told in all_told) / prompt,
        bound=best_hits([(told.call.prompt_token_ids, told.answer) for told in all_told], block_size),
        computed=_uneven(computed, workers),
        calls=_uneven(calls, workers),
        exact=statistics.mean(told.predicted == told.cached for told in all_told),
        ttft=(cuts[49], cuts[89], cuts[98]),
    )


def _uneven(counts: Counter[str], workers: Sequence[str]) -> float:
    each = [counts[name] for name in workers]
    return max(each) * len(each) / sum(each)


def mean_of(results: Sequence[Result]) -> Result:
    mean = statistics.mean
    return Result(
        *(mean(getattr(each, name) for each in results) for name in ("hit", "bound", "computed", "calls", "exact")),
        ttft=(mean(r.ttft[0] for r in results), mean(r.ttft[1] for r in results), mean(r.ttft[2] for r in results)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.prefix_routing", description=__doc__)
    parser.add_argument("--profiles", default=",".join((*PROFILES, ESTIMATED.replace(", ", "/"))))
    parser.add_argument("--workers", default="2,4")
    parser.add_argument("--seeds", default="7,8,9")
    parser.add_argument("--real", action="store_true", help="on two real vLLM workers on the CPU")
    parser.add_argument("--conversations", type=int, default=12, help="with --real")
    parser.add_argument("--turns", type=int, default=3, help="with --real")
    options = parser.parse_args()
    profiles = [name.replace("/", ", ") for name in options.profiles.split(",")]
    if options.real:
        from tests.bench.prefix_real import replay

        for name, row in asyncio.run(replay(profiles, options.conversations, options.turns)).items():
            print(json.dumps({"real": True, "workers": 2, "profile": name, **row}), flush=True)
        return
    seeds = [int(seed) for seed in options.seeds.split(",")]
    for workers in map(int, options.workers.split(",")):
        for loaded in (False, True):
            for profile in profiles:
                results = [simulated(profile, workers, loaded=loaded, seed=seed) for seed in seeds]
                head = {"workers": workers, "at_once": CONCURRENCY if loaded else 1, "profile": profile}
                print(json.dumps(head | mean_of(results).row()), flush=True)
                worst = max(max(each.computed, each.calls) for each in results)
                print(f"  worst load of a seed: {worst:.3f}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
