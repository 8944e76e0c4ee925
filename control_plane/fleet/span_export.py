"""Ended requests as OpenTelemetry spans, sent where the settings say. Off the request path: what cannot be sent is
dropped and counted."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Sequence
from typing import Any, Final

from control_plane.contracts.fleet import RequestView
from control_plane.fleet.timelines import Timelines
from control_plane.settings import TelemetrySettings

_MOST_WAITING: Final = 1000
_EXPORT_TIMEOUT_S: Final = 5.0

log = logging.getLogger(__name__)


class SpanExport:
    """``ended`` never blocks; ``run`` sends, until it is cancelled."""

    def __init__(self, settings: TelemetrySettings, timelines: Timelines) -> None:
        self._settings = settings
        self._timelines = timelines
        self._waiting: asyncio.Queue[RequestView] = asyncio.Queue(_MOST_WAITING)
        self.dropped = 0

    @property
    def wanted(self) -> bool:
        return bool(self._settings.otlp_endpoint)

    def ended(self, requests: Sequence[RequestView]) -> None:
        if not self.wanted:
            return
        for request in requests:
            try:
                self._waiting.put_nowait(request)
            except asyncio.QueueFull:
                self.dropped += 1

    async def run(self) -> None:
        # OpenTelemetry costs half a second to import, which only those pay who send something there.
        from control_plane.fleet.otel import spans_of

        exporter = await asyncio.to_thread(self._exporter)
        well = True
        while True:
            timeline = await self._timelines.made(await self._waiting.get())
            if not self._settings.otlp_steps:
                timeline = dataclasses.replace(timeline, spans=tuple(s for s in timeline.spans if not s.parent))
            sent = await asyncio.to_thread(exporter.export, spans_of(timeline))
            if sent.name == "SUCCESS":
                well = True
                continue
            self.dropped += 1
            if well:
                log.warning(
                    "spans cannot be sent; those of requests that end meanwhile are lost",
                    extra={"otlp_endpoint": self._settings.otlp_endpoint},
                )
            well = False

    def _exporter(self) -> Any:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter(endpoint=self._settings.otlp_endpoint, timeout=_EXPORT_TIMEOUT_S)
