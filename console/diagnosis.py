"""Why an operators' API cannot be talked to. gRPC tells all that goes wrong below it in one word, so its port is asked:
what it speaks, whose certificate it shows, and whether it takes ours."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import ssl
import time
from pathlib import Path
from typing import Final

from console.home import Distrusted, Home, Target, Unreachable, shown_path
from control_plane.contracts.addresses import is_loopback
from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.identity import Credentials, Peer, client_context

LIMIT_S: Final = 2.0

_EXPIRED, _NOT_YET, _OTHER_NAME = 10, 9, 62
_OTHER_AUTHORITY: Final = frozenset((2, 18, 19, 20, 21))
"""OpenSSL's numbers for a chain that does not end at an authority that is trusted."""

MAKE: Final = "inferdeck cert client NAME --out FILE, in the platform's home, makes one for --operator-cert-file FILE"


async def diagnosis(target: Target, cause: str) -> Unreachable:
    """The error to tell of a call to ``target`` that failed below gRPC. ``cause`` is gRPC's word for it."""
    message, home = f"cannot reach the control plane at {target.address}: {cause}", target.home
    if home is not None:
        plain = _of_home(home, message)
        if not target.credentials:
            return plain  # its own control plane said that it speaks no TLS
    else:
        plain = Unreachable(message, hint="--server HOST:PORT; on its own machine inferdeck up says where it is")
    host, _, port = target.address.rpartition(":")
    secure = await speaks_tls(host.strip("[]"), int(port))
    if secure is None:
        return plain
    at = f"the operators' API at {target.address}"
    if not target.credentials:
        return Distrusted(f"{at} speaks mutual TLS, and no certificate was named", hint=MAKE) if secure else plain
    if not secure:
        return _in_the_clear(at, host)
    return (
        await _of_the_handshake(target, host.strip("[]"), int(port), MAKE if home is None else "inferdeck cert renew")
        or plain
    )


def _of_home(home: Home, message: str) -> Unreachable:
    """A process that lives and does not answer (it hangs, or somebody paused it) is in the way of another ``up``, and
    what it started serves on without it."""
    if (state := home.running()) is None:
        return Unreachable(message, hint=home.up_command())
    return Unreachable(
        f"{message}, though its process (pid {state.pid}) lives",
        hint=home.without(state.pid),
    )


async def speaks_tls(host: str, port: int) -> bool | None:
    """Whether TLS is spoken at a port; None where nobody answers there."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2", "http/1.1"])
    try:
        async with asyncio.timeout(LIMIT_S):
            _, writer = await asyncio.open_connection(host, port)
            await _closed(writer)
            _, writer = await asyncio.open_connection(host, port, ssl=context)
            await _closed(writer)
    except ssl.SSLError as error:
        # An alert is TLS's own way to say no.
        return "ALERT" in (error.reason or "")
    except (ConnectionResetError, BrokenPipeError, EOFError):
        return False
    except (OSError, TimeoutError):
        return None
    return True


def _in_the_clear(at: str, host: str) -> Distrusted:
    if is_loopback(host):
        return Distrusted(
            f"{at} speaks no TLS, and a certificate was named",
            hint="leave --operator-cert-file out, or set mutual_tls = true in [security] of its config file",
        )
    return Distrusted(
        f"{at} speaks no TLS: an operator key is not sent to another machine in the clear",
        hint='set mutual_tls = "auto" in [security] of its config file',
    )


async def _of_the_handshake(target: Target, host: str, port: int, hint: str) -> Distrusted | None:
    """Who of the two does not take the other; None where both do."""
    who, file = f"the control plane at {target.address}", shown_path(Path(target.credentials))
    if (ended := _ended(target.credentials)) is not None:
        return Distrusted(f"the certificate in {file} expired on {ended}", hint=hint)
    try:
        context = client_context(target.credentials)
    except InferDeckError as error:
        return Distrusted(error.message, hint=error.hint)
    try:
        async with asyncio.timeout(LIMIT_S):
            reader, writer = await asyncio.open_connection(
                host, port, ssl=context, server_hostname=Peer.CONTROL_PLANE.host
            )
            try:
                # Since TLS 1.3 a server says after the handshake what it thinks of a client's certificate.
                said = await reader.read(1)
            finally:
                await _closed(writer)
    except ssl.SSLCertVerificationError as error:
        return _untrusted(error, who, file, target, hint)
    except ssl.SSLError as error:
        why = (error.reason or str(error)).lower().replace("_", " ")
        return Distrusted(f"{who} refuses the certificate in {file}: {why}", hint=hint)
    except ConnectionError:
        said = b""
    except (OSError, TimeoutError):
        return None
    return None if said else Distrusted(f"{who} refuses the certificate in {file}", hint=hint)


def _untrusted(error: ssl.SSLCertVerificationError, who: str, file: str, target: Target, hint: str) -> Distrusted:
    """What is wrong with the server's certificate."""
    if error.verify_code in _OTHER_AUTHORITY:
        return Distrusted(
            f"{who} has a certificate of another authority than that in {file}: it is another platform, or a new one",
            hint=hint,
        )
    if error.verify_code == _OTHER_NAME:
        return Distrusted(
            f"at {target.address} another process than a control plane answers", hint="--server HOST:PORT of [api]"
        )
    if error.verify_code in (_EXPIRED, _NOT_YET):
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
        state = "has expired" if error.verify_code == _EXPIRED else "is not valid yet"
        return Distrusted(
            f"the certificate of {who} {state}, by this machine's clock: {now}",
            hint="inferdeck cert renew, in the platform's home; or set the clock",
        )
    return Distrusted(f"{who} is not trusted: {error.verify_message}", hint=hint)


def _ended(credentials: str) -> str | None:
    """The day on which a file's own certificate has ended, if it has."""
    from cryptography import x509  # only where a call has failed

    try:
        certificate = x509.load_pem_x509_certificate(Credentials.read(credentials).certificate)
    except (InferDeckError, ValueError):
        return None
    end = certificate.not_valid_after_utc
    return end.strftime("%Y-%m-%d %H:%M UTC") if end.timestamp() <= time.time() else None


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError, TimeoutError):
        await writer.wait_closed()
