"""What an order would do, in words: the body of a confirmation. Recomputed from every snapshot while it is open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console.leaving import nobody_left, others
from console.tui.order import Order, Verb
from console.tui.render.figures import age, count, percent
from control_plane.contracts.fleet import Pool, RequestPhase, RequestView, Snapshot, WorkerView

MOST_NAMED = 6


@dataclass(frozen=True, slots=True)
class Plan:
    """``facts`` are label and value; ``warnings`` say what would hurt somebody."""

    facts: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...] = ()


def plan_for(order: Order, snapshot: Snapshot) -> Plan:
    if order.verb is Verb.SCALE:
        return _scale(order, snapshot)
    if order.verb is Verb.CANCEL:
        return _cancel(order, snapshot)
    return _worker(order, snapshot)


def _worker(order: Order, snapshot: Snapshot) -> Plan:
    ids = {target.id for target in order.targets}
    workers = [worker for worker in snapshot.workers if worker.id in ids]
    held = [request for request in snapshot.requests if request.phase.active and request.worker_id in ids]
    in_flight = sum(worker.in_flight for worker in workers)
    facts = [("target", _worker_words(worker)) for worker in workers[:MOST_NAMED]]
    facts += [("", f"… and {len(workers) - MOST_NAMED} more")] if len(workers) > MOST_NAMED else []
    facts += [("in flight", _requests_words(in_flight, held))]
    match order.verb:
        case Verb.UNCORDON:
            drained = " and its drain ends" if any(worker.draining for worker in workers) else ""
            return Plan((*facts, ("then", f"the router sends new requests again{drained}")))
        case Verb.CORDON:
            then = "no new requests; those in flight go on; the process stays"
        case _:
            then = "cordoned at once: no new requests; those in flight finish; it stays cordoned"
    left, warnings = _left(workers, snapshot)
    return Plan((*facts, ("then", then), *left), warnings)


def _left(workers: Sequence[WorkerView], snapshot: Snapshot) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    """What each touched pool would still have to serve with."""
    facts, warnings = [], []
    leaving = {worker.id for worker in workers}
    models = {pool.name: pool.model for pool in snapshot.pools}
    for name in dict.fromkeys(worker.pool for worker in workers):
        left = others(snapshot, name, leaving)
        model = models.get(name, name)
        facts.append(("left", f"{len(left)} other ready {_plural('worker', len(left))} for {model}"))
        if not left:
            warnings.append(nobody_left(model))
    return facts, tuple(warnings)


def _scale(order: Order, snapshot: Snapshot) -> Plan:
    target = order.targets[0]
    pool = next((pool for pool in snapshot.pools if pool.name == target.id), Pool(target.id, "", "", 0))
    workers = [worker for worker in snapshot.workers if worker.pool == pool.name]
    by = order.replicas - pool.desired
    now = f"desired {pool.desired}, {pool.observed} observed, {pool.ready} ready"
    facts = [("target", f"pool {pool.name} · {pool.model} · {pool.engine}"), ("now", now)]
    if by > 0:
        return Plan((*facts, ("then", f"{by} {_plural('worker', by)} started")))
    in_flight = sum(worker.in_flight for worker in workers)
    facts.append(("in flight", f"{in_flight} on the whole pool"))
    facts.append(("then", f"{-by} {_plural('worker', -by)} drained and stopped, the idlest first"))
    if order.replicas == 0:
        return Plan(tuple(facts), (nobody_left(pool.model),))
    return Plan(tuple(facts))


def _cancel(order: Order, snapshot: Snapshot) -> Plan:
    by_id = {request.id: request for request in snapshot.requests}
    requests = [by_id[target.id] for target in order.targets if target.id in by_id]
    facts = [("target", _request_words(request, snapshot.taken_unix)) for request in requests[:MOST_NAMED]]
    facts += [("", f"… and {len(requests) - MOST_NAMED} more")] if len(requests) > MOST_NAMED else []
    tokens = sum(request.output_tokens for request in requests)
    facts.append(("so far", f"{count(tokens)} {_plural('token', tokens)} generated"))
    facts.append(("then", "the caller gets the error request_cancelled; the engine stops and frees its KV blocks"))
    return Plan(tuple(facts))


def _worker_words(worker: WorkerView) -> str:
    words = [worker.id, f"pid {worker.pid}"] if worker.pid else [worker.id]
    if worker.load is not None:
        words.append(f"KV {percent(worker.load.kv_usage)}")
    words.append(f"{worker.in_flight} in flight")
    return " · ".join(words)


def _requests_words(in_flight: int, held: Sequence[RequestView]) -> str:
    if not in_flight:
        return "nothing"
    named = ", ".join(request.id for request in held[:3])
    more = f" and {others} more" if (others := max(in_flight, len(held)) - len(held[:3])) else ""
    return f"{in_flight} {_plural('request', in_flight)}" + (f": {named}{more}" if named else "")


def _request_words(request: RequestView, now_unix: float) -> str:
    where = f"on {request.worker_id}" if request.worker_id else "not on a worker yet"
    phase = "queued" if request.phase is RequestPhase.QUEUED else f"{request.output_tokens} tokens out"
    return f"{request.id} · {request.model} · {where} · {phase} · {age(now_unix - request.arrival_unix)}"


def _plural(word: str, number: int) -> str:
    return word if number == 1 else f"{word}s"
