"""What vLLM says when something goes wrong, in InferDeck's terms."""

from __future__ import annotations

import re

from control_plane.contracts.errors import DropReason, InferDeckError, InvalidRequest, Unavailable
from control_plane.contracts.worker import CallError

_TOO_LONG = "maximum model length"
_OVERLOADED = 503
_GRAMMAR = "response_format"
_CONFIG_FIELD = re.compile(
    r"validation errors? for \w+\n+(?:(\w+)\n)?\s*(?:Value error, |Assertion failed, )?(.+?)(?: \[type=|$)",
    re.MULTILINE,
)


def refusal(error: Exception, *, structured: bool = False) -> InferDeckError | None:
    """What the caller is told of a call that vLLM did not take; None if the fault is not in the call.

    vLLM names no parameter where it is the grammar of a ``structured`` call that it does not take.
    """
    if getattr(error, "http_status", None) == _OVERLOADED:
        return Unavailable(str(error), reason=DropReason.OVERLOADED)
    # VLLMValidationError puts the offending value into its str(), which may be a whole prompt.
    parameter = getattr(error, "parameter", None)
    if not isinstance(error, (ValueError, TypeError, OverflowError)) and not hasattr(error, "parameter"):
        return None
    message = str(error.args[0]) if error.args else type(error).__name__
    if _TOO_LONG in message:
        return InvalidRequest(message, reason=DropReason.CONTEXT_LENGTH_EXCEEDED, param="prompt")
    return InvalidRequest(message, param=parameter or (_GRAMMAR if structured else None))


def failure_in_core(*, structured: bool) -> CallError:
    """What the caller is told of a request that the engine core gave up.

    It gives up a ``structured`` one whose grammar does not compile, or compiles and then takes no token: what was
    checked before is less than that. An engine that fails by itself says so otherwise, and to everyone.
    """
    if structured:
        message = "The schema cannot be made into a grammar that an answer can follow."
        return CallError(DropReason.INVALID_REQUEST, message, _GRAMMAR)
    return CallError(DropReason.INTERNAL_ERROR, "the engine failed in this request")


def start_failure(reason: str) -> str:
    """What vLLM said when it could not start, and a way out where one is known, in the words of the pool's settings."""
    text = f"vLLM could not start: {reason}"
    lowered = reason.lower()
    if "serve at least one request" in lowered or "no available memory for the cache blocks" in lowered:
        return f"{text} In InferDeck: raise the pool's kv_memory, or lower its max_context."
    if "available memory" in lowered or "out of memory" in lowered:
        return f"{text} In InferDeck: lower the pool's kv_memory, or run fewer replicas."
    return text


def argument_problem(error: Exception) -> str:
    """The one sentence of a failed configuration that says what is wrong."""
    text = str(error)
    if found := _CONFIG_FIELD.search(text):
        field = f"{found[1]}: " if found[1] else ""
        return f"{field}{found[2].strip()}"
    return text.partition("\n")[0]
