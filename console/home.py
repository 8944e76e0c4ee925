"""The folder where a platform keeps its state, keys, logs and announcements: ``$INFERDECK_HOME``.

Read only: the control plane writes ``state.json`` and the keys. Nothing here imports gRPC, so a command that finds
no platform says so at once.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields, replace
from pathlib import Path

from console.leftovers import Leftover, control_plane_of, leftovers
from control_plane.contracts.addresses import is_loopback
from control_plane.contracts.errors import InvalidRequest, Unauthenticated, Unavailable
from control_plane.contracts.home import Home as HomeFolder
from control_plane.contracts.paths import expanded
from control_plane.contracts.worker_spec import start_ticks


class Unreachable(Unavailable):
    """Nothing answers where a control plane or a gateway should be."""


class Distrusted(Unreachable):
    """Something answers, and one of the two ends does not take the other for what it says to be."""


@dataclass(frozen=True, slots=True)
class State:
    """What a running control plane says of itself in ``state.json``."""

    pid: int
    start_ticks: int
    control_plane_id: str
    api_address: str
    gateway_urls: tuple[str, ...]
    api_key_path: str
    operator_key_path: str
    config: str = ""
    version: str = ""
    started_unix: float = 0.0
    log_path: str = ""
    api_secure: bool = False
    operator_credentials: str = ""
    gateway_ca: str = ""
    gateway_certificate: str = ""

    @property
    def alive(self) -> bool:
        return start_ticks(self.pid) == self.start_ticks != 0


@dataclass(frozen=True, slots=True)
class Target:
    """Where the operators' API is, the key that opens it, and how a person would name the place. ``credentials`` is the
    file that proves an operator where the API speaks mutual TLS, else empty; ``home`` is where all this was found."""

    address: str
    operator_key: str
    context: str
    credentials: str = ""
    home: Home | None = None

    def __repr__(self) -> str:
        return f"Target({self.address!r}, {self.context!r})"


@dataclass(frozen=True, slots=True)
class Home:
    path: Path

    @classmethod
    def find(cls, path: str | os.PathLike[str] | None = None) -> Home:
        """The home that was named, else ``$INFERDECK_HOME``, else ``~/.inferdeck``."""
        return cls(HomeFolder.resolve(path).root)

    @property
    def folder(self) -> HomeFolder:
        """Where what lies in it."""
        return HomeFolder(self.path)

    @property
    def state_path(self) -> Path:
        return self.folder.state

    @property
    def settings_path(self) -> Path:
        """What the last control plane ran with."""
        return self.folder.settings

    @property
    def api_key_path(self) -> Path:
        return self.folder.api_key

    def own_key_path(self) -> Path:
        """The API key that the home's own callers have, where the control plane says it is."""
        state = self.state()
        return Path(state.api_key_path) if state is not None and state.api_key_path else self.api_key_path

    @property
    def operator_key_path(self) -> Path:
        return self.folder.operator_key

    @property
    def log_path(self) -> Path:
        return self.folder.log("control-plane")

    @property
    def shown(self) -> str:
        """The path as a person would type it."""
        return shown_path(self.path)

    def state(self) -> State | None:
        """What the last control plane wrote, whether or not it still runs; None where there is nothing readable."""
        try:
            values = json.loads(self.state_path.read_text())
            known = {field.name for field in fields(State)}
            values = {name: value for name, value in values.items() if name in known}
            return State(**{**values, "gateway_urls": tuple(values["gateway_urls"])})
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def running(self) -> State | None:
        """The state of the control plane that runs now, if one does."""
        state = self.state()
        return state if state is not None and state.alive else None

    def unannounced(self) -> Leftover | None:
        """A control plane that lives and of which no readable state says so: it only starts, or the file was lost."""
        return control_plane_of(self.folder) if self.running() is None else None

    def leftovers(self) -> list[Leftover]:
        """What runs of the platform beside the control plane, or without it."""
        state = self.state()
        return leftovers(self.folder, state.pid if state is not None else 0)

    def gateway_urls(self) -> list[str]:
        """Where the platform's gateways listen, with or without a control plane."""
        state = self.running()
        if state is not None:
            return list(state.gateway_urls)
        return [entry.url for entry in self.leftovers() if "://" in entry.url]

    def router_addresses(self) -> list[str]:
        """Where routers that are processes of their own listen, HOST:PORT, with or without a control plane."""
        return [entry.url for entry in self.leftovers() if entry.name.startswith("router/") and entry.url]

    def absent(self) -> Unreachable:
        """The error that says what runs where no control plane does."""
        if (living := self.unannounced()) is not None:
            return Unreachable(
                f"the control plane of {self.shown} (pid {living.pid}) says nowhere where it listens: it "
                "starts, or its state.json was lost",
                hint=self.without(living.pid),
            )
        left = self.leftovers()
        if not left:
            return Unreachable(f"no platform is running in {self.shown}", hint=self.up_command())
        names = ", ".join(entry.name for entry in left)
        return Unreachable(
            f"the control plane of {self.shown} is gone; still running: {names}",
            hint=f"{self.up_command()} takes them over, {self.up_command('down')} ends them",
        )

    def up_command(self, verb: str = "up") -> str:
        """The command that acts on this home, as a hint."""
        default = Home.find().path == self.path
        return f"inferdeck {verb}" if default else f"inferdeck {verb} --home {self.shown}"

    def without(self, pid: int) -> str:
        """The ways out of a control plane that lives and cannot be asked, as a hint."""
        return (
            f"gateways and workers serve on: kill -9 {pid}, then {self.up_command()} takes them over; "
            f"{self.up_command('down')} ends all"
        )

    def target(self) -> Target:
        """Where this home's control plane listens. Raises Unreachable when none runs, Unauthenticated without a key."""
        state = self.running()
        if state is None:
            raise self.absent()
        key = read_key(Path(state.operator_key_path or self.operator_key_path))
        credentials = state.operator_credentials if state.api_secure else ""
        return Target(state.api_address, key, f"{self.shown} ({state.api_address})", credentials, self)


def shown_path(path: Path) -> str:
    home = str(Path.home())
    text = str(path)
    return "~" + text[len(home) :] if home != "/" and (text == home or text.startswith(home + "/")) else text


_LONGEST_KEY = 4096
"""What goes beside a call over gRPC may be 8 KiB; one that brings more is refused without a word of who is calling."""


def read_key(path: Path, hint: str = "") -> str:
    """The key in a one-line file. Raises Unauthenticated, with the hint, when there is none."""
    try:
        key = expanded(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not text"
        raise Unauthenticated(f"no key can be read from {shown_path(path)}: {why}", hint=hint) from error
    if not 0 < len(key) <= _LONGEST_KEY or not key.isascii() or not key.isprintable() or " " in key:
        raise Unauthenticated(
            f"{shown_path(path)} does not hold a key: one line of printable ASCII is expected", hint=hint
        )
    return key


def target_for(
    home: Home, server: str | None = None, operator_key_file: str | None = None, operator_cert_file: str | None = None
) -> Target:
    """The target that ``--server``, ``--operator-key-file`` and ``--operator-cert-file`` name, else the home's own.

    What is not on this machine is never talked to in the clear.
    """
    if server is None:
        target = home.target()
        key = target.operator_key if operator_key_file is None else read_key(Path(operator_key_file))
        return replace(target, operator_key=key, credentials=operator_cert_file or target.credentials)
    host, colon, port = server.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise InvalidRequest(f"--server {server!r} is not HOST:PORT, for example 127.0.0.1:8090", param="server")
    path = Path(operator_key_file) if operator_key_file else home.operator_key_path
    state = home.running()
    own = state is not None and state.api_secure and state.api_address == server
    credentials = operator_cert_file or ""
    if not credentials and (own or not is_loopback(host)):
        credentials = str(home.folder.tls / "peers" / "operator.pem")
    return Target(server, read_key(path), server, credentials)
