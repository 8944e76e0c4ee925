"""What a choice of a call is called inside an engine, and what people call it.

vLLM wants one id per sequence, and unique for ever; people know the call's request id. A request that came by the
published service has vLLM's own suffix instead: ``-`` and eight hex digits, so the two cannot be mistaken.
"""

from __future__ import annotations

import re

from control_plane.contracts.choice import choice_name

_OURS = re.compile(r"-\d+\.(\d+)\Z")
_VLLMS = re.compile(r"-[0-9a-f]{8}\Z")


def internal_id(request_id: str, call: int, choice: int) -> str:
    return f"{request_id}-{call}.{choice}"


def public_id(internal: str) -> str:
    """The request id, with ``#1``, ``#2``, … for further choices; an id of another make stays as it is."""
    if ours := _OURS.search(internal):
        return choice_name(internal[: ours.start()], int(ours[1]))
    return _VLLMS.sub("", internal)
