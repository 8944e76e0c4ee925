"""Traces from seeds: small pools, shared prefixes, conversations, bursts, cancels, every setting of the scheduler."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from dataclasses import replace

from tests.parity.trace import STOP, Arrival, Cancel, Trace
from workers.engine.sim.config import Policy, SchedulerConfig
from workers.engine.sim.request import SimRequest

_VOCABULARY = 5000


def generate(seed: int, *, async_scheduling: bool = False) -> Trace:
    """The same trace for the same seed. Even seeds are first come, first served, odd ones by priority."""
    rng = random.Random(f"parity {seed}")
    config = replace(_config(rng, "priority" if seed % 2 else "fcfs"), async_scheduling=async_scheduling)
    arrivals = _arrivals(rng, config)
    cancels = tuple(
        Cancel(arrival.step + rng.randrange(30), arrival.request.request_id, rng.random() < 0.5)
        for arrival in arrivals
        if rng.random() < 0.15
    )
    resets = tuple(rng.randrange(80) for _ in range(2)) if rng.random() < 0.2 else ()
    return Trace(seed, config, arrivals, cancels, resets)


def _config(rng: random.Random, policy: Policy) -> SchedulerConfig:
    block_size = rng.choice((1, 2, 2, 4, 4, 8, 16))
    max_model_len = rng.randrange(24, 200)
    fewest = -(-max_model_len // block_size)
    max_num_seqs = rng.choice((1, 2, 4, 8, 8, 16, 16))
    max_num_batched_tokens = max(max_num_seqs, rng.choice((8, 16, 32, 64, 128, 256)))
    chunked = rng.random() < 0.9
    return SchedulerConfig(
        block_size=block_size,
        total_blocks=rng.choice((fewest, fewest + 1, fewest + 3, fewest * 3 // 2, fewest * 2, fewest * 3, fewest * 8)),
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens if chunked else max(max_num_batched_tokens, max_model_len),
        max_model_len=max_model_len,
        policy=policy,
        enable_prefix_caching=rng.random() < 0.9,
        enable_chunked_prefill=chunked,
        long_prefill_token_threshold=rng.choice((0, 0, 0, rng.randrange(1, max_model_len))),
        long_prefill_token_threshold_adaptive=rng.random() < 0.3,
        scheduler_reserve_full_isl=rng.random() < 0.7,
        watermark=rng.choice((0.0, 0.0, 0.0, 0.01, 0.1, 0.3)),
    )


def _arrivals(rng: random.Random, config: SchedulerConfig) -> tuple[Arrival, ...]:
    longest = config.max_model_len - 1
    systems = [_words(rng, rng.randrange(1, max(2, longest * 2 // 3))) for _ in range(2)]
    salts = rng.choice((("",), ("",), ("", "a"), ("", "a", "b")))
    priorities = rng.choice(((0,), (0, 1), (-2, 0, 0, 3)))
    spread = rng.choice((0, 0, 1, 2, 3))
    # Short prompts that all grow long are what fills a pool after everyone was let in.
    growing = rng.random() < 0.4
    most_output = min(40, longest) if growing else rng.choice((1, 8, 20))
    step, made = 0, list[Arrival]()
    for number in range(rng.randrange(2, 6 + min(22, 3 * config.max_num_seqs))):
        step += rng.randrange(spread + 1) if rng.random() < 0.95 else rng.randrange(12)
        prompt = _prompt(rng, systems, made, longest // 5 + 1 if growing else longest)
        least = most_output // 2 if growing else 1
        max_tokens = rng.randrange(least, most_output + 1) if rng.random() < 0.97 else config.max_model_len
        request = SimRequest(
            # Ids that sort otherwise than they arrive: the priority policy falls back on them.
            request_id=f"{rng.choice('abc')}{number}",
            prompt_token_ids=prompt,
            max_tokens=max_tokens,
            priority=rng.choice(priorities),
            arrival=float(step // rng.choice((1, 1, 4))),
            cache_salt=rng.choice(salts),
        )
        stop_after = rng.randrange(1, max_tokens + 1) if rng.random() < 0.2 else 0
        made.append(Arrival(step, request, _output(prompt, max_tokens, stop_after)))
    return tuple(made)


def _prompt(rng: random.Random, systems: Sequence[list[int]], made: Sequence[Arrival], longest: int) -> list[int]:
    kind = rng.random()
    if kind < 0.25 or not made:
        prompt = _words(rng, rng.choice((1, 4, longest, rng.randrange(1, longest + 1))))
    elif kind < 0.55:
        prompt = rng.choice(systems) + _words(rng, rng.randrange(1, 24))
    elif kind < 0.7:
        prompt = list(rng.choice(made).request.prompt_token_ids)
    else:
        # The next turn of a conversation: what was said, all of the answer or a part, and something new.
        before = rng.choice(made)
        answer = before.output[: rng.randrange(1, len(before.output) + 1)]
        prompt = [*before.request.prompt_token_ids, *answer, *_words(rng, rng.randrange(1, 12))]
    return prompt[:longest]


def _words(rng: random.Random, count: int) -> list[int]:
    return [rng.randrange(10, _VOCABULARY) for _ in range(count)]


def _output(prompt: Sequence[int], count: int, stop_after: int) -> tuple[int, ...]:
    """As from a greedy model: equal prompts have equal outputs, so their blocks too are the same."""
    token, output = zlib.crc32(repr(list(prompt)).encode()), list[int]()
    for _ in range(count):
        token = zlib.crc32(token.to_bytes(4, "big"))
        output.append(10 + token % (_VOCABULARY - 10))
    if stop_after:
        output[stop_after - 1 :] = [STOP]
    return tuple(output)
