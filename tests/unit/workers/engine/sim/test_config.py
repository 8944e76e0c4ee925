from __future__ import annotations

from typing import Any

import pytest

from control_plane.contracts.errors import SettingsError
from workers.engine.sim.config import SchedulerConfig

GOOD: dict[str, Any] = {
    "block_size": 16,
    "total_blocks": 64,
    "max_num_seqs": 8,
    "max_num_batched_tokens": 256,
    "max_model_len": 1024,
}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("block_size", 0),
        ("max_num_seqs", 0),
        ("max_num_batched_tokens", 7),
        ("enable_chunked_prefill", False),
        ("policy", "lottery"),
        ("long_prefill_token_threshold", 1025),
        ("long_prefill_token_threshold", -1),
        ("watermark", 1.0),
        ("total_blocks", 63),
    ],
)
def test_what_vllm_refuses_at_start_is_refused(field: str, value: Any) -> None:
    SchedulerConfig(**GOOD)
    with pytest.raises(SettingsError) as refused:
        SchedulerConfig(**{**GOOD, field: value})
    assert refused.value.param == ("max_num_batched_tokens" if field == "enable_chunked_prefill" else field)


def test_a_pool_too_small_for_one_request_says_what_would_fit() -> None:
    with pytest.raises(SettingsError) as refused:
        SchedulerConfig(**{**GOOD, "total_blocks": 10})
    assert "160" in refused.value.hint


def test_the_watermark_counts_the_placeholder_as_vllm_does() -> None:
    assert SchedulerConfig(**{**GOOD, "total_blocks": 99, "watermark": 0.1}).watermark_blocks == 10
