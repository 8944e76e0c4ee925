"""Compile the simulator's core (``workers/engine/sim/core.py``) where that can be. It never fails: it says what it did.

It needs a C compiler and Python's headers. mypyc comes from the environment if it is there, else into a folder of its
own that is gone afterwards. usage: .venv/bin/python .ci/compile_core.py
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / ".ci/locks/dev.txt"
TOOLS = ("ast_serialize", "librt", "mypy", "mypy_extensions", "pathspec")
LIMIT_S = 300.0

sys.path.insert(0, str(ROOT))
from workers.engine.sim import core  # noqa: E402


def main() -> None:
    folder = core.folder()
    if folder.is_dir():
        print("the simulator's core is compiled", file=sys.stderr)
        return
    problem = obstacle() or compiled(folder)
    said = f"runs as plain Python, with the same results: {problem}" if problem else "is compiled"
    print(f"the simulator's core {said}", file=sys.stderr)


def obstacle() -> str:
    """Why nothing can be compiled here, or nothing."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        return f"there is no C compiler ({compiler})"
    header = Path(sysconfig.get_paths()["include"], "Python.h")
    return "" if header.is_file() else f"there are no headers of Python ({header})"


def compiled(folder: Path) -> str:
    """Fill the folder, all at once; or say why not."""
    log = Path(sys.prefix, "compile-core.log")
    try:
        folder.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch, log.open("w") as heard:
            tools, made = Path(scratch, "tools"), Path(scratch, "made")

            def run(*words: str) -> None:
                env = {**os.environ, "PYTHONPATH": str(tools)}
                command = [sys.executable, *words]
                subprocess.run(command, cwd=ROOT, env=env, stdout=heard, stderr=heard, timeout=LIMIT_S, check=True)

            if importlib.util.find_spec("mypyc") is None:
                wanted = [line for line in LOCK.read_text().split() if line.partition("==")[0] in TOOLS]
                run("-m", "pip", "--disable-pip-version-check", "install", "--no-deps", "--target", str(tools), *wanted)
            run(__file__, scratch)
            built = made / "workers/engine/sim"
            for old in folder.parent.glob(f"{core.PLATFORM}-*"):
                shutil.rmtree(old, ignore_errors=True)
            built.rename(folder)
            run("-c", "import workers.engine.sim.virtual")
    except (OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        return f"compiling it failed ({type(error).__name__}; see {log})"
    return ""


def build(scratch: str) -> None:
    """In a process of its own: mypyc's and the C compiler's part."""
    from mypyc.build import mypycify
    from setuptools import setup

    sources = [str((core.HERE / f"{name}.py").relative_to(ROOT)) for name in core.MODULES]
    # The core reads no arrays, and numpy's own types take longer to read than all the rest.
    config = Path(scratch, "mypy.ini")
    config.write_text("[mypy]\n[mypy-numpy.*]\nfollow_imports = skip\nfollow_imports_for_stubs = True\n")
    options = [f"--config-file={config}", f"--cache-dir={scratch}/cache", "--strict", "--follow-imports=silent"]
    setup(
        name="core",
        packages=[],
        ext_modules=mypycify(
            [*options, "--ignore-missing-imports", *sources],
            group_name="workers.engine.sim.core",
            target_dir=f"{scratch}/c",
            debug_level="0",
        ),
        script_args=["build_ext", "--parallel=2", f"--build-lib={scratch}/made", f"--build-temp={scratch}/objects"],
    )


if __name__ == "__main__":
    build(sys.argv[1]) if sys.argv[1:] else main()
