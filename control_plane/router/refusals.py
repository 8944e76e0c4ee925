"""What a caller is told when a call is not served: every such error of the router, in one place."""

from __future__ import annotations

from control_plane.contracts.call import RoutedCall
from control_plane.contracts.errors import (
    DropReason,
    InferDeckError,
    InternalError,
    InvalidRequest,
    NotFound,
    RequestCancelled,
    Throttled,
    Unavailable,
    WorkerLost,
    from_reason,
)
from control_plane.contracts.worker import CallError


def unknown_model(name: str, leads_to: str = "") -> NotFound:
    where = f" leads to {leads_to!r}, which" if leads_to not in ("", name) else ""
    return NotFound(f"The model {name!r}{where} does not exist.", reason=DropReason.MODEL_NOT_FOUND, param="model")


def not_joined() -> Unavailable:
    return _unavailable("The gateway has just started and does not know its workers yet.", DropReason.NO_CAPACITY)


def closing() -> Unavailable:
    return _unavailable("The gateway is stopping.", DropReason.DRAINING)


def queue_full(waiting: int) -> Unavailable:
    return _unavailable(f"{waiting} requests wait already; no more can.", DropReason.OVERLOADED)


def tier_queue_full(tier: str, waiting: int) -> Unavailable:
    return _unavailable(f"{waiting} requests of tier {tier!r} wait already; no more can.", DropReason.OVERLOADED)


def evicted() -> Unavailable:
    return _unavailable("Its place in the queue went to a request of a higher priority.", DropReason.OVERLOADED)


def throttled(model: str, tier: str) -> Throttled:
    return Throttled(
        f"The workers of {model!r} are busy, and requests of tier {tier!r} are not taken meanwhile.",
        reason=DropReason.TIER_THROTTLED,
    )


def all_full(model: str) -> Unavailable:
    return _unavailable(f"Every worker of {model!r} is full.", DropReason.OVERLOADED)


def all_busy(model: str, waited_s: float) -> Unavailable:
    return _unavailable(f"Every worker of {model!r} was full for {waited_s:.0f} s.", DropReason.OVERLOADED)


def still_loading(model: str, waited_s: float) -> Unavailable:
    return _unavailable(f"The model {model!r} is still loading after {waited_s:.0f} s.", DropReason.MODEL_LOADING)


def no_worker(model: str, waited_s: float, why: str) -> Unavailable:
    return _unavailable(f"No worker of {model!r} could take the request in {waited_s:.0f} s: {why}.", None)


def cancelled_by_operator() -> RequestCancelled:
    return RequestCancelled("The request was cancelled by an operator.", retry=False)


def cancelled_at_worker() -> RequestCancelled:
    return RequestCancelled("The request was cancelled at its worker.", retry=False)


def no_router() -> Unavailable:
    return _unavailable("No router can be reached.", DropReason.NO_CAPACITY)


def no_router_in_time(waited_s: float) -> Unavailable:
    return _unavailable(f"No router could be reached in {waited_s:.0f} s.", DropReason.NO_CAPACITY)


def router_lost(output_tokens: int, attempts: int, why: str = "") -> WorkerLost:
    """The router went away for the last time. ``attempts``: workers and routers lost with the call, this one included;
    ``why`` it did not go on."""
    reason = f": {why}" if why else ""
    if output_tokens:
        return WorkerLost(f"The call's router was lost after {output_tokens} tokens{reason}.")
    lost = "its router was" if attempts == 1 else f"{attempts} workers and routers, one after the other, were"
    return WorkerLost(
        f"The request could not be run: {lost} lost before the first token.", retry=False if attempts > 1 else None
    )


def worker_lost(output_tokens: int, attempts: int, why: str = "") -> WorkerLost:
    """The worker went away for the last time: in mid-answer, or before the first token. ``why`` it did not go on."""
    if output_tokens:
        reason = f": {why}" if why else ""
        return WorkerLost(f"The worker was lost after {output_tokens} tokens{reason}.")
    workers = "its worker was" if attempts == 1 else f"{attempts} workers, one after the other, were"
    # Whoever lost several workers in a row may be the cause: a client that repeats it by itself would go on so.
    retry = False if attempts > 1 else None
    return WorkerLost(f"The request could not be run: {workers} lost before the first token.", retry=retry)


def by_the_worker(error: CallError) -> InferDeckError:
    """What the worker itself said about the call."""
    return from_reason(error.code, error.message, param=error.param)


def engine_failed(attempts: int) -> InternalError:
    tried = "" if attempts == 1 else f" on {attempts} workers"
    return InternalError(f"The engine failed on the request{tried}.")


def not_taken_elsewhere() -> InternalError:
    """Its worker or router was lost, and handing it on failed."""
    return InternalError("The call could not be taken elsewhere.")


def unreadable() -> InternalError:
    """A part of its answer came that says nothing to this version."""
    return InternalError("The call's answer could not be read.")


def check_fits(call: RoutedCall, most: int) -> None:
    """Raise for a call that could not fit, however idle the workers are: of ``most`` tokens in all, 0 is unknown."""
    prompt, output = len(call.prompt_token_ids) - call.resumed, call.sampling.max_tokens
    if most and prompt + output > most:
        raise InvalidRequest(
            f"This model's maximum context length is {most} tokens. You requested {prompt + output} tokens "
            f"({prompt} in the {'messages' if call.api == 'chat' else 'prompt'}, {output} in the completion).",
            reason=DropReason.CONTEXT_LENGTH_EXCEEDED,
            param="messages" if call.api == "chat" else "prompt",
        )


def _unavailable(message: str, reason: DropReason | None) -> Unavailable:
    """Whoever answers the caller says when to come again, to each something else."""
    return Unavailable(message, reason=reason)
