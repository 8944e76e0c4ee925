"""A model's tokenizer that reads control tokens only where the caller of this code says so."""

from __future__ import annotations

import json
import re
from typing import Any

from tokenizers import AddedToken, Tokenizer

from control_plane.contracts.errors import InvalidRequest
from control_plane.gateway.prompt.control_text import ControlText, secret_name

# Tokens that are not marked special but are markup to the model: <think>, [TOOL_CALLS].
_MARKUP = re.compile(r"<\S+>|\[\S+\]")


class PromptTokenizer:
    """Text to token ids with the model's ``tokenizer.json``.

    Inside, the tokenizer's own reading of special tokens is off, and every control token has a second, secret name.
    ``encode`` writes the secret names where control tokens are meant, so that one pass over the whole text treats what
    is around them exactly as the reference does, and no text that a caller can send is a control token.
    """

    def __init__(self, tokenizer_json: bytes) -> None:
        description: dict[str, Any] = json.loads(tokenizer_json)
        added: list[dict[str, Any]] = description.get("added_tokens") or []
        control = [token for token in added if token["special"] or _MARKUP.fullmatch(token["content"])]
        changed = [token for token in control if not token["special"]]
        for token in changed:
            token["special"] = True
        text = json.dumps(description) if changed else tokenizer_json.decode()
        tokenizer = Tokenizer.from_str(text)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.size = tokenizer.get_vocab_size(with_added_tokens=True)
        self.longest_token = max((len(token) for token in tokenizer.get_vocab(with_added_tokens=True)), default=1)
        self.control = ControlText([token["content"] for token in control if token["content"]])
        self._prefix, self._suffix = _around(tokenizer)
        tokenizer.encode_special_tokens = True
        self._secret = {token["content"]: secret_name() for token in control}
        self._separator = secret_name()
        tokenizer.add_tokens(
            [_named(self._secret[token["content"]], token) for token in control]
            + [AddedToken(self._separator, special=False, normalized=False)]
        )
        self._real = {tokenizer.token_to_id(self._secret[token["content"]]): token["id"] for token in control}
        self._separator_id = tokenizer.token_to_id(self._separator)
        self.control_ids = frozenset(token["id"] for token in control)
        self._tokenizer = tokenizer

    def encode_rendered(self, text: str, nonce: str) -> list[int]:
        """Ids of a rendered template, whose whole control strings are meant and whose nonces are not text."""
        parts = []
        for plain, control in self.control.split(text):
            parts.append(plain)
            if control:
                parts.append(self._secret[control])
        return self._encode("".join(parts), nonce)

    def encode_text(self, text: str, nonce: str) -> list[int]:
        """Ids of text that is all a caller's, between the tokens that the model puts around any text."""
        return [*self._prefix, *self._encode(text, nonce), *self._suffix]

    def decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=False)

    def _encode(self, text: str, nonce: str) -> list[int]:
        ids = self._raw(text.replace(nonce, "") if nonce else text)
        if not self.control_ids.isdisjoint(ids):
            # The vocabulary itself has the control string as an ordinary piece: keep it apart.
            ids = self._raw(text.replace(nonce, self._separator) if nonce else text)
            if not self.control_ids.isdisjoint(ids):
                raise InvalidRequest("The text cannot be told from this model's control tokens.")
        real = self._real
        separator = self._separator_id
        return [real.get(item, item) for item in ids if item != separator]

    def _raw(self, text: str) -> list[int]:
        # encode() would keep the interpreter's lock, and with it every stream, for as long as it takes.
        return self._tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids


def _named(secret: str, token: dict[str, Any]) -> AddedToken:
    """The control token under its secret name, with the same habits towards the text around it."""
    return AddedToken(
        secret,
        special=False,
        normalized=token["normalized"],
        lstrip=token["lstrip"],
        rstrip=token["rstrip"],
        single_word=token["single_word"],
    )


def _around(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """What the model wants before and after any text, for example a beginning-of-sequence token."""
    inner = tokenizer.encode("a", add_special_tokens=False).ids
    whole = tokenizer.encode("a", add_special_tokens=True).ids
    for start in range(len(whole) - len(inner) + 1):
        if whole[start : start + len(inner)] == inner:
            return whole[:start], whole[start + len(inner) :]
    return [], []
