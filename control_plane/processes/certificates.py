"""``python -m control_plane cert``: what ``inferdeck cert`` shows and makes, as JSON rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from control_plane.contracts.errors import InvalidRequest
from control_plane.settings import Home
from control_plane.trust.certificate import CertificateFacts
from control_plane.trust.keyring import Entry, Keyring

MOST_DAYS: Final = 825


def certificates(
    home: Home, action: str, names: list[str], out: Path | None, days: float, *, dry_run: bool = False
) -> int:
    """Do it and print what there is then; ``made`` marks what was made or renewed now. Raises InvalidRequest.

    A dry run prints what there is, ``would``: what is to be done, in words, and ``drops``: names of the gateways'
    certificate that it would not have any more.
    """
    keyring = Keyring(home.tls)
    _check(action, names, out, days)
    would, drops = _plan(keyring, action, names, out, days)
    if dry_run:
        rows = [_row(entry, made=False) for entry in keyring.entries()] if keyring.ca.exists() else []
        print(json.dumps({"certificates": rows, "client": None, "would": would, "drops": drops}, indent=1))
        return 0
    home.create()
    made = _act(keyring, action, names, out, days)
    rows = [_row(entry, made=entry.path in made) for entry in keyring.entries()]
    client = next((path for path in made if path == out), None)
    if client is not None:
        rows.append(_row(Entry("client", client.stem, client, CertificateFacts.read(client)), made=True))
    print(json.dumps({"certificates": rows, "client": str(client) if client else None}, indent=1))
    return 0


def _check(action: str, names: list[str], out: Path | None, days: float) -> None:
    match action:
        case "server":
            if not names:
                raise InvalidRequest("which host names and addresses is it for?", param="names")
        case "client":
            if len(names) != 1 or out is None:
                raise InvalidRequest("a client's certificate needs a name, and --out FILE", param="names")
            if not 0 < days <= MOST_DAYS:
                raise InvalidRequest(f"--days is more than 0 and at most {MOST_DAYS}", param="days")
            Keyring.check_client(out)
        case "renew":
            if names not in ([], ["ca"]):
                raise InvalidRequest('renew takes nothing (everything but the authority) or "ca"', param="names")


def _plan(keyring: Keyring, action: str, names: list[str], out: Path | None, days: float) -> tuple[str, list[str]]:
    """What is to be done, in words, and the names that are lost by it. Nothing is made."""
    new = "" if keyring.ca.exists() else f"make a certificate authority in {keyring.folder}"
    drops: list[str] = []
    match action:
        case "server":
            what = f"make the gateways' certificate for {', '.join(keyring.server_names(names))}"
            drops = keyring.dropped(names)
        case "client":
            what = f"make {out}, an operator's certificate for {names[0]}, good for {days:g} days"
        case "renew":
            there = [entry.name for entry in keyring.entries() if entry.kind != "ca"] if not new else []
            again = f"make anew: {', '.join(there) or 'nothing, for there is none'}"
            what = f"renew the authority, with the same key, and {again}" if names else again
        case _:
            what = ""
    return ", and ".join(part for part in (new, what) if part), drops


def _act(keyring: Keyring, action: str, names: list[str], out: Path | None, days: float) -> tuple[Path, ...]:
    match action:
        case "server":
            return (keyring.make_server(names),)
        case "client":
            assert out is not None
            return (keyring.make_client(out, names[0], days),)
        case "renew":
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
