"""``python -m tests.bench.vllm_frontend``: our gateway and worker against vLLM's API server, on the same real engine.

Counted is the CPU time per token of everything in front of the engine core, which does the same work in both. The
systems run one after the other, interleaved over the repetitions; figures are medians. Both serve the same chat
requests; only ours also authenticates them. What each uses while nothing runs is shown beside it: on a slow engine it
is a part of the price of a token.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from control_plane.contracts.worker_spec import Announcement, WorkerSpec
from tests.bench.client import chat_request, connect, prompt_text
from tests.bench.cpu import CpuMeter
from tests.bench.stack import ROOT, Stack, running_stack
from tests.worker_client import worker_client
from workers import weights
from workers.engine import vllm_env

MODEL = "smollm2-135m"
SOURCE = f"builtin:{MODEL}"
DTYPE = "float32"
MAX_CONTEXT = 1024
KV_BYTES = 512 << 20
ENGINE_ARGS = {"max_num_seqs": 32, "max_num_batched_tokens": 512}
START_TIMEOUT_S = 300.0
LOAD_TIMEOUT_S = 300.0
IDLE_S = 5.0
TARGET = 0.5


@dataclass(frozen=True, slots=True)
class Shape:
    """One load: that many streams at once, that many tokens each."""

    streams: int
    tokens: int

    @property
    def total(self) -> int:
        return self.streams * self.tokens


@dataclass(slots=True)
class System:
    """A front end that runs. ``load`` sends one load, given the number of its first prompt; ``pids`` are counted."""

    pids: list[int]
    load: Callable[[int], Awaitable[None]]
    idle_ms_per_s: float = 0.0
    cpu_ms_per_1000: list[float] = field(default_factory=list)
    tokens_per_s: list[float] = field(default_factory=list)

    async def rest(self) -> None:
        meter = CpuMeter(self.pids)
        await asyncio.sleep(IDLE_S)
        self.idle_ms_per_s = meter.used() * 1e3 / IDLE_S

    async def run(self, shape: Shape, first: int) -> None:
        meter, begun = CpuMeter(self.pids), time.monotonic()
        await self.load(first)
        self.tokens_per_s.append(shape.total / (time.monotonic() - begun))
        self.cpu_ms_per_1000.append(meter.used() * 1e6 / shape.total)


def http_load(stack: Stack, shape: Shape) -> Callable[[int], Awaitable[None]]:
    async def one(number: int) -> None:
        connection = await connect(stack)
        request = chat_request(
            stack, prompt_text(number), stream=True, max_tokens=shape.tokens, model=MODEL, ignore_eos=True
        )
        async with asyncio.timeout(LOAD_TIMEOUT_S):
            status = await connection.send(request)
        if status != 200 or not connection.done:
            raise RuntimeError(f"an answer failed: status {status}, complete: {connection.done}")
        if connection.open:
            connection.abort()

    async def load(first: int) -> None:
        await asyncio.gather(*(one(first + number) for number in range(shape.streams)))

    return load


@asynccontextmanager
async def vllm_server(cache: Path, shape: Shape) -> AsyncIterator[System]:
    """vLLM's own OpenAI server, with the engine set up as ours."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = {
        "model": weights.resolve(SOURCE, cache_dir=cache).folder,
        "served-model-name": MODEL,
        "host": "127.0.0.1",
        "port": port,
        "dtype": DTYPE,
        "max-model-len": MAX_CONTEXT,
        "kv-cache-memory-bytes": KV_BYTES,
        "block-size": 32,
        "scheduling-policy": "priority",
        "distributed-executor-backend": "uni",
        **{name.replace("_", "-"): value for name, value in ENGINE_ARGS.items()},
    }
    command = ["-m", "vllm.entrypoints.openai.api_server", "--enforce-eager", "--disable-uvicorn-access-log"]
    command += [part for name, value in arguments.items() for part in (f"--{name}", str(value))]
    vllm_env.prepare_import(on_cpu=True)
    # It leaves its sockets behind, so it gets a temporary folder of its own.
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch, tempfile.TemporaryFile() as log:
        environment = {
            **os.environ,
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "HF_HUB_OFFLINE": "1",
            "TMPDIR": scratch,
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdout=log, stderr=log, env=environment, start_new_session=True
        )
        try:
            stack = Stack(Path(scratch), "127.0.0.1", port, "", process.pid, process.pid, (), (), Path(os.devnull))
            await _until(process, lambda: _answers(port))
            yield System([process.pid], http_load(stack, shape))
        finally:
            process.terminate()
            try:
                async with asyncio.timeout(30):
                    await process.wait()
            except TimeoutError:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()


@asynccontextmanager
async def inferdeck(cache: Path, shape: Shape) -> AsyncIterator[System]:
    """Control plane, gateway and one worker, as ``up`` starts them. The control plane is no part of a token's way."""
    os.environ["INFERDECK_CACHE"] = str(cache)
    pool = [
        "[gateway]",
        "port = 0",
        "[api]",
        "port = 0",
        "[[pool]]",
        'name = "bench"',
        f'model = "{MODEL}"',
        f'source = "{SOURCE}"',
        f'dtype = "{DTYPE}"',
        f"max_context = {MAX_CONTEXT}",
        f'kv_memory = "{KV_BYTES >> 20}MiB"',
        "replicas = 1",
        "[pool.engine_args]",
        *(f"{name} = {value}" for name, value in ENGINE_ARGS.items()),
    ]
    async with running_stack(1, config="\n".join(pool) + "\n", start_timeout_s=START_TIMEOUT_S) as stack:
        yield System([stack.gateway_pid, *stack.worker_pids], http_load(stack, shape))


@asynccontextmanager
async def worker_alone(cache: Path, shape: Shape) -> AsyncIterator[System]:
    """One worker, asked over its own protocol: what the gateway has to live with."""
    with tempfile.TemporaryDirectory(prefix="inferdeck-bench-") as name:
        folder = Path(name)
        spec = WorkerSpec(
            worker_id="bench-1",
            pool="bench",
            engine="vllm",
            model=MODEL,
            source=SOURCE,
            announce_path=str(folder / "worker.json"),
            log_path=str(folder / "worker.log"),
            cache_dir=str(cache),
            dtype=DTYPE,
            max_context=MAX_CONTEXT,
            kv_bytes=KV_BYTES,
            threads=1,
            engine_args=ENGINE_ARGS,
        )
        spec.save(folder / "spec.json")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "workers", "--spec", str(folder / "spec.json")),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=ROOT,
        )
        try:
            await _until(process, lambda: _serves(spec))
            address = Announcement.load(Path(spec.announce_path)).address
            async with worker_client(address) as client, client.link("bench") as link:

                async def load(first: int) -> None:
                    prompts = [[(first + number) % 4000 + 100, *range(200, 280)] for number in range(shape.streams)]
                    replies = [
                        await link.generate(prompt, max_tokens=shape.tokens, ignore_eos=True) for prompt in prompts
                    ]
                    for reply in replies:
                        await reply.end(LOAD_TIMEOUT_S)

                yield System([process.pid], load)
        finally:
            process.terminate()
            await process.wait()


async def _until(process: asyncio.subprocess.Process, ready: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.returncode is None:
        if await ready():
            return
        await asyncio.sleep(0.2)
    raise RuntimeError("the server did not come up")


async def _answers(port: int) -> bool:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    status = await reader.readline()
    writer.close()
    return b" 200 " in status


async def _serves(spec: WorkerSpec) -> bool:
    try:
        return Announcement.load(Path(spec.announce_path)).phase == "serving"
    except FileNotFoundError:
        return False


SYSTEMS = {"vllm_server": vllm_server, "inferdeck": inferdeck, "worker_alone": worker_alone}


async def measure(names: list[str], shape: Shape, repetitions: int) -> dict[str, System]:
    cache = Path(os.environ.get("INFERDECK_CACHE") or Path(tempfile.gettempdir()) / "inferdeck-bench-cache")
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with AsyncExitStack() as stack:
        systems = {name: await stack.enter_async_context(SYSTEMS[name](cache, shape)) for name in names}
        for system in systems.values():
            await system.load(0)
        for system in systems.values():
            await system.rest()
        for repetition in range(1, repetitions + 1):
            for name, system in systems.items():
                await system.run(shape, 1000 * repetition)
                print(f"{repetition}/{repetitions} {name}: {system.cpu_ms_per_1000[-1]:.1f}", file=sys.stderr)
    return systems


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.vllm_frontend", description=__doc__.partition("\n")[0])
    parser.add_argument("systems", nargs="*", metavar="SYSTEM", help=f"default: all of {', '.join(SYSTEMS)}")
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--gate", action="store_true", help="exit 1 if the target is missed")
    options = parser.parse_args()
    if unknown := set(options.systems) - set(SYSTEMS):
        parser.error(f"no system {sorted(unknown)[0]}; there are {', '.join(SYSTEMS)}")
    shape = Shape(options.streams, options.tokens)
    found = uvloop.run(measure(options.systems or list(SYSTEMS), shape, options.repetitions))
    print("| front end | CPU ms per 1,000 tokens | range | CPU ms per idle second | tokens/s |\n|---|---|---|---|---|")
    medians = {name: statistics.median(system.cpu_ms_per_1000) for name, system in found.items()}
    for name, system in found.items():
        spread = f"{min(system.cpu_ms_per_1000):.1f}-{max(system.cpu_ms_per_1000):.1f}"
        rate = statistics.median(system.tokens_per_s)
        print(f"| {name} | {medians[name]:.1f} | {spread} | {system.idle_ms_per_s:.1f} | {rate:.0f} |")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs", file=sys.stderr)
    if not {"vllm_server", "inferdeck"} <= medians.keys():
        return 0
    ratio = medians["inferdeck"] / medians["vllm_server"]
    print(f"\ninferdeck / vllm_server: {ratio:.2f} (at most {TARGET})")
    return 1 if options.gate and ratio > TARGET else 0


if __name__ == "__main__":
    sys.exit(main())
