"""The models that several routers tell of, as one list."""

from __future__ import annotations

import pytest

from control_plane.contracts.errors import NotFound, Unavailable
from control_plane.contracts.fleet import ModelView
from control_plane.router.remote.served import ServedModels


def view(name: str, ready_workers: int) -> ModelView:
    return ModelView(name, "pool", ready_workers=ready_workers)


def test_each_model_is_as_the_router_with_the_most_workers_tells_it() -> None:
    served = ServedModels()
    served.merge([(view("a", 1), view("b", 2)), (view("a", 3),), (view("b", 0),)])
    assert [(seen.name, seen.ready_workers) for seen in served.views or ()] == [("a", 3), ("b", 2)]


def test_what_was_served_last_is_known_while_nobody_tells() -> None:
    served = ServedModels()
    served.merge([(view("a", 1),)])
    names = served.names
    served.merge([])
    assert served.get("a").ready_workers == 0
    assert served.knows("a")
    assert not served.serves("a")
    assert served.names is names


def test_nothing_is_known_until_somebody_has_spoken() -> None:
    served = ServedModels()
    served.merge([])
    assert served.views is None
    with pytest.raises(Unavailable):
        served.get("a")
    served.merge([(view("a", 1),)])
    with pytest.raises(NotFound):
        served.get("b")
