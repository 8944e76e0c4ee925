from __future__ import annotations

import hashlib

from workers.engine.base import TokenizerFile
from workers.tokenizer_bundle import tokenizer_hash


def test_the_hash_is_over_names_sizes_and_bytes_in_order_of_names() -> None:
    expected = hashlib.sha256(b"a\0" + (2).to_bytes(8, "big") + b"xy" + b"b\0" + (0).to_bytes(8, "big")).hexdigest()
    files = [TokenizerFile("b", b""), TokenizerFile("a", b"xy")]
    assert tokenizer_hash(files) == tokenizer_hash(files[::-1]) == expected


def test_bytes_can_not_move_between_files_unnoticed() -> None:
    one = tokenizer_hash([TokenizerFile("a", b"xy"), TokenizerFile("b", b"z")])
    assert one != tokenizer_hash([TokenizerFile("a", b"x"), TokenizerFile("b", b"yz")])
