"""The scripted engine's tokenizer: byte-level, either a folder's own or a small one made here.

The one made here has one token for each byte (id = byte), three special tokens, and one token for each of a few common
words, so that prompts have the shape of real ones while every text can still be cut at every byte.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tokenizers import Tokenizer

from workers.engine.base import TokenizerFile

END_OF_TEXT, START_OF_TURN, END_OF_TURN = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
_SPECIAL = (END_OF_TEXT, START_OF_TURN, END_OF_TURN)
_FIRST_WORD = 256 + len(_SPECIAL)

_COMMON = """
    the of and to in is it for on as with that this be are by at from or an was not have one all we can more when
    there which their will each other about many then them these some her would make like into time has look two write
    go see number no way could people my than first water been call who its now find long down day did get come made may
    part over new sound take only little work know place year live me back give most very after thing our just name good
    sentence man think say great where help through much before line right too mean old any same tell boy follow came
    want show also around form three small set put end does another well large must big even such because turn here why
    ask went men read need land different home us move try kind hand picture again change off play spell air away animal
    house point page letter mother answer found study still learn should world
"""
WORDS = tuple(_COMMON.split())

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "generation_config.json",
    "chat_template.jinja",
)


def builtin_files() -> tuple[TokenizerFile, ...]:
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": START_OF_TURN,
        "eos_token": END_OF_TURN,
        "pad_token": END_OF_TURN,
        "unk_token": END_OF_TEXT,
        "add_bos_token": False,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    generation = {"bos_token_id": 257, "eos_token_id": 258, "pad_token_id": 258}
    return (
        TokenizerFile("generation_config.json", json.dumps(generation).encode()),
        TokenizerFile("tokenizer.json", json.dumps(_tokenizer_json()).encode()),
        TokenizerFile("tokenizer_config.json", json.dumps(config).encode()),
    )


def folder_files(folder: Path) -> tuple[TokenizerFile, ...]:
    """A Hugging Face folder's tokenizer files, sorted by name. Raises FileNotFoundError without tokenizer.json."""
    if not (folder / "tokenizer.json").is_file():
        raise FileNotFoundError(f"{folder} has no tokenizer.json")
    return tuple(
        TokenizerFile(name, (folder / name).read_bytes()) for name in sorted(_FILES) if (folder / name).is_file()
    )


class ByteTokenizer:
    """Token ids to the exact bytes that they stand for, and text to token ids."""

    def __init__(self, files: Sequence[TokenizerFile]) -> None:
        by_name = {file.name: file.data for file in files}
        self._tokenizer = Tokenizer.from_str(by_name["tokenizer.json"].decode())
        special = {token.content for token in self._tokenizer.get_added_tokens_decoder().values() if token.special}
        vocabulary: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=True)
        to_byte = {char: byte for byte, char in enumerate(_byte_chars())}
        self.vocab_size = max(vocabulary.values()) + 1
        self.bytes_of: list[bytes] = [b""] * self.vocab_size
        for token, token_id in vocabulary.items():
            if token not in special:
                spelled = [to_byte.get(char) for char in token]
                known = [byte for byte in spelled if byte is not None]
                self.bytes_of[token_id] = bytes(known) if len(known) == len(spelled) else token.encode()
        self.special_ids = frozenset(vocabulary[token] for token in special)
        self.text_of: list[str | None] = [_complete_text(piece) for piece in self.bytes_of]
        self._byte_ids = _single_bytes(self.bytes_of)
        self.eos_id = self._eos(by_name, vocabulary)

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def encode_bytes(self, data: bytes) -> list[int]:
        """One token per byte: a piece that is no text can't be split any other way."""
        return [self._byte_ids[byte] for byte in data]

    def decode(self, token_ids: Sequence[int]) -> bytes:
        """The bytes of the tokens; special tokens have none."""
        bytes_of = self.bytes_of
        return b"".join([bytes_of[token_id] for token_id in token_ids])

    @staticmethod
    def _eos(files: dict[str, bytes], vocabulary: dict[str, int]) -> int:
        config = json.loads(files.get("tokenizer_config.json", b"{}"))
        eos = config.get("eos_token", END_OF_TEXT)
        return vocabulary.get(eos["content"] if isinstance(eos, dict) else eos, 0)


def _complete_text(piece: bytes) -> str | None:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return None


def _single_bytes(bytes_of: Sequence[bytes]) -> list[int]:
    ids = {piece[0]: token_id for token_id, piece in reversed(list(enumerate(bytes_of))) if len(piece) == 1}
    if len(ids) != 256:
        raise ValueError(f"not a byte-level tokenizer: only {len(ids)} of 256 bytes have a token of their own")
    return [ids[byte] for byte in range(256)]


@cache
def _byte_chars() -> tuple[str, ...]:
    """The character that stands for each byte in a byte-level vocabulary (GPT-2's table)."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    unused = iter(range(0x100, 0x200))
    return tuple(chr(byte if byte in visible else next(unused)) for byte in range(256))


def _tokenizer_json() -> dict[str, object]:
    chars = _byte_chars()
    vocabulary = {char: byte for byte, char in enumerate(chars)}
    vocabulary |= {token: 256 + index for index, token in enumerate(_SPECIAL)}
    words = [chars[0x20] + word for word in WORDS if len(word) > 1] + [word for word in WORDS if len(word) > 1]
    vocabulary |= {word: _FIRST_WORD + index for index, word in enumerate(words)}
    special = [
        {
            "id": 256 + index,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for index, token in enumerate(_SPECIAL)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": True,
            "vocab": vocabulary,
            "merges": [],
        },
    }
