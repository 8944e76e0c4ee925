"""The converter, on small files that the ``gguf`` package wrote."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, dequantize, quantize
from tokenizers import Tokenizer

from workers.gguf_checkpoint import convert
from workers.gguf_file import GgufError, GgufFile

HEADS, KV_HEADS, HEAD, HIDDEN, FORWARD, LAYERS = 4, 2, 8, 32, 64, 2
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
ALPHABET = [chr(code) for code in (*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324))]
MERGES = ["Ġ t", "h e", "Ġt he"]
TOKENS = [*CONTROL, *ALPHABET, "Ġt", "he", "Ġthe"]
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"

Shapes = dict[str, tuple[tuple[int, ...], GGMLQuantizationType]]
F32, Q4_1, Q8_0 = GGMLQuantizationType.F32, GGMLQuantizationType.Q4_1, GGMLQuantizationType.Q8_0


def shapes() -> Shapes:
    found: Shapes = {"token_embd.weight": ((len(TOKENS), HIDDEN), Q8_0), "output_norm.weight": ((HIDDEN,), F32)}
    for layer in range(LAYERS):
        for name, shape in {
            "attn_q": (HEADS * HEAD, HIDDEN),
            "attn_k": (KV_HEADS * HEAD, HIDDEN),
            "attn_v": (KV_HEADS * HEAD, HIDDEN),
            "attn_output": (HIDDEN, HEADS * HEAD),
            "ffn_gate": (FORWARD, HIDDEN),
            "ffn_up": (FORWARD, HIDDEN),
            "ffn_down": (HIDDEN, FORWARD),
        }.items():
            found[f"blk.{layer}.{name}.weight"] = (shape, Q4_1)
        found[f"blk.{layer}.attn_norm.weight"] = ((HIDDEN,), F32)
        found[f"blk.{layer}.ffn_norm.weight"] = ((HIDDEN,), F32)
    return found


def write_gguf(path: Path, tensors: Shapes, *, architecture: str = "llama", split: str = "smollm") -> None:
    dice = np.random.default_rng(7)
    writer = GGUFWriter(path, architecture)
    writer.add_block_count(LAYERS)
    writer.add_context_length(512)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_rope_dimension_count(HEAD)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(split)
    writer.add_token_list(TOKENS)
    writer.add_token_types([3] * len(CONTROL) + [1] * (len(TOKENS) - len(CONTROL)))
    writer.add_token_merges(MERGES)
    for number, add in enumerate((writer.add_unk_token_id, writer.add_bos_token_id, writer.add_eos_token_id)):
        add(number)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)
    for name, (shape, kind) in tensors.items():
        values = dice.standard_normal(shape, dtype=np.float32)
        writer.add_tensor(name, quantize(values, kind) if kind != F32 else values, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    write_gguf(path, shapes())
    return path


def bfloat16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """To nearest even, written another way than in the code: by the two neighbours."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    low, rest = bits >> 16, bits & 0xFFFF
    up = (rest > 0x8000) | ((rest == 0x8000) & (low & 1 == 1))
    rounded: npt.NDArray[np.uint16] = (low + up).astype(np.uint16)
    return rounded


def reference(path: Path) -> dict[str, npt.NDArray[np.float32]]:
    return {tensor.name: dequantize(tensor.data, tensor.tensor_type) for tensor in GGUFReader(path).tensors}


def read_safetensors(path: Path) -> dict[str, npt.NDArray[np.uint16]]:
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + size])
    assert header.pop("__metadata__") == {"format": "pt"}
    tensors = {}
    for name, entry in header.items():
        assert entry["dtype"] == "BF16"
        start, end = entry["data_offsets"]
        tensors[name] = np.frombuffer(data[8 + size + start : 8 + size + end], np.uint16).reshape(entry["shape"])
    return tensors


def converted(gguf: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "converted"
    folder.mkdir()
    convert(gguf, folder, lambda done, words: None)
    return folder


def test_tensors_keep_their_shape_and_are_rounded_to_nearest_even(gguf: Path) -> None:
    expected = reference(gguf)
    tensors = GgufFile(gguf).tensors
    assert {tensor.name: tensor.shape for tensor in tensors} == {
        name: values.shape for name, values in expected.items()
    }
    for tensor in tensors:
        np.testing.assert_array_equal(tensor.bfloat16(), bfloat16(expected[tensor.name]), tensor.name)


def test_the_checkpoint_has_every_tensor_with_query_and_key_rows_put_back(gguf: Path, tmp_path: Path) -> None:
    expected = reference(gguf)
    written = read_safetensors(converted(gguf, tmp_path) / "model.safetensors")
    assert len(written) == len(expected)
    np.testing.assert_array_equal(written["model.embed_tokens.weight"], bfloat16(expected["token_embd.weight"]))
    np.testing.assert_array_equal(written["model.norm.weight"], bfloat16(expected["output_norm.weight"]))
    for layer in range(LAYERS):
        for ours, theirs in {"mlp.down_proj": "ffn_down", "self_attn.v_proj": "attn_v"}.items():
            name = f"model.layers.{layer}.{ours}.weight"
            np.testing.assert_array_equal(written[name], bfloat16(expected[f"blk.{layer}.{theirs}.weight"]))
        for ours, theirs, heads in (("q", "attn_q", HEADS), ("k", "attn_k", KV_HEADS)):
            rows = bfloat16(expected[f"blk.{layer}.{theirs}.weight"])
            put_back = written[f"model.layers.{layer}.self_attn.{ours}_proj.weight"]
            for head in range(heads):
                for index in range(HEAD):
                    half, pair = divmod(index, HEAD // 2)
                    np.testing.assert_array_equal(put_back[head * HEAD + index], rows[head * HEAD + 2 * pair + half])


def test_the_configuration_describes_the_model(gguf: Path, tmp_path: Path) -> None:
    folder = converted(gguf, tmp_path)
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    expected = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": HIDDEN,
        "head_dim": HEAD,
        "intermediate_size": FORWARD,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "num_hidden_layers": LAYERS,
        "max_position_embeddings": 512,
        "rope_theta": 10_000.0,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
        "vocab_size": len(TOKENS),
        "eos_token_id": 2,
        "dtype": "bfloat16",
    }
    assert expected.items() <= config.items()
    assert json.loads((folder / "generation_config.json").read_text())["eos_token_id"] == 2
    assert json.loads((folder / "tokenizer_config.json").read_text())["chat_template"] == TEMPLATE


def test_an_output_head_of_its_own_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "untied.gguf"
    write_gguf(path, shapes() | {"output.weight": ((len(TOKENS), HIDDEN), Q8_0)})
    folder = converted(path, tmp_path)
    assert json.loads((folder / "config.json").read_text())["tie_word_embeddings"] is False
    assert "lm_head.weight" in read_safetensors(folder / "model.safetensors")


def test_the_tokenizer_keeps_control_tokens_whole_and_round_trips_any_text(gguf: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(converted(gguf, tmp_path) / "tokenizer.json"))
    assert [tokenizer.token_to_id(token) for token in CONTROL] == [0, 1, 2]
    assert tokenizer.encode("<|im_start|> the").tokens == ["<|im_start|>", "Ġthe"]
    assert tokenizer.encode("1234").tokens == ["1", "2", "3", "4"]
    text = "Grüße, 世界 🎉\n\tthe end"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert tokenizer.decode([1, *tokenizer.encode("the").ids, 2]) == "the"


def test_progress_ends_at_all(gguf: Path, tmp_path: Path) -> None:
    folder, heard = tmp_path / "out", list[float]()
    folder.mkdir()
    convert(gguf, folder, lambda done, words: heard.append(done))
    assert heard == sorted(heard)
    assert (heard[0], heard[-1]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"architecture": "qwen2"}, "'qwen2' model"),
        ({"split": "llama-bpe"}, "'llama-bpe' tokenizer"),
        ({"tensors": {"blk.0.ffn_moe.weight": ((32, 32), F32)}}, "belongs to no part"),
    ],
)
def test_what_cannot_be_converted_is_named(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    path = tmp_path / "model.gguf"
    write_gguf(path, shapes() | change.pop("tensors", {}), **change)
    with pytest.raises(GgufError, match=says):
        converted(path, tmp_path)


def test_what_is_no_gguf_file_or_half_of_one_is_refused(gguf: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello there")
    (tmp_path / "half").write_bytes(gguf.read_bytes()[:300])
    (tmp_path / "old").write_bytes(b"GGUF" + struct.pack("<IQQ", 1, 0, 0))
    (tmp_path / "empty").touch()
    for name in ("text", "half", "old", "empty"):
        with pytest.raises(GgufError, match=rf"{name} cannot be read as a GGUF file"):
            GgufFile(tmp_path / name)
