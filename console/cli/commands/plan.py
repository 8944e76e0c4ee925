"""``plan``: does a model fit on these GPUs, how fast is it at best, what does it cost."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from console.cli.command import LOOK, Place, command
from console.cli.effect import Effect
from console.cli.exits import FAILED, Ended
from console.cli.options import OutputOption
from console.cli.output import Format, write_data, write_rows
from console.cli.reach import Reach
from console.plain.terminal import out, paint, width
from console.text import literal
from control_plane.contracts.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from control_plane.contracts.sizing.model_shape import ModelShape
    from control_plane.contracts.sizing.number_format import NumberFormat
    from control_plane.contracts.sizing.plan import Plan

DEFAULT_CONTEXT = 8192


@command("plan", LOOK, Effect.LOOKS, Reach.HOME)
def plan(
    place: Place,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="A known model, a folder with a config.json, or a hub id that is in the local cache.",
            show_default=False,
        ),
    ] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", metavar="NAME", help="H100, H200, A100, L4, … (--list).")] = None,
    tp: Annotated[
        int | None,
        typer.Option("--tp", min=1, max=1024, help="GPUs to split the model over. [default: the fewest that do]"),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option("--context", min=1, help=f"Longest request, in tokens. [default: {DEFAULT_CONTEXT}]"),
    ] = None,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, max=1_000_000, help="Requests at once, all at that context.")
    ] = 1,
    dtype: Annotated[
        str | None,
        typer.Option("--dtype", metavar="FORMAT", help="Weights: bf16, fp8, int8, int4, … [default: the model's]"),
    ] = None,
    kv_dtype: Annotated[
        str | None, typer.Option("--kv-dtype", metavar="FORMAT", help="KV cache: bf16, fp8. [default: the model's]")
    ] = None,
    prompt: Annotated[
        int | None, typer.Option("--prompt-tokens", "--prompt", min=1, help="Of a usual request. [default: 1000]")
    ] = None,
    output_tokens: Annotated[
        int | None, typer.Option("--output-tokens", min=1, help="Of a usual request. [default: 200]")
    ] = None,
    price: Annotated[
        float | None,
        typer.Option("--price", min=0, max=1e6, help="Price of one GPU for an hour: what a million tokens cost."),
    ] = None,
    max_num_batched_tokens: Annotated[
        int | None, typer.Option("--max-num-batched-tokens", min=1, max=1 << 24, help="vLLM's. [default: vLLM's own]")
    ] = None,
    max_num_seqs: Annotated[
        int | None, typer.Option("--max-num-seqs", min=1, max=1 << 20, help="vLLM's. [default: vLLM's own]")
    ] = None,
    gpu_memory_utilization: Annotated[
        float | None, typer.Option("--gpu-memory-utilization", min=0.01, max=1.0, help="vLLM's. [default: 0.92]")
    ] = None,
    explained: Annotated[bool, typer.Option("--explain", help="Say how each figure came about.")] = False,
    known: Annotated[bool, typer.Option("--list", help="List the models and GPUs that are known.")] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Work out what a model needs: memory, GPUs, speed at best, cost. Nothing is run.

    From the model's own config.json and the GPU's published figures. Exits 1 when it does not fit.
    """
    if known:
        _list(output)
        return
    if model is None or gpu is None:
        missing = "MODEL" if model is None else "--gpu"
        raise InvalidRequest(
            f"plan needs {missing}",
            param="model" if model is None else "gpu",
            hint=f"inferdeck plan {shlex.quote(model or 'Llama-3.1-70B')} --gpu {gpu or 'H100'}",
        )
    from control_plane.contracts.sizing.gpus import gpu_named
    from control_plane.contracts.sizing.memory import engine_defaults
    from control_plane.contracts.sizing.number_format import kv_format, weight_format
    from control_plane.contracts.sizing.plan import Traffic, ways_to_fit, with_settings
    from control_plane.contracts.sizing.plan import plan as work_out

    read = _shapes(model)
    shape = read(weight_format(dtype) if dtype else None)
    device = gpu_named(gpu)
    context = context or min(DEFAULT_CONTEXT, shape.max_context)
    made = work_out(
        shape,
        device,
        Traffic.usual(context, concurrency, prompt, output_tokens),
        with_settings(
            engine_defaults(device),
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            gpu_memory_utilization=gpu_memory_utilization,
        ),
        tp=tp,
        kv=kv_format(kv_dtype) if kv_dtype else None,
        price=price,
    )
    ways = [] if made.fits else ways_to_fit(made, {word: read(weight_format(word)) for word in ("fp8", "int4")})
    if output in (Format.JSON, Format.YAML):
        from console.plain.plan_data import plan_data

        write_data(plan_data(made, ways, explained=explained), output)
    elif output is Format.NAME:
        out(literal(made.shape.name))
    else:
        _page(made, explained=explained)
        _hints(made, ways, model, gpu, {"--dtype": dtype, "--kv-dtype": kv_dtype})
    if not made.fits:
        raise Ended(FAILED)


def _shapes(model: str) -> Callable[[NumberFormat | None], ModelShape]:
    """Reads the model's shape, with its weights in a format or as they are: from this machine, else as published."""
    from console.checkpoint_config import local_config
    from control_plane.contracts.sizing.catalogue import published_model
    from control_plane.contracts.sizing.config_json import shape_from_config

    local = local_config(model)
    if local is None:
        return published_model(model.removeprefix("builtin:")).shape
    name, config = local
    return lambda weights: shape_from_config(config, name, weights)


def _page(made: Plan, *, explained: bool) -> None:
    from console.plain.plan import plan_page

    columns = width(sys.stdout)
    for line in plan_page(made, columns):
        out(line)
    if explained:
        from console.plain.plan_explain import explanation_page
        from control_plane.contracts.sizing.explain import explain

        for line in explanation_page(explain(made), columns):
            out(line)


def _hints(made: Plan, ways: list[str], model: str, gpu: str, formats: dict[str, str | None]) -> None:
    """Commands that make it fit, each tried."""
    traffic = made.traffic
    asked = {"--tp": str(made.tp), "--context": str(traffic.context), "--concurrency": str(traffic.concurrency)}
    asked |= {option: shlex.quote(word) for option, word in formats.items() if word is not None}
    for way in ways:
        option, value = way.split()
        words = [f"{name} {text}" for name, text in {**asked, option: value}.items()]
        hint = " ".join(["inferdeck plan", shlex.quote(model), "--gpu", shlex.quote(gpu), *words])
        print(f"{paint('hint:', 'strong', sys.stderr)} {literal(hint)}", file=sys.stderr)


def _list(output: Format) -> None:
    from console.plain.plan_data import known_data
    from console.plain.plan_known import GPU_COLUMNS, MODEL_COLUMNS
    from control_plane.contracts.sizing.catalogue import published_models
    from control_plane.contracts.sizing.gpus import GPUS

    if output in (Format.JSON, Format.YAML):
        write_data(known_data(published_models(), GPUS), output)
    elif output is Format.NAME:
        for name in (*(model.name for model in published_models()), *(gpu.name for gpu in GPUS)):
            out(name)
    else:
        write_rows([(model, model.shape()) for model in published_models()], MODEL_COLUMNS, wide=True)
        out("")
        write_rows(GPUS, GPU_COLUMNS, wide=True)
