"""What ``engine_args`` may say to the simulator, by vLLM's names where vLLM has the argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from control_plane.contracts.errors import InvalidRequest, SettingsError
from control_plane.contracts.failure import Failure, read_failure
from workers.engine.modelless.arguments import read_arguments


@dataclass(frozen=True, slots=True)
class SimSettings:
    """Every key is optional; 0 and "" leave it to the profile.

    What is simulated is a ``profile`` (a name like ``h100-llama-3.1-8b-tp2``, or the path of a measured one's TOML
    file), or a ``gpu`` and a ``model_shape`` (names, as ``inferdeck plan`` knows them) with ``tensor_parallel``. With
    ``async_scheduling`` each step is decided while the one before it runs, as vLLM does on GPUs: the times that are
    told of steps overlap then. ``speed`` 2 runs twice as fast as the real thing would. ``output_tokens`` is the median
    length of an answer that nothing else bounds. ``tokenizer_dir`` is a folder with a byte-level tokenizer.
    ``failures`` happen by themselves, counted from the start (see ``contracts/failure.py``). With ``scripts`` a prompt
    may hold a script, which any caller can then use to shape its answer, inject failures, and end the worker.
    ``exit_process`` False turns the death of the process into the death of the engine.
    """

    profile: str = ""
    gpu: str = ""
    model_shape: str = ""
    tensor_parallel: int = 0
    gpu_memory_utilization: float = 0.0
    max_num_seqs: int = 0
    max_num_batched_tokens: int = 0
    max_model_len: int = 0
    block_size: int = 0
    total_blocks: int = 0
    scheduling_policy: str = "priority"
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    watermark: float = 0.0
    async_scheduling: bool = False
    speed: float = 1.0
    output_tokens: int = 128
    tokenizer_dir: str = ""
    failures: tuple[Any, ...] = ()
    scripts: bool = False
    exit_process: bool = True

    @classmethod
    def read(cls, engine_args: dict[str, Any]) -> Self:
        settings = read_arguments(cls, engine_args, "sim")
        for name in ("tensor_parallel", "max_num_seqs", "max_num_batched_tokens", "max_model_len", "block_size"):
            if getattr(settings, name) < 0:
                raise SettingsError(f"{name} can't be negative", param=f"engine_args.{name}")
        if not 0 < settings.speed <= 1e6:
            raise SettingsError(f"speed must be above 0, not {settings.speed}", param="engine_args.speed")
        if settings.output_tokens < 1:
            raise SettingsError("an answer has at least 1 token", param="engine_args.output_tokens")
        if not 0 <= settings.gpu_memory_utilization <= 1:
            raise SettingsError("a fraction 0 to 1", param="engine_args.gpu_memory_utilization")
        if settings.profile and (settings.gpu or settings.model_shape):
            raise SettingsError(
                "a profile names the GPU and the model already",
                param="engine_args.profile",
                hint="give profile, or gpu with model_shape",
            )
        return settings

    def planned(self) -> tuple[Failure, ...]:
        """Raises SettingsError for one that is none."""
        try:
            return tuple(read_failure(each) for each in self.failures)
        except InvalidRequest as error:
            raise SettingsError(error.message, param=f"engine_args.failures.{error.param}") from None
