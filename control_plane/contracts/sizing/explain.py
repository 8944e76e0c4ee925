"""How each figure of a plan came about: the formula, with the figures in it."""

from __future__ import annotations

from dataclasses import dataclass

from control_plane.contracts.sizing.gpus import MEMORY_SOURCE
from control_plane.contracts.sizing.memory import (
    GRAPH_BYTES_PER_LAYER,
    GRAPH_SOURCE,
    LINK_SOURCE,
    LOGIT_BYTES,
    LOGIT_SOURCE,
    RUNTIME_BYTES,
    RUNTIME_SOURCE,
    absorbed_bytes,
    layer_bytes,
    logit_bytes,
)
from control_plane.contracts.sizing.model_shape import Split
from control_plane.contracts.sizing.plan import Plan
from control_plane.contracts.sizing.quantity import count, in_bytes, milliseconds, three
from control_plane.contracts.sizing.roofline import Roofline, Row, StepTime, StepWork


@dataclass(frozen=True, slots=True)
class Explanation:
    """``lines`` are the steps from published figures to the ``result``."""

    name: str
    lines: tuple[str, ...]
    result: str


def explain(made: Plan) -> tuple[Explanation, ...]:
    """Every figure of the plan, in the order in which it is shown."""
    return (
        _weights(made),
        _activations(made),
        _overhead(made),
        _room(made),
        _token(made),
        _request(made),
        _requests(made),
        *_steps(made),
        *_cost(made),
    )


def _weights(made: Plan) -> Explanation:
    shape, tp = made.shape, made.tp
    lines = []
    for weight in shape.weights:
        share = weight.share(tp, shape.kv_heads)
        how = "" if tp == 1 else " × 1 (whole on each GPU)" if share == 1 else f" ÷ {round(1 / share)}"
        if weight.split is Split.KV_HEADS and tp > shape.kv_heads:
            how += f" ({shape.kv_heads} KV heads)"
        lines.append(
            f"{weight.name}: {count(weight.parameters)} × {weight.format.bytes:.3g} B ({weight.format.name}){how}"
            f" = {in_bytes(weight.bytes * share)}"
        )
    extra = absorbed_bytes(shape, tp)
    if extra:
        lines.append(f"a 16-bit copy of the latent's up-projections, for decoding = {in_bytes(extra)}")
    return Explanation("weights of one GPU", tuple(lines), in_bytes(made.memory.weights))


def _activations(made: Plan) -> Explanation:
    shape, settings = made.shape, made.settings
    layer, logits = layer_bytes(shape, made.tp, settings), logit_bytes(shape, settings)
    return Explanation(
        "activations",
        (
            f"the widest layer at max_num_batched_tokens {settings.max_num_batched_tokens:,} = {in_bytes(layer)}",
            f"scores: max_num_seqs {settings.max_num_seqs:,} × vocabulary {shape.vocab:,} × {LOGIT_BYTES} B"
            f" ({LOGIT_SOURCE}) = {in_bytes(logits)}",
            "the larger of both: they are not held at once; vLLM measures its own in a profiling run",
        ),
        in_bytes(made.memory.activations),
    )


def _overhead(made: Plan) -> Explanation:
    lines = [f"{in_bytes(RUNTIME_BYTES)}: {RUNTIME_SOURCE}"]
    graphs = 0 if made.settings.enforce_eager else GRAPH_BYTES_PER_LAYER * made.shape.layers
    if graphs:
        lines.append(f"{made.shape.layers} layers × 12 MiB = {in_bytes(graphs)}: {GRAPH_SOURCE}")
    links = made.memory.overhead - RUNTIME_BYTES - graphs
    if links:
        lines.append(f"{in_bytes(links)}: {LINK_SOURCE}")
    return Explanation("overhead", tuple(lines), in_bytes(made.memory.overhead))


def _room(made: Plan) -> Explanation:
    memory = made.memory
    return Explanation(
        "room for KV",
        (
            f"{made.gpu.name}: {in_bytes(memory.total)}   ({MEMORY_SOURCE})",
            f"{in_bytes(memory.total)} × {made.settings.gpu_memory_utilization:g} (gpu_memory_utilization)"
            f" = {in_bytes(memory.budget)}",
            f"{in_bytes(memory.budget)} − {in_bytes(memory.weights)} weights"
            f" − {in_bytes(memory.activations)} activations − {in_bytes(memory.overhead)} overhead",
        ),
        in_bytes(memory.kv_room),
    )


def _token(made: Plan) -> Explanation:
    shape, size = made.shape, f"{made.kv.bytes:.3g} B ({made.kv.name})"
    if shape.latent is not None:
        layer = f"({shape.latent.kv_rank} latent + {shape.latent.rope} key) × {size}"
    else:
        layer = f"2 (key, value) × {shape.kv_heads} KV heads × {shape.head_dim} × {size}"
    lines = [f"{shape.layers} layers × {layer} = {in_bytes(made.kv_token)}"]
    if made.tp > 1 and shape.latent is None:
        held = max(1, shape.kv_heads // made.tp)
        lines.append(
            f"one of {made.tp} GPUs holds {held} of the {shape.kv_heads} heads = {in_bytes(made.kv_token_per_gpu)}"
        )
    return Explanation("KV per token", tuple(lines), in_bytes(made.kv_token))


def _request(made: Plan) -> Explanation:
    size, context = made.layout.block_size, made.traffic.context
    lines = []
    for window in sorted({group.window for group in made.layout.groups}):
        same = [group for group in made.layout.groups if group.window == window]
        blocks = same[0].steady(context, size)
        reach = f"the last {window:,} tokens" if window else f"{context:,} tokens"
        lines.append(
            f"{len(same)} × {made.layout.layers_per_group} layers: {reach} = {blocks:,} blocks of {size} tokens"
            f" × {in_bytes(made.layout.block_bytes)}"
        )
    return Explanation("KV of one request, on one GPU", tuple(lines), in_bytes(made.kv_request_per_gpu))


def _requests(made: Plan) -> Explanation:
    lines = [
        f"{in_bytes(made.memory.kv_room)} ÷ {in_bytes(made.layout.block_bytes)} = {made.blocks:,} blocks, one kept back"
    ]
    if any(group.window for group in made.layout.groups):
        lines.append(
            f"windows also hold the {made.settings.in_flight:,} tokens in flight, once for all requests"
            " (2 × max_num_batched_tokens)"
        )
    lines.append(
        f"vLLM logs {made.reported_concurrency:.2f}x: {made.blocks:,} ÷"
        f" {made.layout.peak_blocks(made.traffic.context, made.settings.in_flight):,} blocks at a request's peak"
    )
    return Explanation("requests at most", tuple(lines), f"{made.requests:,}")


def _steps(made: Plan) -> list[Explanation]:
    line, traffic, speed = Roofline(made.shape, made.gpu, made.tp, made.kv), made.traffic, made.speed
    alone = line.work([Row(1, traffic.context - 1)])
    together = line.work([Row(1, traffic.context - 1)] * speed.requests)
    prefill = line.work(speed.prefill_rows)
    found = [Explanation("decode, one request", _work(made, 1, alone, speed.alone), milliseconds(speed.alone.seconds))]
    if speed.requests > 1:
        name = f"decode, {speed.requests} requests"
        found.append(
            Explanation(
                name, _work(made, speed.requests, together, speed.together), milliseconds(speed.together.seconds)
            )
        )
    tokens = sum(row.tokens for row in speed.prefill_rows)
    name = f"prefill, a step of {len(speed.prefill_rows)} × {speed.prefill_rows[0].tokens:,} tokens"
    found.append(Explanation(name, _work(made, tokens, prefill, speed.prefill), milliseconds(speed.prefill.seconds)))
    chunk = min(traffic.prompt, made.settings.max_num_batched_tokens)
    steps = -(-traffic.prompt // chunk)
    first = (
        f"a prompt of {traffic.prompt:,} tokens alone, in {steps} step{'' if steps == 1 else 's'} of up to {chunk:,}"
    )
    found.append(Explanation("first token", (first,), milliseconds(speed.ttft_s)))
    return found


def _work(made: Plan, tokens: int, work: StepWork, took: StepTime) -> tuple[str, ...]:
    gpu = made.gpu
    lines = []
    for name, part in (
        ("projections", work.dense),
        ("experts", work.experts),
        ("attention", work.attention),
        ("output head", work.head),
    ):
        if not part.operations:
            continue
        reading, multiplying = part.bytes / gpu.bandwidth, part.operations / part.rate
        lines.append(
            f"{name}: the longer of"
            f" {in_bytes(part.bytes)} ÷ {three(gpu.bandwidth / 1e12)} TB/s = {milliseconds(reading)} and"
            f" {three(part.operations / 1e9)} GFLOP ÷ {three(part.rate / 1e12)} TFLOP/s = {milliseconds(multiplying)}"
        )
    experts = made.shape.experts
    if experts is not None:
        lines.append(
            f"experts touched: {three(experts.touched(tokens))} of {experts.count} a layer, if choices are even"
        )
    if work.exchanges:
        lines.append(
            f"links: {work.exchanges} all-reduces × {in_bytes(work.exchanged)} ÷ {three(gpu.link / 1e9)} GB/s"
            f" ({gpu.link_name}) = {milliseconds(took.links_s)}"
        )
    return tuple(lines)


def _cost(made: Plan) -> list[Explanation]:
    cost, traffic = made.cost, made.traffic
    if cost is None:
        return []
    return [
        Explanation(
            "cost",
            (
                f"one request of {traffic.prompt:,} + {traffic.output:,} tokens: its share of a prefill step and of"
                f" {traffic.output:,} decode steps = {milliseconds(cost.request_s)}"
                + (f" of {made.tp} GPUs" if made.tp > 1 else ""),
                f"{three(cost.per_hour)} an hour ÷ 3,600 × {milliseconds(cost.request_s)}"
                f" ÷ {traffic.prompt + traffic.output:,} tokens × 1,000,000",
            ),
            f"{three(cost.per_million_all)} per million tokens",
        )
    ]
