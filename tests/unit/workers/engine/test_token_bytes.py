import pytest
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from workers.engine.token_bytes import TokenBytes, unfinished_bytes


def byte_level() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE(vocab={token: index for index, token in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|Ġ|>"])
    return tokenizer


@pytest.mark.parametrize("text", ["plain", " two  spaces\n", "Grüße", "世界 🎉", "\x00\x7f\xa0\xad"])
def test_byte_level_tokens_join_to_the_text(text: str) -> None:
    tokenizer = byte_level()
    of = TokenBytes(tokenizer.id_to_token, byte_level=True, special=[256])
    assert b"".join(of[token] for token in tokenizer.encode(text).ids) == text.encode()


def test_all_256_bytes_have_a_token_and_no_two_the_same() -> None:
    of = TokenBytes(byte_level().id_to_token, byte_level=True, special=[256])
    assert sorted(of[token] for token in range(256)) == [bytes([value]) for value in range(256)]


def test_special_tokens_are_literal_and_unknown_ones_empty() -> None:
    of = TokenBytes(byte_level().id_to_token, byte_level=True, special=[256])
    assert of[256] == "<|Ġ|>".encode()
    assert of[99_999] == b""


def test_sentencepiece_spells_spaces_and_bytes_its_own_way() -> None:
    spelled = {0: "▁the", 1: "<0xE2>", 2: "é", 3: "<0xZZ>", 4: "<s>"}
    of = TokenBytes(spelled.get, byte_level=False, special=[4])
    assert [of[token] for token in range(5)] == [b" the", b"\xe2", "é".encode(), b"<0xZZ>", b"<s>"]


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", 0),
        (b"abc", 0),
        ("é".encode(), 0),
        ("é".encode()[:1], 1),
        ("世".encode()[:1], 1),
        ("世".encode()[:2], 2),
        ("🎉".encode()[:1], 1),
        ("🎉".encode()[:2], 2),
        ("🎉".encode()[:3], 3),
        (b"a" + "🎉".encode()[:3], 3),
        ("🎉".encode(), 0),
        (b"\x80\x80\x80", 0),
        (b"\xff", 0),
        (b"\xc3\xa9\xc3", 1),
    ],
)
def test_unfinished_bytes_are_counted(data: bytes, count: int) -> None:
    assert unfinished_bytes(data) == count
