"""What one router's prefix index holds of one worker: for operators, beside what the worker holds in truth.

Field names equal those of ``v1/operator.proto``; ``wire`` converts both ways.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KvBelief:
    """``blocks`` of instance ``instance_id`` are taken to be cached: by what it has told up to batch ``seq`` where
    ``told``, else by what was sent there. ``heard_unix``: when it told last, 0: never. ``gaps`` and ``lost`` are
    batches that were missed and made up for. ``unavailable``: why it tells nothing."""

    worker_id: str
    gateway_id: str = ""
    instance_id: str = ""
    blocks: int = 0
    told: bool = False
    seq: int = 0
    gaps: int = 0
    lost: int = 0
    heard_unix: float = 0.0
    unavailable: str = ""
