"""How routers choose, as operators decide it: a part of the policy, told to every router by the fleet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from control_plane.contracts.admission import AdmissionRules
from control_plane.contracts.model_routes import ModelRoute

SCORERS: Final = (
    "prefix_cache",
    "even_load",
    "inflight_tokens",
    "queue_depth",
    "kv_headroom",
    "recent_work",
    "session_affinity",
)
"""What an endpoint can be rated by."""

PICKERS: Final = ("max", "softmax", "round_robin")
"""Best total, ties at random; at random, the better the likelier; each in turn, whatever the scores."""

DEFAULT_TEMPERATURE: Final = 0.1


@dataclass(frozen=True, slots=True)
class RoutingProfile:
    """A way of choosing. ``weights`` by scorer, positive: a total is their weighted mean, from 0 to 1.

    ``temperature`` is of ``softmax`` only, 0 elsewhere: a total that is so much higher is e times as likely.
    """

    weights: Mapping[str, float]
    picker: str = "max"
    temperature: float = 0.0


BUILT_IN: Final[Mapping[str, RoutingProfile]] = MappingProxyType(
    {
        # Where most of the prompt is cached, unless that endpoint has clearly more to do than the others: where a
        # prompt is wholly cached it goes until the load there is half as much again as the mean, or a third where
        # another endpoint is idle. The rest decides among equals. The weights are those that did best in
        # tests/bench/prefix_routing.py within the bounds of tests/unit/router/test_routing_cases.py.
        "prefix_aware": RoutingProfile(
            {
                "prefix_cache": 3.0,
                "even_load": 4.0,
                "kv_headroom": 0.25,
                "recent_work": 0.5,
                "session_affinity": 0.25,
            }
        ),
        "least_load": RoutingProfile({"inflight_tokens": 1.0}),
        # Also what workers say of themselves: for those that several routers load, or whose KV cache fills first.
        "balanced": RoutingProfile({"inflight_tokens": 2.0, "queue_depth": 1.0, "kv_headroom": 1.0}),
        "round_robin": RoutingProfile({"inflight_tokens": 1.0}, "round_robin"),
    }
)

PROFILES: Final = tuple(BUILT_IN)
"""The profiles that come with the program."""


@dataclass(frozen=True, slots=True)
class Routing:
    """``profile``: by which name endpoints are picked; empty leaves that to the router's settings. ``profiles`` are
    operators' own, beside the built-in ones, by name. ``admission``: who is let in when workers are
    busy. ``models``: names that lead to models."""

    profile: str = ""
    profiles: Mapping[str, RoutingProfile] = field(default_factory=dict)
    models: Mapping[str, ModelRoute] = field(default_factory=dict)
    admission: AdmissionRules = field(default_factory=AdmissionRules)

    def named(self, name: str) -> RoutingProfile | None:
        """The profile of this name, the program's or an operator's."""
        return BUILT_IN.get(name) or self.profiles.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """Every profile that there is: the program's, then operators' by name."""
        return (*BUILT_IN, *sorted(self.profiles))
