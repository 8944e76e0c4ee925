"""Ended requests go to an OpenTelemetry collector, and a collector that is away harms nobody."""

from __future__ import annotations

import asyncio
import gzip
import importlib.util
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any, cast

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from control_plane.contracts.errors import SettingsError
from control_plane.contracts.fleet import RequestView
from control_plane.contracts.timeline import Timeline
from control_plane.fleet.span_export import _MOST_WAITING, SpanExport, check_installed
from control_plane.fleet.timeline import join
from control_plane.fleet.timelines import Timelines
from control_plane.settings import TelemetrySettings
from tests.unit.fleet.test_timeline import REQUEST, STEPS

TIMEOUT_S = 30.0


@contextmanager
def collector(status: int = 200) -> Iterator[tuple[str, Queue[ExportTraceServiceRequest]]]:
    """A collector on a port of its own: its URL, and what it was sent."""
    received: Queue[ExportTraceServiceRequest] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            received.put(ExportTraceServiceRequest.FromString(body))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Made:
    """Timelines from the same steps for every request."""

    async def made(self, request: RequestView, *, steps: bool = True) -> Timeline:
        return join(request, STEPS if steps else ())


def export(endpoint: str, *, steps: bool = True) -> SpanExport:
    return SpanExport(TelemetrySettings(endpoint, steps), cast(Timelines, Made()))


async def first(received: Queue[ExportTraceServiceRequest]) -> list[Any]:
    message = await asyncio.to_thread(received.get, timeout=TIMEOUT_S)
    return [span for resource in message.resource_spans for scope in resource.scope_spans for span in scope.spans]


@pytest.mark.parametrize("steps", [True, False])
async def test_an_ended_request_arrives_with_its_spans(steps: bool) -> None:
    with collector() as (endpoint, received):
        spans = export(endpoint, steps=steps)
        running = asyncio.create_task(spans.run())
        spans.ended([REQUEST])
        names = [span.name for span in await first(received)]
        running.cancel()
    assert names.count("step") == (4 if steps else 0)
    assert {"text_completion m", "prefill", "decode"} <= set(names)
    assert spans.dropped == 0


async def test_a_collector_that_refuses_loses_spans_and_nothing_else() -> None:
    with collector(status=400) as (endpoint, received):
        spans = export(endpoint)
        running = asyncio.create_task(spans.run())
        for _ in range(3):
            spans.ended([REQUEST])
            await first(received)
        assert spans.dropped >= 2, "one is sent after the other: two are answered when the third arrives"
        assert not running.done()
        running.cancel()


async def test_what_piles_up_is_dropped_and_counted() -> None:
    spans = export("http://127.0.0.1:1/v1/traces")
    spans.ended([REQUEST] * (_MOST_WAITING + 3))
    assert spans.dropped == 3


async def test_without_an_endpoint_nothing_is_kept() -> None:
    spans = export("")
    spans.ended([REQUEST])
    assert not spans.wanted
    assert spans._waiting.empty()


async def test_what_waits_is_sent_together() -> None:
    with collector() as (endpoint, received):
        spans = export(endpoint)
        spans.ended([REQUEST] * 5)
        running = asyncio.create_task(spans.run())
        names = [span.name for span in await first(received)]
        running.cancel()
    assert names.count("text_completion m") == 5


def test_without_opentelemetry_it_is_a_wrong_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    check_installed(TelemetrySettings())
    with pytest.raises(SettingsError, match="OpenTelemetry is not installed"):
        check_installed(TelemetrySettings("http://127.0.0.1:4318/v1/traces"))
