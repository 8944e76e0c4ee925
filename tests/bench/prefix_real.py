"""The chats of ``prefix_workload`` on two real vLLM workers on the CPU, under one routing profile after the other.

Every profile has a cache salt of its own, so none finds what another one left. Answers are the model's own and short:
what is measured is the prompt. Blocks are vLLM's on the CPU, of 32 tokens.
"""

from __future__ import annotations

import asyncio
import dataclasses
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from control_plane.contracts.call import RoutedCall
from control_plane.contracts.worker import Sampling
from control_plane.contracts.worker_spec import Announcement
from tests.bench.prefix_workload import Conversation, best_hits, ids_of, working_set, workload
from tests.integration.router.rig import MODEL, Rig, WaitingSink, rig, until
from tests.real_vllm.conftest import real_spec
from tests.scripted_worker import announced, end_process, start_worker_process

BLOCK = 32
CACHE = 0.4
AT_ONCE = 4
ANSWER_TOKENS = 8
MAX_CONTEXT = 4096
START_TIMEOUT_S = 300.0


@asynccontextmanager
async def two_workers(folder: Path, blocks: int) -> AsyncIterator[list[Announcement]]:
    arguments = {"max_num_seqs": 8, "max_num_batched_tokens": 512, "num_gpu_blocks_override": blocks}
    processes, found = [], []
    try:
        for number in (1, 2):
            spec = dataclasses.replace(
                real_spec(folder, f"real-{number}"),
                model=MODEL,
                max_context=MAX_CONTEXT,
                kv_events=True,
                engine_args=arguments,
            )
            process = await start_worker_process(spec)
            processes.append(process)
            found.append(await announced(spec, process, timeout_s=START_TIMEOUT_S))
        yield found
    finally:
        for process in processes:
            await end_process(process)


async def replay(profiles: Sequence[str], conversations: int, turns: int) -> dict[str, dict[str, float]]:
    """Profile → what came of it."""
    sizes = {"conversations": conversations, "turns": turns, "systems": max(2, conversations // 5)}
    blocks = max(int(CACHE * working_set(BLOCK, **sizes)), MAX_CONTEXT // BLOCK) + 1
    rows: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        async with two_workers(Path(folder), blocks) as workers:
            for profile in profiles:
                if "," in profile:
                    continue  # what estimates do is seen in the simulated runs
                async with rig(workers, profile=profile, queue_timeout_s=600.0) as made:
                    targets = made.router.dispatcher.targets
                    await until(lambda targets=targets: all(t.shelf.told for t in targets.all()), "KV events")  # type: ignore[misc]
                    rows[profile] = await _chats(made, profile, *workload(**sizes)) | {"blocks": blocks}  # type: ignore[arg-type]
    return rows


async def _chats(made: Rig, salt: str, talks: list[Conversation], order: list[int]) -> dict[str, float]:
    seats, turns = [asyncio.Lock() for _ in talks], list[tuple[list[int], list[int]]]()
    said: dict[int, list[int]] = {}
    ttfts: list[float] = []
    room = asyncio.Semaphore(AT_ONCE)

    async def turn(number: int) -> None:
        async with seats[number], room:
            talk = talks[number]
            before = said.setdefault(number, ids_of(["<|system|>", *talk.system, "<|end|>"]))
            user, _ = talk.turns[talk.next]
            talk.next += 1
            prompt = [*before, *ids_of(["<|user|>", *user, "<|end|>", "<|assistant|>"])]
            sink, begun = WaitingSink(), time.monotonic()
            call = RoutedCall(
                f"{salt}-{number}-{talk.next}",
                MODEL,
                prompt,
                Sampling(max_tokens=ANSWER_TOKENS, temperature=0.0, ignore_eos=True),
                stream=True,
                arrival_unix=time.time(),
                arrival_mono=begun,
                cache_salt=salt,
                session=f"{salt}-{number}",
            )
            made.router.submit(call, sink)
            async with asyncio.timeout(600):
                await sink.ended.wait()
            assert sink.error is None, sink.error
            ttfts.append(sink.times[0] - begun)
            answer = [token for delta in sink.deltas for token in delta.token_ids]
            turns.append((prompt, answer))
            said[number] = [*prompt, *answer, *ids_of(["<|end|>"])]

    await asyncio.gather(*(turn(number) for number in order))
    await until(lambda: len(made.fleet.ended) >= len(order), "every request in the reports")
    views = list(made.fleet.ended.values())
    computed, prompts = Counter[str](), sum(view.prompt_tokens for view in views)
    for view in views:
        computed[view.worker_id] += view.prompt_tokens - view.cached_tokens
    hit = sum(view.cached_tokens for view in views) / prompts
    bound = best_hits(turns, BLOCK)
    ttfts.sort()
    return {
        "calls": len(views),
        "hit": round(hit, 4),
        "bound": round(bound, 4),
        "of_bound": round(hit / bound, 4),
        "computed_max_mean": round(max(computed.values()) * 2 / sum(computed.values()), 3),
        "predicted_exactly": round(sum(v.predicted_cached_tokens == v.cached_tokens for v in views) / len(views), 4),
        **{f"ttft_ms_p{p}": round(ttfts[min(len(ttfts) - 1, len(ttfts) * p // 100)] * 1000, 1) for p in (50, 90, 99)},
    }
