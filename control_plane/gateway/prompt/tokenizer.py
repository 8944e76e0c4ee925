"""A model's tokenizer that reads control tokens only where the caller of this code says so."""

from __future__ import annotations

import json
import re
from array import array
from typing import Any

from tokenizers import AddedToken, Tokenizer

from control_plane.contracts.errors import InvalidRequest
from control_plane.gateway.prompt.control_text import ControlText, secret_name
from control_plane.gateway.prompt.segment_cache import SegmentCache

# Tokens that are not marked special but are markup to the model: <think>, [TOOL_CALLS].
_CACHE_BYTES = 32 * 1024 * 1024

_MARKUP = re.compile(r"<\S+>|\[\S+\]")


class PromptTokenizer:
    """Text to token ids with the model's ``tokenizer.json``.

    Inside, the tokenizer's own reading of special tokens is off, and every control token has a second, secret name.
    ``encode`` writes the secret names where control tokens are meant, so that one pass over the whole text treats what
    is around them exactly as the reference does, and no text that a caller can send is a control token.

    Most tokenizers treat the text between two control tokens all by itself. Then it is encoded so, and remembered.
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
        self._ids = {token["content"]: token["id"] for token in control}
        self._real = {tokenizer.token_to_id(self._secret[token["content"]]): token["id"] for token in control}
        self._separator_id = tokenizer.token_to_id(self._separator)
        self.control_ids = frozenset(token["id"] for token in control)
        # What no text may give. The token for unknown characters is special too, but only means that they are unknown.
        self._forbidden = self.control_ids - _unknown_ids(description, tokenizer)
        self._tokenizer = tokenizer
        self._segments = SegmentCache(_CACHE_BYTES) if _segmentable(description, control) else None

    def encode_rendered(self, text: str, nonce: str) -> list[int]:
        """Ids of a rendered template, whose whole control strings are meant and whose nonces are not text."""
        segments = self.control.split(text)
        if self._segments is not None:
            ids = self._encode_segments(self._segments, segments, nonce)
            if ids is not None:
                return ids
        return self._encode("".join(plain + self._secret.get(control, "") for plain, control in segments), nonce)

    def encode_text(self, text: str, nonce: str) -> list[int]:
        """Ids of text that is all a caller's, between the tokens that the model puts around any text."""
        return [*self._prefix, *self._encode(text, nonce), *self._suffix]

    def decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=False)

    def _encode(self, text: str, nonce: str) -> list[int]:
        ids = self._raw(text.replace(nonce, "") if nonce else text)
        if not self._forbidden.isdisjoint(ids):
            # The vocabulary itself has the control string as an ordinary piece: keep it apart.
            ids = self._raw(text.replace(nonce, self._separator) if nonce else text)
            if not self._forbidden.isdisjoint(ids):
                raise InvalidRequest("The text cannot be told from this model's control tokens.")
        real = self._real
        separator = self._separator_id
        return [real.get(item, item) for item in ids if item != separator]

    def _encode_segments(self, cache: SegmentCache, segments: list[tuple[str, str]], nonce: str) -> list[int] | None:
        """None where a segment's own text gives a control id, which takes more care."""
        if nonce:
            segments = [(plain.replace(nonce, ""), control) for plain, control in segments]
        known = cache.find(plain for plain, _ in segments)
        unknown = [plain for plain in {plain for plain, _ in segments} if plain not in known]
        for plain, ids in zip(unknown, self._encode_all(unknown) if unknown else [], strict=True):
            if not self._forbidden.isdisjoint(ids):
                return None
            known[plain] = array("i", ids)
            cache.keep(plain, known[plain])
        joined: list[int] = []
        for plain, control in segments:
            joined.extend(known[plain])
            if control:
                joined.append(self._ids[control])
        return joined

    def _raw(self, text: str) -> list[int]:
        return self._encode_all([text])[0]

    def _encode_all(self, texts: list[str]) -> list[list[int]]:
        # encode() would keep the interpreter's lock, and with it every stream, for as long as it takes.
        return [entry.ids for entry in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


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


def _unknown_ids(description: dict[str, Any], tokenizer: Tokenizer) -> set[int]:
    model = description["model"]
    unknown = model.get("unk_id")
    if unknown is None and model.get("unk_token") is not None:
        unknown = tokenizer.token_to_id(model["unk_token"])
    return set() if unknown is None else {unknown}


def _segmentable(description: dict[str, Any], control: list[dict[str, Any]]) -> bool:
    """Whether text is read alike whether or not a control token comes before it.

    It is not where a control token takes blanks from the text beside it or is looked for in normalised text, and where
    the first word of the whole input is marked as such (Metaspace).
    """
    if any(token["lstrip"] or token["rstrip"] or token["single_word"] for token in control):
        return False
    if description.get("normalizer") is not None and any(token["normalized"] for token in control):
        return False
    return not _marks_first(description.get("pre_tokenizer"))


def _marks_first(pre_tokenizer: Any) -> bool:
    if isinstance(pre_tokenizer, dict):
        return pre_tokenizer.get("prepend_scheme") == "first" or any(map(_marks_first, pre_tokenizer.values()))
    return isinstance(pre_tokenizer, list) and any(map(_marks_first, pre_tokenizer))
