"""From what is wanted and what is there to what to do next. Pure: state and time in, actions out.

Every action is safe to decide again while the last one is under way, because the controller enters its effect into
the state before it decides anew. What a plan promises:

- it never starts a process that would give a pool more than its desired number plus ``SURGE``;
- scale-in takes the worker that costs least: one without a process, one that is still starting, an idle one, the one
  with the least work; it has it drained, and stops it only when it is known to be idle;
- a worker that ended by itself is started again after a bounded backoff, under the same id;
- no two processes share a device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from control_plane.fleet.actions import (
    Action,
    Adopt,
    Blocked,
    Fail,
    Forget,
    Keep,
    Kill,
    Reap,
    Retire,
    Start,
    Stop,
)
from control_plane.fleet.health import Life
from control_plane.fleet.state import (
    LOST_STOP_S,
    STABLE_S,
    START_SILENCE_S,
    STOP_S,
    SURGE,
    Fleet,
    PoolTarget,
    Record,
    Replica,
    Stage,
    backoff_s,
)


def plan(fleet: Fleet, now: float) -> tuple[Action, ...]:
    """What to do now."""
    actions: list[Action] = []
    tracked = {replica.id: replica for replica in fleet.replicas}
    adopted: dict[str, int] = {}
    for record in fleet.records:
        action = _record(record, tracked, fleet.pools)
        actions.append(action)
        if isinstance(action, Adopt):
            adopted[record.pool] = adopted.get(record.pool, 0) + 1
    targets = {pool.name: pool for pool in fleet.pools}
    for name in {replica.pool for replica in fleet.replicas} - set(targets):
        targets[name] = PoolTarget(name, 0)
    devices = {gpu for replica in fleet.replicas if replica.stage.has_process for gpu in replica.gpus}
    for name in sorted(targets):
        members = sorted((r for r in fleet.replicas if r.pool == name), key=lambda replica: replica_number(replica.id))
        # Who was only just found is counted from the next plan on: until then nothing may be started in its place.
        actions += _pool(targets[name], members, devices, now, settled=not adopted.get(name))
    return tuple(actions)


def replica_number(worker_id: str) -> tuple[str, int]:
    """A worker id as its pool and number, which is also the order of workers."""
    pool, _, number = worker_id.rpartition("-")
    return (pool, int(number)) if number.isdecimal() else (worker_id, 0)


def _record(record: Record, tracked: dict[str, Replica], pools: tuple[PoolTarget, ...]) -> Action:
    """A live process is taken over, even an unwanted one: it may have work to finish. A second one of a name ends."""
    twin = tracked.get(record.worker_id)
    if not record.alive or (twin is not None and twin.stage.has_process):
        return Reap(record.worker_id)
    wanted = record.pool in {pool.name for pool in pools} and not record.outdated
    return Adopt(record.worker_id, retire=not wanted)


def _pool(
    target: PoolTarget, members: list[Replica], devices: set[int], now: float, *, settled: bool
) -> Iterator[Action]:
    leaving: set[str] = set()
    for replica in members:
        action = _single(replica, now)
        if action is not None:
            yield action
        if isinstance(action, Forget):
            leaving.add(replica.id)
    staying = [replica for replica in members if replica.id not in leaving]
    counted = [replica for replica in staying if not replica.retiring]
    excess = len(counted) - target.replicas
    if excess > 0:
        victims = sorted(counted, key=_cost)[:excess]
        for victim in victims:
            if victim.stage is Stage.WAITING and victim.ended is None:
                yield Forget(victim.id)
            else:
                yield Retire(victim.id, f"pool {target.name} is scaled to {target.replicas}")
        counted = [replica for replica in counted if replica not in victims]
    missing = -excess
    if missing > 0:
        for replica in _recallable(staying)[:missing]:
            yield Keep(replica.id)
            missing -= 1
    if settled:
        yield from _starts(target, staying, counted, max(missing, 0), devices, now)


def _single(replica: Replica, now: float) -> Action | None:
    """What a worker needs regardless of the others."""
    if replica.ended is not None:
        if replica.retiring:
            return Forget(replica.id)
        served_well = replica.stage is Stage.SERVING and now - replica.since >= STABLE_S
        failures = 1 if served_well else replica.failures + 1
        return Fail(replica.id, failures, now + backoff_s(failures))
    if replica.stage is Stage.STOPPING:
        overdue = now - replica.since > STOP_S and not replica.killed
        return Kill(replica.id) if overdue else None
    if replica.stage is Stage.WAITING:
        return Forget(replica.id) if replica.retiring else None
    silent_s = now - max(replica.since, replica.moved_at)
    if replica.stage is Stage.STARTING and silent_s > START_SILENCE_S:
        return Stop(replica.id, f"its start has shown no progress for {silent_s / 60:.0f} minutes")
    if replica.stalled:
        return Stop(replica.id, "its engine hangs")
    if replica.life is Life.LOST and now - replica.signed_at > LOST_STOP_S:
        return Stop(replica.id, f"no sign of life for {now - replica.signed_at:.0f} s")
    if replica.retiring and (replica.stage is Stage.STARTING or (replica.drained and replica.idle)):
        return Stop(replica.id, "nothing runs on it any more")
    return None


def _cost(replica: Replica) -> tuple[int, int, int, int]:
    """How much it hurts to lose this worker; of equals the youngest number goes first."""
    number = -replica_number(replica.id)[1]
    if not replica.stage.has_process or replica.ended is not None:
        return (0, 0, 0, number)
    if replica.stage is Stage.STOPPING:
        return (1, 0, 0, number)
    if replica.stage is Stage.STARTING:
        return (2, 0, 0, number)
    if replica.idle:
        return (3, 0, 0 if replica.cordoned else 1, number)
    return (4, replica.in_flight, 0 if replica.life is Life.LOST else 1, number)


def _recallable(members: Iterable[Replica]) -> list[Replica]:
    """Retiring workers that can come back, the busiest first."""
    return sorted(
        (
            replica
            for replica in members
            if replica.retiring
            and not replica.outdated
            and replica.ended is None
            and replica.stage in (Stage.STARTING, Stage.SERVING)
        ),
        key=lambda replica: (-replica.in_flight, replica_number(replica.id)),
    )


def _starts(
    target: PoolTarget, staying: list[Replica], counted: list[Replica], missing: int, devices: set[int], now: float
) -> Iterator[Action]:
    running = sum(1 for replica in staying if replica.stage.has_process and replica.ended is None)
    room = target.replicas + SURGE - running
    due = [r.id for r in counted if r.stage is Stage.WAITING and r.ended is None and r.restart_at <= now]
    new = _new_ids(target.name, {replica.id for replica in staying}, missing)
    for worker_id in (*due, *new):
        if room <= 0:
            return
        free = [gpu for gpu in target.gpus if gpu not in devices][: target.gpus_each]
        if len(free) < target.gpus_each:
            yield Blocked(
                target.name,
                f"a worker takes {target.gpus_each} GPUs, {len(free)} of {len(target.gpus)} are free",
            )
            return
        devices.update(free)
        room -= 1
        yield Start(worker_id, target.name, tuple(free))


def _new_ids(pool: str, taken: set[str], count: int) -> list[str]:
    """The lowest free numbers, from 1."""
    ids: list[str] = []
    number = 1
    while len(ids) < count:
        worker_id = f"{pool}-{number}"
        if worker_id not in taken:
            ids.append(worker_id)
        number += 1
    return ids
