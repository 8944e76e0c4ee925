"""When each token of an answer passed each process between the engine and its client. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

Place = Literal["engine", "worker", "router", "gateway", "client"]
PLACES: Final[tuple[Place, ...]] = get_args(Place)


@dataclass(frozen=True, slots=True)
class TokenHops:
    """One token, in seconds since its call began; None where nobody told. ``token`` counts from 1, ``step`` is the
    engine's, 0 where it is not known.

    ``engine``: its step was over. ``worker``, ``router``, ``gateway``: it left that process. ``client``: it was read.
    """

    token: int
    step: int = 0
    engine: float | None = None
    worker: float | None = None
    router: float | None = None
    gateway: float | None = None
    client: float | None = None

    def at(self, place: Place) -> float | None:
        times: dict[Place, float | None] = {
            "engine": self.engine,
            "worker": self.worker,
            "router": self.router,
            "gateway": self.gateway,
            "client": self.client,
        }
        return times[place]


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of an answer as its client read it, times as in ``TokenHops``. ``tokens``: how many the answer had with
    it."""

    tokens: int
    client: float
    worker: float | None = None
    router: float | None = None
    gateway: float | None = None


def hops_of(steps: Sequence[tuple[int, float]], pieces: Sequence[Piece]) -> tuple[TokenHops, ...]:
    """``steps``: the engine's, each with when it was over, one for each token in their order. A token came with the
    first piece that has it; one that never came has no ``client``."""
    count = max(len(steps), max((piece.tokens for piece in pieces), default=0))
    left = list(pieces)
    found: list[TokenHops] = []
    for token in range(1, count + 1):
        while left and left[0].tokens < token:
            del left[0]
        step, engine = steps[token - 1] if token <= len(steps) else (0, None)
        if left:
            piece = left[0]
            hops = TokenHops(token, step, engine, piece.worker, piece.router, piece.gateway, piece.client)
        else:
            hops = TokenHops(token, step, engine)
        found.append(hops)
    return tuple(found)


def between(hops: Sequence[TokenHops], begin: Place, end: Place) -> list[float]:
    """Seconds from one place to the other, of each token that was seen at both."""
    times = [(each.at(begin), each.at(end)) for each in hops]
    return [later - earlier for earlier, later in times if earlier is not None and later is not None]
