"""Routes of models out of thin air."""

from __future__ import annotations

from hypothesis import strategies as st

from control_plane.contracts.complexity_rule import PARTS, ComplexityRule
from control_plane.contracts.model_routes import ModelRoute

MODELS = ("model-a", "meta/model-b", "modèle c")
"""What routes end at. No route is called so."""

NAMES = tuple(f"route.{number}" for number in range(6))

WORDS = st.lists(st.text("abcdé証", min_size=1, max_size=6), max_size=3, unique=True).map(tuple)
SHARES = st.floats(0, 1, allow_subnormal=False).map(lambda value: value or 0.0)
RULES = st.builds(
    ComplexityRule,
    st.fixed_dictionaries(dict.fromkeys(PARTS, SHARES)),
    st.integers(1, 10**7),
    st.integers(1, 10**7),
    WORDS,
)


@st.composite
def routes(draw: st.DrawFn) -> dict[str, ModelRoute]:
    """Acyclic: each name leads to models and to names after it; fallbacks go anywhere else."""
    found = {}
    names = NAMES[: draw(st.integers(0, len(NAMES)))]
    for index, name in enumerate(names):
        ends = st.sampled_from((*MODELS, *names[index + 1 :]))
        others = st.sampled_from([other for other in (*MODELS, *names) if other != name])
        fallback = tuple(draw(st.lists(others, max_size=3, unique=True)))
        kind = draw(st.sampled_from(["alias", "split", "auto"]))
        if kind == "alias":
            route = ModelRoute(target=draw(ends), fallback=fallback)
        elif kind == "split":
            sides = draw(st.dictionaries(ends, st.integers(0, 100), min_size=1, max_size=3))
            sides[draw(ends)] = draw(st.integers(1, 100))
            route = ModelRoute(split=sides, fallback=fallback)
        else:
            route = ModelRoute(
                small=draw(ends), large=draw(ends), threshold=draw(SHARES), rule=draw(RULES), fallback=fallback
            )
        found[name] = route
    if draw(st.booleans()):
        found[MODELS[0]] = ModelRoute(fallback=(draw(st.sampled_from((*MODELS[1:], *names))),))
    return found
