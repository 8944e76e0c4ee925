"""Names of models as callers use them: who may use which, what a router is asked, and what an answer says of it."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from control_plane.contracts.call import Router
from control_plane.contracts.errors import DropReason, Forbidden, InvalidRequest, Unavailable
from control_plane.contracts.grant import Grant
from control_plane.contracts.model_choice import (
    LARGE,
    OVERRIDE,
    REASON_HEADER,
    SMALL,
    ModelAsk,
    ModelChoice,
    PromptText,
)
from control_plane.gateway.http.exchange import Exchange
from control_plane.gateway.schema.generation import Generation
from control_plane.gateway.session import session_of

_OVERRIDE: Final = OVERRIDE.encode()
_LONGEST: Final = 256
_CHARACTERS_A_TOKEN: Final = 4
"""A token id stands for so many characters, where a prompt came as ids."""

_PLAIN: Final = " !\"#$&'()*+,/:;<=>?@[\\]^`{|}~"
"""What a header's line holds as it is, beside letters, digits and ``_.-~``."""


def check_model(router: Router, grant: Grant, name: str, override: str = "") -> None:
    """Raises Forbidden for a name that the key may not use, whether or not there is one; Unavailable where that cannot
    be told yet.

    A key may use the names that it has, and what they lead to; a name that leads only to what it has, too."""
    if grant.allows(name) and (not override or grant.allows(override)):
        return
    routes = router.routes()
    if routes is None:
        raise Unavailable(
            "The gateway has just started and does not know its models yet.", reason=DropReason.NO_CAPACITY
        )
    if not routes.allowed(name, grant.allows):
        raise _forbidden()
    elsewhere = override and routes.side_of(name, override) is None and override not in routes.reached(name)
    if elsewhere and not routes.allowed(override, grant.allows):
        raise _forbidden()


def only_model(router: Router, name: str) -> str:
    """The one model that a name leads to. Raises InvalidRequest where there are several."""
    routes = router.routes()
    only = name if routes is None else routes.only(name)
    if only is None:
        raise InvalidRequest(
            f"{name!r} leads to several models, each with its own tokens: name one of them.",
            param="model",
            code="invalid_value",
        )
    return only


def override_of(exchange: Exchange) -> str:
    """What the caller's header says; empty without one. Raises InvalidRequest."""
    sent = exchange.fields.get(_OVERRIDE)
    if sent is None:
        return ""
    try:
        name = sent.decode().strip()
    except UnicodeDecodeError:
        name = ""
    if not name or len(name) > _LONGEST or not name.isprintable():
        raise InvalidRequest(
            f"Invalid header '{OVERRIDE}': expected {SMALL}, {LARGE} or a model's name, of 1 to {_LONGEST} characters.",
            param=OVERRIDE,
            code="invalid_value",
        )
    return name


def ask_of(exchange: Exchange, generation: Generation, *, in_full: bool = False) -> ModelAsk:
    """What a router is asked about this call. Raises InvalidRequest for its header."""
    return ModelAsk(
        generation.model,
        lambda: prompt_text(generation),
        override_of(exchange),
        session_of(exchange.grant.tenant, generation),
        generation.max_tokens,
        in_full,
    )


def prompt_text(generation: Generation) -> PromptText:
    messages, prompt = generation.messages, generation.prompt
    if messages:
        asked = next((each for each in reversed(messages) if each["role"] == "user"), messages[-1])
        characters = len(generation.instructions) + sum(len(each["content"]) for each in messages)
        return PromptText(asked["content"], characters)
    if isinstance(prompt, str):
        return PromptText(prompt, len(prompt))
    return PromptText("", _CHARACTERS_A_TOKEN * len(prompt))


def choice_lines(choice: ModelChoice) -> bytes:
    """Header lines that say which model answers, and why where it is not simply the one that was asked for. What is not
    ASCII in a name is percent-encoded."""
    lines = f"{OVERRIDE}: {quote(choice.model, safe=_PLAIN)}\r\n"
    if choice.reason:
        lines += f"{REASON_HEADER}: {choice.reason}\r\n"
    return lines.encode()


def _forbidden() -> Forbidden:
    return Forbidden("This API key may not use this model. GET /v1/models lists those it may.", param="model")
