"""Turn a llama-type GGUF file into a Hugging Face checkpoint folder: bfloat16 safetensors, config and tokenizer.

llama.cpp stores the query and key projections with each head's rows interleaved for its rotary embedding; Hugging
Face's layout wants them back in two halves (``_to_halves``). The tokenizer is GPT-2's byte-level BPE with digits split
one by one, which is what llama.cpp calls ``smollm``.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from workers.gguf_file import BFloat16, GgufError, GgufFile, GgufTensor

Progress = Callable[[float, str], None]
"""Called with the fraction done (0-1) and what is being done, in words."""

_CONTROL_TOKEN = 3
_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def convert(source: Path, folder: Path, progress: Progress) -> None:
    """Write the checkpoint into ``folder``, which must exist and be empty. Raises GgufError, OSError."""
    gguf = GgufFile(source)
    if (architecture := gguf.metadata.get("general.architecture")) != "llama":
        raise GgufError(f"{source} holds a {architecture!r} model; only llama-type models can be converted")
    if (split := gguf.metadata.get("tokenizer.ggml.pre")) != "smollm":
        raise GgufError(f"{source} has a {split!r} tokenizer; only 'smollm' can be converted")
    progress(0.0, "writing the tokenizer")
    _write_tokenizer(gguf.metadata, folder)
    _write_configs(gguf, folder)
    _write_weights(gguf, folder / "model.safetensors", progress)


def _write_weights(gguf: GgufFile, path: Path, progress: Progress) -> None:
    tensors = [(_checkpoint_name(tensor.name), tensor) for tensor in gguf.tensors]
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    size = 0
    for name, tensor in tensors:
        end = size + 2 * tensor.count
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [size, end]}
        size = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        written = 0
        for _, tensor in tensors:
            _write_tensor(gguf, tensor, file)
            written += 2 * tensor.count
            progress(written / size, "converting the weights")
        file.flush()
        os.fsync(file.fileno())


def _write_tensor(gguf: GgufFile, tensor: GgufTensor, file: BinaryIO) -> None:
    values = tensor.bfloat16()
    if tensor.name.endswith("attn_q.weight"):
        values = _to_halves(values, gguf.metadata["llama.attention.head_count"])
    elif tensor.name.endswith("attn_k.weight"):
        values = _to_halves(values, gguf.metadata["llama.attention.head_count_kv"])
    file.write(values.data)


def _to_halves(values: BFloat16, heads: int) -> BFloat16:
    """Undo llama.cpp's order of a head's rows: pairs (0, h), (1, h+1), … back to 0, 1, …, h, h+1, …"""
    rows, columns = values.shape
    return values.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns).copy()


def _checkpoint_name(name: str) -> str:
    if name in _NAMES:
        return _NAMES[name]
    parts = name.split(".")
    if len(parts) == 4 and parts[0] == "blk" and parts[2] in _LAYER_NAMES:
        return f"model.layers.{parts[1]}.{_LAYER_NAMES[parts[2]]}.{parts[3]}"
    raise GgufError(f"tensor {name} belongs to no part of a llama model")


def _write_configs(gguf: GgufFile, folder: Path) -> None:
    values = gguf.metadata
    hidden, heads = values["llama.embedding_length"], values["llama.attention.head_count"]
    special = {
        "bos_token_id": values["tokenizer.ggml.bos_token_id"],
        "eos_token_id": values["tokenizer.ggml.eos_token_id"],
        "pad_token_id": values["tokenizer.ggml.padding_token_id"],
    }
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "mlp_bias": False,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "head_dim": values.get("llama.rope.dimension_count", hidden // heads),
        "intermediate_size": values["llama.feed_forward_length"],
        "max_position_embeddings": values["llama.context_length"],
        "num_attention_heads": heads,
        "num_key_value_heads": values["llama.attention.head_count_kv"],
        "num_hidden_layers": values["llama.block_count"],
        "rms_norm_eps": round(values["llama.attention.layer_norm_rms_epsilon"], 12),
        "rope_theta": values["llama.rope.freq_base"],
        "rope_parameters": {"rope_type": "default", "rope_theta": values["llama.rope.freq_base"]},
        "tie_word_embeddings": all(tensor.name != "output.weight" for tensor in gguf.tensors),
        "vocab_size": len(values["tokenizer.ggml.tokens"]),
        "dtype": "bfloat16",
        **special,
    }
    _write_json(folder / "config.json", config)
    _write_json(folder / "generation_config.json", special)


def _write_tokenizer(values: dict[str, Any], folder: Path) -> None:
    tokens, kinds = values["tokenizer.ggml.tokens"], values["tokenizer.ggml.token_type"]
    merges = [(left, right) for left, right in (merge.split(" ", 1) for merge in values["tokenizer.ggml.merges"])]
    tokenizer = Tokenizer(BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    tokenizer.save(str(folder / "tokenizer.json"))
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": tokens[values["tokenizer.ggml.bos_token_id"]],
            "eos_token": tokens[values["tokenizer.ggml.eos_token_id"]],
            "pad_token": tokens[values["tokenizer.ggml.padding_token_id"]],
            "unk_token": tokens[values["tokenizer.ggml.unknown_token_id"]],
            "chat_template": values["tokenizer.chat_template"],
            "model_max_length": values["llama.context_length"],
            "clean_up_tokenization_spaces": False,
        },
    )


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
