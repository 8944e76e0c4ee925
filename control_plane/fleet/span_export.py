"""Ended requests as OpenTelemetry spans, sent where the settings say. Off the request path: what cannot be sent is
dropped and counted."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
from collections.abc import Sequence
from typing import Any, Final

from control_plane.contracts.errors import SettingsError
from control_plane.contracts.fleet import RequestView
from control_plane.fleet.timelines import Timelines
from control_plane.settings import TelemetrySettings

_MOST_WAITING: Final = 1000
_MOST_AT_ONCE: Final = 64
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
            ended = [await self._waiting.get()]
            while len(ended) < _MOST_AT_ONCE and not self._waiting.empty():
                ended.append(self._waiting.get_nowait())
            spans = []
            for request in ended:
                spans += spans_of(await self._timelines.made(request, steps=self._settings.otlp_steps))
            sent = await asyncio.to_thread(exporter.export, spans)
            if sent.name == "SUCCESS":
                well = True
                continue
            self.dropped += len(ended)
            if well:
                log.warning(
                    "spans cannot be sent; those of requests that end meanwhile are lost",
                    extra={"otlp_endpoint": self._settings.otlp_endpoint, "dropped": self.dropped},
                )
            well = False

    def _exporter(self) -> Any:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter(endpoint=self._settings.otlp_endpoint, timeout=_EXPORT_TIMEOUT_S)


def check_installed(settings: TelemetrySettings) -> None:
    """Raise SettingsError where spans are wanted and what sends them is not there."""
    if settings.otlp_endpoint and importlib.util.find_spec("opentelemetry") is None:
        raise SettingsError(
            "telemetry.otlp_endpoint is set, and OpenTelemetry is not installed",
            param="telemetry.otlp_endpoint",
            hint='pip install "inferdeck[otel]", or remove otlp_endpoint',
        )
