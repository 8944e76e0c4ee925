"""``state.json``: how others find the control plane of a home."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from control_plane.contracts.addresses import reachable
from control_plane.contracts.identity import Peer
from control_plane.contracts.worker_spec import start_ticks
from control_plane.settings import Home, Settings
from control_plane.trust.keyring import Keyring

if TYPE_CHECKING:  # a gateway reads the file too, and has nothing of the fleet
    from control_plane.fleet.platform import Platform


class StateFile:
    """Written anew whenever a gateway listens."""

    def __init__(self, home: Home, settings: Settings) -> None:
        self.api_address = ""
        self.api_secure = False
        self.platform: Platform | None = None
        self._home = home
        self._settings = settings
        self._started_unix = time.time()

    def urls_changed(self) -> None:
        if self.api_address:
            self.write()

    def write(self) -> None:
        assert self.platform is not None
        keyring, gateway = Keyring(self._home.tls), self._settings.gateway
        host, _, port = self.api_address.rpartition(":")
        values = {
            "pid": os.getpid(),
            "start_ticks": start_ticks(os.getpid()),
            "control_plane_id": self.platform.id,
            "api_address": f"{reachable(host)}:{port}",
            "gateway_urls": [url.replace("//0.0.0.0:", "//127.0.0.1:") for url in self.platform.gateways.urls()],
            "api_key_path": str(self._home.api_key),
            "operator_key_path": str(self._home.operator_key),
            "api_secure": self.api_secure,
            "operator_credentials": str(keyring.peer(Peer.OPERATOR)) if self.api_secure else "",
            "gateway_ca": str(keyring.ca) if gateway.tls else "",
            "gateway_certificate": gateway.tls_cert,
            "config": str(self._settings.path or ""),
            "version": self.platform.snapshots.version,
            "started_unix": self._started_unix,
            "log_path": str(self._home.log("control-plane")),
        }
        draft = self._home.state.with_name(f".state.json.{os.getpid()}")
        draft.write_text(json.dumps(values, indent=1))
        draft.chmod(0o600)
        draft.replace(self._home.state)


def read_state(home: Home) -> dict[str, Any]:
    try:
        values = json.loads(home.state.read_text())
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}
