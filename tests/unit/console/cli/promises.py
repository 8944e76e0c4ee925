"""Every verb of the command line, and what it does: the table that the promises of the README are checked by."""

from __future__ import annotations

from typing import Final

from console.cli.effect import Effect

LOOKS, RUNS, CHANGES, ENDS = Effect

EFFECTS: Final[dict[str, Effect]] = {
    "up": RUNS,
    "router": RUNS,
    "down": ENDS,
    "doctor": LOOKS,
    "demo": RUNS,
    "console": RUNS,
    "version": LOOKS,
    "get": LOOKS,
    "describe": LOOKS,
    "top": LOOKS,
    "logs": LOOKS,
    "events": LOOKS,
    "explain": LOOKS,
    "replay-decisions": LOOKS,
    "record": RUNS,
    "replay": LOOKS,
    "cordon": CHANGES,
    "uncordon": CHANGES,
    "drain": ENDS,
    "sleep": ENDS,
    "wake": CHANGES,
    "scale": ENDS,
    "cancel": ENDS,
    "wait": LOOKS,
    "trace": CHANGES,
    "inject": ENDS,
    "route": LOOKS,
    "chat": RUNS,
    "load": RUNS,
    "plan": LOOKS,
    "learn": LOOKS,
    "learn play": RUNS,
    "learn verify": RUNS,
    "learn new": RUNS,
    "learn moment": RUNS,
    "calibrate": ENDS,
    "key": LOOKS,
    "key list": LOOKS,
    "key create": ENDS,
    "key set": CHANGES,
    "key rotate": ENDS,
    "key revoke": ENDS,
    "policy get": LOOKS,
    "policy set": CHANGES,
    "policy history": LOOKS,
    "operator list": LOOKS,
    "operator create": CHANGES,
    "operator revoke": ENDS,
    "cert": ENDS,
}

OPERATED: Final[dict[str, tuple[str, ...]]] = {
    "down": ("down", "--now"),
    "cordon": ("cordon", "smollm2-1"),
    "uncordon": ("uncordon", "smollm2-2"),
    "drain": ("drain", "smollm2-1"),
    "sleep": ("sleep", "smollm2-1"),
    "wake": ("wake", "smollm2-2"),
    "scale": ("scale", "smollm2=1"),
    "cancel": ("cancel", "req-1"),
    "trace": ("trace", "smollm2-1", "off"),
    "inject": ("inject", "smollm2-1", "slow", "--factor", "4"),
    "calibrate": ("calibrate", "smollm2-1", "--file", "there.toml"),
}
"""What each verb that touches the fleet is tried with. The workers are those of the fake operators' API."""

ACCESSED: Final[dict[str, tuple[str, ...]]] = {
    "key create": ("key", "create", "--replace-home-key"),
    "key set": ("key", "set", "default", "rpm=7"),
    "key rotate": ("key", "rotate", "default"),
    "key revoke": ("key", "revoke", "default"),
    "policy set": ("policy", "set", "tiers.free.rpm=7"),
    "operator create": ("operator", "create", "bea", "--role", "viewer"),
    "operator revoke": ("operator", "revoke", "ann"),
    "cert": ("cert", "server", "other.example.com"),
}
"""Of those that change who may do what; there are an operator ann and a server's certificate with another name."""
