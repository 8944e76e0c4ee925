"""A number for each request, from which its letter and colour follow: the same as long as the request is seen."""

from __future__ import annotations

from collections.abc import Mapping
from string import ascii_lowercase

LETTERS = len(ascii_lowercase)


def letter(badge: int) -> str:
    return ascii_lowercase[badge % LETTERS]


class Badges:
    """Numbers grow with every new request; one whose letter belongs to another that still runs is passed over, while
    there are others."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        self._taken: dict[int, str] = {}
        self._next = 0

    @property
    def given(self) -> Mapping[str, int]:
        return self._given

    def see(self, request_id: str, step: int) -> None:
        """The request is there in this step."""
        self._seen[request_id] = step
        if request_id not in self._given:
            self._given[request_id] = badge = self._choose()
            self._taken.setdefault(badge % LETTERS, request_id)

    def end(self, request_id: str) -> None:
        """Its letter may be given to another one."""
        badge = self._given.get(request_id)
        if badge is not None and self._taken.get(badge % LETTERS) == request_id:
            del self._taken[badge % LETTERS]

    def forget_before(self, step: int) -> None:
        for request_id in [name for name, seen in self._seen.items() if seen < step]:
            self.end(request_id)
            del self._seen[request_id], self._given[request_id]

    def _choose(self) -> int:
        first = self._next
        badge = next((n for n in range(first, first + LETTERS) if n % LETTERS not in self._taken), first)
        self._next = badge + 1
        return badge
