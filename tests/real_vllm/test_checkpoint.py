"""The converted built-in model against its source, tensor by tensor."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader, dequantize
from jinja2 import Environment
from tokenizers import Tokenizer

from tests.contract.engines import engine_spec
from tests.unit.workers.test_gguf import bfloat16, read_safetensors
from workers import weights

HEADS = {"attn_q": 9, "attn_k": 3}
NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = engine_spec("vllm", tmp_path_factory.mktemp("spec"))
    return weights.resolve(spec.source, cache_dir=Path(spec.cache_dir)).folder


def test_all_tensors_equal_what_the_gguf_package_reads(folder: Path) -> None:
    source = weights._packaged_file(weights.BUILTIN["smollm2-135m"])
    written = read_safetensors(folder / "model.safetensors")
    tensors = GGUFReader(source).tensors
    assert len(written) == len(tensors) == 272
    for tensor in tensors:
        parts = tensor.name.removesuffix(".weight").split(".")
        name = NAMES[parts[-1]] if len(parts) == 1 else f"model.layers.{parts[1]}.{NAMES[parts[2]]}"
        values = bfloat16(dequantize(tensor.data, tensor.tensor_type))
        if heads := HEADS.get(parts[-1]):
            halves = values.reshape(heads, 32, 2, -1)
            values = np.concatenate([halves[:, :, 0], halves[:, :, 1]], axis=1).reshape(values.shape)
        np.testing.assert_array_equal(written[f"{name}.weight"], values, tensor.name)


def test_the_tokenizer_round_trips_and_knows_its_control_tokens(folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text in ("plain words", "  spaces  kept ", "123 45.6", "Grüße 世界 🎉\n\t", "def f(x):\n    return x"):
        assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert [tokenizer.token_to_id(token) for token in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")] == [0, 1, 2]
    assert tokenizer.encode("<|im_start|>user").ids[0] == 1
    assert tokenizer.get_vocab_size() == 49_152


def test_the_chat_template_renders_a_conversation(folder: Path) -> None:
    template = json.loads((folder / "tokenizer_config.json").read_text())["chat_template"]
    messages = [{"role": "user", "content": "Hi"}]
    text = Environment().from_string(template).render(messages=messages, add_generation_prompt=True)
    assert text.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert text.startswith("<|im_start|>system\n")


def test_a_killed_conversion_is_begun_anew_by_one_of_two(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "workers.weights", "builtin:smollm2-135m", "--cache", str(tmp_path)]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert first.stderr is not None
    for line in first.stderr:
        if "converting" in line:
            break
    first.kill()
    first.communicate()
    models = tmp_path / "models"
    assert [path.name for path in models.iterdir() if not path.name.startswith(".")] == []

    results: list[subprocess.CompletedProcess[str]] = []

    def run() -> None:
        results.append(subprocess.run(command, capture_output=True, text=True, check=True))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (made,) = {result.stdout for result in results}
    assert sum("checking the packaged model" in result.stderr.splitlines()[0] for result in results) == 1
    assert {path.name for path in models.iterdir()} == {Path(made.strip()).name, f".{Path(made.strip()).name}.lock"}
    again = subprocess.run([*command, "--check"], capture_output=True, text=True, check=True)
    assert (again.stdout, again.stderr) == (made, "")
