"""One deployment worked out: does it fit, how many requests, how fast at best, at what price."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.sizing.gpus import Gpu
from control_plane.contracts.sizing.kv_cache import KvLayout, kv_layout
from control_plane.contracts.sizing.memory import EngineSettings, GpuMemory, check_tp, gpu_memory, possible_tp
from control_plane.contracts.sizing.model_shape import ModelShape
from control_plane.contracts.sizing.number_format import Math, NumberFormat
from control_plane.contracts.sizing.roofline import Roofline, Row, StepTime

GPUS_PER_NODE = 8
MOST_GPUS = 16


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is to be served. ``context`` is a request's prompt and output at most, in tokens.

    ``prompt`` and ``output`` are those of a usual request: for the time to the first token and the price.
    """

    context: int
    concurrency: int = 1
    prompt: int = 1000
    output: int = 200

    @classmethod
    def usual(cls, context: int, concurrency: int = 1, prompt: int | None = None, output: int | None = None) -> Self:
        """What is not said of a usual request is 1,000 tokens in and 200 out, or what of that the context holds."""
        prompt = prompt or min(1000, max(1, context * 5 // 6))
        return cls(context, concurrency, prompt, output or min(200, max(1, context - prompt)))


@dataclass(frozen=True, slots=True)
class Split:
    """The same deployment on another number of GPUs; ``requests`` are the most at its context, 0 where none fits."""

    tp: int
    memory: GpuMemory
    requests: int


@dataclass(frozen=True, slots=True)
class Speed:
    """Bounds that follow from the published figures. Times in seconds; rates in tokens/s over all requests."""

    alone: StepTime
    together: StepTime
    requests: int  # that decode together
    prefill: StepTime  # a step full of prompts
    prefill_rows: tuple[Row, ...]
    ttft_s: float

    @property
    def alone_rate(self) -> float:
        return 1 / self.alone.seconds

    @property
    def together_rate(self) -> float:
        return self.requests / self.together.seconds

    @property
    def prefill_rate(self) -> float:
        return sum(row.tokens for row in self.prefill_rows) / self.prefill.seconds


@dataclass(frozen=True, slots=True)
class Cost:
    """Least price, in the currency of ``per_gpu_hour``; ``request_s`` is what one request takes of all the GPUs."""

    per_gpu_hour: float
    per_hour: float
    request_s: float
    per_million_output: float
    per_million_all: float

    @property
    def requests_per_s(self) -> float:
        return 1 / self.request_s


@dataclass(frozen=True, slots=True)
class Plan:
    """All of it. Bytes; ``kv_needed`` and ``kv_room`` on one GPU, ``kv_token`` and ``kv_request`` on all together.

    All together counts what is copied to several GPUs (KV heads fewer than GPUs, a latent) as often as it is held.
    """

    shape: ModelShape
    gpu: Gpu
    tp: int
    traffic: Traffic
    settings: EngineSettings
    kv: NumberFormat
    memory: GpuMemory
    layout: KvLayout
    blocks: int
    requests: int  # the most at this context
    splits: tuple[Split, ...]
    speed: Speed
    cost: Cost | None
    notes: tuple[str, ...]

    @property
    def kv_needed(self) -> int:
        blocks = self.layout.needed_blocks(self.traffic.context, self.traffic.concurrency, self.settings.in_flight)
        return (blocks + 1) * self.layout.block_bytes

    @property
    def kv_token_per_gpu(self) -> float:
        return self.shape.kv_bytes_per_token(self.kv, self.tp)

    @property
    def kv_token(self) -> float:
        """Of one copy, whatever the number of GPUs."""
        return self.shape.kv_bytes_per_token(self.kv)

    @property
    def kv_request_per_gpu(self) -> int:
        """One request that decodes at this context."""
        steady = (group.steady(self.traffic.context, self.layout.block_size) for group in self.layout.groups)
        return sum(steady) * self.layout.block_bytes

    @property
    def weights_fit(self) -> bool:
        return self.memory.kv_room > 0

    @property
    def fits(self) -> bool:
        return self.requests >= self.traffic.concurrency

    @property
    def free(self) -> float:
        """Of the budget, when every request is at its full context."""
        return self.memory.kv_room - self.kv_needed

    @property
    def reported_concurrency(self) -> float:
        """What vLLM would log at its start, with ``--max-model-len`` at this context."""
        return self.layout.reported_concurrency(self.traffic.context, self.blocks, self.settings.in_flight)

    @property
    def fewest(self) -> Split | None:
        """The fewest GPUs that this traffic fits on; None where ``MOST_GPUS`` are too few."""
        return next((split for split in self.splits if split.requests >= self.traffic.concurrency), None)

    @property
    def fewest_for_weights(self) -> Split | None:
        return next((split for split in self.splits if split.memory.kv_room > 0), None)


def plan(
    shape: ModelShape,
    gpu: Gpu,
    traffic: Traffic,
    settings: EngineSettings,
    *,
    tp: int | None = None,
    kv: NumberFormat | None = None,
    price: float | None = None,
) -> Plan:
    """Work it out; ``tp`` None takes the fewest GPUs that the traffic fits on. ``price`` is of one GPU for an hour.

    Raises InvalidRequest naming the option that cannot be.
    """
    _check(shape, traffic)
    if tp is not None:
        check_tp(shape, tp)
    kv = kv or shape.base_format
    counts = sorted({*possible_tp(shape, MOST_GPUS), *([tp] if tp else [])})
    splits = tuple(_split(shape, gpu, traffic, settings, count, kv) for count in counts)
    if tp is None:
        enough = (split.tp for split in splits if split.requests >= traffic.concurrency)
        loaded = (split.tp for split in reversed(splits) if split.memory.kv_room > 0)
        tp = next(enough, None) or next(loaded, None) or counts[-1]
    own = next(split for split in splits if split.tp == tp)
    layout = kv_layout(shape, kv, tp, settings.block_size)
    line = Roofline(shape, gpu, tp, kv)
    speed = _speed(line, traffic, settings)
    return Plan(
        shape=shape,
        gpu=gpu,
        tp=tp,
        traffic=traffic,
        settings=settings,
        kv=kv,
        memory=own.memory,
        layout=layout,
        blocks=layout.blocks(own.memory.kv_room),
        requests=own.requests,
        splits=splits,
        speed=speed,
        cost=_cost(line, traffic, settings, price, own.requests) if price is not None else None,
        notes=_notes(shape, gpu, tp, traffic, settings),
    )


def ways_to_fit(made: Plan, replan: dict[str, ModelShape]) -> list[str]:
    """Options that make it fit, each tried: more GPUs, fewer requests, a smaller KV cache, smaller weights.

    ``replan`` holds the same model with its weights in other formats, by the option's word.
    """
    ways = []
    if made.fewest is not None and made.fewest.tp != made.tp:
        ways.append(f"--tp {made.fewest.tp}")
    if 0 < made.requests < made.traffic.concurrency:
        ways.append(f"--concurrency {made.requests}")

    def fits(shape: ModelShape, kv: NumberFormat) -> bool:
        split = _split(shape, made.gpu, made.traffic, made.settings, made.tp, kv)
        return split.requests >= made.traffic.concurrency

    eight = NumberFormat("fp8", 8, Math.FP8)
    if made.kv.bits > 8 and fits(made.shape, eight):
        ways.append("--kv-dtype fp8")
    for word, shape in replan.items():
        if shape.weight_bytes < made.shape.weight_bytes and fits(shape, made.kv):
            ways.append(f"--dtype {word}")
            break
    return ways


def _check(shape: ModelShape, traffic: Traffic) -> None:
    if traffic.context > shape.max_context:
        raise InvalidRequest(
            f"context {traffic.context:,} is beyond {shape.name}, which was made for {shape.max_context:,} tokens",
            param="context",
            hint=f"--context {shape.max_context}",
        )
    if traffic.prompt + traffic.output > traffic.context:
        raise InvalidRequest(
            f"prompt {traffic.prompt:,} and output {traffic.output:,} do not fit in a context of {traffic.context:,}",
            param="prompt",
            hint=f"--context {traffic.prompt + traffic.output}",
        )


def _split(shape: ModelShape, gpu: Gpu, traffic: Traffic, settings: EngineSettings, tp: int, kv: NumberFormat) -> Split:
    memory = gpu_memory(shape, gpu, tp, settings)
    layout = kv_layout(shape, kv, tp, settings.block_size)
    blocks = layout.blocks(memory.kv_room)
    return Split(tp, memory, layout.most_requests(traffic.context, blocks, settings.in_flight))


def _speed(line: Roofline, traffic: Traffic, settings: EngineSettings) -> Speed:
    rows = _prompts(traffic, settings)
    return Speed(
        alone=line.decode_step(1, traffic.context - 1),
        together=line.decode_step(traffic.concurrency, traffic.context - 1),
        requests=traffic.concurrency,
        prefill=line.step_time(rows),
        prefill_rows=rows,
        ttft_s=line.prefill(traffic.prompt, chunk=settings.max_num_batched_tokens),
    )


def _prompts(traffic: Traffic, settings: EngineSettings) -> tuple[Row, ...]:
    """As many prompts as one step takes and there are requests; of a longer one, the first chunk."""
    budget = settings.max_num_batched_tokens
    count = max(1, min(budget // traffic.prompt, traffic.concurrency))
    return (Row(min(traffic.prompt, budget), 0),) * count


def _cost(line: Roofline, traffic: Traffic, settings: EngineSettings, price: float, most: int) -> Cost | None:
    """A request among others: its share of a prefill step and of each decode step, at its mean context."""
    together = min(traffic.concurrency, most)
    if together < 1:
        return None
    step = line.decode_step(together, traffic.prompt + traffic.output // 2).seconds
    if traffic.prompt <= settings.max_num_batched_tokens:
        rows = _prompts(replace(traffic, concurrency=together), settings)
        prefill = line.step_time(rows).seconds / len(rows)
    else:
        prefill = line.prefill(traffic.prompt, chunk=settings.max_num_batched_tokens)
    request_s = prefill + traffic.output * step / together
    per_second = price * line.tp / 3600
    return Cost(
        per_gpu_hour=price,
        per_hour=price * line.tp,
        request_s=request_s,
        per_million_output=1e6 * per_second * request_s / traffic.output,
        per_million_all=1e6 * per_second * request_s / (traffic.prompt + traffic.output),
    )


def _notes(shape: ModelShape, gpu: Gpu, tp: int, traffic: Traffic, settings: EngineSettings) -> tuple[str, ...]:
    notes = list(shape.notes)
    if shape.weight_format.math is Math.FP8 and not gpu.fp8:
        notes.append(f"{gpu.name} has no FP8 units: the weights are small, the arithmetic is 16 bit")
    if tp > GPUS_PER_NODE:
        notes.append(f"{tp} GPUs span nodes; the links between nodes are slower than those counted here")
    if traffic.concurrency > settings.max_num_seqs:
        notes.append(
            f"vLLM runs at most {settings.max_num_seqs} requests at once: --max-num-seqs {traffic.concurrency}"
        )
    if shape.latent is None and tp > shape.kv_heads:
        notes.append(f"{shape.kv_heads} KV heads on {tp} GPUs: each is held {tp // shape.kv_heads} times")
    if shape.latent is not None and tp > 1:
        notes.append(f"the latent KV cache is whole on each of the {tp} GPUs")
    return tuple(notes)


def with_settings(settings: EngineSettings, **changes: float | int | None) -> EngineSettings:
    """The settings with those changes that are not None."""
    return replace(settings, **{name: value for name, value in changes.items() if value is not None})  # type: ignore[arg-type]
