"""What one choice of a request is called where its choices stand side by side, as in engine steps and block tables:
the request's id, and ``#1``, ``#2``, … for further choices."""

from __future__ import annotations


def choice_name(request_id: str, choice: int) -> str:
    return f"{request_id}#{choice}" if choice else request_id


def choice_of(name: str, request_id: str) -> int | None:
    """Which choice of the request is meant; None for another request's."""
    if name == request_id:
        return 0
    owner, choice = split_choice(name)
    return choice if choice and owner == request_id else None


def split_choice(name: str) -> tuple[str, int]:
    """The request's id and the choice. A request may itself be called like another one's choice: ask ``choice_of``
    where the request is known."""
    owner, mark, number = name.rpartition("#")
    return (owner, int(number)) if mark and owner and number.isascii() and number.isdecimal() else (name, 0)
