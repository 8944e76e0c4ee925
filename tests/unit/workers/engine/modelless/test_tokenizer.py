from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2.sandbox import ImmutableSandboxedEnvironment

from workers.engine.base import TokenizerFile
from workers.engine.modelless.tokenizer import END_OF_TURN, WORDS, ByteTokenizer, builtin_files, folder_files

TOKENIZER = ByteTokenizer(builtin_files())


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_survives_the_way_there_and_back(text: str) -> None:
    special = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    if not any(token in text for token in special):
        assert TOKENIZER.decode(TOKENIZER.encode(text)) == text.encode()


@given(st.binary(max_size=64))
def test_every_byte_has_a_token_of_its_own(data: bytes) -> None:
    ids = TOKENIZER.encode_bytes(data)
    assert len(ids) == len(data)
    assert TOKENIZER.decode(ids) == data


def test_a_common_word_is_one_token() -> None:
    assert all(len(TOKENIZER.encode(" " + word)) == 1 for word in WORDS)


def test_special_tokens_are_one_token_and_no_text() -> None:
    assert TOKENIZER.encode(END_OF_TURN) == [TOKENIZER.eos_id]
    assert TOKENIZER.decode([TOKENIZER.eos_id]) == b""
    assert TOKENIZER.special_ids == {256, 257, 258}


def test_the_chat_template_renders_turns_with_their_special_tokens() -> None:
    files = {file.name: file.data for file in builtin_files()}
    template = json.loads(files["tokenizer_config.json"])["chat_template"]
    prompt = (
        ImmutableSandboxedEnvironment()
        .from_string(template)
        .render(messages=[{"role": "user", "content": "hello"}], add_generation_prompt=True)
    )
    assert prompt == "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    assert TOKENIZER.encode(prompt)[0] == 257


def test_a_folder_brings_its_own_tokenizer(tmp_path: Path) -> None:
    for file in builtin_files():
        (tmp_path / file.name).write_bytes(file.data)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    files = folder_files(tmp_path)
    assert [file.name for file in files] == ["generation_config.json", "tokenizer.json", "tokenizer_config.json"]
    assert ByteTokenizer(files).encode("hello") == TOKENIZER.encode("hello")


def test_a_folder_without_one_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json"):
        folder_files(tmp_path)


def test_a_tokenizer_that_is_not_byte_level_is_refused() -> None:
    words = json.dumps({"version": "1.0", "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}})
    with pytest.raises(ValueError, match="byte-level"):
        ByteTokenizer([TokenizerFile("tokenizer.json", words.encode())])
