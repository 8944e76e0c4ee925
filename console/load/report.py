"""A run's figures: as data, as a summary for people, and as one line while it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from console import figures
from console.load.runner import Run
from console.load.tally import RECENT, Series
from console.text import fit, literal, pad

_QUANTILES = (0.5, 0.9, 0.99)
_LEAST_S = 0.005e-3


def summary(run: Run, key_names: Sequence[str], *, simulated: bool | None = None) -> dict[str, Any]:
    """Everything measured; durations in seconds, null where nothing was measured. ``simulated``: by the endpoint's own
    word, null where it has not said."""
    tally, plan, elapsed = run.tally, run.plan, run.elapsed_s
    return {
        "model": plan.model,
        "simulated": simulated,
        "mode": "stream" if plan.stream else "plain",
        "loop": {"open": True, "rate": plan.rate, "poisson": plan.poisson}
        if plan.rate
        else {"open": False, "concurrency": plan.concurrency},
        "seed": plan.seed,
        "duration_s": elapsed,
        "requests": {
            "started": tally.started,
            "ok": tally.ok,
            "cancelled": tally.cancelled,
            "failed": tally.failed,
            "unfinished": tally.started - tally.ended,
        },
        "errors": dict(tally.errors.most_common()),
        "error_examples": dict(tally.examples),
        "finish_reasons": dict(tally.finish_reasons.most_common()),
        "tokens": {
            "prompt": tally.prompt_tokens,
            "cached": tally.cached_tokens,
            "output": tally.output_tokens,
            "chunks": tally.chunks,
        },
        "per_second": {
            "requests_ok": tally.ok / elapsed if elapsed else None,
            "output_tokens": tally.output_tokens / elapsed if elapsed else None,
        },
        "ttft_s": _series(tally.ttft),
        "itl_s": _series(tally.itl),
        "tpot_s": _series(tally.tpot),
        "e2e_s": _series(tally.e2e),
        "start_delay_s": _series(tally.late),
        "keys": [
            {
                "key": name,
                "ok": mine.ok,
                "failed": mine.failed,
                "cancelled": mine.cancelled,
                "output_tokens": mine.output_tokens,
            }
            for index, name in enumerate(key_names)
            if (mine := tally.keys.get(index)) is not None
        ],
    }


def _series(series: Series) -> dict[str, Any]:
    low, mid, high = series.quantiles(*_QUANTILES)
    return {
        "count": len(series),
        "mean": series.mean,
        "p50": low,
        "p90": mid,
        "p99": high,
        "max": max(series.values, default=None),
    }


def summary_lines(data: dict[str, Any]) -> list[str]:
    """The summary for people; error messages come from the server and are made literal."""
    requests, tokens, rates = data["requests"], data["tokens"], data["per_second"]
    loop = data["loop"]
    shape = (
        f"open loop, {loop['rate']:g}/s {'Poisson' if loop['poisson'] else 'constant'}"
        if loop["open"]
        else f"closed loop, {loop['concurrency']} at a time"
    )
    counts = [f"{requests['ok']:,} ok"]
    counts += [f"{requests[word]:,} {word}" for word in ("cancelled", "failed", "unfinished") if requests[word]]
    simulated = " · simulated" if data["simulated"] else ""
    lines = [
        f"{literal(data['model'])}{simulated} · {data['mode']} · {shape} · {figures.seconds(data['duration_s'])}",
        "",
        _line("requests", f"{' · '.join(counts)} · {figures.rate(rates['requests_ok'])}/s"),
        _line("output", f"{tokens['output']:,} tokens · {figures.rate(rates['output_tokens'])} tok/s"),
        _line("prompt", f"{tokens['prompt']:,} tokens" + _cached(tokens)),
        "",
        _line("", "".join(pad(word, 10, right=True) for word in ("p50", "p90", "p99", "max"))),
    ]
    names = [("TTFT", "ttft_s"), ("ITL", "itl_s"), ("TPOT", "tpot_s"), ("end to end", "e2e_s")]
    if loop["open"]:
        names.append(("start delay", "start_delay_s"))
    for name, key in names:
        series = data[key]
        if series["count"]:
            cells = "".join(pad(_measured(series[q]), 10, right=True) for q in ("p50", "p90", "p99", "max"))
            lines.append(_line(name, f"{cells}   {series['count']:,}"))
    if data["errors"]:
        lines.append("")
        for code, number in data["errors"].items():
            lines.append(
                _line("error", f"{number:,} × {literal(code)}: {literal(data['error_examples'].get(code, ''))}")
            )
    if len(data["keys"]) > 1:
        lines.append("")
        lines += [
            _line(
                "key",
                f"{literal(mine['key'])}: {mine['ok']:,} ok · {mine['failed']:,} failed · "
                f"{mine['output_tokens']:,} tokens",
            )
            for mine in data["keys"]
        ]
    return lines


def _cached(tokens: dict[str, int]) -> str:
    return f" ({figures.percent(tokens['cached'] / tokens['prompt'])} cached)" if tokens["prompt"] else ""


def _measured(value: float | None) -> str:
    """Chunks that came in one piece have no gap that a client could measure."""
    return "<0.01 ms" if value is not None and value < _LEAST_S else figures.seconds(value)


def _line(label: str, text: str) -> str:
    return f"  {pad(label, 12)}{text}".rstrip()


def live_line(run: Run, width: int) -> str:
    """How it goes, by the latest measurements."""
    tally = run.tally
    ttft, ttft99 = tally.ttft.quantiles(0.5, 0.99, last=RECENT)
    itl, itl99 = tally.itl.quantiles(0.5, 0.99, last=RECENT)
    speed = tally.chunks / run.elapsed_s if run.elapsed_s else 0.0
    failed = f" · {tally.failed:,} failed" if tally.failed else ""
    return fit(
        f"{figures.age(run.elapsed_s)} · {tally.running} running · {tally.ok:,} ok{failed} · "
        f"TTFT {figures.seconds(ttft)} p99 {figures.seconds(ttft99)} · "
        f"ITL {_measured(itl)} p99 {_measured(itl99)} · "
        f"{figures.rate(speed)} tok/s",
        width,
    )
