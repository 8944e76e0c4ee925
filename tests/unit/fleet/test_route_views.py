"""Names that lead to models, among the models."""

from __future__ import annotations

from control_plane.contracts.fleet import ModelView
from control_plane.contracts.model_routes import ModelRoute
from control_plane.fleet.route_views import with_routes

A = ModelView("a", "pool-a", max_context=4096, ready_workers=2, price_per_hour=1.5)
B = ModelView("b", "pool-b", max_context=2048, ready_workers=1)


def test_without_routes_there_are_the_models() -> None:
    assert with_routes((A, B), {}) == (A, B)


def test_a_name_has_the_workers_of_all_that_it_can_end_at_and_the_shortest_context() -> None:
    routes = {
        "smart": ModelRoute(target="a"),
        "auto": ModelRoute(small="b", large="smart", threshold=0.3, fallback=("a",)),
        "lost": ModelRoute(target="gone"),
    }
    found = {view.name: view for view in with_routes((A, B), routes)}
    assert list(found) == ["a", "b", "auto", "lost", "smart"]
    assert found["smart"] == ModelView(
        "smart", "", max_context=4096, ready_workers=2, kind="alias", leads_to="a", targets=("a",)
    )
    assert found["auto"] == ModelView(
        "auto",
        "",
        max_context=2048,
        ready_workers=3,
        kind="auto",
        leads_to="b, from 0.3 on smart",
        targets=("b", "smart"),
        fallback=("a",),
    )
    assert (found["lost"].ready_workers, found["lost"].max_context) == (0, 0)


def test_a_model_shows_what_it_falls_back_to() -> None:
    found = with_routes((A, B), {"a": ModelRoute(fallback=("b",))})
    assert [(view.name, view.fallback) for view in found] == [("a", ("b",)), ("b", ())]


def test_a_route_that_a_model_covers_is_not_in_force_and_not_shown() -> None:
    assert with_routes((A, B), {"a": ModelRoute(target="b")}) == (A, B)


def test_a_route_that_takes_a_models_name_stands_beside_it() -> None:
    found = with_routes((A, B), {"a": ModelRoute(split={"a": 9, "b": 1}, shadow=True)})
    assert [(view.name, view.kind, view.ready_workers) for view in found] == [
        ("a", "", 2),
        ("b", "", 1),
        ("a", "split", 3),
    ]
