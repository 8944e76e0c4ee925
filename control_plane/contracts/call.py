"""What a gateway asks of a router, wherever the router lives.

The gateway knows who is calling; the router knows where a call runs. They meet here: a ``RoutedCall`` goes down,
deltas come back into a ``CallSink``. The embedded router and a remote one implement the same ``Router``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from control_plane.contracts.admission import DEFAULT_SERVICE, Service
from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.fleet import ModelView, Stage
from control_plane.contracts.model_choice import ModelAsk, ModelChoice
from control_plane.contracts.model_routes import ModelRoutes
from control_plane.contracts.worker import Delta, Sampling


@dataclass(frozen=True, slots=True)
class RoutedCall:
    """One call to place. ``arrival_mono`` is ``time.monotonic()`` when the first byte of the request came in.

    ``stages`` are those that the gateway has finished (auth, tokenise), for the request's timeline. ``traceparent`` is
    the caller's trace context as it was sent (W3C), unchecked. ``resumed`` is of a call that goes on: see
    ``contracts.worker.Generate``. ``priority``: lower is served first, as vLLM has it. ``queue_timeout_s``: how long it
    may wait for an endpoint, in seconds; None leaves that to the router. ``session``: calls with the same one belong
    together (a conversation, an end user of a tenant), and are better served by one worker; empty: it has none.
    ``gateway_id``: whose call it is, where the router serves several. ``attempts`` and ``ttft_s`` are of a call that
    another router had before: how many workers and routers were lost with it, and its time to first token in seconds,
    0 where it has none yet.
    ``choice``: why it goes to this model, where its caller asked for another name.
    ``service`` is its class; ``flow`` a name without a meaning that calls of the same tenant have in common: those that
    wait are served in turn by it. ``hops``: its sink is a ``HopSink``, and wants to hear.
    """

    request_id: str
    model: str
    prompt_token_ids: Sequence[int]
    sampling: Sampling
    stream: bool
    arrival_unix: float
    arrival_mono: float
    priority: int = 0
    queue_timeout_s: float | None = None
    cache_salt: str = ""
    key_id: str = ""
    api: str = "chat"
    stages: tuple[Stage, ...] = ()
    traceparent: str = ""
    resumed: int = 0
    session: str = ""
    gateway_id: str = ""
    attempts: int = 0
    ttft_s: float = 0.0
    choice: ModelChoice | None = None
    service: Service = DEFAULT_SERVICE
    flow: str = ""
    hops: bool = False


class CallSink(Protocol):
    """Where a call's answer goes. Called on the event loop's thread; neither method may block or raise.

    A call ends with a delta that has ``done`` set, or with ``failed``; nothing comes after either. ``Delta.call`` is
    the router's number and means nothing to the gateway; ``Delta.error`` never reaches it (it becomes ``failed``).
    """

    def delta(self, delta: Delta) -> None: ...

    def failed(self, error: InferDeckError) -> None: ...


@runtime_checkable
class PlacedSink(Protocol):
    """A ``CallSink`` that also hears where its call runs."""

    def placed(self, worker_id: str, retries: int) -> None:
        """From now on there; "" when it waits (again). ``retries``: how many workers have been lost with it."""
        ...


@runtime_checkable
class HopSink(Protocol):
    """A ``CallSink`` that also hears when its deltas passed by. Who made the call has asked for it: it costs."""

    def passed(self, worker_unix: float, router_unix: float) -> None:
        """Of the next delta: when its worker sent it, and when its router passed it on, each by the wall clock of that
        process. Called once before each."""
        ...


class CallHandle(Protocol):
    """A call that was submitted."""

    @property
    def worker_id(self) -> str:
        """Where it runs now; empty while it waits."""
        ...

    @property
    def retries(self) -> int:
        """How often it was lost or given back by a worker, with all its models."""
        ...

    def cancel(self, reason: str, used: Callable[[int], None] | None = None) -> None:
        """The client left: stop the generation wherever it is. The sink hears nothing more. Idempotent.

        ``used`` hears how many tokens had been generated: later, when the worker tells, or never if it is lost; of a
        call that no worker has, how many had been passed on."""
        ...


class Router(Protocol):
    """Places calls. ``submit`` never waits; refusals come at once as an exception, later ones through the sink."""

    def select(self, ask: ModelAsk, then: Callable[[ModelChoice | InferDeckError], None]) -> None:
        """Choose the model of a call, before it is tokenised: the tokenizer and the context are that model's.

        ``then`` is called once, on the event loop, at once where that is possible: with the choice, or with NotFound
        (the name leads to no model), InvalidRequest (the header means nothing here), or Unavailable while it is not
        known yet which models there are."""
        ...

    def instead(self, ask: ModelAsk, chosen: ModelChoice, then: Callable[[ModelChoice | None], None]) -> None:
        """Choose anew for a call that waits: where the chosen model has no healthy worker any more, what the policy has
        instead, else None. ``ask`` is that of ``select``, and ``then`` is called in the same way."""
        ...

    def routes(self) -> ModelRoutes | None:
        """The names that lead to models; None while it is not known yet which models there are."""
        ...

    def submit(self, call: RoutedCall, sink: CallSink) -> CallHandle: ...

    def models(self) -> Sequence[ModelView]:
        """Every configured model, with or without workers."""
        ...

    def ready(self) -> bool:
        """Whether at least one endpoint can be picked."""
        ...

    async def tokenizer_files(self, model: str) -> TokenizerBundle:
        """The tokenizer of a model, from any of its workers. Raises NotFound, or Unavailable while none is up."""
        ...


@dataclass(frozen=True, slots=True)
class TokenizerBundle:
    """A model's tokenizer files by name, their hash, and what bounds a prompt."""

    hash: str
    files: dict[str, bytes]
    max_context: int
    vocab_size: int
