"""All checks, in the order in which a person wants to read them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from console.doctor import access, limits, machine, places, routers, security, software
from console.doctor.finding import Finding, fail, ok, warn
from console.doctor.settings import Settings, read_settings
from console.figures import plural
from console.home import Home, shown_path
from control_plane.contracts.paths import expanded
from control_plane.contracts.vllm_build import is_cpu_build


def examine(home: Home, config: Path | None, *, quick: bool) -> tuple[list[Finding], Settings]:
    """``quick`` leaves out the import of vLLM, which takes seconds."""
    settings = read_settings(home, config)
    arguments = _engine_arguments(settings)
    probe = None if quick or not _has_vllm() else software.VllmProbe(arguments=bool(arguments))
    pools = settings.pools
    needs_vllm = any(pool.get("engine") == "vllm" for pool in pools) or bool(settings.error)
    vllm = probe.finding(needed=needs_vllm) if probe else software.vllm_installed(needed=needs_vllm)
    cache = expanded(str(settings.get("cache", "~/.cache/inferdeck")))
    found = [
        machine.cores(),
        software.python(),
        software.packages(),
        vllm,
        software.simulator(),
        *software.unknown_arguments(arguments, probe.known if probe else ()),
        software.gpu_finding(software.gpus(), _wanted_gpus(pools), cpu_build=is_cpu_build()),
        # Workers that run have their memory already.
        machine.memory([] if settings.running else pools),
        machine.disk("disk", home.path),
        machine.open_files(),
        _config(settings, home),
        places.home_folder(home),
        places.keys(home),
        places.platform(home),
        *access.home_key(home),
    ]
    if not settings.error:
        ours = _our_ports(home)
        found += [
            machine.port(name, str(settings.get(f"{name}.host")), int(settings.get(f"{name}.port")), ours=ours)
            for name in ("gateway", "api")
        ]
        if replicas := int(settings.get("router.replicas", 0)):
            found.append(
                machine.port("router", str(settings.get("router.host")), int(settings.get("router.port")), ours=ours)
            )
        found.append(routers.routers(home, replicas))
        found.append(limits.limits(str(settings.get("limits.url", "")), int(settings.get("gateway.replicas", 1))))
        found += [security.https(settings), security.mutual_tls(settings), *security.certificates(home)]
        found += [machine.disk("model cache", cache), *(places.model(pool, cache) for pool in pools)]
    return found, settings


def _config(settings: Settings, home: Home) -> Finding:
    if settings.error:
        return fail("config", settings.error, settings.hint or "correct the settings")
    chosen = [setting for setting in settings.settings if setting.source not in ("default", "--home")]
    where = shown_path(Path(settings.path)) if settings.path else "defaults"
    words = f"{where}, {plural(len(chosen), 'setting')} chosen" if chosen else where
    if not settings.running:
        return ok("config", words)
    if settings.edited:
        again = f"{home.up_command('down')}, then {home.up_command()} --config {where}"
        named = ", ".join(settings.edited[:3]) + (", …" if len(settings.edited) > 3 else "")
        return warn("config", f"{words}, in force; the file says otherwise by now: {named}", again)
    return ok("config", f"{words}, in force")


def _engine_arguments(settings: Settings) -> list[tuple[str, str]]:
    """Those that somebody chose for vLLM pools: where, and the name."""
    return [
        (row.source, name)
        for row in settings.settings
        if row.key.endswith("].engine_args") and row.source != "default"
        if settings.get(row.key.replace("].engine_args", "].engine")) == "vllm"
        for name in row.value
    ]


def _wanted_gpus(pools: list[dict[str, object]]) -> list[int] | str:
    wanted: list[int] = []
    for pool in pools:
        gpus = pool.get("gpus")
        if isinstance(gpus, str):
            return gpus
        if isinstance(gpus, list):
            wanted += [int(index) for index in gpus]
    return wanted


def _our_ports(home: Home) -> set[int]:
    ports = {urlsplit(url).port for url in home.gateway_urls()}
    ports |= {int(port) for address in home.router_addresses() if (port := address.rpartition(":")[2]).isdecimal()}
    if (state := home.running()) is not None:
        ports.add(int(state.api_address.rpartition(":")[2]))
    return {port for port in ports if port is not None}


def _has_vllm() -> bool:
    return software.vllm_installed(needed=False).hint == ""
