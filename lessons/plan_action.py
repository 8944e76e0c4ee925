"""The action of working out a deployment, as ``inferdeck plan`` does: nothing is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from control_plane.contracts.sizing.catalogue import published_model
from control_plane.contracts.sizing.gpus import gpu_named
from control_plane.contracts.sizing.memory import engine_defaults
from control_plane.contracts.sizing.plan import Plan, Traffic, plan


@dataclass(frozen=True, slots=True)
class PlanOf:
    """A model on GPUs of a kind, from published figures; ``name`` is what measures ask for.

    ``context``: tokens of the longest request; ``concurrency``: how many of them at once; ``prompt``: tokens of a usual
    one, 0 for the command's own default. ``tp`` 0 takes the fewest GPUs that do.
    """

    word: ClassVar[str] = "plan"
    lasting: ClassVar[bool] = False

    name: str
    model: str
    gpu: str
    context: int
    concurrency: int = 1
    prompt: int = 0
    tp: int = 0

    def told(self) -> str:
        tp = f" --tp {self.tp}" if self.tp else ""
        prompt = f" --prompt {self.prompt}" if self.prompt else ""
        return (
            f"inferdeck plan {self.model} --gpu {self.gpu}{tp} --context {self.context}"
            f" --concurrency {self.concurrency}{prompt}"
        )

    def worked_out(self) -> Plan:
        """Raises NotFound for an unknown model or GPU, InvalidRequest for what cannot be."""
        gpu = gpu_named(self.gpu)
        traffic = Traffic.usual(self.context, self.concurrency, self.prompt or None)
        return plan(published_model(self.model).shape(), gpu, traffic, engine_defaults(gpu), tp=self.tp or None)
