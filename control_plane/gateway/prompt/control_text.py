"""Where text would be read as control tokens, and how to keep callers' text from being so.

A tokenizer reads certain strings (``<|im_end|>``) as single tokens that steer the model. A chat template writes some;
a caller's text may contain them too, or have one end of them, and must stay text. So before rendering, a caller's
string that could take part in a control string is broken by a *nonce*: one private-use character that is in none of
the strings involved. After rendering, control strings that are whole are the template's own; the nonce is taken out
when they have been found.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterable, Iterator

from control_plane.contracts.errors import InvalidRequest

_NONCES = range(0xF0000, 0xFFFFE)
_SECRETS = range(0x100000, 0x10FFFE)
"""The two planes of private use. Nonces are taken out of rendered text, in which secret names stand by then."""

_TRIES = 64
_WINDOW = 64 * 1024
"""Characters that are searched in one go: a search lets nothing else run before it is done."""


class ControlText:
    """The control strings of one tokenizer, none of them empty."""

    def __init__(self, strings: Collection[str]) -> None:
        self.strings = frozenset(strings)
        self._pattern = re.compile(_any_of(self.strings)) if self.strings else re.compile(r"(?!)")
        self._longest = max(map(len, self.strings), default=0)
        self._beginnings = frozenset(text[:size] for text in self.strings for size in range(1, len(text)))
        self._endings = frozenset(text[size:] for text in self.strings for size in range(1, len(text)))
        self._first = frozenset(text[0] for text in self.strings)
        self._last = frozenset(text[-1] for text in self.strings)
        self._joined = "\0".join(self.strings)

    def split(self, text: str) -> list[tuple[str, str]]:
        """The text as pairs: plain text, and the control string after it (empty after the last)."""
        parts, start = [], 0
        for match in self._matches(text):
            parts.append((text[start : match.start()], match[0]))
            start = match.end()
        parts.append((text[start:], ""))
        return parts

    def hazardous(self, text: str) -> bool:
        """Whether the text has a control string in it, or could become part of one beside other text."""
        if next(self._matches(text), None) is not None:
            return True
        return self._ends_in_beginning(text) or self._begins_with_ending(text) or self._is_middle(text)

    def guard(self, text: str, nonce: str) -> str:
        """The text, broken wherever it would be read as, or become, a control string.

        A control string of a single character cannot be broken: refused. Raises InvalidRequest.
        """

        # Strings that overlap a broken one come to light in the next pass; there are fewer passes than characters in
        # the longest control string.
        while len(parts := self.split(text)) > 1:
            if any(len(control) == 1 for _, control in parts):
                raise InvalidRequest("The text has a character that this model reserves for control.")
            text = "".join(plain + (control[0] + nonce + control[1:] if control else "") for plain, control in parts)
        if self._ends_in_beginning(text) or self._is_middle(text):
            text += nonce
        if self._begins_with_ending(text):
            text = nonce + text
        return text

    def _matches(self, text: str) -> Iterator[re.Match[str]]:
        """The control strings in the text, from left to right."""
        at = 0
        while at < len(text):
            end = at + _WINDOW
            # One that begins within the window may reach beyond it.
            match = self._pattern.search(text, at, end + self._longest - 1)
            if match is None or match.start() >= end:
                at = end
            else:
                yield match
                at = match.end()

    def _ends_in_beginning(self, text: str) -> bool:
        tail = text[1 - self._longest :] if self._longest > 1 else ""
        return not self._first.isdisjoint(tail) and any(tail[i:] in self._beginnings for i in range(len(tail)))

    def _begins_with_ending(self, text: str) -> bool:
        head = text[: self._longest - 1] if self._longest > 1 else ""
        return not self._last.isdisjoint(head) and any(head[:i] in self._endings for i in range(1, len(head) + 1))

    def _is_middle(self, text: str) -> bool:
        return 0 < len(text) < self._longest and text in self._joined


def choose_nonce(texts: Iterable[str]) -> str:
    """A private-use character that is in none of the texts. Raises InvalidRequest if they leave none."""
    texts = tuple(texts)
    for _ in range(_TRIES):
        nonce = chr(_NONCES.start + secrets.randbelow(len(_NONCES)))
        if not any(nonce in text for text in texts):
            return nonce
    raise InvalidRequest("The text has too many private-use characters.")


def secret_name() -> str:
    """Text that nobody can guess, to stand for a control token inside a tokenizer; no caller ever sees it."""
    return "".join(chr(_SECRETS.start + secrets.randbelow(len(_SECRETS))) for _ in range(9))


def _any_of(strings: Collection[str]) -> str:
    """A pattern for the longest of the strings at a place.

    Built as a trie, since some tokenizers have hundreds of control strings that begin alike.
    """
    groups: dict[str, list[str]] = {}
    for text in strings:
        if text:
            groups.setdefault(text[0], []).append(text[1:])
    branches = []
    for first, rests in groups.items():
        inner = _any_of(rests) if any(rests) else ""
        if inner and "" in rests:
            inner = f"(?:{inner})?"
        branches.append(re.escape(first) + inner)
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
