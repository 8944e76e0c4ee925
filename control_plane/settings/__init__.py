"""Typed settings: what can be set, where it was set, and what is wrong with it.

Two variables of the environment count, ``INFERDECK_HOME`` and ``INFERDECK_CACHE``; all else comes from one TOML file.
"""

from control_plane.contracts.home import Home
from control_plane.settings.machine import check_machine
from control_plane.settings.model import (
    ApiSettings,
    GatewaySettings,
    LimitSettings,
    PoolSettings,
    RouterSettings,
    SecuritySettings,
    Settings,
    SettingSource,
    StoreSettings,
    TelemetrySettings,
)
from control_plane.settings.reader import load_settings, load_with_sources, sources_after
from control_plane.settings.simulated import simulated
from control_plane.settings.size import parse_size

__all__ = [
    "ApiSettings",
    "GatewaySettings",
    "Home",
    "LimitSettings",
    "PoolSettings",
    "RouterSettings",
    "SecuritySettings",
    "SettingSource",
    "Settings",
    "StoreSettings",
    "TelemetrySettings",
    "check_machine",
    "load_settings",
    "load_with_sources",
    "parse_size",
    "simulated",
    "sources_after",
]
