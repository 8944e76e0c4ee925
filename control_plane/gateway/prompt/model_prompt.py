"""Everything that turns one model's messages and prompts into token ids."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from control_plane.contracts.call import TokenizerBundle
from control_plane.contracts.errors import DropReason, InvalidRequest
from control_plane.gateway.prompt.chat_template import ChatTemplate
from control_plane.gateway.prompt.control_text import choose_nonce
from control_plane.gateway.prompt.tokenizer import PromptTokenizer

_TOKEN_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


class ModelPrompt:
    """Made from a worker's tokenizer files; its methods are called in threads, several at a time.

    Raises ValueError when the files cannot be used; ``hash``, ``max_context`` and ``vocab_size`` are the bundle's.
    """

    def __init__(self, bundle: TokenizerBundle) -> None:
        self.hash = bundle.hash
        self.max_context = bundle.max_context
        tokenizer_json = bundle.files.get("tokenizer.json")
        if tokenizer_json is None:
            raise ValueError("the model has no tokenizer.json")
        self._tokenizer = PromptTokenizer(tokenizer_json)
        self.vocab_size = bundle.vocab_size or self._tokenizer.size
        config = _json(bundle.files.get("tokenizer_config.json"))
        source = _template_source(bundle.files, config)
        self._template = None if source is None else ChatTemplate(source, _tokens(config))

    @property
    def control_ids(self) -> frozenset[int]:
        """Tokens that are not text."""
        return self._tokenizer.control_ids

    def chat(self, messages: Sequence[dict[str, str]]) -> list[int]:
        """The ids of a chat's prompt, up to where the assistant's answer begins. Raises InvalidRequest."""
        template = self._template
        if template is None:
            raise InvalidRequest("This model has no chat template: use /v1/completions.", param="model")
        longest = self._longest_text()
        length = 0
        guarded = False
        control = self._tokenizer.control
        for index, message in enumerate(messages):
            for field, text in message.items():
                if field == "role":
                    continue
                if field != "content" and not template.reads(field):
                    name = f"messages[{index}].{field}"
                    raise InvalidRequest(
                        f"Unsupported parameter: this model's chat template does not read '{name}'.",
                        param=name,
                        code="unsupported_parameter",
                    )
                length += len(text)
                guarded = guarded or control.hazardous(text)
        if length > longest:
            raise self._certainly_too_long(length, "messages")
        nonce = ""
        if guarded:
            nonce = choose_nonce([template.source, *(text for message in messages for text in message.values())])
        shown = [
            {
                field: template.role(text) if field == "role" else control.guard(text, nonce) if guarded else text
                for field, text in message.items()
            }
            for message in messages
        ]
        rendered = template.render(shown, 4 * longest + 65536)
        return self._tokenizer.encode_rendered(rendered, nonce)

    def completion(self, prompt: str | list[int]) -> list[int]:
        """The ids of a plain prompt; control strings in it are text, control ids are what they are."""
        if not isinstance(prompt, str):
            if prompt and max(prompt) >= self.vocab_size:
                raise InvalidRequest(
                    f"Invalid 'prompt': token ids must be below {self.vocab_size}.",
                    param="prompt",
                    code="invalid_value",
                )
            ids = prompt
        else:
            if len(prompt) > self._longest_text():
                raise self._certainly_too_long(len(prompt), "prompt")
            nonce = ""
            if self._tokenizer.control.hazardous(prompt):
                nonce = choose_nonce([prompt])
                prompt = self._tokenizer.control.guard(prompt, nonce)
            ids = self._tokenizer.encode_text(prompt, nonce)
        if not ids:
            raise InvalidRequest("Invalid 'prompt': it is empty.", param="prompt", code="empty_string")
        return ids

    def text_of(self, prompt: str | list[int]) -> str:
        """A prompt as text, to be echoed."""
        return prompt if isinstance(prompt, str) else self._tokenizer.decode(prompt)

    def _longest_text(self) -> int:
        """Characters that no tokenisation can fit into the context."""
        return self.max_context * self._tokenizer.longest_token

    def _certainly_too_long(self, length: int, param: str) -> InvalidRequest:
        least = -(-length // self._tokenizer.longest_token)
        return InvalidRequest(
            f"This model's maximum context length is {self.max_context} tokens. However, your {param} are at least "
            f"{least} tokens long. Please reduce their length.",
            reason=DropReason.CONTEXT_LENGTH_EXCEEDED,
            param=param,
        )


def _json(data: bytes | None) -> dict[str, Any]:
    if data is None:
        return {}
    value = json.loads(data)
    return value if isinstance(value, dict) else {}


def _template_source(files: dict[str, bytes], config: dict[str, Any]) -> str | None:
    """The chat template: a file of its own comes before what the tokenizer's configuration says."""
    if (file := files.get("chat_template.jinja")) is not None:
        return file.decode()
    found = _json(files.get("chat_template.json")).get("chat_template") or config.get("chat_template")
    if isinstance(found, list):
        named = {entry["name"]: entry["template"] for entry in found}
        found = named.get("default")
    return found if isinstance(found, str) else None


def _tokens(config: dict[str, Any]) -> dict[str, str]:
    tokens = {}
    for name in _TOKEN_NAMES:
        value = config.get(name)
        if isinstance(value, dict):
            value = value.get("content")
        if isinstance(value, str):
            tokens[name] = value
    return tokens
