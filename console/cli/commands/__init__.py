# ruff: noqa: F401, I001  # imported to be registered, in the order of the help
"""The commands, in the order in which help lists them."""

from __future__ import annotations

from console.cli.commands import (
    up,
    down,
    doctor,
    demo,
    router,
    console,
    version,
    get,
    describe,
    explain,
    replay_decisions,
    top,
    logs,
    events,
    record,
    replay,
    cordon,
    drain,
    scale,
    cancel,
    wait,
    trace,
    inject,
    chat,
    load,
    plan,
    calibrate,
    key_files,
    keys,
    policy,
    operator,
    cert,
)
