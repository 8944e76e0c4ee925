"""What decides how the simulated scheduler schedules: vLLM's own settings, under vLLM's own names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from control_plane.contracts.errors import SettingsError

Policy = Literal["fcfs", "priority"]


@dataclass(frozen=True)
class SchedulerConfig:
    """Defaults are vLLM 0.32's (``vllm/config/scheduler.py``). Raises SettingsError for what vLLM refuses at start.

    ``total_blocks`` are those that requests can have; vLLM's ``num_gpu_blocks`` counts one more, its placeholder.
    ``block_size``, ``max_num_batched_tokens``, ``max_model_len`` and the threshold are tokens; ``watermark`` is the
    fraction of the pool kept free when a request is admitted beside others. With ``async_scheduling`` a step is decided
    while the one before it runs, which is vLLM's own default on GPUs and not on a CPU.
    """

    block_size: int
    total_blocks: int
    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    policy: Policy = "fcfs"
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    long_prefill_token_threshold_adaptive: bool = False
    scheduler_reserve_full_isl: bool = True
    watermark: float = 0.0
    async_scheduling: bool = False

    def __post_init__(self) -> None:
        for name in ("block_size", "total_blocks", "max_num_seqs", "max_num_batched_tokens", "max_model_len"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} must be at least 1, not {getattr(self, name)}", param=name)
        if self.policy not in ("fcfs", "priority"):
            raise SettingsError(f"policy must be fcfs or priority, not {self.policy!r}", param="policy")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise SettingsError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) must be at least max_num_seqs "
                f"({self.max_num_seqs})",
                param="max_num_batched_tokens",
                hint="every running request wants a token in each step",
            )
        if not self.enable_chunked_prefill and self.max_num_batched_tokens < self.max_model_len:
            raise SettingsError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) is less than max_model_len "
                f"({self.max_model_len}), and prompts are not chunked",
                param="max_num_batched_tokens",
                hint="raise it, or set enable_chunked_prefill",
            )
        if not 0 <= self.long_prefill_token_threshold <= self.max_model_len:
            raise SettingsError(
                f"long_prefill_token_threshold must be 0 to max_model_len ({self.max_model_len}), not "
                f"{self.long_prefill_token_threshold}",
                param="long_prefill_token_threshold",
            )
        if not 0.0 <= self.watermark < 1.0:
            raise SettingsError(f"watermark must be 0 or more and below 1, not {self.watermark}", param="watermark")
        if self.total_blocks * self.block_size < self.max_model_len:
            raise SettingsError(
                f"{self.total_blocks} blocks of {self.block_size} tokens cannot hold one request of max_model_len "
                f"({self.max_model_len})",
                param="total_blocks",
                hint=f"lower max_model_len to {self.total_blocks * self.block_size}, or give more KV memory",
            )

    @property
    def depth(self) -> int:
        """Steps that may be scheduled and not complete: the ``max_concurrent_batches`` of one pipeline stage."""
        return 2 if self.async_scheduling else 1

    @property
    def watermark_blocks(self) -> int:
        """vLLM takes the fraction of its own count, placeholder included."""
        return int(self.watermark * (self.total_blocks + 1))
