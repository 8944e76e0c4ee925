"""What the engine is made of, from its settings: what nobody says follows from the profile."""

from __future__ import annotations

from control_plane.contracts.errors import SettingsError
from control_plane.contracts.worker import ModelInfo
from workers.engine.modelless.nap import Nap
from workers.engine.sim.config import SchedulerConfig
from workers.engine.sim.profile import Profile
from workers.engine.sim.settings import SimSettings


def scheduler_config(
    settings: SimSettings, profile: Profile, max_context: int = 0, kv_bytes: int = 0
) -> SchedulerConfig:
    """``max_context`` in tokens and ``kv_bytes`` are the pool's, 0 for what there is.

    A context that was not asked for is cut to what the blocks hold. Raises SettingsError.
    """
    defaults = profile.defaults
    blocks = settings.total_blocks or profile.blocks(kv_bytes)
    asked = settings.max_model_len or max_context
    if asked > profile.context:
        raise SettingsError(
            f"max_model_len {asked:,} is beyond {profile.model}, which was made for {profile.context:,} tokens",
            param="max_model_len",
            hint=f"max_context = {profile.context}",
        )
    context = asked or min(profile.context, blocks * defaults.block_size)
    if settings.scheduling_policy not in ("fcfs", "priority"):
        raise SettingsError(
            f"scheduling_policy must be fcfs or priority, not {settings.scheduling_policy!r}",
            param="engine_args.scheduling_policy",
        )
    return SchedulerConfig(
        block_size=defaults.block_size,
        total_blocks=blocks,
        max_num_seqs=defaults.max_num_seqs,
        max_num_batched_tokens=defaults.max_num_batched_tokens,
        max_model_len=context,
        policy="priority" if settings.scheduling_policy == "priority" else "fcfs",
        enable_prefix_caching=settings.enable_prefix_caching,
        enable_chunked_prefill=settings.enable_chunked_prefill,
        long_prefill_token_threshold=settings.long_prefill_token_threshold,
        watermark=settings.watermark,
        async_scheduling=settings.async_scheduling,
    )


def model_info(name: str, profile: Profile, config: SchedulerConfig, vocab_size: int) -> ModelInfo:
    return ModelInfo(
        name=name,
        source=f"sim:{profile.name}",
        dtype=profile.dtype,
        max_context=config.max_model_len,
        vocab_size=vocab_size,
        block_size=config.block_size,
        total_blocks=config.total_blocks,
        kv_bytes=(config.total_blocks + 1) * profile.block_bytes,
        tensor_parallel=profile.tensor_parallel,
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
    )


def nap_of(profile: Profile, speed: float) -> Nap:
    """Weights that were discarded come back as if their file were in the host's memory."""
    if profile.host_copy_s is None:
        return Nap(problem=f"{profile.name} was measured, and not how long its weights take to the host and back")
    return Nap(profile.host_copy_s / speed, profile.host_copy_s / speed)
