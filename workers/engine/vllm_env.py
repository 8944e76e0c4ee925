"""The environment a process must have before it imports vLLM, or starts an engine with it.

Threads are the trap. OpenMP's default is to spin while it waits, which is fine for one program per machine and costs
two workers on two cores nine tenths of their speed; so waiting threads sleep, and each worker gets a fixed number.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from control_plane.contracts.worker_spec import WorkerSpec, start_ticks

REASON_FILE = "INFERDECK_ENGINE_REASON"
"""Names a file in which a dying engine process leaves its last words."""

_PRIVATE_PREFIX = "inferdeck-engine-"
_LONGEST_ROOT = 30  # a socket's path may have 107 characters, and ours and vLLM's names need the rest


def prepare_import(*, on_cpu: bool) -> None:
    """What importing vLLM and torch reads: call it first."""
    os.environ.update(
        OMP_WAIT_POLICY="PASSIVE",
        GOMP_SPINCOUNT="0",
        KMP_BLOCKTIME="0",
        OPENBLAS_NUM_THREADS="1",
        TOKENIZERS_PARALLELISM="false",
        VLLM_NO_USAGE_STATS="1",
        DO_NOT_TRACK="1",
    )
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("MKL_NUM_THREADS", "1")
    os.environ.setdefault("VLLM_LOGGING_COLOR", "0")
    if on_cpu:
        # Some functions are compiled at their first use: the first call for log-probabilities would wait half a minute
        # for the C++ compiler, and everyone with it.
        os.environ["TORCH_COMPILE_DISABLE"] = "1"


def prepare_engine(spec: WorkerSpec, private: Path) -> None:
    """What starting this engine reads; ``private`` is where its sockets go."""
    # With a GPU the processor only feeds it.
    threads = str(spec.threads or (1 if spec.gpus else len(os.sched_getaffinity(0))))
    os.environ.update(OMP_NUM_THREADS=threads, MKL_NUM_THREADS=threads, VLLM_RPC_BASE_PATH=str(private))
    # The model is on this disk by now; nothing else may be fetched.
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
    os.environ.setdefault("VLLM_CACHE_ROOT", str(Path(spec.cache_dir) / "vllm"))
    # It would silently win over the spec.
    os.environ.pop("VLLM_CPU_KVCACHE_SPACE", None)
    if spec.gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(str(index) for index in spec.gpus)
    elif spec.tensor_parallel > 1:
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1"
    else:
        # The one way to keep vLLM's CPU platform from putting the model into a third process.
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"


@contextmanager
def restored(*names: str) -> Iterator[None]:
    """Put the named variables back as they were: vLLM sets some for children that are not ours."""
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def make_private_folder() -> Path:
    """A folder for this process's sockets, only for this user. Folders of processes that died are removed."""
    root = Path(tempfile.gettempdir())
    if len(str(root)) > _LONGEST_ROOT:
        root = Path("/tmp")
    for folder in root.glob(f"{_PRIVATE_PREFIX}*"):
        pid, _, rest = folder.name.removeprefix(_PRIVATE_PREFIX).partition("-")
        ticks = rest.partition("-")[0]
        if pid.isdigit() and ticks.isdigit() and start_ticks(int(pid)) != int(ticks):
            remove_private_folder(folder)
    return Path(tempfile.mkdtemp(prefix=f"{_PRIVATE_PREFIX}{os.getpid()}-{start_ticks(os.getpid())}-", dir=root))


def remove_private_folder(folder: Path) -> None:
    with suppress(OSError):
        shutil.rmtree(folder)
