"""One generation call, from its whole body to the last byte of its answer.

::

    body ─▶ schema ─▶ admission ─▶ tokenizer known? ─▶ lane: template, tokens ─▶ fits? ─▶ reservation
                                    └ wait for a worker
         ─▶ router.submit ─▶ sink ─▶ ended, settled                                the client may leave anywhere

Everything is a callback on the event loop; the lane is the only other thread. A call has no task of its own.
"""

from __future__ import annotations

import logging
import random
import time
from dataclasses import dataclass

from control_plane.contracts.call import CallHandle, RoutedCall, Router
from control_plane.contracts.errors import DropReason, InferDeckError, InternalError, InvalidRequest, RequestRefused
from control_plane.contracts.fleet import Stage
from control_plane.contracts.policy import DEFAULT_TENANT
from control_plane.contracts.worker import Delta, Done, Finish, FinishReason, Sampling
from control_plane.gateway.answer.bodies import chat_body, completion_body
from control_plane.gateway.answer.events import ChatEvents, CompletionEvents, Events
from control_plane.gateway.answer.heading import Heading
from control_plane.gateway.answer.logprobs import ChatLogprobs, CompletionLogprobs
from control_plane.gateway.answer.sinks import PlainSink, Sink, StreamSink
from control_plane.gateway.figures import Figures
from control_plane.gateway.http.exchange import Exchange
from control_plane.gateway.limits.limiter import Admission, Limiter
from control_plane.gateway.limits.spending import before_tokenising, charge, reservation
from control_plane.gateway.models_api import check_model
from control_plane.gateway.prompt.lanes import Job, Lanes
from control_plane.gateway.prompt.model_prompt import ModelPrompt
from control_plane.gateway.prompt.models import ModelPrompts, Waiter
from control_plane.gateway.reading import read_body
from control_plane.gateway.schema.generation import Generation, read_chat, read_completion

log = logging.getLogger(__name__)

CLIENT_LEFT = "client_disconnected"

_MESSAGE_CHARACTERS = 64
"""What rendering a message costs beside its text, as characters of text."""

_TRACEPARENT_BYTES = 55
"""W3C Trace Context: version 00, trace id, parent id and flags in hexadecimal."""


@dataclass(slots=True)
class Desk:
    """What calls are made with, and the calls that have not ended."""

    router: Router
    prompts: ModelPrompts
    lanes: Lanes
    figures: Figures
    wait_s: float
    active: dict[str, Call]
    limiter: Limiter

    def take(self, exchange: Exchange, *, chat: bool) -> None:
        """Start a call. Raises InferDeckError for a body that is none, or a model that the key may not call."""
        size = exchange.received

        def start(generation: Generation) -> None:
            check_model(exchange.grant, generation.model)
            Call(self, exchange, generation, size, chat=chat).start()

        read_body(exchange, self.lanes, read_chat if chat else read_completion, start, self.refuse)

    def refuse(self, exchange: Exchange, error: InferDeckError, headers: bytes = b"") -> None:
        """Answer a request of which nothing was counted; a caller with a key is told how its limits stand."""

        def answer(limits: bytes) -> None:
            exchange.limits = limits
            exchange.refuse(error, headers)

        if exchange.grant is None:
            exchange.refuse(error, headers)
        else:
            self.limiter.look(exchange.grant, answer)

    def fail_all(self, error: InferDeckError) -> None:
        for call in tuple(self.active.values()):
            call.fail(error)


def _traceparent(sent: bytes) -> str:
    """As it came, where it can be one: whoever follows it checks it."""
    return sent.decode("ascii", "replace") if len(sent) == _TRACEPARENT_BYTES else ""


class Call:
    """Also the owner of its answer."""

    __slots__ = (
        "_admission",
        "_body_bytes",
        "_chat",
        "_desk",
        "_echo",
        "_ended",
        "_exchange",
        "_generation",
        "_handle",
        "_job",
        "_param",
        "_prompt_tokens",
        "_sink",
        "_tokenise_mono",
        "_waiter",
    )

    def __init__(self, desk: Desk, exchange: Exchange, generation: Generation, body_bytes: int, *, chat: bool) -> None:
        self._desk = desk
        self._exchange = exchange
        self._generation = generation
        self._body_bytes = body_bytes
        self._chat = chat
        self._param = "messages" if chat else "prompt"
        self._admission: Admission | None = None
        self._prompt_tokens = 0
        self._waiter: Waiter | None = None
        self._job: Job[list[int]] | None = None
        self._sink: Sink | None = None
        self._handle: CallHandle | None = None
        self._tokenise_mono = 0.0
        self._echo = ""
        self._ended = False

    def start(self) -> None:
        exchange, model = self._exchange, self._generation.model
        if exchange.request_id in self._desk.active:
            # The caller's choice, but whoever cancels by id must hit one call.
            exchange.request_id += f"-{random.getrandbits(32):08x}"
        self._desk.active[exchange.request_id] = self
        exchange.on_gone = self._gone
        if self._desk.prompts.get(model) is not None or any(
            known.name == model for known in self._desk.router.models()
        ):
            self._admit()
        else:
            # No such model, or the router has heard of none yet: waiting tells.
            self._wait()

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
        self._end(ran=self._sink.whole, counts=isinstance(self._exchange.refused, RequestRefused))

    # steps

    def _admit(self) -> None:
        self._admission = self._desk.limiter.admission(self._exchange.grant)
        generation = self._generation
        least, most = before_tokenising(
            self._size(), asked=generation.max_tokens, choices=generation.choices, grant=self._exchange.grant
        )
        self._admission.enter(self._admitted, least=least, most=most)

    def _admitted(self, refused: InferDeckError | None) -> None:
        if refused is not None:
            self._refuse(refused)
        elif (prompt := self._desk.prompts.get(self._generation.model)) is not None:
            self._tokenise(prompt)
        else:
            self._wait()

    def _wait(self) -> None:
        self._waiter = Waiter(self._tokenizer_known, self._exchange.arrival_mono + self._desk.wait_s)
        self._desk.prompts.wait(self._generation.model, self._waiter)

    def _tokenizer_known(self, answer: ModelPrompt | InferDeckError) -> None:
        self._waiter = None
        if isinstance(answer, InferDeckError):
            self._refuse(answer)
        elif self._admission is None:
            self._admit()
        else:
            self._tokenise(answer)

    def _size(self) -> int:
        """Of the prompt, in characters, or in tokens where it came as such."""
        generation = self._generation
        if not self._chat:
            return len(generation.prompt)
        messages = generation.messages
        size = sum(_MESSAGE_CHARACTERS + len(message["content"]) for message in messages)
        if generation.tools or any("tool_calls" in message for message in messages):
            size += self._body_bytes
        return size

    def _tokenise(self, prompt: ModelPrompt) -> None:
        generation = self._generation
        self._tokenise_mono = time.monotonic()
        if self._chat:
            messages, tools = generation.messages, generation.tools
            job = Job(lambda: prompt.chat(messages, tools), lambda job: self._tokenised(prompt, job))
        else:
            job = Job(lambda: self._completion(prompt), lambda job: self._tokenised(prompt, job))
        self._job = job
        try:
            self._desk.lanes.submit(job, self._size())
        except InferDeckError as error:
            self._refuse(error)

    def _completion(self, prompt: ModelPrompt) -> list[int]:
        """Called in a lane."""
        generation = self._generation
        ids = prompt.completion(generation.prompt)
        if generation.echo:
            self._echo = prompt.text_of(generation.prompt)
        return ids

    def _tokenised(self, prompt: ModelPrompt, job: Job[list[int]]) -> None:
        self._job = None
        try:
            if job.error is not None:
                raise job.error
            ids = job.result or []
            self._reserve(prompt, ids, self._bound(prompt, len(ids)))
        except InferDeckError as error:
            self._refuse(error)
        except Exception as error:
            self._refuse(self._fault(error))

    def _reserve(self, prompt: ModelPrompt, ids: list[int], max_tokens: int) -> None:
        generation, admission = self._generation, self._admission
        assert admission is not None
        _check_vocabulary(generation, prompt)
        self._prompt_tokens = len(ids)
        most = reservation(
            len(ids),
            asked=generation.max_tokens,
            room=max_tokens,
            choices=generation.choices,
            grant=self._exchange.grant,
            whole_limit=admission.whole_limit(),
        )
        admission.reserve(most, lambda refused: self._reserved(prompt, ids, max_tokens, refused))

    def _reserved(self, prompt: ModelPrompt, ids: list[int], max_tokens: int, refused: InferDeckError | None) -> None:
        try:
            if refused is not None:
                raise refused
            self._exchange.limits = self._headers()
            self._submit(prompt, ids, max_tokens)
        except InferDeckError as error:
            self._refuse(error)
        except Exception as error:
            self._refuse(self._fault(error))

    def _fault(self, error: Exception) -> InternalError:
        log.error("a call could not be started", exc_info=error, extra={"request_id": self._exchange.request_id})
        return InternalError("The request could not be started.")

    def _submit(self, prompt: ModelPrompt, ids: list[int], max_tokens: int) -> None:
        generation, exchange, desk = self._generation, self._exchange, self._desk
        now = time.monotonic()
        figures = desk.figures.model(generation.model)
        figures.tokenise.add(now - self._tokenise_mono)
        sink = self._make_sink(prompt)
        if max_tokens == 0:
            self._sink = sink
            self._echo_only(len(ids))
            return
        grant = exchange.grant
        call = RoutedCall(
            request_id=exchange.request_id,
            model=generation.model,
            prompt_token_ids=ids,
            sampling=Sampling(max_tokens=max_tokens, **generation.sampling),
            stream=generation.stream,
            arrival_unix=exchange.arrival_unix,
            arrival_mono=exchange.arrival_mono,
            # Calls of a tenant share cached prefixes with each other, and with nobody else.
            cache_salt="" if grant.tenant == DEFAULT_TENANT else grant.tenant,
            key_id=grant.key_id,
            api="chat" if self._chat else "completions",
            traceparent=_traceparent(exchange.fields.get(b"traceparent", b"")),
            stages=(
                Stage("auth", 0.0, exchange.auth_s),
                Stage("tokenise", self._tokenise_mono - exchange.arrival_mono, now - self._tokenise_mono),
            ),
        )
        self._sink = sink
        try:
            self._handle = desk.router.submit(call, sink)
        except InferDeckError:
            self._sink = None
            raise
        figures.prompt_tokens += len(ids)
        figures.prompt_size.add(len(ids))

    def _echo_only(self, prompt_tokens: int) -> None:
        """``echo`` with ``max_tokens`` 0: the prompt comes back, and no worker hears of it."""
        assert self._sink is not None
        last = self._generation.choices - 1
        for choice in range(last + 1):
            done = Done(prompt_tokens, 0, 0) if choice == last else None
            self._sink.delta(Delta(0, choice=choice, finish=Finish(FinishReason.LENGTH, 0), done=done))

    def _make_sink(self, prompt: ModelPrompt) -> Sink:
        generation, exchange = self._generation, self._exchange
        heading = Heading(
            ("chatcmpl-" if self._chat else "cmpl-") + exchange.request_id,
            int(exchange.arrival_unix),
            generation.model,
            "fp_" + prompt.hash[:10],
        )
        echo = self._echo
        tally = self._desk.figures.model(generation.model)
        logprobs = "logprobs" in generation.sampling
        if generation.stream:
            with_usage = generation.include_usage
            events: Events
            if self._chat:
                events = ChatEvents(heading, with_usage=with_usage)
            else:
                events = CompletionEvents(heading, with_usage=with_usage, echo=echo)
            return StreamSink(
                self,
                exchange,
                events,
                tally,
                logprobs=logprobs,
                control_ids=prompt.control_ids,
                choices=generation.choices,
                with_usage=with_usage,
            )
        shape: type[ChatLogprobs] | type[CompletionLogprobs] = ChatLogprobs if self._chat else CompletionLogprobs
        return PlainSink(
            self,
            exchange,
            chat_body(heading) if self._chat else completion_body(heading, echo),
            tally,
            logprobs=shape if logprobs else None,
            control_ids=prompt.control_ids,
            choices=generation.choices,
        )

    def _bound(self, prompt: ModelPrompt, prompt_tokens: int) -> int:
        """The most tokens that each choice may have. Raises InvalidRequest where the call cannot fit."""
        limit, asked = prompt.max_context, self._generation.max_tokens
        name = self._generation.max_tokens_name
        if prompt_tokens > limit or (prompt_tokens == limit and asked != 0):
            in_completion = (
                "" if asked is None else f" ({prompt_tokens} in the {self._param}, {asked} in the completion)"
            )
            raise InvalidRequest(
                f"This model's maximum context length is {limit} tokens. However, you requested "
                f"{prompt_tokens + (asked or 0)} tokens{in_completion or f' in the {self._param}'}. "
                f"Please reduce the length of the {self._param}.",
                reason=DropReason.CONTEXT_LENGTH_EXCEEDED,
                param=self._param,
            )
        if asked is None:
            return limit - prompt_tokens
        if prompt_tokens + asked > limit:
            raise InvalidRequest(
                f"'{name}' is too large: this model's maximum context length is {limit} tokens, and you requested "
                f"{prompt_tokens + asked} ({prompt_tokens} in the {self._param}, {asked} in the completion). "
                f"At most {limit - prompt_tokens} are left for the completion.",
                reason=DropReason.CONTEXT_LENGTH_EXCEEDED if asked < limit else DropReason.INVALID_REQUEST,
                code=None if asked < limit else "integer_above_max_value",
                param=name,
            )
        return asked

    # ends

    def _gone(self) -> None:
        """The client has left: nothing more is done for it, from here to the engine."""
        sink, handle = self._sink, self._handle
        if sink is not None:
            sink.close()
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
        if self._ended:
            return
        known = self._admission is not None
        if known:
            self._exchange.limits = self._headers()
        # A call that was too long has cost a tokenizer's time: it counts as a request. What is our fault does not.
        self._end(counts=isinstance(error, RequestRefused))
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
            figures.duration.add(time.monotonic() - self._exchange.arrival_mono)
            if sink.first_token_mono:
                figures.ttft.add(sink.first_token_mono - self._exchange.arrival_mono)


def _check_vocabulary(generation: Generation, prompt: ModelPrompt) -> None:
    for name in ("logit_bias", "stop_token_ids"):
        ids = generation.sampling.get(name)
        if ids and max(ids) >= prompt.vocab_size:
            raise InvalidRequest(
                f"Invalid value for '{name}': this model's token ids are below {prompt.vocab_size}.",
                param=name,
                code="invalid_value",
            )
