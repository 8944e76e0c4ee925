"""``/v1/route``: which model a call would go to, and why, without running it."""

from __future__ import annotations

from typing import Any

from control_plane.contracts.call import Router
from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.model_choice import ModelChoice
from control_plane.gateway.answer.item_json import to_bytes
from control_plane.gateway.errand import Errand, Errands
from control_plane.gateway.http.exchange import Exchange
from control_plane.gateway.model_door import ask_of, check_model
from control_plane.gateway.schema.generation import Generation
from control_plane.gateway.schema.route import read_route


class RouteApi:
    def __init__(self, router: Router, errands: Errands) -> None:
        self._router = router
        self._errands = errands

    def route(self, exchange: Exchange) -> None:
        def begin(generation: Generation) -> None:
            ask = ask_of(exchange, generation, in_full=True)
            check_model(self._router, exchange.grant, ask.model, ask.override)

            def select(errand: Errand) -> None:
                def chosen(choice: ModelChoice | InferDeckError) -> None:
                    if isinstance(choice, InferDeckError):
                        errand.refuse(choice)
                    else:
                        errand.respond(to_bytes(self._told(choice)))

                self._router.select(ask, chosen)

            self._errands.start(exchange, select)

        self._errands.read(exchange, read_route, begin)

    def _told(self, choice: ModelChoice) -> dict[str, Any]:
        views = [view for view in self._router.models() if view.name == choice.model]
        price = next((view.price_per_hour for view in views if view.price_per_hour), None)
        score = choice.score
        return {
            "object": "model_choice",
            "asked": choice.asked,
            "model": choice.model,
            "reason": choice.reason or None,
            "instead_of": choice.instead_of or None,
            "ready_workers": sum(view.ready_workers for view in views),
            "price_per_hour": price,
            "threshold": None if score is None else choice.threshold,
            "score": None
            if score is None
            else {
                "total": score.total,
                "parts": [
                    {"name": part.name, "value": part.value, "weight": part.weight, "found": part.found}
                    for part in score.parts
                ],
            },
        }
