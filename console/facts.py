"""What a person must know of a platform that is up: where it is, its key, and a call that can be pasted."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from console import figures
from console.home import Home, State, shown_path
from control_plane.contracts.fleet import Snapshot


def facts(home: Home, state: State, snapshot: Snapshot) -> dict[str, Any]:
    """As data; never the keys themselves."""
    return {
        "home": str(home.path),
        "pid": state.pid,
        "version": state.version,
        "config": state.config or None,
        "gateway_urls": list(state.gateway_urls),
        "api_address": state.api_address,
        "api_key_path": state.api_key_path,
        "operator_key_path": state.operator_key_path,
        "gateway_ca": state.gateway_ca or None,
        "log_path": state.log_path or str(home.log_path),
        "models": [model.name for model in snapshot.models],
        "workers": [worker.id for worker in snapshot.workers],
    }


def fact_lines(home: Home, state: State, snapshot: Snapshot) -> list[tuple[str, str]]:
    """For people: label and text."""
    lines = [("gateway", f"{base_url(url)}") for url in state.gateway_urls]
    if state.gateway_ca:
        lines.append(("trust", f"{shown_path(Path(state.gateway_ca))} (curl --cacert, SSL_CERT_FILE)"))
    lines.append(("API key", f"in {shown_path(Path(state.api_key_path))}"))
    for pool in snapshot.pools:
        engines = sorted(
            {
                f"{w.info.engine} {w.info.engine_version} on {w.info.device}"
                for w in snapshot.workers
                if w.info and w.pool == pool.name
            }
        )
        lines.append(
            ("model", f"{pool.model} · {figures.plural(pool.ready, 'worker')} · {', '.join(engines) or pool.engine}")
        )
    lines.append(("operators", f"{state.api_address} · key in {shown_path(Path(state.operator_key_path))}"))
    lines.append(("logs", shown_path(home.folder.logs)))
    return lines


def base_url(url: str) -> str:
    """The address an OpenAI client takes as its base URL."""
    url = url.rstrip("/")
    return url if url.endswith("/v1") else f"{url}/v1"


def trusting(state: State) -> str:
    """The option by which curl knows the gateway, where it is HTTPS and not known by itself."""
    return f"--cacert {shlex.quote(state.gateway_ca)} " if state.gateway_ca else ""


def curl(state: State, model: str) -> list[str]:
    """A streamed call, ready to paste; the key stays in its file until the shell reads it."""
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": "Why is the sky blue?"}]}
    key = shlex.quote(state.api_key_path)
    return [
        f"curl -N {trusting(state)}{base_url(state.gateway_urls[0])}/chat/completions \\",
        f'  -H "Authorization: Bearer $(cat {key})" -H "Content-Type: application/json" \\',
        f"  -d {shlex.quote(json.dumps(body))}",
    ]
