"""Everything that turns one model's messages and prompts into token ids."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from control_plane.contracts.call import TokenizerBundle
from control_plane.contracts.errors import DropReason, InvalidRequest
from control_plane.gateway.prompt.chat_template import ChatTemplate, Message
from control_plane.gateway.prompt.control_text import choose_nonce
from control_plane.gateway.prompt.guarding import guarded, texts_of
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
        tokens = _tokens(config)
        named = {name: ChatTemplate(source, tokens) for name, source in _templates(bundle.files, config).items()}
        self._template = named.get("default")
        self._tool_template = named.get("tool_use", self._template)

    @property
    def control_ids(self) -> frozenset[int]:
        """Tokens that are not text."""
        return self._tokenizer.control_ids

    def chat(self, messages: Sequence[Message], tools: Sequence[Message] = ()) -> list[int]:
        """The ids of a chat's prompt, up to where the assistant's answer begins. Raises InvalidRequest."""
        template = self._tool_template if tools else self._template
        if template is None:
            raise InvalidRequest("This model has no chat template: use /v1/completions.", param="model")
        if tools and not template.reads_tools:
            raise InvalidRequest(
                "Unsupported parameter: this model's chat template does not read 'tools'.",
                param="tools",
                code="unsupported_parameter",
            )
        shown: list[Message] = []
        texts: list[str] = []
        for index, message in enumerate(messages):
            seen: Message = {}
            for field, item in message.items():
                if field == "role":
                    seen[field] = template.role(item)
                elif field == "content":
                    seen[field] = item
                    texts.append(item)
                elif _shown(template, index, field):
                    seen[field] = item
                    texts.extend(texts_of(item))
            shown.append(seen)
        offered = list(tools)
        texts.extend(texts_of(offered))
        longest = self._longest_text()
        length = sum(map(len, texts))
        if length > longest:
            raise self._certainly_too_long(length, "messages")
        control = self._tokenizer.control
        nonce = ""
        if any(map(control.hazardous, texts)):
            nonce = choose_nonce([template.source, *texts])
            offered = guarded(offered, control, nonce)
            for message in shown:
                for field, item in message.items():
                    if field != "role":
                        whole = type(item) is str
                        message[field] = control.guard(item, nonce) if whole else guarded(item, control, nonce)
        rendered = template.render(shown, 4 * longest + 65536, offered)
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
            raise InvalidRequest("Invalid 'prompt': it has no tokens.", param="prompt", code="empty_string")
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


def _shown(template: ChatTemplate, index: int, field: str) -> bool:
    """Whether the template reads this field of a message; False where it may be left out. Raises InvalidRequest."""
    if template.reads(field):
        return True
    if field == "tool_call_id" and template.reads_tools:
        # To such a template the order says which call a result belongs to.
        return False
    name = f"messages[{index}].{field}"
    raise InvalidRequest(
        f"Unsupported parameter: this model's chat template does not read '{name}'.",
        param=name,
        code="unsupported_parameter",
    )


def _templates(files: dict[str, bytes], config: dict[str, Any]) -> dict[str, str]:
    """The chat templates by name: a file of its own comes before what the tokenizer's configuration says."""
    if (file := files.get("chat_template.jinja")) is not None:
        return {"default": file.decode()}
    found = _json(files.get("chat_template.json")).get("chat_template") or config.get("chat_template")
    if isinstance(found, list):
        return {entry["name"]: entry["template"] for entry in found if entry["name"] in ("default", "tool_use")}
    return {"default": found} if isinstance(found, str) else {}


def _tokens(config: dict[str, Any]) -> dict[str, str]:
    tokens = {}
    for name in _TOKEN_NAMES:
        value = config.get(name)
        if isinstance(value, dict):
            value = value.get("content")
        if isinstance(value, str):
            tokens[name] = value
    return tokens
