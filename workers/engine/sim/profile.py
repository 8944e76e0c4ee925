"""What is simulated: a model on devices, how long its steps take, and how much of the KV cache there is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from control_plane.contracts.errors import InferDeckError, NotFound, SettingsError
from control_plane.contracts.sizing.catalogue import PublishedModel, published_model
from control_plane.contracts.sizing.gpus import MEMORY_SOURCE, PCIE_SOURCE, Gpu, gpu_named
from control_plane.contracts.sizing.kv_cache import kv_layout
from control_plane.contracts.sizing.measured import Measured, read_measured
from control_plane.contracts.sizing.memory import EngineSettings, check_tp, engine_defaults, gpu_memory
from control_plane.contracts.sizing.nearest import nearest
from control_plane.contracts.sizing.roofline import TYPICAL, Efficiency, Roofline
from workers.engine.sim.settings import SimSettings
from workers.engine.sim.step_time import MeasuredTimer, RooflineTimer, StepTimer

GPUS = ("H100", "H200", "A100-80GB", "L4")
MODELS = ("Llama-3.1-8B", "Llama-3.1-70B", "Qwen3-32B", "SmolLM2-135M")
COUNTS = (1, 2, 4, 8)

EFFICIENCY_SOURCE = (
    "step times are a roofline of the published figures at 80 % of the bandwidth and 65 % of the FLOPs, plus 1 ms a "
    "step: typical of a good engine, not measured"
)

HOST_SOURCE = f"{PCIE_SOURCE}; weights are copied at 70 % of it: typical, not measured"


@dataclass(frozen=True, slots=True)
class Profile:
    """``device`` is like "H100 x2"; ``context`` the most tokens that the model was made for; ``defaults`` hold where
    nothing else is said. ``block_bytes`` is one block on one device, ``kv_room`` what all may take there, in bytes.
    ``timer`` gives the time of a step; ``sources`` say where the figures come from. ``host_copy_s`` is how long the
    weights take to the host's memory or from it, all devices at once; None: nobody has said."""

    name: str
    device: str
    model: str
    dtype: str
    tensor_parallel: int
    context: int
    defaults: EngineSettings
    block_bytes: int
    kv_room: float
    timer: StepTimer
    sources: tuple[str, ...]
    host_copy_s: float | None = None

    def blocks(self, kv_bytes: int = 0) -> int:
        """Blocks that requests can have in so many bytes (0: all there is room for), vLLM's null block left out."""
        return max(0, int((kv_bytes or self.kv_room) // self.block_bytes) - 1)


def profile_of(settings: SimSettings, tensor_parallel: int = 1) -> Profile:
    """What the settings name; ``tensor_parallel`` is the pool's. Raises SettingsError with the nearest names."""
    tp = settings.tensor_parallel or tensor_parallel
    name = settings.profile
    if name.endswith(".toml") or "/" in name:
        return _measured(read_measured(Path(name)), settings)
    if not name and not settings.gpu and not settings.model_shape:
        raise SettingsError(
            "profile is missing: what is to be simulated",
            param="engine_args.profile",
            hint='profile = "h100-llama-3.1-8b", or gpu = "H100" with model_shape = "llama-3.1-8b"',
        )
    if name:
        gpu, model, counted = _parts(name)
        if counted and tp > 1 and counted != tp:
            raise SettingsError(f"profile {name!r} has {counted} GPUs, tensor_parallel says {tp}", param="profile")
        return computed(gpu, model, counted or tp, settings)
    if not (settings.gpu and settings.model_shape):
        missing = "model_shape" if settings.gpu else "gpu"
        raise SettingsError(f"{missing} is missing: a GPU and a model are simulated", param=f"engine_args.{missing}")
    try:
        return computed(gpu_named(settings.gpu), published_model(settings.model_shape), tp, settings)
    except NotFound as error:
        param = "engine_args.gpu" if error.param == "gpu" else "engine_args.model_shape"
        raise SettingsError(error.message, param=param) from None


def computed(
    gpu: Gpu, model: PublishedModel, tp: int, settings: SimSettings, efficiency: Efficiency = TYPICAL
) -> Profile:
    """From the published figures of both. Raises SettingsError where the model does not fit, or cannot be split so."""
    shape = model.shape()
    try:
        check_tp(shape, tp)
    except InferDeckError as error:
        raise SettingsError(error.message, param="tensor_parallel", hint=error.hint) from None
    given = engine_settings(settings, engine_defaults(gpu))
    memory = gpu_memory(shape, gpu, tp, given)
    layout = kv_layout(shape, None, tp, given.block_size)
    name = profile_name(gpu.name, model.name, tp)
    if layout.blocks(memory.kv_room) < 2 and not settings.total_blocks:
        raise SettingsError(
            f"{model.name} does not fit on {tp} × {gpu.name}",
            param="profile",
            hint=f"inferdeck plan {model.name} --gpu {gpu.name}",
        )
    return Profile(
        name=name,
        device=f"{gpu.name} x{tp}",
        model=model.name,
        dtype={"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}.get(
            shape.weight_format.name, shape.weight_format.name
        ),
        tensor_parallel=tp,
        context=shape.max_context,
        defaults=given,
        block_bytes=layout.block_bytes,
        kv_room=memory.kv_room,
        timer=RooflineTimer(Roofline(shape, gpu, tp), efficiency),
        sources=(model.source, gpu.source, MEMORY_SOURCE, EFFICIENCY_SOURCE, HOST_SOURCE),
        host_copy_s=memory.weights / (gpu.host_link * efficiency.link),
    )


def profile_name(gpu: str, model: str, tp: int = 1) -> str:
    return f"{gpu}-{model}".lower() + (f"-tp{tp}" if tp > 1 else "")


@cache
def profile_names() -> tuple[str, ...]:
    """Those that have a name ready: every model on every GPU, on as many as it fits and can be split to."""
    names = []
    for gpu in GPUS:
        for model in MODELS:
            for tp in COUNTS:
                try:
                    computed(gpu_named(gpu), published_model(model), tp, SimSettings())
                except SettingsError:
                    continue
                names.append(profile_name(gpu, model, tp))
    return tuple(names)


def engine_settings(settings: SimSettings, defaults: EngineSettings) -> EngineSettings:
    """The defaults, with what the settings say instead."""
    most = settings.max_num_batched_tokens or defaults.max_num_batched_tokens
    return EngineSettings(
        max_num_batched_tokens=most,
        max_num_seqs=settings.max_num_seqs or min(defaults.max_num_seqs, most),
        gpu_memory_utilization=settings.gpu_memory_utilization or defaults.gpu_memory_utilization,
        block_size=settings.block_size or defaults.block_size,
    )


def _parts(name: str) -> tuple[Gpu, PublishedModel, int]:
    """GPU, model and number (0: not said) of a name like ``h100-llama-3.1-8b-tp2``."""
    wanted, count = name.strip().lower(), 0
    head, found, digits = wanted.rpartition("-tp")
    if found and digits.isdecimal():
        wanted, count = head, int(digits)
    words = wanted.split("-")
    for cut in range(1, len(words)):
        try:
            return gpu_named("-".join(words[:cut])), published_model("-".join(words[cut:])), count
        except NotFound:
            continue
    close = ", ".join(nearest(name, profile_names()))
    raise SettingsError(
        f"no profile {name!r}; nearest: {close}",
        param="profile",
        hint='a GPU and a model of inferdeck plan --list, like "h100-llama-3.1-70b-tp4", or the path of a .toml file',
    )


def _measured(found: Measured, settings: SimSettings) -> Profile:
    given = engine_settings(settings, found.defaults)
    per_token = found.block_bytes / found.defaults.block_size
    block_bytes = max(1, round(per_token * given.block_size))
    return Profile(
        name=found.name,
        device=found.device,
        model=found.model,
        dtype=found.dtype,
        tensor_parallel=found.tensor_parallel,
        context=found.context,
        defaults=given,
        block_bytes=block_bytes,
        kv_room=float((found.total_blocks + 1) * found.block_bytes),
        timer=MeasuredTimer(found.cost, found.residuals),
        sources=(found.source,),
    )
