"""The policy's part about routing as a document: see ``policy_document``.

::

    {"profile": "least_load"}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.routing import PROFILES, Routing

ROUTING_FIELDS: Final = ("profile",)


def routing_document(routing: Routing) -> dict[str, Any]:
    """What is not said is not in it."""
    return {"profile": routing.profile} if routing.profile else {}


def routing_of(values: Mapping[str, Any]) -> Routing:
    """Raises InvalidRequest that names the first field that is wrong. ``values`` has known fields only."""
    profile = values.get("profile", "")
    if profile not in ("", *PROFILES):
        raise InvalidRequest(
            f"routing.profile: {profile!r} is no profile; there are {', '.join(PROFILES)}", param="routing.profile"
        )
    return Routing(profile=profile)
