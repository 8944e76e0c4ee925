"""One call of a gateway whose router is a process of its own: which router has it, and what it has said so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from control_plane.contracts.call import CallSink, HopSink, RoutedCall
from control_plane.contracts.fleet import RequestPhase, RequestView
from control_plane.contracts.worker import Delta

if TYPE_CHECKING:
    from control_plane.router.remote.link import RouterLink


class CallOwner(Protocol):
    """Who decides over calls; told on the event loop's thread."""

    def left(self, call: RemoteCall, reason: str, used: Callable[[int], None] | None) -> None: ...


class RemoteCall:
    """Also the ``CallHandle`` that the gateway holds. Times are monotonic seconds.

    ``number`` names it on its router's stream; ``link`` is None while no router has it. ``attempts``: workers and
    routers that were lost with it. ``wait_s`` is how long it may wait for a worker, ``deadline`` when that is over.
    ``said`` are the tokens of the answer so far, of a call with one choice.
    """

    __slots__ = (
        "_owner",
        "attempts",
        "begun",
        "call",
        "deadline",
        "first_mono",
        "link",
        "number",
        "over",
        "said",
        "seq",
        "sink",
        "wait_s",
        "worker_id",
    )

    def __init__(self, owner: CallOwner, call: RoutedCall, sink: CallSink, seq: int, now: float, wait_s: float) -> None:
        self._owner = owner
        self.call = call
        self.sink = sink
        self.seq = seq
        self.number = 0
        self.link: RouterLink | None = None
        self.worker_id = ""
        self.attempts = call.attempts
        self.wait_s = wait_s
        self.deadline = now + wait_s
        self.said: list[int] = []
        self.begun = False
        self.over = False
        self.first_mono = 0.0

    @property
    def retries(self) -> int:
        return self.attempts

    def cancel(self, reason: str, used: Callable[[int], None] | None = None) -> None:
        self._owner.left(self, reason, used)

    def take(self, delta: Delta, now: float) -> None:
        """Pass on what its router says, and keep what another one would need to go on."""
        if delta.token_ids:
            self.said += delta.token_ids
        if not self.begun:
            self.begun = True
            self.first_mono = now
        self.sink.delta(delta)

    def passed(self, worker_unix: float, router_unix: float) -> None:
        """Of a call that asked: when its next delta left its worker, and its router."""
        if isinstance(self.sink, HopSink):
            self.sink.passed(worker_unix, router_unix)

    def placed(self, worker_id: str, attempts: int) -> None:
        self.worker_id = worker_id
        self.attempts = max(self.attempts, attempts)

    def view(self, gateway_id: str, phase: RequestPhase, reason: str, now: float) -> RequestView:
        """As operators see it while no router has it, and where it ended so."""
        call = self.call
        return RequestView(
            id=call.request_id,
            gateway_id=gateway_id,
            model=call.model,
            phase=phase,
            key_id=call.key_id,
            reason=reason,
            stream=call.stream,
            arrival_unix=call.arrival_unix,
            prompt_tokens=len(call.prompt_token_ids),
            output_tokens=len(self.said),
            max_tokens=call.sampling.max_tokens * max(1, call.sampling.n),
            ttft_s=self.first_mono - call.arrival_mono if self.first_mono and call.stream else 0.0,
            duration_s=now - call.arrival_mono,
            retries=self.attempts,
            stages=call.stages,
            api=call.api,
            traceparent=call.traceparent,
        )
