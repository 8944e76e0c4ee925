"""What protects callers and operators on the network, and how long certificates are good."""

from __future__ import annotations

import time
from pathlib import Path

from console.doctor.finding import Finding, ok, warn
from console.doctor.settings import Settings
from console.home import Home, shown_path
from control_plane.contracts.addresses import is_loopback

_SOON_DAYS = 14.0


def https(settings: Settings) -> Finding:
    """How callers reach the gateway. What is refused at the start is told with the settings, not here."""
    host = str(settings.get("gateway.host"))
    if certificate := str(settings.get("gateway.tls_cert", "")):
        return _expiry(Path(certificate))
    if settings.get("gateway.tls"):
        return ok("https", "a certificate of the home's own authority; inferdeck cert shows it")
    if is_loopback(host):
        return ok("https", f"off: {host} is this machine only")
    return warn(
        "https",
        f"off, and {host} can be reached by others: keys and prompts cross the network in the clear",
        'set tls = "local" in [gateway], unless something before it speaks TLS',
    )


def mutual_tls(settings: Settings) -> Finding:
    mode, host = settings.get("security.mutual_tls", "auto"), str(settings.get("api.host"))
    if mode is True:
        return ok("mutual tls", "on")
    if mode == "auto":
        on = "off" if is_loopback(host) else "on"
        return ok("mutual tls", f"auto: {on} for the operators' API on {host}, off for workers of this machine")
    if is_loopback(host):
        return ok("mutual tls", "off")
    return warn(
        "mutual tls",
        f"off, and the operators' API on {host} can be reached by others: the operator key crosses in the clear",
        'set mutual_tls = "auto" in [security]',
    )


def certificates(home: Home) -> list[Finding]:
    """Private keys of the home's own authority that others can read; nothing where it has none."""
    folder = home.folder.tls
    private = [
        path
        for path in (folder / "ca.key", *sorted(folder.glob("**/*.pem")))
        if path.is_file() and path.name != "ca.pem"
    ]
    if not private:
        return []
    open_ones = [path for path in private if path.stat().st_mode & 0o077]
    if open_ones:
        names = " ".join(shown_path(path) for path in open_ones)
        return [warn("certificates", f"private keys can be read by others: {names}", f"chmod 600 {names}")]
    return [ok("certificates", f"{len(private)} in {shown_path(folder)}, private")]


def _expiry(path: Path) -> Finding:
    from cryptography import x509  # only where there is a certificate to look at

    try:
        left = (
            x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc.timestamp() - time.time()
        ) / 86_400
    except (OSError, ValueError):
        return warn("https", f"{shown_path(path)} cannot be read", "see tls_cert in [gateway]")
    if left < _SOON_DAYS:
        return warn("https", f"{shown_path(path)} expires in {left:.0f} days", "put a new one there: no restart needed")
    return ok("https", f"{shown_path(path)}, good for {left:.0f} days")
