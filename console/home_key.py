"""The home's own API key, which chat and load call with: whether it still opens anything, in words."""

from __future__ import annotations

from console.home import Home
from control_plane.contracts.access import KeyList

REPLACE = "key create --replace-home-key"


def trouble(told: KeyList) -> str:
    """Why calls with it are refused; "" where they are not, or nobody knows."""
    own = told.home_key
    if own is None or not own.lost(told.taken_unix):
        return ""
    return {
        "revoked": f"the home's own API key (key/{own.key_id}) is revoked",
        "expired": f"the home's own API key (key/{own.key_id}) has expired",
        "rotated": f"the home's api.key has an older secret of key/{own.key_id}, which was rotated elsewhere",
        "unknown": "the home's api.key holds no key of this platform",
        "missing": "the home has no api.key that can be read",
    }[own.state] + ": chat, load and whoever reads it are refused"


def way_out(home: Home) -> str:
    """The command that gives the home a key again."""
    return home.up_command(REPLACE)


async def trouble_of(home: Home) -> str:
    """As the home's control plane tells it. Raises as a client does."""
    from console.client import OperatorClient

    async with OperatorClient(home.target()) as client:
        return trouble(await client.access.keys())
