"""A timeline as OpenTelemetry spans.

Names and attributes follow the semantic conventions for generative AI where there is one (``gen_ai.*``, OpenTelemetry
semantic conventions 1.3x) and are ``inferdeck.*`` where there is none. A request's spans belong to the trace that its
caller named in ``traceparent`` (W3C Trace Context), else to one of their own.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from control_plane.contracts.fleet import RequestPhase, RequestView
from control_plane.contracts.timeline import Span, Timeline

_TRACEPARENT: Final = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
_SCOPE: Final = InstrumentationScope("inferdeck")


def spans_of(timeline: Timeline) -> list[ReadableSpan]:
    """The request's own span first; every other has it, or the stage that it is part of, as its parent."""
    request = timeline.request
    trace_id, caller = _trace(request)
    root = _context(trace_id, request.id, "request")
    stages = _stages(timeline, trace_id)
    made = [_request(timeline, root, caller)]
    for number, span in enumerate(timeline.spans):
        if not span.parent:
            made.append(_span(request, span, stages[number][1], root))
            continue
        parent = next((context for stage, context in stages.values() if span.of(stage)), root)
        made.append(_span(request, span, _context(trace_id, request.id, f"{span.name} {number}"), parent))
    return made


def _stages(timeline: Timeline, trace_id: int) -> dict[int, tuple[Span, SpanContext]]:
    """By their place among all spans. A request that went on elsewhere has several of a name: each has its own id."""
    had: Counter[str] = Counter()
    found = {}
    for number, span in enumerate(timeline.spans):
        if not span.parent:
            had[span.name] += 1
            which = f"{span.name}, {had[span.name]}" if had[span.name] > 1 else span.name
            found[number] = (span, _context(trace_id, timeline.request.id, which))
    return found


def _request(timeline: Timeline, context: SpanContext, caller: SpanContext | None) -> ReadableSpan:
    request = timeline.request
    attributes: dict[str, str | int | float] = {
        "gen_ai.operation.name": "chat" if request.api == "chat" else "text_completion",
        "gen_ai.request.model": request.model,
        "gen_ai.request.max_tokens": request.max_tokens,
        "gen_ai.usage.input_tokens": request.prompt_tokens,
        "gen_ai.usage.output_tokens": request.output_tokens,
        "inferdeck.request.id": request.id,
        "inferdeck.request.phase": request.phase.name.lower(),
        "inferdeck.request.stream": str(request.stream).lower(),
        "inferdeck.cached_tokens": request.cached_tokens,
        "inferdeck.retries": request.retries,
        "inferdeck.worker": request.worker_id,
        "inferdeck.missing_steps": timeline.missing_steps,
    }
    if request.reason:
        attributes["gen_ai.response.finish_reasons"] = request.reason
    if request.ttft_s:
        attributes["gen_ai.server.time_to_first_token"] = request.ttft_s
    failed = request.phase is RequestPhase.FAILED
    return ReadableSpan(
        name=f"{attributes['gen_ai.operation.name']} {request.model}",
        context=context,
        parent=caller,
        resource=_resource(f"gateway/{request.gateway_id}"),
        attributes=attributes,
        kind=SpanKind.SERVER,
        status=Status(StatusCode.ERROR, request.reason) if failed else Status(StatusCode.OK),
        start_time=_ns(request.arrival_unix),
        end_time=_ns(request.arrival_unix + request.duration_s),
        instrumentation_scope=_SCOPE,
    )


def _span(request: RequestView, span: Span, context: SpanContext, parent: SpanContext) -> ReadableSpan:
    start = request.arrival_unix + span.start_s
    return ReadableSpan(
        name=span.name,
        context=context,
        parent=parent,
        resource=_resource(span.process),
        attributes=_attributes(span.attributes),
        kind=SpanKind.INTERNAL,
        start_time=_ns(start),
        end_time=_ns(start + max(0.0, span.duration_s)),
        instrumentation_scope=_SCOPE,
    )


def _attributes(said: Mapping[str, str]) -> dict[str, str | int]:
    return {f"inferdeck.{name}": int(value) if value.isdecimal() else value for name, value in said.items()}


def _trace(request: RequestView) -> tuple[int, SpanContext | None]:
    if sent := _TRACEPARENT.fullmatch(request.traceparent):
        trace_id = int(sent[1], 16)
        flags = TraceFlags(int(sent[3], 16))
        return trace_id, SpanContext(trace_id, int(sent[2], 16), is_remote=True, trace_flags=flags)
    return _hash(f"trace {request.id}", 16), None


def _context(trace_id: int, request_id: str, what: str) -> SpanContext:
    """The same span has the same id however often it is told."""
    span_id = _hash(f"{request_id} {what}", 8)
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _hash(text: str, size: int) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=size).digest()) or 1


@cache
def _resource(process: str) -> Resource:
    kind, _, name = process.partition("/")
    return Resource({"service.name": f"inferdeck-{kind}", "service.instance.id": name})


def _ns(unix: float) -> int:
    return int(unix * 1e9)
