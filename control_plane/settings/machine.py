"""What settings ask for that this machine can never give, asked before anything starts.

Not a rule of the settings themselves: the same file may be right elsewhere, or simulated here.
"""

from __future__ import annotations

from collections.abc import Iterator

from control_plane.contracts.errors import SettingsError
from control_plane.contracts.model_source import offline_fault
from control_plane.contracts.vllm_build import is_cpu_build
from control_plane.settings.model import PoolSettings, Settings


def check_machine(settings: Settings) -> None:
    """Raises SettingsError with a line per problem, like the reader of a file."""
    lines: list[str] = []
    hints: list[str] = []
    first = ""
    for index, pool in enumerate(settings.pools):
        written = settings.written.get(pool.name, {})
        for key, message, hint in _problems(pool):
            place = written.get(key) or written.get("", "")
            name = f"pool[{index}].{key}"
            lines.append(f"{place}: {name}: {message}" if place else f"{name}: {message}")
            hints.append(hint)
            first = first or name
    if lines:
        raise SettingsError("\n".join(lines), param=first, hint=hints[0])


def _problems(pool: PoolSettings) -> Iterator[tuple[str, str, str]]:
    """Key, message and hint."""
    if pool.engine != "vllm" or not pool.replicas:
        return
    if fault := offline_fault(pool.source, pool.offline):
        yield "source", fault.message, fault.hint
    if pool.gpus and is_cpu_build():
        yield "gpus", "the pool asks for GPUs, and vLLM here is the CPU build", ".ci/install gpu, or set gpus = []"
