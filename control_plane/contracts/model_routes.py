"""Names that callers may use and that lead to models: a part of the policy, told to every router.

::

    smart → smollm2-135m                  an alias
    blend → a 90, b 10                    a split
    auto  → small a, large b at 0.4       by how hard the request is

What a name leads to may be a name that leads on. A name that is on the way already means the model that is called so:
``a → a 90, b 10`` is a split of the model ``a``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from control_plane.contracts.complexity_rule import ComplexityRule
from control_plane.contracts.model_choice import LARGE, SMALL, ModelChoice

Kind = Literal["", "alias", "split", "auto"]

DEFAULT_THRESHOLD: Final = 0.4


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """Either ``target``, or ``split`` (weights by name), or ``small`` and ``large`` with ``threshold`` and ``rule``: a
    score of at least the threshold goes to the large one. With none of these it leads nowhere, and says of the model
    of its name what to fall back to.

    ``fallback``: names to try, in order, where the model that was chosen has no healthy worker. ``shadow``: it holds
    even where a model that is served has the same name."""

    target: str = ""
    split: Mapping[str, int] = field(default_factory=dict)
    small: str = ""
    large: str = ""
    threshold: float = DEFAULT_THRESHOLD
    rule: ComplexityRule = field(default_factory=ComplexityRule)
    fallback: tuple[str, ...] = ()
    shadow: bool = False

    @property
    def kind(self) -> Kind:
        """Empty for one that leads nowhere."""
        if self.target:
            return "alias"
        if self.split:
            return "split"
        return "auto" if self.small else ""

    @property
    def sides(self) -> tuple[tuple[str, int], ...]:
        """Of a split, the names with their weights, the heaviest first: the same order everywhere."""
        return tuple(sorted(self.split.items(), key=lambda side: (-side[1], side[0])))

    @property
    def targets(self) -> tuple[str, ...]:
        """Every name that it may lead to, once; the fallback is none of them."""
        names = (self.target, *(name for name, _ in self.sides), self.small, self.large)
        return tuple(dict.fromkeys(name for name in names if name))

    @property
    def about(self) -> str:
        """Where it leads, in a few words."""
        if self.target:
            return self.target
        if self.split:
            return ", ".join(f"{name} {weight}" for name, weight in self.sides)
        return f"{self.small}, from {self.threshold:g} on {self.large}" if self.small else ""


_NONE: Final[Mapping[str, ModelRoute]] = MappingProxyType({})


class ModelRoutes:
    """All routes that are in force, by name."""

    __slots__ = ("_routes",)

    def __init__(self, routes: Mapping[str, ModelRoute] = _NONE) -> None:
        self._routes = routes

    def get(self, name: str) -> ModelRoute | None:
        return self._routes.get(name)

    def names(self) -> frozenset[str]:
        return frozenset(self._routes)

    def leading(self) -> Mapping[str, ModelRoute]:
        """Those that lead somewhere."""
        return {name: route for name, route in self._routes.items() if route.kind}

    def among(self, models: Container[str]) -> ModelRoutes:
        """What is in force where these models are served: a model's own name is the model's, unless a route says that
        it shadows it. Its fallback holds all the same."""
        return ModelRoutes(
            {
                name: ModelRoute(fallback=route.fallback) if name in models and not route.shadow else route
                for name, route in self._routes.items()
            }
        )

    def allowed(self, name: str, allows: Callable[[str], bool]) -> bool:
        """Whether who may use the names that ``allows`` says may use this one: by its name, or because every model that
        it can end at is allowed."""
        waiting, seen = [name], set[str]()
        while waiting:
            each = waiting.pop()
            if each in seen or allows(each):
                continue
            seen.add(each)
            route = self._routes.get(each)
            if route is None or not route.kind or each in route.targets or each in route.fallback:
                return False
            waiting += (*route.targets, *route.fallback)
        return True

    def reached(self, name: str) -> frozenset[str]:
        """Every name that a call of this one may come by, itself and fallbacks included."""
        waiting, seen = [name], set[str]()
        while waiting:
            each = waiting.pop()
            if each not in seen:
                seen.add(each)
                if (route := self._routes.get(each)) is not None:
                    waiting += (*route.targets, *route.fallback)
        return frozenset(seen)

    def ends(self, name: str) -> frozenset[str]:
        """The names of models that a call of this one can end at, by fallback too, whether or not there are such."""
        found = set[str]()
        for each in self.reached(name):
            route = self._routes.get(each)
            if route is None or not route.kind or each in route.targets or each in route.fallback:
                found.add(each)
        return frozenset(found)

    def scored(self, name: str) -> Mapping[str, ComplexityRule]:
        """The rules that may be needed for a call of this name, by the route that has them."""
        if name not in self._routes:
            return {}
        routes = ((each, self._routes.get(each)) for each in self.reached(name))
        return {each: route.rule for each, route in routes if route is not None and route.kind == "auto"}

    def falls_back(self, choice: ModelChoice) -> bool:
        """Whether there is another model for one that was chosen so and has no healthy worker."""
        routes = (self._routes.get(name) for name in (choice.model, *choice.names))
        return any(route is not None and route.fallback for route in routes)

    def auto_of(self, name: str) -> ModelRoute | None:
        """The route between small and large that this name is, by itself or as an alias."""
        seen = set[str]()
        while (route := self._routes.get(name)) is not None and name not in seen:
            if route.kind == "auto":
                return route
            seen.add(name)
            name = route.target
        return None

    def side_of(self, name: str, side: str) -> str | None:
        """The name that SMALL or LARGE means for a call of this one; None where that means nothing."""
        auto = self.auto_of(name) if side in (SMALL, LARGE) else None
        return None if auto is None else auto.small if side == SMALL else auto.large

    def only(self, name: str) -> str | None:
        """The one model that this name leads to, a model's own included; None where there are several."""
        seen = set[str]()
        while name not in seen and (route := self._routes.get(name)) is not None and route.kind:
            if len(route.targets) > 1:
                return None
            seen.add(name)
            name = route.targets[0]
        return name


def shadowed(before: Mapping[str, ModelRoute], after: Mapping[str, ModelRoute], models: Container[str]) -> str | None:
    """The first route that is new or different and takes the name of a model that is served without saying so."""
    for name, route in after.items():
        if name in models and route.kind and not route.shadow and before.get(name) != route:
            return name
    return None


def warnings(routes: Mapping[str, ModelRoute], models: Container[str]) -> tuple[str, ...]:
    """What leads nowhere as things are: names that no pool serves and no route has, and routes that a model covers."""
    found: dict[str, list[str]] = {}
    for name, route in sorted(routes.items()):
        path = f"routing.models.{name}"
        if route.kind and name in models and not route.shadow:
            served = "a model of this name is served, and is what callers get; shadow=true changes that"
            found.setdefault(served, []).append(path)
        for end in dict.fromkeys((*route.targets, *route.fallback)):
            if end not in models and end not in routes:
                found.setdefault(f"nothing serves {end} at present", []).append(path)
        if not route.kind and name not in models:
            found.setdefault(f"nothing serves {name} at present, and it leads nowhere", []).append(path)
    return tuple(f"{', '.join(paths)}: {words}" for words, paths in found.items())
