"""The gateway processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from control_plane.fleet.changes import Changes
from control_plane.fleet.events import Events
from control_plane.fleet.members import MemberProcess, Members
from control_plane.fleet.routers import Routers
from control_plane.settings import GatewaySettings, Home


class Gateways(Members):
    """``fronts``: routers are processes of their own, so a gateway that has its own inside is not the one wanted."""

    noun = "gateway"

    def __init__(
        self,
        settings: GatewaySettings,
        home: Home,
        config: Path | None,
        events: Events,
        routers: Routers,
        changes: Changes,
        urls_changed: Callable[[], None],
        *,
        fronts: bool = False,
    ) -> None:
        names = [f"g{n}" for n in range(1, settings.replicas + 1)]
        super().__init__(names, home, home.gateways, config, events, changes, routers.lost, urls_changed)
        self._settings = settings
        self._fronts = fronts

    def port(self, name: str) -> int:
        port = self._settings.port
        return port + int(name.removeprefix("g")) - 1 if port else 0

    def more_arguments(self, member: MemberProcess) -> list[str]:
        """Where any port will do, the last one is the one it would rather have."""
        if self.port(member.id) or not member.url:
            return []
        return ["--rather", str(urlsplit(member.url).port or 0)]

    def fits(self, member: MemberProcess, record: dict[str, Any]) -> bool:
        same = str(record.get("certificate", "")) == self._settings.tls_cert
        if not member.url:
            return same
        where = urlsplit(member.url)
        secure = where.scheme == ("https" if self._settings.https else "http")
        right = secure and where.hostname == self._settings.host and self.port(member.id) in (0, where.port)
        return same and right and bool(record.get("fronts", False)) == self._fronts
