"""Small tokenizers of every kind that changes how text beside control tokens is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from control_plane.contracts.call import TokenizerBundle

CORPUS = (
    "the quick brown fox jumps over the lazy dog. <p>a < b > c</p> if (x[0] < 1) { return y; } "
    "user system assistant im_start im_end 1234 😀 汉字 naïve "
) * 40

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def _special(*contents: str, **flags: bool) -> list[AddedToken]:
    return [AddedToken(content, special=True, normalized=False, **flags) for content in contents]


def byte_level() -> Tokenizer:
    """As GPT-2, SmolLM2, Qwen and Llama 3 have it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        [CORPUS],
        trainers.BpeTrainer(
            vocab_size=600,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            special_tokens=_special("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<file_sep>"),
            show_progress=False,
        ),
    )
    return tokenizer


def byte_level_with_markup() -> Tokenizer:
    """Qwen's: some tokens are markup to the model and not marked special; some are just text."""
    tokenizer = byte_level()
    tokenizer.add_tokens(
        [AddedToken("<think>", special=False, normalized=False), AddedToken("  ", special=False, normalized=False)]
    )
    return tokenizer


def blank_eating() -> Tokenizer:
    """Phi's: control tokens take the blanks beside them."""
    tokenizer = byte_level()
    tokenizer.add_special_tokens(
        [
            AddedToken("<|end|>", special=True, normalized=False, rstrip=True),
            AddedToken("<|mask|>", special=True, normalized=False, lstrip=True),
        ]
    )
    return tokenizer


def first_word_marked() -> Tokenizer:
    """Mistral's: only the first word of the whole input gets a mark."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.train_from_iterator(
        [CORPUS],
        trainers.BpeTrainer(
            vocab_size=400,
            initial_alphabet=["▁"],
            special_tokens=[
                *_special("<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"),
                *(AddedToken(f"<0x{byte:02X}>", special=False, normalized=False) for byte in ()),
            ],
            show_progress=False,
        ),
    )
    return tokenizer


def prepending() -> Tokenizer:
    """Llama 2's: a normalizer that marks the beginning of each piece of text."""
    tokenizer = first_word_marked()
    tokenizer.pre_tokenizer = None  # type: ignore[assignment]
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return tokenizer


def unigram() -> Tokenizer:
    """A vocabulary that has the control strings as ordinary pieces too, and a normalizer that can make them."""
    pieces = [*sorted(set(CORPUS.replace(" ", "▁"))), "▁the", "▁quick", "quick", "im_", "start", "end", "ｓ"]
    vocabulary = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), ("<|im_start|>", 0.0), ("<|im_end|>", 0.0)]
    vocabulary += [(piece, -float(5 + index % 7)) for index, piece in enumerate(dict.fromkeys(pieces))]
    tokenizer = Tokenizer(models.Unigram(vocabulary, 0, False))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.add_special_tokens(
        [AddedToken(name, special=True, normalized=True) for name, score in vocabulary[:5] if score == 0.0]
    )
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


MAKERS: dict[str, Callable[[], Tokenizer]] = {
    "byte_level": byte_level,
    "byte_level_with_markup": byte_level_with_markup,
    "blank_eating": blank_eating,
    "first_word_marked": first_word_marked,
    "prepending": prepending,
    "unigram": unigram,
}


@cache
def tokenizer_json(name: str) -> str:
    return MAKERS[name]().to_str()


def bundle(
    name: str = "byte_level",
    *,
    template: str | None = CHATML,
    max_context: int = 512,
    files: dict[str, bytes] | None = None,
    **config: Any,
) -> TokenizerBundle:
    """A model's files with this tokenizer; ``files`` come beside or instead of what is made here."""
    described: dict[str, Any] = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", **config}
    if template is not None:
        described["chat_template"] = template
    text = tokenizer_json(name)
    made = {"tokenizer.json": text.encode(), "tokenizer_config.json": json.dumps(described).encode()}
    return TokenizerBundle(
        f"hash-of-{name}", made | (files or {}), max_context, Tokenizer.from_str(text).get_vocab_size()
    )


def reference(text: str, name: str = "byte_level") -> list[int]:
    """The text's tokens as the library itself makes them."""
    return list(Tokenizer.from_str(tokenizer_json(name)).encode(text, add_special_tokens=False).ids)
