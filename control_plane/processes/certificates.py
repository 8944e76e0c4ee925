"""``python -m control_plane cert``: what ``inferdeck cert`` shows and makes, as JSON rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from control_plane.contracts.errors import InvalidRequest
from control_plane.settings import Home
from control_plane.trust.keyring import Entry, Keyring

MOST_DAYS: Final = 825


def certificates(home: Home, action: str, names: list[str], out: Path | None, days: float) -> int:
    """Do it and print what there is then; ``made`` marks what was made or renewed now. Raises InvalidRequest."""
    home.create()
    keyring = Keyring(home.tls)
    made = _act(keyring, action, names, out, days)
    rows = [_row(entry, made=entry.path in made) for entry in keyring.entries()]
    client = next((path for path in made if path == out), None)
    print(json.dumps({"certificates": rows, "client": str(client) if client else None}, indent=1))
    return 0


def _act(keyring: Keyring, action: str, names: list[str], out: Path | None, days: float) -> tuple[Path, ...]:
    match action:
        case "server":
            if not names:
                raise InvalidRequest("which host names and addresses is it for?", param="names")
            return (keyring.make_server(names),)
        case "client":
            if len(names) != 1 or out is None:
                raise InvalidRequest("a client's certificate needs a name, and --out FILE", param="names")
            if not 0 < days <= MOST_DAYS:
                raise InvalidRequest(f"--days is more than 0 and at most {MOST_DAYS}", param="days")
            return (keyring.make_client(out, names[0], days),)
        case "renew":
            if names not in ([], ["ca"]):
                raise InvalidRequest('renew takes nothing (everything but the authority) or "ca"', param="names")
            return keyring.renew_authority() if names else keyring.renew(all_of_them=True)
    return ()


def _row(entry: Entry, *, made: bool) -> dict[str, object]:
    return {
        "kind": entry.kind,
        "name": entry.name,
        "path": str(entry.path),
        "names": list(entry.facts.names),
        "not_before": entry.facts.not_before,
        "not_after": entry.facts.not_after,
        "made": made,
    }
