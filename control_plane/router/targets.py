"""The endpoints as this router knows them: the fleet's word, its own load on each, and the stream to each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Protocol

from control_plane.contracts.call import RoutedCall
from control_plane.contracts.fleet import Endpoint, EndpointSet, WorkerPhase
from control_plane.contracts.kv_belief import KvBelief
from control_plane.contracts.kv_mirror import KvMirror
from control_plane.contracts.worker import WorkerState
from control_plane.router.circuit import Circuit
from control_plane.router.prefix_index import PrefixIndex, Shelf
from control_plane.router.prompt_blocks import PromptBlocks
from control_plane.router.requests import Request
from control_plane.router.scheduling.candidate import WORK_HALVES_S, Candidate
from control_plane.router.time_share import TimeShare

_ALIVE = (WorkerState.UNSPECIFIED, WorkerState.READY)


class Link(Protocol):
    """A stream to one worker instance. Nothing here waits; what comes back goes to the target's calls."""

    def generate(self, number: int, call: RoutedCall) -> None: ...

    def abort(self, number: int) -> None: ...

    def close(self) -> None:
        """For good. Idempotent."""
        ...


class Target:
    """One instance of one worker. A worker that restarts is another target: its cache and its calls are gone.

    ``calls`` is the truth about what is in flight there, by attempt number; the counters of ``candidate`` change with
    it and only with it. ``shelf`` is what its prefix cache is believed to hold, ``mirror`` follows its KV events there.
    ``sent_unix``: when it sent the frame whose deltas are being passed on, by its own clock.
    """

    def __init__(self, endpoint: Endpoint, shelf: Shelf) -> None:
        self.endpoint = endpoint
        self.shelf = shelf
        self.mirror = KvMirror(shelf)
        self.kv_heard_unix = 0.0
        self.candidate = Candidate(endpoint.worker_id, endpoint.instance_id, endpoint.model, slot=shelf.slot)
        self.circuit = Circuit()
        self.share = TimeShare()
        self.calls: dict[int, Request] = {}
        self.last_words: dict[int, Callable[[int | None], None]] = {}
        self.link: Link | None = None
        self.sent_unix = 0.0
        self._sampled_unix = 0.0
        self._worked_mono = 0.0
        self._peak = 0
        self._peak_before = 0

    @property
    def worker_id(self) -> str:
        return self.endpoint.worker_id

    @property
    def instance_id(self) -> str:
        return self.endpoint.instance_id

    @property
    def key(self) -> tuple[str, str]:
        return self.endpoint.worker_id, self.endpoint.instance_id

    def update(self, endpoint: Endpoint, now: float, typical_tokens: float) -> None:
        """Take over what the fleet says now."""
        self.endpoint = endpoint
        candidate, info, load = self.candidate, endpoint.info, endpoint.load
        candidate.model = endpoint.model
        candidate.cordoned = endpoint.cordoned
        candidate.ready = endpoint.phase is WorkerPhase.READY and (load is None or load.state in _ALIVE)
        candidate.typical_tokens = typical_tokens
        if info is not None and info.model is not None:
            candidate.max_context = info.model.max_context
            candidate.max_sequences = info.model.max_num_seqs
            candidate.capacity_tokens = info.model.total_blocks * info.model.block_size
            candidate.block_size = info.model.block_size
            self.shelf.resize(info.model.total_blocks)
        self._fade(now)
        if load is None or load.instance_id not in ("", endpoint.instance_id):
            return
        if load.sampled_unix == self._sampled_unix:
            return
        self._sampled_unix = load.sampled_unix
        candidate.sampled_mono = now - endpoint.load_age_s
        candidate.since.forget(candidate.sampled_mono)
        candidate.running = load.running
        candidate.waiting = load.waiting
        candidate.kv_usage = load.kv_usage
        candidate.others = max(0, load.running + load.waiting - max(self._peak, self._peak_before))
        self.share.change(now, candidate.sequences + candidate.others)
        self._peak_before, self._peak = self._peak, candidate.sequences

    def attach(self, number: int, request: Request, now: float) -> None:
        self.calls[number] = request
        candidate = self.candidate
        request.promised = self.shelf.sent(request.block_names)
        self._fade(now)
        candidate.work += request.prompt_tokens - (request.predicted_tokens or 0)
        candidate.requests += 1
        candidate.sequences += request.choices
        candidate.tokens += request.charge
        candidate.since.add(request.dispatched_mono, request.sent, request.choices)
        self._peak = max(self._peak, candidate.sequences)
        self.share.change(request.dispatched_mono, candidate.sequences + candidate.others)
        request.share_mark = self.share.each(request.dispatched_mono)
        self.circuit.sent(number)
        candidate.refusing_until = self.circuit.open_until

    def detach(self, request: Request, now: float) -> None:
        """Nothing happens where it is not attached."""
        number = request.number
        if self.calls.pop(number, None) is None:
            return
        candidate = self.candidate
        request.worker_s += request.choices * (self.share.each(now) - request.share_mark)
        self.share.change(now, candidate.sequences - request.choices + candidate.others)
        # What it has generated is in the sample only if it was there by then.
        seen = request.held if request.dispatched_mono <= candidate.sampled_mono else request.sent
        candidate.since.add(now, -seen, -request.choices)
        candidate.requests -= 1
        candidate.sequences -= request.choices
        candidate.tokens = candidate.tokens - request.charge if self.calls else 0.0
        self.shelf.settled(request.promised)
        request.promised = ()
        self.circuit.ended(number, now)
        candidate.refusing_until = self.circuit.open_until

    def heard_kv(self, now_unix: float) -> None:
        """A frame of KV events came."""
        self.kv_heard_unix = now_unix

    def belief(self) -> KvBelief:
        """What the index holds of it, as operators see it."""
        info, mirror = self.endpoint.info, self.mirror
        return KvBelief(
            worker_id=self.worker_id,
            instance_id=self.instance_id,
            blocks=len(self.shelf),
            told=self.shelf.told,
            seq=mirror.seq,
            gaps=mirror.gaps,
            lost=mirror.lost,
            heard_unix=self.kv_heard_unix,
            unavailable=mirror.unavailable or (info.kv_events_unavailable if info is not None else ""),
        )

    def _fade(self, now: float) -> None:
        candidate = self.candidate
        if candidate.work:
            candidate.work *= 0.5 ** ((now - self._worked_mono) / WORK_HALVES_S)
        self._worked_mono = now

    def ended(self, number: int, output_tokens: int | None) -> None:
        """The worker says of a call that was withdrawn what it had generated, None where it does not say."""
        told = self.last_words.pop(number, None)
        if told is not None:
            told(output_tokens)

    def succeeded(self, number: int) -> None:
        self.circuit.succeeded(number)
        self.candidate.refusing_until = self.circuit.open_until

    def failed(self, now: float) -> None:
        self.circuit.failed(now)
        self.candidate.refusing_until = self.circuit.open_until

    def broke(self, now: float) -> float:
        """Returns how long to leave the worker alone, in seconds."""
        cool_down = self.circuit.broke(now)
        self.candidate.refusing_until = self.circuit.open_until
        return cool_down

    def refused(self, now: float) -> None:
        self.circuit.refused(now)
        self.candidate.refusing_until = self.circuit.open_until

    def up(self) -> None:
        self.candidate.connected = True
        self.circuit.connected()
        self.candidate.refusing_until = self.circuit.open_until

    def down(self, now: float) -> float:
        """There is no stream any more. Returns how long to leave the worker alone, in seconds."""
        self.candidate.connected = False
        self.last_words.clear()
        return self.broke(now)


@dataclass(slots=True)
class Changes:
    """What a new endpoint set means for targets that had a link or calls.

    ``lost``: the process is gone, and all that ran there. ``leaving``: out of the set; what runs there may finish.
    """

    lost: list[Target] = field(default_factory=list)
    leaving: list[Target] = field(default_factory=list)


class Targets:
    """All targets, by worker and by model. ``typical_tokens`` gives what a request of a model usually holds.
    ``by_slot`` are the candidates by their place in the prefix index."""

    def __init__(self, typical_tokens: Callable[[str], float]) -> None:
        self.index = PrefixIndex()
        self._typical_tokens = typical_tokens
        self._by_worker: dict[str, Target] = {}
        self._by_model: dict[str, list[Target]] = {}
        self.by_slot: dict[int, Candidate] = {}
        self._candidates: dict[str, list[Candidate]] = {}
        self._families: dict[str, dict[int, int]] = {}
        self._leaving: dict[tuple[str, str], Target] = {}

    def all(self) -> Sequence[Target]:
        """In the set, and leaving."""
        return (*self._by_worker.values(), *self._leaving.values())

    def worker_ids(self) -> Set[str]:
        return self._by_worker.keys()

    def by_worker(self, worker_id: str) -> Target:
        return self._by_worker[worker_id]

    def of(self, candidate: Candidate) -> Target:
        return self._by_worker[candidate.worker_id]

    def candidates(self, model: str) -> Sequence[Candidate]:
        return self._candidates.get(model, ())

    def serving(self, model: str) -> Sequence[Target]:
        return self._by_model.get(model, ())

    def cached(self, model: str, tokens: Sequence[int], blocks: PromptBlocks) -> list[int]:
        """How many of a prompt's tokens each endpoint of the model is believed to have cached, by slot; empty where
        nobody has any. The last token never counts: engines compute it always."""
        tokens_at: list[int] = []
        for block_size, among in self._families.get(model, {}).items():
            most = (len(tokens) - 1) // block_size
            for count, holders in self.index.look_up(blocks.names(tokens, block_size), among):
                if not tokens_at:
                    tokens_at = [0] * self.index.slots
                cached = min(count, most) * block_size
                for slot in _places(holders):
                    tokens_at[slot] = cached
        return tokens_at

    def is_leaving(self, target: Target) -> bool:
        return self._leaving.get(target.key) is target

    def left(self, target: Target) -> None:
        """Nothing runs there any more."""
        self._leaving.pop(target.key, None)
        self.index.close(target.shelf)

    def apply(self, update: EndpointSet, now: float) -> Changes:
        """The whole set, which replaces the last one.

        A worker that is named without an instance id is one that the fleet does not know well (yet): it keeps the
        instance that is known here.
        """
        changes = Changes()
        before, self._by_worker, self._by_model = self._by_worker, {}, {}
        for endpoint in update.endpoints:
            target = before.pop(endpoint.worker_id, None)
            if target is not None and not endpoint.instance_id:
                endpoint = replace(endpoint, instance_id=target.instance_id)
            if target is not None and target.instance_id != endpoint.instance_id:
                # What it had cached is gone before anything is sent to the next one.
                self.index.close(target.shelf)
                changes.lost.append(target)
                target = None
            if target is None:
                key = (endpoint.worker_id, endpoint.instance_id)
                target = self._leaving.pop(key, None) or Target(endpoint, self.index.open())
            if endpoint.phase is WorkerPhase.FAILED:
                target.shelf.forgotten()
                changes.lost.append(target)
            target.update(endpoint, now, self._typical_tokens(endpoint.model))
            self._by_worker[endpoint.worker_id] = target
            self._by_model.setdefault(endpoint.model, []).append(target)
        for target in before.values():
            self._leaving[target.key] = target
            changes.leaving.append(target)
        self._candidates = {model: [t.candidate for t in targets] for model, targets in self._by_model.items()}
        self.by_slot = {t.candidate.slot: t.candidate for t in self._by_worker.values()}
        self._families = {model: _by_block_size(candidates) for model, candidates in self._candidates.items()}
        return changes


def _by_block_size(candidates: Sequence[Candidate]) -> dict[int, int]:
    """Block size in tokens → the bits of the endpoints that have it."""
    families: dict[int, int] = {}
    for candidate in candidates:
        if candidate.block_size:
            families[candidate.block_size] = families.get(candidate.block_size, 0) | 1 << candidate.slot
    return families


def _places(bits: int) -> Iterator[int]:
    """Where the bits are set."""
    if not bits & (bits - 1):
        yield bits.bit_length() - 1
        return
    text = bin(bits)[:1:-1]
    at = text.find("1")
    while at >= 0:
        yield at
        at = text.find("1", at + 1)
