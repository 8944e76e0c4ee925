"""The calls that a calibration makes: few, and as different as a step's costs need to be told apart."""

from __future__ import annotations

from console.load.plan import Plan
from console.load.shape import Length
from control_plane.contracts.worker import ModelInfo

WARM_UP_WORDS = 64


def warm_up(model: ModelInfo, workers: int, seed: int) -> Plan:
    """A few calls before those that count: they also tell how many tokens a word is."""
    return _plan(model, workers, seed, Length(WARM_UP_WORDS, WARM_UP_WORDS), Length(8, 8), 1, 2)


def sweep(model: ModelInfo, workers: int, seed: int, tokens_per_word: float) -> list[Plan]:
    """Plans to run one after another, all with different prompts. ``workers`` share the calls.

    Batches from 1 to all seats, prompts from short to half of the context (of 4,096 tokens at most), short and longer
    answers: for the fixed cost of a step, and those of its rows, its prompts' tokens and the tokens in its cache.
    """
    context = min(model.max_context or 4096, 4096)
    seats = max(1, min(model.max_num_seqs or 8, 32))
    long = max(8, int(context / max(tokens_per_word, 1.0) / 2))
    output = max(4, min(48, context // 8))
    shapes = [(1, min(16, long), output, 2), (1, long, output // 2, 2)]
    batches = sorted({2, max(2, seats // 4), max(2, seats // 2), seats})
    for together in batches:
        shapes.append((together, max(8, long // 16), output, together + 1))
        shapes.append((together, max(8, long // 3), output, together + 1))
    # As many tokens in the cache as there can be, or nearly.
    shapes.append((seats, max(8, 2 * long // 3), output, seats + seats // 4 + 1))
    return [
        _plan(
            model,
            workers,
            seed + 1 + number,
            Length(max(1, prompt // 2), prompt),
            Length(max(1, tokens // 2), tokens),
            together,
            calls,
        )
        for number, (together, prompt, tokens, calls) in enumerate(shapes)
    ]


def _plan(model: ModelInfo, workers: int, seed: int, prompt: Length, output: Length, together: int, calls: int) -> Plan:
    return Plan(
        model=model.name,
        concurrency=together * workers,
        requests=calls * workers,
        duration_s=0.0,
        prompt=prompt,
        output=output,
        seed=seed,
        ignore_eos=True,
    )
