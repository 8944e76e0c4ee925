"""A gateway in a process of its own, to be killed: ``python -m ... STORE_URL WINDOW_S LIMITS``. It answers no call.

It writes its port in a line, and a line for each call that it holds. ``LIMITS`` is JSON of ``contracts.policy.Limits``.
"""

from __future__ import annotations

import asyncio
import json
import sys

from control_plane.contracts.grant import Grant
from control_plane.contracts.policy import Limits
from tests.integration.gateway.rig import KEY, gateway


async def main(store: str, window_s: float, limits: Limits) -> None:
    options = {"limit_store": store, "limit_window_s": window_s, "limit_timeout_s": 20.0}
    async with gateway(options=options) as rig:
        rig.router.play = lambda submitted: print("held", flush=True)
        rig.keys.granted[KEY] = Grant("key-1", "acme", limits=limits)
        print(rig.gateway.port, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), Limits(**json.loads(sys.argv[3]))))
