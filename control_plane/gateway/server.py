"""The gateway as a running thing.

::

    gateway = Gateway(options, keys)                 # the port is taken here; SettingsError if it cannot be
    router = EmbeddedRouter(..., stats=gateway.stats)
    await gateway.serve(router, stop, grace_s=30)    # until ``stop`` is set
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import secrets
import sys
import time
from collections.abc import Coroutine
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry

from control_plane.contracts import metrics
from control_plane.contracts.call import Router
from control_plane.contracts.errors import DropReason, Unavailable
from control_plane.contracts.fleet import GatewayStats
from control_plane.gateway.app import GatewayApp
from control_plane.gateway.auth import KeyGate, Keys
from control_plane.gateway.cors import Cors
from control_plane.gateway.desk import Active, Desk
from control_plane.gateway.figures import Figures
from control_plane.gateway.history.history import History
from control_plane.gateway.http.certificate import ServerCertificate
from control_plane.gateway.http.listener import Listener, bind
from control_plane.gateway.limits.limiter import Limiter
from control_plane.gateway.limits.shared import SharedCounts
from control_plane.gateway.options import GatewayOptions
from control_plane.gateway.pages import Pages
from control_plane.gateway.prompt.lanes import Lanes
from control_plane.gateway.prompt.models import ModelPrompts
from control_plane.gateway.route_table import route_table
from control_plane.process_use import process_use
from control_plane.tasks import Tasks

log = logging.getLogger(__name__)

SWITCH_S = 0.001
"""How long a tokenizer thread may keep the interpreter from the event loop, in seconds."""

_LAST_WORDS_S = 1.0


class Gateway:
    """One gateway process's HTTP side. ``url`` is known from the start, also where port 0 was asked for. Without a
    ``history`` it keeps no conversations and no responses."""

    def __init__(
        self,
        options: GatewayOptions,
        keys: Keys,
        *,
        registry: CollectorRegistry = REGISTRY,
        history: History | None = None,
    ) -> None:
        self._history = history
        self._options = options
        self._keys = keys
        self._registry = registry
        self._figures = Figures()
        self._active: dict[str, Active] = {}
        self._limiter: Limiter | None = None
        self._pages: Pages | None = None
        self._listener: Listener | None = None
        self.certificate: ServerCertificate | None = None
        if options.certificate is not None:
            self.certificate = ServerCertificate(options.certificate, options.key or options.certificate, options.host)
        self._socket = bind(options.host, options.port)
        self.started_unix = time.time()
        host, port = self._socket.getsockname()[:2]
        self.port: int = port
        scheme = "https" if self.certificate is not None else "http"
        self.url = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    @property
    def held(self) -> int:
        """Bytes of request bodies in memory."""
        return self._listener.held if self._listener is not None else 0

    def stats(self) -> GatewayStats:
        """The figures now, for the router's report to the fleet."""
        use = process_use((os.getpid(),))
        responses = self._figures.by_status()
        return GatewayStats(
            ready=self._pages is not None and not self._pages.unready,
            in_flight=len(self._active),
            requests_total=sum(responses.values()),
            responses=responses,
            output_tokens_total=self._figures.output_tokens(),
            rss_bytes=use.rss_bytes,
            cpu_s=use.cpu_s,
            reserved_tokens=self._limiter.book.held if self._limiter is not None else 0,
            limit_store=self._limiter.state if self._limiter is not None else "",
        )

    def _shared(self, name: str) -> SharedCounts | None:
        options = self._options
        if not options.limit_store:
            return None
        return SharedCounts(
            options.limit_store,
            name=name,
            gateways=options.limit_gateways,
            window_s=options.limit_window_s,
            timeout_s=options.limit_timeout_s,
        )

    def _tell_of_tls(self, certificate: ServerCertificate, listener: Listener) -> None:
        self._figures.gauges[metrics.GATEWAY_CERTIFICATE_EXPIRES] = lambda: int(certificate.not_after)
        if (handshakes := listener.handshakes) is not None:
            self._figures.totals[metrics.GATEWAY_HANDSHAKES_FAILED] = lambda: handshakes.failed

    def close(self) -> None:
        """Give the port back without having served."""
        self._socket.close()

    async def serve(self, router: Router, stop: asyncio.Event, *, grace_s: float = 30.0) -> None:
        """Answer requests until ``stop`` is set; then take no more, let those that run end for ``grace_s`` seconds,
        and end the rest with an error that says so. Calls that wait for a model's first worker end at once. A router
        that is closed meanwhile ends the others earlier. Once for each gateway."""
        figures, lanes = self._figures, Lanes()
        prompts = ModelPrompts(router)
        gate = KeyGate(self._keys)
        name = f"{os.getpid()}-{secrets.token_hex(4)}"
        shared = self._shared(name)
        self._limiter = limiter = Limiter(shared, name=name, window_s=self._options.limit_window_s)
        desk = Desk(router, prompts, lanes, figures, self._options.wait_s, self._active, limiter, self._history)
        self._pages = pages = Pages(router, prompts, self._registry, self.started_unix)
        app = GatewayApp(route_table(desk, pages), gate, desk, figures, Cors(self._options.cors_origins))
        self._listener = listener = Listener(app, self._socket, self._options.limits, self.certificate)
        figures.gauges = {
            metrics.GATEWAY_IN_FLIGHT: lambda: len(self._active),
            metrics.GATEWAY_WAITING_FOR_TOKENIZER: lambda: prompts.waiting,
            metrics.GATEWAY_CONNECTIONS: lambda: len(listener.connections),
            metrics.GATEWAY_TOKENS_HELD: lambda: limiter.book.held,
        }
        figures.totals = {
            metrics.GATEWAY_CONNECTIONS_DROPPED: lambda: listener.dropped,
            metrics.GATEWAY_TOKENS_RESERVED: lambda: limiter.reserved,
            metrics.GATEWAY_TOKENS_SETTLED: lambda: limiter.settled,
            metrics.GATEWAY_TOKENS_REFUNDED: lambda: limiter.refunded,
        }
        if shared is not None:
            figures.gauges[metrics.GATEWAY_LIMIT_STORE_UP] = lambda: int(shared.up)
            figures.gauges[metrics.GATEWAY_LIMIT_GATEWAYS] = lambda: shared.gateways
            figures.totals[metrics.GATEWAY_LIMIT_STORE_ERRORS] = lambda: shared.errors
            shared.start()
        if self.certificate is not None:
            self._tell_of_tls(self.certificate, listener)
        self._registry.register(figures)
        # What is alive by now stays alive: keep it out of the collector's way, whose long pauses would be everyone's.
        gc.collect()
        gc.freeze()
        switch_s = sys.getswitchinterval()
        sys.setswitchinterval(min(SWITCH_S, switch_s))
        lanes.start()
        beside = Tasks()
        beside.keep(prompts.keep_warm, "tokenizers")
        if self.certificate is not None:
            beside.keep(self.certificate.watch, "certificate")
        await listener.start()
        log.info("listening", extra={"url": self.url})
        try:
            await stop.wait()
            stopping = Unavailable("The gateway is stopping.", reason=DropReason.DRAINING)
            pages.closing = True
            listener.stop_accepting()
            prompts.give_up(stopping)
            if not await _within(grace_s, listener.drained()):
                log.warning("ending what still runs", extra={"in_flight": len(self._active)})
                desk.fail_all(stopping)
                await _within(_LAST_WORDS_S, listener.drained())
        finally:
            await beside.cancel()
            await listener.stop()
            if shared is not None:
                await shared.stop()
            prompts.stop()
            gate.stop()
            lanes.stop()
            if self._history is not None:
                await self._history.stop()
            self._registry.unregister(figures)
            sys.setswitchinterval(switch_s)


async def _within(seconds: float, waiting: Coroutine[Any, Any, None]) -> bool:
    try:
        await asyncio.wait_for(waiting, seconds)
    except TimeoutError:
        return False
    return True
