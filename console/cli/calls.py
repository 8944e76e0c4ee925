"""Where a command's calls go, and by which API key: the home's own gateway, that of a ``--server``, or a ``--url``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.cli.command import Place
from control_plane.contracts.errors import Unauthenticated

if TYPE_CHECKING:
    from console.api_access import ApiKey
    from console.http import Endpoint


async def calls_of(
    place: Place,
    url: str | None = None,
    ca: str | None = None,
    key_files: list[str] | None = None,
    key_variable: str | None = None,
) -> tuple[Endpoint, list[ApiKey]]:
    """The endpoint and the keys. The home's own key goes to its own gateway only.

    Raises Unauthenticated where another platform is named without a key, and what finding the gateway raises.
    """
    from console.api_access import endpoint_at, endpoint_of, keys_of

    running = place.home.running()
    own = place.server is None or (running is not None and running.api_address == place.server)
    if url is not None or own:
        return endpoint_of(place.home, url, ca), keys_of(place.home, url, key_files or [], key_variable)
    if not key_files and key_variable is None:
        raise Unauthenticated(
            f"which API key? The home's own is none of the platform's at {place.server}", hint="--api-key-file FILE"
        )
    keys = keys_of(place.home, url, key_files or [], key_variable)
    return await endpoint_at(place.target(), ca), keys
