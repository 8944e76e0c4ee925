"""The folder that one fleet lives in: state, keys, logs, records of its processes.

The control plane writes there, and the console on the same machine finds it there: where what is stands here only.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from control_plane.contracts.paths import expanded


@dataclass(frozen=True, slots=True)
class Home:
    """Paths under ``$INFERDECK_HOME``. ``source`` says who chose the folder; ``cache`` holds converted models."""

    root: Path
    source: str = "default"
    cache: Path = Path()
    cache_source: str = "default"

    @classmethod
    def resolve(cls, root: str | os.PathLike[str] | None = None) -> Home:
        """The home given, else ``$INFERDECK_HOME``, else ``~/.inferdeck``; the cache likewise."""
        env = os.environ.get("INFERDECK_HOME")
        if root:
            chosen, source = Path(root), "--home"
        elif env:
            chosen, source = Path(env), "INFERDECK_HOME"
        else:
            chosen, source = Path.home() / ".inferdeck", "default"
        if env_cache := os.environ.get("INFERDECK_CACHE"):
            cache, cache_source = Path(env_cache), "INFERDECK_CACHE"
        else:
            base = os.environ.get("XDG_CACHE_HOME")
            cache, cache_source = (Path(base) if base else Path.home() / ".cache") / "inferdeck", "default"
        return cls(expanded(chosen).absolute(), source, expanded(cache).absolute(), cache_source)

    def create(self) -> None:
        """Make the folders that are missing; a home that is made here is its owner's only."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.logs, self.workers, self.gateways, self.routers, self.journals):
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def config(self) -> Path:
        return self.root / "config.toml"

    @property
    def state(self) -> Path:
        return self.root / "state.json"

    @property
    def settings(self) -> Path:
        """What the last control plane ran with."""
        return self.root / "run" / "settings.json"

    @property
    def api_key(self) -> Path:
        return self.root / "api.key"

    @property
    def operator_key(self) -> Path:
        return self.root / "operator.key"

    @property
    def database(self) -> Path:
        return self.root / "inferdeck.db"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def workers(self) -> Path:
        """Specs and announcements of worker processes."""
        return self.root / "run" / "workers"

    @property
    def gateways(self) -> Path:
        """Records of gateway processes."""
        return self.root / "run" / "gateways"

    @property
    def routers(self) -> Path:
        """Records of router processes."""
        return self.root / "run" / "routers"

    @property
    def journals(self) -> Path:
        """What gateways have delivered and the store does not have yet."""
        return self.root / "run" / "journals"

    @property
    def tls(self) -> Path:
        """The authority of this home and what it signed."""
        return self.root / "tls"

    def log(self, name: str) -> Path:
        """The log of "control-plane", "preloader", "gateway-ID", "router-ID" or "worker-ID"."""
        return self.logs / f"{name}.log"

    def spec(self, worker_id: str) -> Path:
        return self.workers / f"{worker_id}.spec.json"

    def announcement(self, worker_id: str) -> Path:
        return self.workers / f"{worker_id}.json"

    def gateway(self, gateway_id: str) -> Path:
        return self.gateways / f"{gateway_id}.json"

    def router(self, router_id: str) -> Path:
        return self.routers / f"{router_id}.json"
