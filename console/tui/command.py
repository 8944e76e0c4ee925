"""The ``:`` line: what was typed, as a command; and how it could go on. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from control_plane.contracts.fleet import Snapshot

Completer = Callable[[Snapshot], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Command:
    """A verb, and what it is applied to; ``number`` is what stands after ``=``."""

    verb: str
    target: str = ""
    number: int | None = None


class BadCommand(Exception):
    """What is wrong with the line, and what would be right."""


@dataclass(frozen=True, slots=True)
class Spec:
    help: str
    argument: str = ""
    optional: bool = False
    completer: Completer | None = None
    elsewhere: str = ""
    """The command of a terminal that does more than this, which only shows."""


def _workers(snapshot: Snapshot) -> list[str]:
    return [worker.id for worker in snapshot.workers]


def _active_requests(snapshot: Snapshot) -> list[str]:
    return [request.id for request in snapshot.requests if request.phase.active]


def _requests(snapshot: Snapshot) -> list[str]:
    return [request.id for request in snapshot.requests]


def log_targets(snapshot: Snapshot) -> list[str]:
    """Everything whose log can be read, as ``:logs`` takes it."""
    gateways = [f"gateway/{gateway.id}" for gateway in snapshot.gateways]
    routers = [f"router/{router.id}" for router in snapshot.routers]
    return [*(f"worker/{name}" for name in _workers(snapshot)), *gateways, *routers, "control-plane"]


def _scales(snapshot: Snapshot) -> list[str]:
    return [f"{pool.name}={pool.desired}" for pool in snapshot.pools]


COMMANDS: dict[str, Spec] = {
    "workers": Spec("the system: picture, workers, plots"),
    "requests": Spec("requests that run, and those that ended lately"),
    "pools": Spec("pools, models, gateways and routers"),
    "events": Spec("what happened"),
    "keys": Spec("callers' keys: tenant, tier, limits, state", elsewhere="inferdeck key"),
    "decisions": Spec("where requests were sent, and why"),
    "policy": Spec("tiers, tenants, routing: every part of the policy", elsewhere="inferdeck policy set"),
    "logs": Spec("a log, followed: worker/ID, gateway/ID, router/ID, control-plane", "worker/ID", True, log_targets),
    "worker": Spec("one worker", "ID", False, _workers),
    "engine": Spec("a worker's engine, step by step, and its KV blocks", "ID", False, _workers),
    "request": Spec("one request", "ID", False, _requests),
    "explain": Spec("why a request went where it went, and not elsewhere", "ID", False, _requests),
    "drain": Spec("cordon a worker, and wait until nothing runs on it", "ID", False, _workers),
    "cordon": Spec("no new requests for a worker", "ID", False, _workers),
    "uncordon": Spec("new requests for a worker again", "ID", False, _workers),
    "scale": Spec("how many workers a pool should have", "POOL=N", False, _scales),
    "cancel": Spec("end a request", "ID", False, _active_requests),
    "pause": Spec("freeze the view, or let it go on"),
    "help": Spec("keys and commands"),
    "quit": Spec("leave the console"),
}
ALIASES = {
    "q": "quit",
    "q!": "quit",
    "exit": "quit",
    "w": "workers",
    "wo": "workers",
    "system": "workers",
    "fleet": "workers",
    "r": "requests",
    "rq": "requests",
    "steps": "engine",
    "models": "pools",
    "gateways": "pools",
    "routers": "pools",
    "e": "events",
    "ev": "events",
    "k": "keys",
    "dec": "decisions",
    "why": "explain",
    "tiers": "policy",
    "tenants": "policy",
    "routing": "policy",
    "log": "logs",
    "l": "logs",
    "h": "help",
    "?": "help",
}


def parse(line: str) -> Command:
    """The command that a line means. Raises BadCommand; an empty line is one too."""
    words = line.strip().removeprefix(":").lstrip().removeprefix("inferdeck ").split(maxsplit=1)
    if not words:
        raise BadCommand("type a command, or ? for the list")
    verb = ALIASES.get(words[0], words[0])
    spec = COMMANDS.get(verb)
    if spec is None:
        near = [name for name in COMMANDS if name.startswith(verb)]
        if len(near) != 1:
            raise BadCommand(f"no command {words[0]!r}: try " + ", ".join(near or list(COMMANDS)[:5]))
        verb, spec = near[0], COMMANDS[near[0]]
    rest = words[1].strip() if len(words) > 1 else ""
    if rest and not spec.argument:
        more = f"; in a terminal, {spec.elsewhere} changes something" if spec.elsewhere else ""
        raise BadCommand(f":{verb} takes nothing after it{more}")
    if not rest and spec.argument and not spec.optional:
        raise BadCommand(f":{verb} {spec.argument}")
    if verb == "scale":
        pool, equals, number = rest.partition("=")
        if not equals or not pool.strip() or not (number.strip().isascii() and number.strip().isdigit()):
            raise BadCommand(":scale POOL=N, for example :scale smollm2=3")
        return Command(verb, pool.strip(), int(number))
    return Command(verb, rest)


def completions(line: str, snapshot: Snapshot | None) -> list[str]:
    """Whole lines that begin with this one, best first."""
    verb, space, rest = line.lstrip().partition(" ")
    if not space:
        return [name + (" " if spec.argument else "") for name, spec in COMMANDS.items() if name.startswith(verb)]
    spec = COMMANDS.get(ALIASES.get(verb, verb))
    if spec is None or spec.completer is None or snapshot is None:
        return []
    rest = rest.lstrip()
    return [f"{verb} {candidate}" for candidate in spec.completer(snapshot) if candidate.startswith(rest)]
