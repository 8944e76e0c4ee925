"""What settings must be beyond their types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from control_plane.contracts.addresses import is_loopback
from control_plane.contracts.model_source import source_fault
from control_plane.contracts.policy_document import MODEL_CHARACTERS
from control_plane.contracts.routing import PROFILES
from control_plane.settings.model import GatewaySettings, PoolSettings, Settings

KeyPath = tuple[str | int, ...]
Problem = tuple[KeyPath, str]

ENGINES: Final = ("vllm", "sim", "scripted")
MOST_ROUTERS: Final = 64
MOST_PRICE: Final = 1e9
LEAST_STALL_S: Final = 2.0
"""A worker tells of its steps once a second."""
MOST_RETRIES: Final = 100
MOST_CONTEXT: Final = 2**31 - 1
MOST_THREADS: Final = 4096
MOST_TENSOR_PARALLEL: Final = 1024
MOST_BYTES: Final = 2**50
_DTYPES: Final = ("auto", "bfloat16", "float16", "float32", "half", "float")
_HTTP: Final = re.compile(r"https?://[^/\s]+\S*")
_STORE: Final = re.compile(r"(sqlite|postgres(ql)?)(\+[a-z0-9_]+)?://\S*")
_VALKEY: Final = re.compile(r"(valkey|redis)s?://([^/\s]*@)?[^/\s:@]+(:\d{1,5})?(/\d+)?(\?\S*)?")
_ORIGIN: Final = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9a-f:.]+\](:[0-9]{1,5})?")
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


def check(settings: Settings) -> Iterator[Problem]:
    """Every rule that is broken: the key, and a message for people."""
    gateway, api, router = settings.gateway, settings.api, settings.router
    for section, host, port in (("gateway", gateway.host, gateway.port), ("api", api.host, api.port)):
        if not _is_host(host):
            yield (section, "host"), "an address to listen on is needed"
        if not 0 <= port <= 65535:
            yield (section, "port"), f"{port} is not a port; 1 to 65535, or 0 for any free one"
    if gateway.replicas < 1:
        yield ("gateway", "replicas"), "at least one gateway is needed"
    elif 0 < gateway.port <= 65535 < gateway.port + gateway.replicas - 1:
        yield ("gateway", "replicas"), f"{gateway.replicas} gateways from port {gateway.port} on go beyond port 65535"
    elif api.port and api.host == gateway.host and 0 <= api.port - gateway.port < gateway.replicas:
        yield ("api", "port"), f"{api.port} is a gateway's port already (gateway.port {gateway.port})"
    yield from ((("gateway", key), message) for key, message in _protection(gateway))
    if settings.store.url and not _is_url(_STORE, settings.store.url):
        yield ("store", "url"), "an URL is needed, like sqlite:///FILE or postgresql+psycopg://HOST/NAME"
    if router.profile not in PROFILES:
        yield ("router", "profile"), f"unknown profile {router.profile!r}; known are {', '.join(PROFILES)}"
    if not 0 <= router.retries <= MOST_RETRIES:
        yield ("router", "retries"), f"0 to {MOST_RETRIES}"
    if not 0 <= router.queue_timeout_s <= 3600:
        yield ("router", "queue_timeout_s"), "0 to 3600 seconds"
    yield from ((("router", key), message) for key, message in _replicas(settings))
    if settings.limits.url and not _is_url(_VALKEY, settings.limits.url):
        yield ("limits", "url"), "an URL is needed, like valkey://HOST:6379/0, or rediss:// for TLS"
    if (endpoint := settings.telemetry.otlp_endpoint) and not _is_url(_HTTP, endpoint):
        yield ("telemetry", "otlp_endpoint"), "an URL is needed, like http://127.0.0.1:4318/v1/traces"
    yield from _pools(settings.pools)


def _is_host(host: str) -> bool:
    """Whether a resolver can be asked for it."""
    try:
        return bool(host.encode("idna")) and host.isprintable() and " " not in host
    except UnicodeError:
        return False


def _is_url(shape: re.Pattern[str], url: str) -> bool:
    """Whether an URL has the shape, a host that can be one, and a port that is one. What it says is told to nobody: a
    password may be in it."""
    try:
        return shape.fullmatch(url) is not None and urlsplit(url).port != 0
    except ValueError:
        return False


def _replicas(settings: Settings) -> Iterator[tuple[str, str]]:
    """Routers that are processes of their own."""
    gateway, api, router = settings.gateway, settings.api, settings.router
    if not 0 <= router.replicas <= MOST_ROUTERS:
        yield "replicas", f"0 (each gateway has its router inside) to {MOST_ROUTERS}"
        return
    if not _is_host(router.host):
        yield "host", "an address to listen on is needed"
    for key, first in (("port", router.port), ("metrics_port", router.metrics_port)):
        if not 0 <= first <= 65535:
            yield key, f"{first} is not a port; 1 to 65535, or 0 for any free one"
        elif first and router.replicas:
            last = first + router.replicas - 1
            if last > 65535:
                yield "replicas", f"{router.replicas} routers from {key} {first} on go beyond port 65535"
            if api.port and api.host == router.host and first <= api.port <= last:
                yield key, f"{api.port} is the operators' API's port already (api.port)"
            first_gateway, last_gateway = gateway.port, gateway.port + gateway.replicas - 1
            if gateway.port and gateway.host == router.host and first_gateway <= last and first <= last_gateway:
                yield key, f"gateways listen there already (gateway.port {gateway.port})"
    if router.port and router.metrics_port and abs(router.port - router.metrics_port) < max(1, router.replicas):
        yield "metrics_port", f"routers listen there already (router.port {router.port})"


def _protection(gateway: GatewaySettings) -> Iterator[tuple[str, str]]:
    """What protects callers' keys and prompts on their way."""
    if gateway.tls not in ("", "local"):
        yield "tls", f'{gateway.tls!r}: "local" takes a certificate of the home\'s own authority; "" is none'
    elif gateway.tls and (gateway.tls_cert or gateway.tls_key):
        yield "tls", "is a certificate of our own; leave out tls, or tls_cert and tls_key"
    elif gateway.tls_cert and not gateway.tls_key:
        yield "tls_cert", "its key is missing: set tls_key too"
    elif gateway.tls_key and not gateway.tls_cert:
        yield "tls_key", "its certificate is missing: set tls_cert too"
    elif gateway.tls_cert:
        yield from _files(gateway)
    elif _is_host(gateway.host) and not gateway.tls and not gateway.insecure and not is_loopback(gateway.host):
        yield (
            "host",
            f"{gateway.host} can be reached by others, and keys and prompts would cross the network in the clear: set "
            'tls = "local", or tls_cert and tls_key, or insecure = true where something before it speaks TLS',
        )
    for origin in gateway.cors_origins:
        if not _ORIGIN.fullmatch(origin):
            yield "cors_origins", f"{origin!r} is not an exact origin, like https://app.example.com: no path, no *"


def _files(gateway: GatewaySettings) -> Iterator[tuple[str, str]]:
    import time

    from control_plane.trust.certificate import server_problems

    for which, message in server_problems(Path(gateway.tls_cert), Path(gateway.tls_key), gateway.host, time.time()):
        yield f"tls_{which}", message


def _pools(pools: tuple[PoolSettings, ...]) -> Iterator[Problem]:
    names: dict[str, int] = {}
    models: dict[str, int] = {}
    gpu_owner: dict[int, int] = {}
    for index, pool in enumerate(pools):
        path: KeyPath = ("pool", index)
        yield from ((path + key, message) for key, message in _pool(pool))
        if pool.name in names:
            yield (*path, "name"), f"pool {pool.name!r} is there twice (also pool[{names[pool.name]}])"
        names.setdefault(pool.name, index)
        if pool.model in models:
            yield (*path, "model"), f"model {pool.model!r} is served by pool[{models[pool.model]}] already"
        models.setdefault(pool.model, index)
        for gpu in pool.gpus if pool.gpus != "auto" else ():
            if gpu_owner.setdefault(gpu, index) != index:
                yield (*path, "gpus"), f"GPU {gpu} belongs to pool[{gpu_owner[gpu]}] already"


def _pool(pool: PoolSettings) -> Iterator[Problem]:
    if not _NAME.fullmatch(pool.name):
        yield ("name",), f"{pool.name!r} is not a name: lower-case letters, digits and inner hyphens, at most 40"
    if not pool.model.strip() or not pool.model.isprintable() or len(pool.model) > MODEL_CHARACTERS:
        yield ("model",), f"a model name of 1 to {MODEL_CHARACTERS} characters that can be printed is needed"
    if not pool.source:
        yield ("source",), "a folder, a hub id or builtin:smollm2-135m is needed"
    elif pool.engine == "vllm" and (fault := source_fault(pool.source)):
        yield ("source",), f"{fault.message}; {fault.hint}" if fault.hint else fault.message
    if pool.engine not in ENGINES:
        yield ("engine",), f"unknown engine {pool.engine!r}; known are {', '.join(ENGINES)}"
    if pool.dtype not in _DTYPES:
        yield ("dtype",), f"unknown dtype {pool.dtype!r}; known are {', '.join(_DTYPES)}"
    if not 0 <= pool.replicas <= 1000:
        yield ("replicas",), "0 to 1000"
    if not 0 <= pool.max_context <= MOST_CONTEXT:
        yield ("max_context",), f"tokens, at most {MOST_CONTEXT:,}, or 0 for what the model allows"
    if not 1 <= pool.tensor_parallel <= MOST_TENSOR_PARALLEL:
        yield ("tensor_parallel",), f"1 to {MOST_TENSOR_PARALLEL}"
    if pool.kv_memory > MOST_BYTES:
        yield ("kv_memory",), "1 PiB is the most"
    if pool.stall_timeout_s and not LEAST_STALL_S <= pool.stall_timeout_s <= 86_400:
        yield ("stall_timeout_s",), f"{LEAST_STALL_S:g} to 86400 seconds, or 0 for never"
    if not 0 <= pool.price_per_hour <= MOST_PRICE:
        yield ("price_per_hour",), "what one worker costs an hour, or 0 where that is unknown"
    if not 0 <= pool.threads <= MOST_THREADS:
        yield ("threads",), f"0 to {MOST_THREADS}"
    if pool.gpus and pool.gpus != "auto":
        if any(gpu < 0 for gpu in pool.gpus):
            yield ("gpus",), "device indexes cannot be negative"
        elif len(set(pool.gpus)) < len(pool.gpus):
            yield ("gpus",), "a device is listed twice"
        elif pool.tensor_parallel * pool.replicas > len(pool.gpus):
            yield (
                ("gpus",),
                f"{pool.replicas} replicas of {pool.tensor_parallel} GPUs each (tensor_parallel) need "
                f"{pool.replicas * pool.tensor_parallel}, {len(pool.gpus)} are listed",
            )
