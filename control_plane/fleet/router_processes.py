"""The routers that are processes of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from control_plane.contracts.addresses import MutualTls, reachable, wants_mutual_tls
from control_plane.fleet.changes import Changes
from control_plane.fleet.events import Events
from control_plane.fleet.members import MemberProcess, Members
from control_plane.fleet.routers import Routers
from control_plane.settings import Home, RouterSettings


class RouterProcesses(Members):
    """As many as the settings say; none where each gateway has its router inside. A record's ``certificate`` is the
    credentials file by which a router lets in nobody but our own, empty where anyone on this machine may call."""

    noun = "router"

    def __init__(
        self,
        settings: RouterSettings,
        mutual_tls: MutualTls,
        home: Home,
        config: Path | None,
        events: Events,
        routers: Routers,
        changes: Changes,
    ) -> None:
        names = [f"r{n}" for n in range(1, settings.replicas + 1)]
        super().__init__(names, home, home.routers, config, events, changes, routers.lost, lambda: None)
        self._settings = settings
        self._secure = wants_mutual_tls(mutual_tls, settings.host)

    def port(self, name: str) -> int:
        port = self._settings.port
        return port + int(name.removeprefix("r")) - 1 if port else 0

    def fits(self, member: MemberProcess, record: dict[str, Any]) -> bool:
        if not member.url:
            return True
        host, _, port = member.url.rpartition(":")
        right = host.strip("[]") == reachable(self._settings.host).strip("[]") and self.port(member.id) in (
            0,
            int(port),
        )
        return right and bool(record.get("certificate", "")) == self._secure
