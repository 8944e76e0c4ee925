"""What ``engine_args`` may say to the scripted engine. Times are seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from workers.engine.modelless.arguments import read_arguments


@dataclass(frozen=True, slots=True)
class ScriptedSettings:
    """Every key is optional.

    ``tokens`` is the length of an answer that nothing else bounds, ``delay_s`` the engine's common step, ``prefill_s``
    and ``prefill_s_per_token`` (of uncached prompt tokens) the time to the first token, ``start_s`` how long loading
    takes, ``sleep_s`` how long falling asleep at level 1, ``wake_s`` how long waking. ``tokenizer_dir`` is a folder
    with a byte-level tokenizer. ``trace_path`` is a file that gets one JSON line per event (submit, first, abort, end)
    with its ``time.monotonic()``. ``exit_process`` False turns the death of the process into the death of the engine,
    for servers that live in somebody else's process.
    """

    tokens: int = 16
    delay_s: float = 0.005
    prefill_s: float = 0.0
    prefill_s_per_token: float = 0.0
    start_s: float = 0.0
    sleep_s: float = 0.0
    wake_s: float = 0.0
    fail_start: str = ""
    total_blocks: int = 1024
    block_size: int = 16
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    max_context: int = 4096
    tokenizer_dir: str = ""
    trace_path: str = ""
    exit_process: bool = True

    @classmethod
    def read(cls, engine_args: dict[str, Any]) -> Self:
        settings = read_arguments(cls, engine_args, "scripted")
        if settings.total_blocks * settings.block_size < settings.max_context:
            room = settings.total_blocks * settings.block_size
            settings = cls(**{**engine_args, "max_context": room})
        return settings
