"""What the simulator's core does with seeded traces, a line a step. Run it with ``python -m``, in either form.

The first line says in which form it runs. Whatever does not depend on the form is in the others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.parity.generate import generate
from tests.parity.observed import play
from tests.parity.sim_side import SimSide
from workers.engine.sim import core, scheduler
from workers.engine.sim.config import SchedulerConfig
from workers.engine.sim.profile import profile_of
from workers.engine.sim.request import SimRequest
from workers.engine.sim.scheduled import Scheduled
from workers.engine.sim.settings import SimSettings
from workers.engine.sim.virtual import run

TRACES = 60


def parity() -> Iterator[str]:
    """Steps as ``tests/parity`` compares them with vLLM's: with KV events, cancels and resets."""
    for seed in range(TRACES):
        trace = generate(seed, async_scheduling=seed % 2 == 1)
        for seen in play(trace, SimSide(trace.config)):
            yield f"{seed} {seen}"


def virtual(*, ahead: bool, watched: bool) -> Iterator[str]:
    """A small cache that is full most of the time, prompts that share prefixes, and times to the last bit."""
    config = SchedulerConfig(
        block_size=16,
        total_blocks=400,
        max_num_seqs=32,
        max_num_batched_tokens=512,
        max_model_len=2048,
        policy="priority" if watched else "fcfs",
        async_scheduling=ahead,
    )
    dice, now = random.Random(7), 0.0
    common = [dice.randrange(1000) for _ in range(300)]
    requests = []
    for number in range(300):
        now += dice.expovariate(40.0)
        prompt = common[: dice.randrange(300)] + [dice.randrange(1000) for _ in range(dice.randint(1, 200))]
        salt = dice.choice(("", "", "a"))
        requests.append(SimRequest(f"r{number}", prompt, dice.randint(1, 300), dice.randrange(3), now, salt))
    steps: list[str] = []

    def watch(worker: int, scheduled: Scheduled, begun: float, seconds: float) -> None:
        steps.append(f"{worker} {scheduled.step} {begun} {seconds} {scheduled.batch} {scheduled.preempted}")

    timer = profile_of(SimSettings(profile="h100-llama-3.1-8b")).timer
    report = run(requests, config, timer, 3, watch=watch if watched else None)
    yield from steps
    for outcome in report.outcomes:
        yield (
            f"{outcome.request_id} {outcome.worker} {outcome.first} {outcome.last} {outcome.output_tokens} "
            f"{outcome.preemptions}"
        )
    yield f"{report.seconds} {report.steps} {report.tokens}"


def main() -> None:
    form = "Python" if scheduler.__file__.endswith(".py") else "compiled"
    assert (form == "compiled") == (core.COMPILED is not None)
    print(form)
    for line in parity():
        print(line)
    for ahead in (False, True):
        for watched in (False, True):
            for line in virtual(ahead=ahead, watched=watched):
                print(line)


if __name__ == "__main__":
    main()
