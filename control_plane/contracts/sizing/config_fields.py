"""Fields of a ``config.json``, checked: a wrong one is told by name, a missing one may have a family's default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from control_plane.contracts.errors import InvalidRequest

Config = Mapping[str, Any]

LARGEST = 1 << 40  # no size, count or length of a model comes near

# What transformers' own config classes fill in where a published file leaves it out.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "gemma": {"tie_word_embeddings": True},
    "gemma2": {"tie_word_embeddings": True, "sliding_window": 4096, "sliding_window_pattern": 2},
    "gemma3_text": {
        "vocab_size": 262208,
        "head_dim": 256,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "max_position_embeddings": 131072,
        "sliding_window": 4096,
        "sliding_window_pattern": 6,
        "tie_word_embeddings": True,
    },
    "gpt_oss": {"sliding_window": 128, "sliding_window_pattern": 2, "attention_bias": True},
    "mistral": {"sliding_window": 4096},
    "cohere": {"tie_word_embeddings": True},
    "cohere2": {"tie_word_embeddings": True, "sliding_window": 4096, "sliding_window_pattern": 4},
    "llama4_text": {"no_rope_layer_interval": 4, "interleave_moe_layer_step": 1},
    "gpt2": {"tie_word_embeddings": True},
    "opt": {"tie_word_embeddings": True},
}

_OTHER_NAMES = {
    "hidden_size": ("n_embd", "d_model"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("n_head", "n_heads"),
    "intermediate_size": ("ffn_dim", "n_inner", "ffn_hidden_size"),
    "max_position_embeddings": ("n_positions", "max_seq_len", "seq_length", "max_sequence_length"),
}


class Fields:
    """One section of a config, seen as its family reads it."""

    def __init__(self, section: Config, family: str) -> None:
        self._section = section
        self._family = family
        self._defaults = _DEFAULTS.get(family, {})

    def get(self, name: str) -> Any:
        """The value, another family's name for it, the family's default, or None."""
        for key in (name, *_OTHER_NAMES.get(name, ())):
            if self._section.get(key) is not None:
                return self._section[key]
        return None if name in self._section and name == "sliding_window" else self._defaults.get(name)

    def number(self, name: str, default: int | None = None, *, least: int = 1, most: int = LARGEST) -> int:
        """A whole number. Raises InvalidRequest naming the field where it is missing, no number or out of range."""
        value = self.get(name)
        if value is None:
            if default is not None:
                return default
            raise InvalidRequest(
                f"config.json: {name} is missing ({self._family})",
                param=name,
                hint="give the folder of a decoder-only model in Hugging Face form",
            )
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise InvalidRequest(
                f"config.json: {name} is {value!r:.40}, expected a whole number from {least} to {most}", param=name
            )
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.get(name)
        return default if value is None else bool(value)


def text_section(config: Config) -> Config:
    """The language model's part; in files of models with vision or audio it stands apart."""
    for key in ("text_config", "llm_config", "language_config"):
        section = config.get(key)
        if isinstance(section, Mapping) and section:
            outer = {name: value for name, value in config.items() if not isinstance(value, Mapping)}
            quantisation = config.get("quantization_config")
            if isinstance(quantisation, Mapping):
                outer["quantization_config"] = quantisation
            outer.pop("model_type", None)
            return {**outer, **section}
    return config


def family_of(config: Config) -> str:
    """``model_type`` of the language model, in lower case."""
    family = text_section(config).get("model_type") or config.get("model_type")
    if not family:
        names = config.get("architectures") or [""]
        family = str(names[0] if isinstance(names, list) else names)
    family = str(family).lower()
    return "gemma3_text" if family == "gemma3" else family
