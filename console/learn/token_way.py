"""The way of a call's tokens: what its engine, the processes between and its client say of it, on one clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from console import figures
from console.client import OperatorClient
from console.learn.calls import Made
from control_plane.contracts.timeline import Span, Timeline
from lessons.hops import PLACES, Piece, Place, TokenHops, between, hops_of
from lessons.statistic import Stat, statistic

FIRST = 4
LAST = 2
"""Tokens that are shown of an answer's beginning, and of its end."""

_GIVE_TOKENS = ("last_prefill", "decode")
_WIDTHS = (5, 5, 7, 7, 7, 7, 7)


async def hops_by_call(client: OperatorClient, calls: Sequence[Made]) -> dict[str, tuple[TokenHops, ...]]:
    """Of those that asked for it."""
    asked = [made for made in calls if made.shape.hops]
    return {made.request_id: hops_seen(made, await client.timeline(made.request_id)) for made in asked}


def hops_seen(made: Made, timeline: Timeline) -> tuple[TokenHops, ...]:
    """Of an answer with one choice. The gateway's machine is this one: what it says of its clock is so by ours. A
    worker's clock counts as another only where more than the uncertainty of measuring it lies between them.

    Nothing where steps are missing: then nobody knows which token is which step's.
    """
    clock = timeline.clocks[0] if timeline.clocks else None
    if clock is None or timeline.missing_steps:
        return ()
    ahead = clock.ahead_s if abs(clock.ahead_s) > clock.uncertainty_s else 0.0
    came = timeline.request.arrival_unix - made.began_unix
    steps = [
        (int(span.attributes["step"]), came + span.start_s + clock.ahead_s - ahead + span.duration_s)
        for span in timeline.spans
        if _gives_token(span)
    ]
    return hops_of(steps, list(_pieces(made, came, ahead)))


def _gives_token(span: Span) -> bool:
    return span.name == "step" and span.attributes.get("kind") in _GIVE_TOKENS and "choice" not in span.attributes


def _pieces(made: Made, came: float, ahead: float) -> Iterator[Piece]:
    answer = made.answer
    for told, at in answer.hops:
        if "worker" not in told:
            continue
        worker, router, gateway = (told[name] + came for name in ("worker", "router", "gateway"))
        yield Piece(int(told["tokens"]), at - answer.started, worker - ahead, router, gateway)
    if not made.shape.stream and answer.token_times:
        yield Piece(answer.output_tokens, answer.token_times[0] - answer.started)


def hop_lines(hops: Sequence[TokenHops]) -> Iterator[str]:
    """Milliseconds since the call began, a line for each token; then what each hop took, under the place it ends at."""
    if not hops:
        yield "not known: its engine's steps were not traced, or are no longer kept"
        return
    yield "ms since the call began"
    yield _row(("token", "step", *PLACES))
    shown = [*hops[:FIRST], *hops[max(FIRST, len(hops) - LAST) :]]
    for before, each in zip([None, *shown], shown, strict=False):
        if before is not None and each.token > before.token + 1:
            yield f"    … {figures.plural(each.token - before.token - 1, 'token')} more"
        yield _row((str(each.token), str(each.step or figures.NONE), *(_ms(each.at(place)) for place in PLACES)))
    yield ""
    stats: tuple[Stat, ...] = ("p50", "p99")
    for stat in stats:
        yield f"each hop, {stat}".ljust(20) + _row([_hop(hops, place, stat) for place in PLACES[1:]], _WIDTHS[3:])
    whole = between(hops, "engine", "client")
    yield "the whole way: " + ", ".join(f"{stat} {_ms(statistic(whole, stat), 2)} ms" for stat in stats)


def _hop(hops: Sequence[TokenHops], place: Place, stat: Stat) -> str:
    """From the place before it that tokens were seen at."""
    before = [each for each in PLACES[: PLACES.index(place)] if any(token.at(each) is not None for token in hops)]
    took = between(hops, before[-1], place) if before else []
    return f"+{_ms(statistic(took, stat), 2)}" if took else figures.NONE


def _ms(seconds: float | None, digits: int = 1) -> str:
    return figures.NONE if seconds is None else f"{seconds * 1e3:.{digits}f}"


def _row(cells: Sequence[str], widths: Sequence[int] = _WIDTHS) -> str:
    return " ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
