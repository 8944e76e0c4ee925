"""What a gateway says of itself and of its models: it is made at once, and counts against no limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry

from control_plane.contracts.call import Router
from control_plane.contracts.fleet import ModelView
from control_plane.contracts.model_routes import ModelRoutes
from control_plane.gateway.http.exchange import Exchange
from control_plane.gateway.http.target import segments_of
from control_plane.gateway.metrics_api import METRICS_TYPE, metrics_text
from control_plane.gateway.models_api import list_models, show_model
from control_plane.gateway.prompt.models import ModelPrompts

_LATER = b"retry-after: 5\r\n"


class Pages:
    """``started_unix`` stands for when models were created. While ``closing`` the gateway is not ready."""

    def __init__(self, router: Router, prompts: ModelPrompts, registry: CollectorRegistry, started_unix: float) -> None:
        self._router = router
        self._prompts = prompts
        self._registry = registry
        self._started = int(started_unix)
        self.closing = False

    def models(self, exchange: Exchange) -> None:
        exchange.respond(200, list_models(*self._models_for(exchange), self._started))

    def one_model(self, exchange: Exchange) -> None:
        name = "/".join(segments_of(exchange.target)[2:])
        exchange.respond(200, show_model(*self._models_for(exchange), name, self._started))

    def health(self, exchange: Exchange) -> None:
        exchange.respond(200, b'{"status":"ok"}')

    @property
    def unready(self) -> str:
        """Why the gateway is not ready; empty where it is."""
        if self.closing:
            return "stopping"
        if not self._router.ready():
            return "no worker"
        return "" if self._prompts.warm else "reading tokenizers"

    def ready(self, exchange: Exchange) -> None:
        if why := self.unready:
            exchange.respond(503, f'{{"status":"{why}"}}'.encode(), headers=_LATER)
        else:
            exchange.respond(200, b'{"status":"ready"}')

    def metrics(self, exchange: Exchange) -> None:
        exchange.respond(200, metrics_text(self._registry, exchange.grant), content_type=METRICS_TYPE)

    def _models_for(self, exchange: Exchange) -> tuple[Sequence[ModelView], ModelRoutes, Callable[[str], bool]]:
        return self._router.models(), self._router.routes() or ModelRoutes(), exchange.grant.allows
