"""What a call may take of its limit of tokens, and what it has taken. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from control_plane.contracts.errors import InferDeckError, RequestRefused, Throttled
from control_plane.contracts.grant import Grant


@dataclass(frozen=True, slots=True)
class Wish:
    """How many tokens of answer a call has asked for, to be told if it is refused. ``name`` is the field that bounds
    them, ``default`` what the tier reserves for each choice where the call does not say; None: it does. ``reserved``:
    what it reserves for all, once that is known."""

    name: str
    default: int | None
    reserved: int | None = None


def wish_of(name: str, *, asked: int | None, grant: Grant, reserved: int | None = None) -> Wish:
    return Wish(name, grant.default_max_tokens if asked is None else None, reserved)


def before_tokenising(size: int, *, asked: int | None, choices: int, grant: Grant) -> tuple[int, int]:
    """The fewest and the most tokens that a call will reserve. ``size`` is its prompt in characters, and more than its
    tokens as a rule."""
    if asked is not None:
        return 1 + asked * choices, size + asked * choices
    return 1 + choices, size + grant.default_max_tokens * choices


def reservation(
    prompt: int, *, asked: int | None, room: int, choices: int, grant: Grant, whole_limit: int | None
) -> int:
    """The most tokens that a call takes: its prompt, and for each choice what it asked for. One that asked for nothing
    may have ``room`` for each choice, and reserves the tier's default of it; never more than the whole limit, as long
    as that has a token for each choice."""
    if asked is not None:
        return prompt + asked * choices
    most = prompt + min(grant.default_max_tokens, room) * choices
    if whole_limit is None:
        return most
    return max(prompt + choices, min(most, whole_limit))


def charge(prompt: int, generated: int, *, ran: bool) -> int | None:
    """What a call is charged in the end. One that did not run, for whatever reason, is charged nothing: None."""
    return prompt + generated if ran or generated else None


def counts_as_request(refused: InferDeckError | None) -> bool:
    """Whether what was refused after its limits had let it in is a request all the same: it has cost what its checks
    cost. What is our fault is none, nor what is told to come again."""
    return isinstance(refused, RequestRefused) and not isinstance(refused, Throttled)
