"""A plan as a page: what fits, the memory of one GPU as a bar, the cache, the choices of GPUs, the speed, the price."""

from __future__ import annotations

from console.plain.terminal import paint
from console.text import fit, literal, pad, wrap
from control_plane.contracts.sizing.plan import GPUS_PER_NODE, Plan, Split
from control_plane.contracts.sizing.quantity import count, in_bytes, milliseconds, three
from control_plane.contracts.sizing.roofline import Bound, StepTime

PAGE = 100  # columns where output is not cut
NARROW = 40
_LABEL = 20
_VALUE = 13
_LEAST = 24  # cells for words beside a figure; with fewer they go below

_PARTS = (
    ("weights", "█", "strong"),
    ("KV cache", "▓", "good"),
    ("activations", "▒", "watch"),
    ("overhead", "░", "quiet"),
)
_FREE = "·"

_BOUNDS = {
    Bound.WEIGHTS: "reading weights",
    Bound.KV: "reading the KV cache",
    Bound.COMPUTE: "arithmetic",
    Bound.LINKS: "links between GPUs",
    Bound.OVERHEAD: "the engine",
}


def plan_page(made: Plan, columns: int | None) -> list[str]:
    """The page's lines, at most ``columns`` wide (None: not cut)."""
    width = max(NARROW, columns or PAGE)
    lines = [
        *_heading(made, width),
        "",
        *_verdict(made, width),
        "",
        *_memory(made, width),
        "",
        *_cache(made, width),
        "",
        *_choices(made, width),
        "",
        *_speed(made, width),
    ]
    if made.cost is not None:
        lines += ["", *_price(made, width)]
    if made.notes:
        lines.append("")
    for note in made.notes:
        lines += (paint(line, "quiet") for line in wrap(f"note: {literal(note)}", width))
    return lines


def _heading(made: Plan, width: int) -> list[str]:
    shape = made.shape
    devices = made.gpu.name if made.tp == 1 else f"{made.tp} × {made.gpu.name}"
    formats = f"{literal(shape.weight_format.name)} weights, {made.kv.name} KV cache"
    size = f"{count(shape.parameters)} parameters"
    if shape.experts is not None:
        chosen = f"{shape.experts.per_token} of {shape.experts.count} experts"
        size += f", {count(shape.active_parameters)} active ({chosen})"
    if shape.latent is not None:
        heads = f"{shape.heads} heads on a latent of {shape.latent.cached}"
    else:
        heads = f"{shape.heads} heads, {shape.kv_heads} KV heads × {shape.head_dim}"
    windows = [f"{kind.layers} of them see {kind.window:,} tokens" for kind in shape.kinds if kind.window]
    layers = f"{shape.layers} layers" + (f" ({', '.join(windows)})" if windows else "")
    return [
        *_section(f"{literal(shape.name)} on {devices}", width),
        *(paint(line, "quiet") for line in wrap(f"{size}; {formats}", width)),
        *(paint(line, "quiet") for line in wrap(f"{layers}; {heads}; context ≤ {shape.max_context:,}", width)),
    ]


def _verdict(made: Plan, width: int) -> list[str]:
    asked, context = made.traffic.concurrency, made.traffic.context
    requests = "1 request" if asked == 1 else f"{asked:,} requests"
    if made.fits:
        text, style = f"✓ fits: {requests} of {context:,} tokens; at most {made.requests:,} at once", "good"
    elif not made.weights_fit:
        text, style = "✗ does not fit: no room for a KV cache beside the weights", "bad"
    elif not made.requests:
        text, style = f"✗ does not fit: no room for one request of {context:,} tokens", "bad"
    else:
        text, style = f"✗ does not fit: {made.requests:,} of {requests} of {context:,} tokens", "bad"
    lines = [paint(line, style) for line in wrap(text, width)]
    return lines + wrap(_why(made), width) if _why(made) else lines


def _why(made: Plan) -> str:
    """Why it takes as many GPUs as it does."""
    most, fewest = made.splits[-1], made.fewest
    weights = f"{made.shape.weight_bytes / 1e9:,.0f} GB ({in_bytes(made.shape.weight_bytes)}) of weights"
    if fewest is None:
        return f"{weights}: even {most.tp} × {made.gpu.name} hold only {most.requests:,} such requests."
    if fewest.tp == 1:
        return ""
    before = next(split for split in reversed(made.splits) if split.tp < fewest.tp)
    if before.memory.kv_room > 0:
        short = f"leave {in_bytes(before.memory.kv_room)} each for KV, room for {_requests(before.requests)}"
    else:
        short = f"would each hold {in_bytes(before.memory.weights)} of weights and have no room for KV"
    less = "1 GPU" if before.tp == 1 else f"{before.tp} GPUs"
    short = short.replace("each ", "") if before.tp == 1 else short
    return f"{weights} and this KV cache take {fewest.tp} GPUs: {less} {short}."


def _requests(number: int) -> str:
    return "not one request" if not number else "1 request" if number == 1 else f"{number:,} requests"


def _memory(made: Plan, width: int) -> list[str]:
    memory = made.memory
    sizes = (memory.weights, float(made.kv_needed), memory.activations, memory.overhead)
    taken = f"{made.settings.gpu_memory_utilization:.0%}"
    head = f"MEMORY OF ONE GPU  {in_bytes(memory.total)}, of which vLLM takes {taken}: {in_bytes(memory.budget)}"
    lines = [*_section(head, width), _bar(made, sizes, width)]
    for (name, glyph, style), size in zip(_PARTS, sizes, strict=True):
        note = f"{size / memory.total:.0%}"
        if name == "KV cache":
            note += f"   {made.traffic.concurrency:,} × {made.traffic.context:,} tokens"
        elif name == "weights" and made.tp > 1:
            note += f"   of {in_bytes(made.shape.weight_bytes)} in all"
        lines += _row(f"{glyph} {name}", in_bytes(size), note, width, style)
    if made.free >= 0:
        note = f"{made.free / memory.total:.0%}   for more KV cache"
        lines += _row(f"{_FREE} free", in_bytes(made.free), note, width)
    else:
        lines += _row("✗ too much", in_bytes(-made.free), f"{-made.free / memory.total:.0%}", width, "bad")
    rest = memory.total - memory.budget
    note = f"{rest / memory.total:.0%}   CUDA context, other programs"
    return lines + _row("  not vLLM's", in_bytes(rest), note, width)


def _bar(made: Plan, sizes: tuple[float, ...], width: int) -> str:
    """The device from left to right; what is not vLLM's is blank, what does not fit is cut at the device's end."""
    cells = min(width, 80) - 2
    total = made.memory.total
    text, used, filled = "", 0.0, 0
    for (_, glyph, style), size in zip(_PARTS, sizes, strict=True):
        used += size
        until = min(cells, max(round(used / total * cells), filled + 1))
        text += paint(glyph * (until - filled), style)
        filled = until
    budget = max(filled, round(made.memory.budget / total * cells))
    edge = paint("▶", "bad") if used > total else "│"
    return f"│{text}{_FREE * (budget - filled)}{' ' * (cells - budget)}{edge}"


def _cache(made: Plan, width: int) -> list[str]:
    context, concurrency = made.traffic.context, made.traffic.concurrency
    lines = _section("KV CACHE", width)
    each = f"{in_bytes(made.kv_token_per_gpu)} on each GPU" if made.tp > 1 else ""
    windowed = any(group.window for group in made.layout.groups)
    until = "until a window has passed it" if windowed else ""
    lines += _row("a token", in_bytes(made.kv_token), _join(each, until), width)
    whole = made.kv_request_per_gpu
    on = " on each GPU" if made.tp > 1 else ""
    note = f"of {context:,} tokens{on}, in blocks of {made.layout.block_size}"
    lines += _row("a request", in_bytes(whole), note, width)
    if concurrency > 1:
        lines += _row(f"{concurrency:,} requests", in_bytes(made.kv_needed), f"{on.strip() or 'in all'}", width)
    room = f"{made.blocks:,} blocks: {made.requests:,} such requests at most"
    lines += _row("room", in_bytes(made.memory.kv_room) if made.weights_fit else "none", room, width)
    return lines


def _choices(made: Plan, width: int) -> list[str]:
    lines = _section(f"HOW MANY {made.gpu.name}", width)
    heads = ("TP", "weights each", "KV room each", f"requests of {made.traffic.context:,} tokens")
    lines.append(paint(fit(f"  {heads[0]:>3}  {heads[1]:>12}  {heads[2]:>12}  {heads[3]}", width), "quiet"))
    return [*lines, *(_choice(made, split, width) for split in made.splits)]


def _choice(made: Plan, split: Split, width: int) -> str:
    room = split.memory.kv_room
    enough = split.requests >= made.traffic.concurrency
    what = f"{split.requests:,}" if room > 0 else "–"
    style = "good" if enough else None if room > 0 else "quiet"
    mark = "▸" if split.tp == made.tp else " "
    fewest = "  the fewest that do" if made.fewest is split else ""
    nodes = f"  {split.tp // GPUS_PER_NODE} nodes" if split.tp > GPUS_PER_NODE else ""
    shown = in_bytes(room) if room > 0 else "none"
    text = f"{mark} {split.tp:>3}  {in_bytes(split.memory.weights):>12}  {shown:>12}  {what}{fewest}{nodes}"
    return paint(fit(text, width), style)


def _speed(made: Plan, width: int) -> list[str]:
    speed, traffic = made.speed, made.traffic
    head = f"SPEED AT BEST  at {traffic.context:,} tokens each, from published figures: no engine is faster"
    lines = _section(head, width)
    alone = f"{three(speed.alone_rate)} tok/s; {_bound(speed.alone)}"
    lines += _row("decode, alone", milliseconds(speed.alone.seconds), alone, width)
    if speed.requests > 1:
        each = three(speed.together_rate / speed.requests)
        together = f"{three(speed.together_rate)} tok/s, {each} each; {_bound(speed.together)}"
        if not made.fits:
            together += " (if they did fit)"
        lines += _row(f"decode, {speed.requests:,}", milliseconds(speed.together.seconds), together, width)
    lines += _row("prefill", f"{three(speed.prefill_rate)} tok/s", _bound(speed.prefill), width)
    lines += _row("first token", milliseconds(speed.ttft_s), f"for a prompt of {traffic.prompt:,} tokens, alone", width)
    return lines


def _bound(step: StepTime) -> str:
    return f"bound by {_BOUNDS[step.bound]}"


def _price(made: Plan, width: int) -> list[str]:
    cost, traffic = made.cost, made.traffic
    assert cost is not None
    gpus = f"{_money(cost.per_gpu_hour)} a GPU-hour"
    head = f"COST AT LEAST  {gpus}" + (f", {_money(cost.per_hour)} an hour for {made.tp}" if made.tp > 1 else "")
    usual = f"{traffic.prompt:,} in + {traffic.output:,} out"
    return [
        *_section(head, width),
        *_row("per million tokens", _money(cost.per_million_all), f"of both kinds, at {usual}", width),
        *_row("per million output", _money(cost.per_million_output), "if only they are counted", width),
        *_row("requests", f"{three(cost.requests_per_s)}/s", "kept busy all the time", width),
    ]


def _money(amount: float) -> str:
    """Cents, and more digits where an amount is less than ten of them; the currency is the price's own."""
    return f"{amount:,.2f}" if amount >= 0.1 or not amount else f"{amount:.2g}"


def _section(title: str, width: int) -> list[str]:
    return [paint(line, "title") for line in wrap(title, width)]


def _row(label: str, value: str, note: str, width: int, style: str | None = None) -> list[str]:
    """A label whose first character takes the style, a figure, and words that go on below their own start."""
    first = f"{paint(label[0], style)}{pad(label[1:], _LABEL - 1)}{value:>{_VALUE}}"
    if not note:
        return [first]
    start = _LABEL + max(_VALUE, len(value)) + 3  # a figure may be wider than its column
    if width - start < _LEAST:
        return [first, *(f"    {part}" for part in wrap(note, width - 4))]
    parts = wrap(note, width - start)
    return [f"{first}   {parts[0]}", *(" " * start + part for part in parts[1:])]


def _join(*parts: str) -> str:
    return ", ".join(part for part in parts if part)
