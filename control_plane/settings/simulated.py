"""Pools without a model: what a simulated pool is, and how any pool becomes one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, Final

from control_plane.contracts.errors import NotFound, SettingsError
from control_plane.contracts.sizing.catalogue import published_model
from control_plane.settings.model import PoolSettings, Settings

ENGINE: Final = "sim"
DEFAULT_PROFILE: Final = "h100-llama-3.1-8b"
_GPU: Final = "h100"

_KEPT: Final = (
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_model_len",
    "block_size",
    "gpu_memory_utilization",
    "scheduling_policy",
    "enable_prefix_caching",
    "enable_chunked_prefill",
    "long_prefill_token_threshold",
)
"""Engine arguments that mean the same to vLLM and to the simulator."""


def simulated(settings: Settings, profile: str = "") -> Settings:
    """The same platform with every vLLM pool simulated; one whole pool of ``profile`` where no file was read.

    Without a profile a file's pool is simulated on an H100. Raises SettingsError for a model that is not known,
    and for a profile that no pool would have.
    """
    if settings.path is None:
        name = profile or DEFAULT_PROFILE
        return replace(settings, pools=(simulated_pool({"profile": name}),))
    if profile and settings.pools and not any(pool.engine == "vllm" for pool in settings.pools):
        raise SettingsError(
            f"no pool of {settings.path} runs vLLM: a profile for them is to be written there",
            param="profile",
            hint=f'engine_args = {{profile = "{profile}"}}',
        )
    changed = {pool.name for pool in settings.pools if pool.engine == "vllm"}
    return replace(
        settings,
        pools=tuple(_simulated(pool, profile) if pool.name in changed else pool for pool in settings.pools),
        written={name: places for name, places in settings.written.items() if name not in changed},
    )


def simulated_pool(engine_args: Mapping[str, Any]) -> PoolSettings:
    """What a simulated pool is where nothing else is said: its model is called after the profile."""
    arguments = dict(engine_args)
    if not arguments.get("gpu") and not arguments.get("model_shape"):
        arguments.setdefault("profile", DEFAULT_PROFILE)
    name = profile_label(arguments)
    return PoolSettings(
        name=ENGINE,
        model=name,
        source=f"{ENGINE}:{name}",
        engine=ENGINE,
        max_context=0,
        kv_memory=0,
        engine_args=arguments,
    )


def profile_label(engine_args: Mapping[str, Any]) -> str:
    """What is simulated, in a word: the profile's name, or its file's, or the GPU and the model."""
    profile = engine_args.get("profile")
    if isinstance(profile, str) and profile:
        return PurePosixPath(profile).name.removesuffix(".toml").lower()
    return f"{engine_args.get('gpu', '?')}-{engine_args.get('model_shape', '?')}".lower()


def _simulated(pool: PoolSettings, profile: str) -> PoolSettings:
    if not profile:
        known = PurePosixPath(pool.source.removeprefix("builtin:").rstrip("/")).name
        try:
            profile = f"{_GPU}-{published_model(known).name}".lower()
        except NotFound:
            raise SettingsError(
                f"pool {pool.name}: {known!r} cannot be simulated without a profile",
                param="profile",
                hint=f"--profile {DEFAULT_PROFILE}",
            ) from None
    kept = {name: value for name, value in pool.engine_args.items() if name in _KEPT}
    return replace(
        pool,
        engine=ENGINE,
        source=f"{ENGINE}:{profile_label({'profile': profile})}",
        gpus=(),
        engine_args={"profile": profile, **kept},
    )
