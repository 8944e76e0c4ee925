"""Where the OpenAI API of a platform is and which key opens it."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from console.completion import Answer
from console.diagnosis import speaks_tls
from console.home import Home, Target, Unreachable, read_key, shown_path
from console.home_key import way_out
from console.http import Broken, Connections, Endpoint
from console.trust import Trust
from control_plane.contracts.addresses import is_any, is_loopback
from control_plane.contracts.errors import InferDeckError, NotFound, Unauthenticated

_LISTED_WITHIN_S: Final = 5.0
"""A call to a model that was named does not wait longer for what is said of it."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """``name`` is where it comes from, ``hint`` the way out where it is refused."""

    name: str
    secret: str
    hint: str = "--api-key-file FILE"

    def __repr__(self) -> str:
        return f"ApiKey({self.name!r})"


def endpoint_of(home: Home, url: str | None, ca: str | None = None) -> Endpoint:
    """The endpoint that was named, else the home's first gateway, which serves on without a control plane.

    ``ca`` is a PEM file of authorities to trust; the home's own gateway needs none. Raises Unreachable when the home
    has no gateway.
    """
    if url is not None:
        return Endpoint.parse(url, Trust(ca or ""))
    urls = home.gateway_urls()
    if urls:
        return Endpoint.parse(urls[0], Trust(ca) if ca else trust_of(home))
    if home.running() is None:
        raise home.absent()
    raise Unreachable(f"the platform in {home.shown} has no gateway yet", hint="inferdeck get gateways")


async def endpoint_at(target: Target, ca: str | None = None) -> Endpoint:
    """The gateway of a platform whose operators' API is ``target``, as it is reached from here.

    Raises Unreachable where it has none, or none that others than its own machine can reach.
    """
    from console.client import OperatorClient

    async with OperatorClient(target) as client:
        gateways = [gateway for gateway in (await client.get_snapshot()).gateways if gateway.url]
    gateways.sort(key=lambda gateway: not gateway.ready)
    if not gateways:
        raise Unreachable(f"the platform at {target.address} has no gateway yet", hint="--url URL")
    return Endpoint.parse(_seen_from_here(gateways[0].url, target.address), Trust(ca or ""))


def _seen_from_here(url: str, address: str) -> str:
    """A gateway listens where its own machine says; from here that is the machine whose operators' API answered."""
    machine, parts = address.rpartition(":")[0], urlsplit(url)
    host = parts.hostname or ""
    if is_any(host):
        return urlunsplit(parts._replace(netloc=f"{machine}:{parts.port}"))
    if is_loopback(host) and not is_loopback(machine):
        raise Unreachable(
            f"the gateway of the platform at {address} listens on {host}, which only its own machine can reach",
            hint="--url URL, of whatever leads to it from here",
        )
    return url


def trust_of(home: Home) -> Trust:
    """How the home's own gateway is known to be the one."""
    state = home.state()
    if state is not None and state.gateway_certificate:
        return Trust(pinned=state.gateway_certificate)
    own = Path(state.gateway_ca) if state is not None and state.gateway_ca else home.folder.tls / "ca.pem"
    return Trust(str(own)) if own.exists() else Trust()


def keys_of(home: Home, url: str | None, files: list[str], variable: str | None) -> list[ApiKey]:
    """Keys from files and from an environment variable, else the home's own. Another endpoint never gets the home's."""
    keys = [ApiKey(shown_path(Path(file)), read_key(Path(file))) for file in files]
    if variable is not None:
        secret = os.environ.get(variable, "").strip()
        if not secret:
            raise Unauthenticated(f"${variable} is not set")
        keys.append(ApiKey(f"${variable}", secret))
    if keys:
        return keys
    if url is not None:
        return [ApiKey("none", "")]
    path, hint = home.own_key_path(), way_out(home)
    return [ApiKey(shown_path(path), read_key(path, hint), hint)]


@dataclass(frozen=True, slots=True)
class Offer:
    """A model as its endpoint lists it. ``simulated``: by the endpoint's own word; None where it does not list it."""

    model: str
    simulated: bool | None


async def offers_of(endpoint: Endpoint, key: ApiKey) -> list[Offer]:
    """The models that an endpoint offers this key."""
    answer = _Body()
    connections = Connections(endpoint)
    try:
        await connections.ask(endpoint.request("GET", "/models", key.secret), answer)
    except Broken as error:
        if endpoint.scheme == "http" and await speaks_tls(endpoint.host, endpoint.port):
            secure = f"https{endpoint.url.removeprefix('http')}"
            raise Unreachable(f"{endpoint.url} speaks HTTPS only", hint=f"--url {secure}") from None
        raise Unreachable(f"{endpoint.url} ended the connection: {error}") from None
    finally:
        connections.close()
    if answer.status in (401, 403):
        raise Unauthenticated(f"{endpoint.url} refuses the key (HTTP {answer.status})", hint=key.hint)
    try:
        return [
            Offer(str(entry["id"]), simulated=entry.get("simulated") is True)
            for entry in json.loads(answer.data)["data"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InferDeckError(f"{endpoint.url}/models answers HTTP {answer.status} and no list of models") from None


async def offer_of(endpoint: Endpoint, key: ApiKey, wanted: str | None, *, lists_all: bool = False) -> Offer:
    """The model that was named, else the first one there is. Who lists no models may still serve one that is named.

    Raises NotFound where no model is offered, or, by an endpoint that ``lists_all``, none of this name.
    """
    if wanted:
        try:
            async with asyncio.timeout(_LISTED_WITHIN_S):
                offers = await offers_of(endpoint, key)
        except (InferDeckError, TimeoutError):
            offers = []
        found = next((offer for offer in offers if offer.model == wanted), None)
        if found is None and offers and lists_all:
            names = [offer.model for offer in offers]
            near = get_close_matches(wanted, names, 1, 0.5)
            meant = (f"did you mean {near[0]}? There are " if near else "there are ") + ", ".join(names)
            raise NotFound(f"no model {wanted!r} at {endpoint.url}; {meant}", param="model")
        return found or Offer(wanted, None)
    offers = await offers_of(endpoint, key)
    if not offers:
        raise NotFound(f"{endpoint.url} offers no model")
    return offers[0]


class _Body:
    def __init__(self) -> None:
        self.status = 0
        self.data = bytearray()

    def head(self, status: int, headers: dict[str, str], at: float) -> None:
        self.status = status

    def body(self, data: bytes, at: float) -> None:
        self.data += data


def error_of(answer: Answer, key: ApiKey, models: str = "") -> InferDeckError:
    """The error in an answer to a call with this key, as one that the command line can tell. ``models``: the command
    that lists what can be called there."""
    where = f" (HTTP {answer.status}, {answer.error_code})" if answer.status else f" ({answer.error_code})"
    message = f"{answer.error_message or 'the call failed'}{where}"
    if answer.status in (401, 403):
        return Unauthenticated(message, hint=key.hint)
    if answer.status == 404:
        return NotFound(message, hint=models)
    return InferDeckError(message)
