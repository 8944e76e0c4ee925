"""``python -m tests.bench.vllm_frontend``: our gateway and worker against vLLM's own API server, on the same real engine.

Counted is the CPU time per token of everything in front of the engine core, which does the same work in both. The
engines run one after the other, interleaved over the repetitions; figures are medians. Both serve the same chat
requests; only ours also authenticates them.
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
from pathlib import Path

import uvloop

from control_plane.contracts.worker_spec import Announcement, WorkerSpec
from tests.bench.client import chat_request, prompt_text
from tests.bench.cpu import CpuMeter
from tests.bench.rows import closed_loop
from tests.bench.stack import ROOT, Stack, running_stack
from tests.worker_client import worker_client
from workers import weights
from workers.engine import vllm_env

MODEL = "smollm2-135m"
SOURCE = f"builtin:{MODEL}"
MAX_CONTEXT = 1024
KV_BYTES = 512 << 20
ENGINE_ARGS = {"max_num_seqs": 32, "max_num_batched_tokens": 512}
START_TIMEOUT_S = 180.0
TARGET = 0.5

Load = Callable[[int], Awaitable[float]]
"""Runs one load, given the number of its first prompt, and returns CPU milliseconds per 1,000 tokens."""


def http_load(stack: Stack, pids: list[int], streams: int, tokens: int) -> Load:
    async def run(first: int) -> float:
        def request(number: int) -> bytes:
            text = prompt_text(first + number)
            return chat_request(stack, text, stream=True, max_tokens=tokens, model=MODEL, ignore_eos=True)

        meter = CpuMeter(pids)
        tally = await closed_loop(stack, request, connections=streams, total=streams, stream=True)
        return meter.used() * 1e6 / (tally.answers * tokens)

    return run


@asynccontextmanager
async def vllm_server(folder: Path, dtype: str, streams: int, tokens: int) -> AsyncIterator[Load]:
    """vLLM's own OpenAI server, with the engine set up as ours."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = {
        "model": folder,
        "served-model-name": MODEL,
        "host": "127.0.0.1",
        "port": port,
        "dtype": dtype,
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
    environment = {**os.environ, "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdout=log, stderr=log, env=environment, start_new_session=True
        )
        try:
            stack = Stack("127.0.0.1", port, "", process.pid, process.pid, (), (), Path(os.devnull))
            await _answers(process, port)
            yield http_load(stack, [process.pid], streams, tokens)
        finally:
            process.terminate()
            try:
                async with asyncio.timeout(30):
                    await process.wait()
            except TimeoutError:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()


@asynccontextmanager
async def inferdeck(cache: Path, dtype: str, streams: int, tokens: int) -> AsyncIterator[Load]:
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
        f'dtype = "{dtype}"',
        f"max_context = {MAX_CONTEXT}",
        f'kv_memory = "{KV_BYTES >> 20}MiB"',
        "replicas = 1",
        "[pool.engine_args]",
        *(f"{name} = {value}" for name, value in ENGINE_ARGS.items()),
    ]
    async with running_stack(1, config="\n".join(pool) + "\n", start_timeout_s=START_TIMEOUT_S) as stack:
        yield http_load(stack, [stack.gateway_pid, *stack.worker_pids], streams, tokens)


@asynccontextmanager
async def worker_alone(cache: Path, dtype: str, streams: int, tokens: int) -> AsyncIterator[Load]:
    """One worker, asked over its own protocol: what the gateway has to live with."""
    with tempfile.TemporaryDirectory(prefix="inferdeck-bench-") as name:
        folder = Path(name)
        announce = folder / "worker.json"
        spec = WorkerSpec(
            worker_id="bench-1",
            pool="bench",
            engine="vllm",
            model=MODEL,
            source=SOURCE,
            announce_path=str(announce),
            log_path=str(folder / "worker.log"),
            cache_dir=str(cache),
            dtype=dtype,
            max_context=MAX_CONTEXT,
            kv_bytes=KV_BYTES,
            threads=1,
            engine_args=ENGINE_ARGS,
        )
        spec.save(folder / "spec.json")
        with open(spec.log_path, "wb") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "workers", "--spec", str(folder / "spec.json"), stdout=log, stderr=log, cwd=ROOT
            )
        try:
            address = await _serving(announce, process)
            async with worker_client(address) as client, client.link("bench") as link:

                async def run(first: int) -> float:
                    meter = CpuMeter([process.pid])
                    replies = [
                        await link.generate(
                            [(first + number) % 4000 + 100, *range(200, 260)], max_tokens=tokens, ignore_eos=True
                        )
                        for number in range(streams)
                    ]
                    for reply in replies:
                        await reply.end(START_TIMEOUT_S)
                    return meter.used() * 1e6 / (streams * tokens)

                yield run
        finally:
            process.terminate()
            await process.wait()


async def _answers(process: asyncio.subprocess.Process, port: int) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.returncode is None:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.5)
            continue
        writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        healthy = b" 200 " in await reader.readline()
        writer.close()
        if healthy:
            return
        await asyncio.sleep(0.5)
    raise RuntimeError("vLLM's API server did not come up")


async def _serving(announce: Path, process: asyncio.subprocess.Process) -> str:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.returncode is None:
        if announce.exists() and (found := Announcement.load(announce)).phase == "serving":
            return found.address
        await asyncio.sleep(0.1)
    raise RuntimeError("the worker did not come up")


async def measure(names: list[str], streams: int, tokens: int, repetitions: int) -> dict[str, list[float]]:
    cache = Path(os.environ.get("INFERDECK_CACHE") or Path(tempfile.gettempdir()) / "inferdeck-bench-cache")
    folder = weights.resolve(SOURCE, cache_dir=cache).folder
    dtype = "float32"
    systems = {
        "vllm_server": lambda: vllm_server(folder, dtype, streams, tokens),
        "inferdeck": lambda: inferdeck(cache, dtype, streams, tokens),
        "worker_alone": lambda: worker_alone(cache, dtype, streams, tokens),
    }
    figures: dict[str, list[float]] = {name: [] for name in names}
    async with AsyncExitStack() as stack:
        loads = {name: await stack.enter_async_context(systems[name]()) for name in names}
        for name, load in loads.items():
            print(f"warm-up {name}: {await load(0):.1f}", file=sys.stderr)
        for repetition in range(repetitions):
            for name, load in loads.items():
                figures[name].append(await load(1000 * (repetition + 1)))
                print(f"{repetition + 1}/{repetitions} {name}: {figures[name][-1]:.1f}", file=sys.stderr)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.vllm_frontend", description=__doc__.partition("\n")[0])
    parser.add_argument("systems", nargs="*", default=["vllm_server", "inferdeck", "worker_alone"])
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--gate", action="store_true", help="exit 1 if the target is missed")
    options = parser.parse_args()
    figures = uvloop.run(measure(options.systems, options.streams, options.tokens, options.repetitions))
    print("| front end | CPU ms per 1,000 tokens | range |\n|---|---|---|")
    medians = {name: statistics.median(values) for name, values in figures.items()}
    for name, values in figures.items():
        print(f"| {name} | {medians[name]:.1f} | {min(values):.1f}-{max(values):.1f} |")
    if not {"vllm_server", "inferdeck"} <= medians.keys():
        return 0
    ratio = medians["inferdeck"] / medians["vllm_server"]
    print(f"\ninferdeck / vllm_server: {ratio:.2f} (at most {TARGET})")
    return 1 if options.gate and ratio > TARGET else 0


if __name__ == "__main__":
    sys.exit(main())
