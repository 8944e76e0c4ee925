"""What an operator asks for: a verb and targets that are fixed at the key press, and checked again at confirm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from control_plane.contracts.fleet import RequestPhase, Snapshot, WorkerPhase, WorkerView


class Verb(Enum):
    DRAIN = "drain"
    CORDON = "cordon"
    UNCORDON = "uncordon"
    SCALE = "scale"
    CANCEL = "cancel"

    @property
    def noun(self) -> str:
        """What it is done to."""
        return {Verb.SCALE: "pool", Verb.CANCEL: "request"}.get(self, "worker")


@dataclass(frozen=True, slots=True)
class Target:
    """One thing by id, and what tells whether it is still the same thing: a worker's instance, a pool's desired
    count, a request's arrival."""

    id: str
    same: str


@dataclass(frozen=True, slots=True)
class Order:
    verb: Verb
    targets: tuple[Target, ...]
    replicas: int = 0

    @property
    def title(self) -> str:
        what = self.targets[0].id if len(self.targets) == 1 else f"{len(self.targets)} {self.verb.noun}s"
        if self.verb is Verb.SCALE:
            return f"scale pool {what} from {self.targets[0].same} to {self.replicas}"
        return f"{self.verb.value} {self.verb.noun} {what}" if len(self.targets) == 1 else f"{self.verb.value} {what}"


class Refused(Exception):
    """Why an order makes no sense now, for the person who asked."""


def make_order(verb: Verb, ids: Sequence[str], snapshot: Snapshot | None, replicas: int = 0) -> Order:
    """Fix the targets as they are in ``snapshot``, the one the operator looks at. Raises Refused."""
    if snapshot is None:
        raise Refused("nothing is known of the platform yet")
    if not ids:
        raise Refused(f"no {verb.noun} is selected")
    targets = []
    for name in ids:
        same, problem = _identity(verb, name, snapshot, missing="does not exist")
        if problem:
            raise Refused(problem)
        targets.append(Target(name, same))
    if verb is Verb.SCALE and targets[0].same == str(replicas):
        raise Refused(f"pool {targets[0].id} is at {replicas} already")
    return Order(verb, tuple(targets), replicas)


def problems(order: Order, snapshot: Snapshot | None, connected: bool) -> list[str]:
    """What stands against carrying the order out now: every target that is gone or has become another."""
    if snapshot is None or not connected:
        return ["no connection to the platform: what is shown may no longer be so"]
    found = []
    for target in order.targets:
        same, problem = _identity(order.verb, target.id, snapshot)
        if problem:
            found.append(problem)
        elif same != target.same and not _came_up(order.verb, target, snapshot):
            found.append(_changed(order.verb, target, same))
    return found


def _identity(verb: Verb, name: str, snapshot: Snapshot, missing: str = "is gone") -> tuple[str, str]:
    """What the thing is now, or why the verb cannot be applied to it."""
    if verb is Verb.SCALE:
        pool = next((pool for pool in snapshot.pools if pool.name == name), None)
        return (str(pool.desired), "") if pool else ("", f"pool {name} {missing}")
    if verb is Verb.CANCEL:
        request = next((request for request in snapshot.requests if request.id == name), None)
        if request is None:
            return "", f"request {name} {missing}"
        if not request.phase.active:
            word = "was cancelled" if request.phase is RequestPhase.CANCELLED else "has ended"
            return "", f"request {name} {word} already"
        return str(request.arrival_unix), ""
    worker = next((worker for worker in snapshot.workers if worker.id == name), None)
    if worker is None:
        return "", f"worker {name} {missing}"
    return instance(worker), _pointless(verb, worker)


def _pointless(verb: Verb, worker: WorkerView) -> str:
    if verb is Verb.UNCORDON and not (worker.cordoned or worker.draining):
        return f"worker {worker.id} is not cordoned"
    if verb is Verb.CORDON and worker.cordoned:
        return f"worker {worker.id} is cordoned already"
    if worker.phase is WorkerPhase.STOPPING:
        return f"worker {worker.id} is stopping"
    return ""


def _changed(verb: Verb, target: Target, same: str) -> str:
    if verb is Verb.SCALE:
        return f"pool {target.id} was scaled from {target.same} to {same} meanwhile"
    return f"{verb.noun} {target.id} was replaced meanwhile: it is another one under the same name"


def instance(worker: WorkerView) -> str:
    """Which process a worker id stands for: what it calls itself, or its pid while it has said nothing yet."""
    return worker.info.instance_id if worker.info is not None and worker.info.instance_id else _pid(worker)


def _pid(worker: WorkerView) -> str:
    return f"pid {worker.pid}"


def _came_up(verb: Verb, target: Target, snapshot: Snapshot) -> bool:
    """Whether it is the same process, which has said its name since."""
    return verb.noun == "worker" and any(w.id == target.id and _pid(w) == target.same for w in snapshot.workers)
