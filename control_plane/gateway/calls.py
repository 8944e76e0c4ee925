"""One generation call, from its whole body to the last byte of its answer.

::

    body ─▶ schema ─▶ model ─▶ admission ─▶ tokenizer known? ─▶ lane: template, tokens ─▶ fits? ─▶ reservation
                                             ├ wait for a worker
                                             └ continued: read what was said
         ─▶ kept? store its messages ─▶ router.submit ─▶ sink ─▶ ended, settled    the client may leave anywhere

Everything is a callback on the event loop; the lane is the only other thread. A call has no task of its own.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from control_plane.contracts.call import CallHandle, RoutedCall
from control_plane.contracts.errors import DropReason, InferDeckError, InternalError, Unavailable
from control_plane.contracts.fleet import Stage
from control_plane.contracts.model_choice import ModelChoice
from control_plane.contracts.policy import DEFAULT_TENANT
from control_plane.contracts.worker import Delta, Done, Finish, FinishReason, Sampling
from control_plane.gateway.answer.sink import CLIENT_LEFT, Sink
from control_plane.gateway.api import Api
from control_plane.gateway.call_sink import make_sink
from control_plane.gateway.desk import Desk
from control_plane.gateway.fallback_watch import FallbackWatch
from control_plane.gateway.flow import flow_of
from control_plane.gateway.history.call_memory import CallMemory
from control_plane.gateway.http.exchange import Exchange
from control_plane.gateway.limits.limiter import Admission
from control_plane.gateway.limits.spending import before_tokenising, charge, counts_as_request, reservation, wish_of
from control_plane.gateway.model_door import ask_of, choice_lines
from control_plane.gateway.model_fit import check_vocabulary, output_room
from control_plane.gateway.patience import Patience
from control_plane.gateway.prompt.lanes import Job
from control_plane.gateway.prompt.model_prompt import ModelPrompt
from control_plane.gateway.prompt.models import Waiter
from control_plane.gateway.schema.generation import Generation
from control_plane.gateway.traceparent import traceparent_of

log = logging.getLogger(__name__)

FELL_BACK: Final = "fell_back"
"""Why a call left a router's queue that goes on with another model."""


class Call:
    """Also the owner of its answer."""

    __slots__ = (
        "_admission",
        "_api",
        "_ask",
        "_choice",
        "_common",
        "_desk",
        "_ended",
        "_exchange",
        "_generation",
        "_handle",
        "_job",
        "_memory",
        "_patience",
        "_prompt_tokens",
        "_sent",
        "_sink",
        "_tokenise_mono",
        "_tokenised_mono",
        "_waiter",
        "_watch",
    )

    def __init__(self, desk: Desk, exchange: Exchange, generation: Generation, api: Api) -> None:
        self._desk = desk
        self._exchange = exchange
        self._generation = generation
        self._api = api
        self._ask = ask_of(exchange, generation)
        self._choice: ModelChoice | None = None
        self._common = exchange.common
        self._admission: Admission | None = None
        self._prompt_tokens = 0
        self._patience = Patience(exchange.grant.queue_deadline_s, exchange.arrival_mono)
        self._memory = CallMemory(desk.history, exchange, generation, api.name)
        self._waiter: Waiter | None = None
        self._job: Job[list[int]] | None = None
        self._sink: Sink | None = None
        self._handle: CallHandle | None = None
        self._tokenise_mono = self._tokenised_mono = 0.0
        self._watch: FallbackWatch | None = None
        self._sent = self._ended = False

    def start(self) -> None:
        exchange = self._exchange
        if exchange.request_id in self._desk.active:
            # The caller's choice, but whoever cancels by id must hit one call.
            exchange.request_id += f"-{random.getrandbits(32):08x}"
        self._desk.active[exchange.request_id] = self
        exchange.on_gone = self._gone
        self._select()

    def fail(self, error: InferDeckError) -> None:
        """End the call with this error, wherever it is."""
        if self._sink is not None:
            if self._handle is not None:
                self._handle.cancel(error.reason)
            self._sink.failed(error)
        else:
            self._refuse(error)

    # the answer's side

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel(DropReason.INTERNAL_ERROR)

    def ended(self) -> None:
        assert self._sink is not None
        self._end(ran=self._sink.whole, counts=counts_as_request(self._exchange.refused))

    # steps

    def _select(self, *, waited: bool = False) -> None:
        self._desk.router.select(self._ask, partial(self._selected, waited))

    def _selected(self, waited: bool, choice: ModelChoice | InferDeckError) -> None:
        if self._ended:
            return
        if isinstance(choice, Unavailable) and not waited:
            # The router has heard of no model yet: waiting tells.
            self._wait()
        elif isinstance(choice, InferDeckError):
            self._refuse(choice)
        else:
            self._go_to(choice)

    def _go_to(self, choice: ModelChoice) -> None:
        self._choice = choice
        self._generation.model = choice.model
        self._exchange.common = self._common + choice_lines(choice)
        self._admit()

    def _admit(self) -> None:
        generation, grant = self._generation, self._exchange.grant
        self._admission = self._desk.limiter.admission(grant)
        self._admission.wish = wish_of(generation.max_tokens_name, asked=generation.max_tokens, grant=grant)
        size = self._api.characters(generation)
        least, most = before_tokenising(size, asked=generation.max_tokens, choices=generation.choices, grant=grant)
        self._admission.enter(self._admitted, least=least, most=most)

    def _admitted(self, refused: InferDeckError | None) -> None:
        if refused is not None:
            self._refuse(refused)
        elif (prompt := self._desk.prompts.get(self._generation.model)) is not None:
            self._recall(prompt)
        else:
            self._wait()

    def _wait(self) -> None:
        self._waiter = Waiter(self._tokenizer_known, self._exchange.arrival_mono + self._desk.wait_s)
        self._desk.prompts.wait(self._generation.model, self._waiter)

    def _tokenizer_known(self, answer: ModelPrompt | InferDeckError) -> None:
        self._waiter = None
        if self._choice is None and not isinstance(answer, Unavailable):
            self._select(waited=True)
        elif isinstance(answer, InferDeckError):
            self._refuse(answer)
        else:
            self._recall(answer)

    def _recall(self, prompt: ModelPrompt) -> None:
        """What was said before comes before what was sent."""
        self._memory.recall(lambda refused: self._tokenise(prompt) if refused is None else self._refuse(refused))

    def _tokenise(self, prompt: ModelPrompt) -> None:
        api, generation = self._api, self._generation
        self._tokenise_mono = time.monotonic()
        self._job = Job(lambda: api.tokenise(prompt, generation), lambda job: self._tokenised(prompt, job))
        try:
            self._desk.lanes.submit(self._job, api.characters(generation))
        except InferDeckError as error:
            self._refuse(error)

    def _tokenised(self, prompt: ModelPrompt, job: Job[list[int]]) -> None:
        self._job = None

        def submit() -> None:
            if job.error is not None:
                raise job.error
            ids = job.result or []
            self._reserve(prompt, ids, output_room(self._generation, prompt, len(ids), self._api.param))

        self._try(submit)

    def _try(self, step: Callable[[], None]) -> None:
        try:
            step()
        except InferDeckError as error:
            self._refuse(error)
        except Exception as error:
            log.error("a call could not be started", exc_info=error, extra={"request_id": self._exchange.request_id})
            self._refuse(InternalError("The request could not be started."))

    def _reserve(self, prompt: ModelPrompt, ids: list[int], max_tokens: int) -> None:
        generation, admission = self._generation, self._admission
        assert admission is not None
        check_vocabulary(generation, prompt)
        self._prompt_tokens = len(ids)
        most = reservation(
            len(ids),
            asked=generation.max_tokens,
            room=max_tokens,
            choices=generation.choices,
            grant=self._exchange.grant,
            whole_limit=admission.whole_limit(),
        )

        admission.wish = wish_of(
            generation.max_tokens_name,
            asked=generation.max_tokens,
            grant=self._exchange.grant,
            reserved=most - len(ids),
        )

        def reserved(refused: InferDeckError | None) -> None:
            if refused is not None:
                self._refuse(refused)
                return
            self._exchange.limits = self._headers()
            self._try(lambda: self._submit(prompt, ids, max_tokens))

        admission.reserve(most, reserved)

    def _submit(self, prompt: ModelPrompt, ids: list[int], max_tokens: int) -> None:
        self._tokenised_mono = time.monotonic()
        self._desk.figures.model(self._generation.model).tokenise.add(self._tokenised_mono - self._tokenise_mono)

        def kept(refused: InferDeckError | None) -> None:
            if refused is not None:
                self._refuse(refused)
            else:
                self._try(lambda: self._dispatch(prompt, ids, max_tokens))

        self._memory.begin(kept)

    def _dispatch(self, prompt: ModelPrompt, ids: list[int], max_tokens: int) -> None:
        generation, exchange, desk = self._generation, self._exchange, self._desk
        figures = desk.figures.model(generation.model)
        sink = make_sink(self, exchange, self._api, generation, prompt, figures, self._memory.turn)
        if max_tokens == 0:
            self._sink = sink
            self._echo_only(len(ids))
            return
        grant, choice = exchange.grant, self._choice
        call = RoutedCall(
            request_id=exchange.request_id,
            model=generation.model,
            prompt_token_ids=ids,
            sampling=Sampling(max_tokens=max_tokens, **generation.sampling),
            stream=generation.stream,
            arrival_unix=exchange.arrival_unix,
            arrival_mono=exchange.arrival_mono,
            # The one place where a tier's priority (higher is served first) becomes an engine's (lower is).
            priority=-grant.priority,
            queue_timeout_s=self._patience.left_s(),
            service=grant.service,
            flow=flow_of(grant.tenant),
            # Calls of a tenant share cached prefixes with each other, and with nobody else.
            cache_salt="" if grant.tenant == DEFAULT_TENANT else grant.tenant,
            key_id=grant.key_id,
            session=self._ask.session,
            api=self._api.name,
            traceparent=traceparent_of(exchange.fields),
            stages=(
                Stage("auth", 0.0, exchange.auth_s),
                *self._patience.stages,
                Stage(
                    "tokenise", self._tokenise_mono - exchange.arrival_mono, self._tokenised_mono - self._tokenise_mono
                ),
            ),
            choice=choice if choice is not None and choice.reason else None,
            hops=generation.include_hops,
            attempts=self._patience.attempts,
        )
        self._sink, self._sent = sink, True
        try:
            self._handle = desk.router.submit(call, sink)
        except InferDeckError:
            self._sink, self._sent = None, False
            raise
        if not self._ended and choice is not None:
            begun, waits = partial(self._begun, sink), partial(self._waits, sink)
            self._watch = FallbackWatch.of(desk.router, self._ask, choice, begun, waits, self._fall_back)

    def _begun(self, sink: Sink) -> bool:
        """Whether something of its answer has come, an end included."""
        return self._sink is not sink or not sink.waits

    def _waits(self, sink: Sink) -> bool:
        """Whether no worker has it, and nothing of its answer has come."""
        handle = self._handle
        return not self._begun(sink) and handle is not None and not handle.worker_id

    def _fall_back(self, choice: ModelChoice) -> None:
        """From the beginning with another model: its tokenizer, its context, and so its reservation are others."""
        sink, handle, admission, watch = self._sink, self._handle, self._admission, self._watch
        assert sink is not None
        assert handle is not None
        assert watch is not None
        self._sink = self._handle = self._watch = self._admission = None
        self._sent = False
        handle.cancel(FELL_BACK)
        sink.leave()
        self._patience.leaves(max(self._tokenised_mono, watch.since), handle.retries, anew=watch.returned)
        if admission is not None:
            admission.settle(None)
        self._memory.answered_by(choice.model)
        self._try(lambda: self._go_to(choice))

    def _echo_only(self, prompt_tokens: int) -> None:
        """``echo`` with ``max_tokens`` 0: the prompt comes back, and no worker hears of it."""
        assert self._sink is not None
        last = self._generation.choices - 1
        for choice in range(last + 1):
            done = Done(prompt_tokens, 0, 0) if choice == last else None
            self._sink.delta(Delta(0, choice=choice, finish=Finish(FinishReason.LENGTH, 0), done=done))

    # ends

    def _gone(self) -> None:
        """The client has left: nothing more is done for it, from here to the engine."""
        sink, handle = self._sink, self._handle
        if sink is not None:
            sink.close()
        else:
            self._memory.left()
        ran = handle is not None and bool(handle.worker_id)
        if handle is not None:
            told = None
            if ran and not self._generation.stream and self._admission is not None:
                # Nothing is known yet of what a plain call has generated.
                told = self._admission.settle_when_told(self._prompt_tokens)
                self._admission = None
            handle.cancel(CLIENT_LEFT, told)
        self._end(ran=ran, counts=True)

    def _refuse(self, error: InferDeckError) -> None:
        """Its caller hears that nothing was done, so nothing is kept."""
        self._memory.withdraw(partial(self._refused, error))

    def _refused(self, error: InferDeckError) -> None:
        if self._ended:
            return
        known = self._admission is not None
        if known:
            self._exchange.limits = self._headers()
        self._end(counts=counts_as_request(error))
        if known:
            self._exchange.refuse(error)
        else:
            self._desk.refuse(self._exchange, error)

    def _headers(self) -> bytes:
        return self._admission.headers() if self._admission is not None else b""

    def _end(self, *, ran: bool = False, counts: bool = False) -> None:
        """``ran``: a worker has had it, whatever came of it; ``counts``: it is a request even if it has not."""
        if self._ended:
            return
        self._ended = True
        if self._watch is not None:
            self._watch.stop()
        self._memory.close()
        del self._desk.active[self._exchange.request_id]
        if self._waiter is not None:
            self._desk.prompts.leave(self._generation.model, self._waiter)
        if self._job is not None:
            self._job.cancelled = True
        sink = self._sink
        if self._admission is not None:
            taken = charge(self._prompt_tokens, sink.output_tokens if sink is not None else 0, ran=ran)
            self._admission.settle(0 if taken is None and counts else taken)
        if sink is not None:
            figures = self._desk.figures.model(self._generation.model)
            if self._sent:  # not before: it might have gone on with another model
                figures.prompt_tokens += self._prompt_tokens
                figures.prompt_size.add(self._prompt_tokens)
            figures.duration.add(time.monotonic() - self._exchange.arrival_mono)
            if sink.first_token_mono:
                figures.ttft.add(sink.first_token_mono - self._exchange.arrival_mono)
