"""A model's chat template, rendered as Hugging Face's tokenizers render it, within bounds of time and size."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from control_plane.contracts.errors import InvalidRequest

Message = dict[str, Any]
"""What a template is given: an object as JSON has it, whose texts are guarded."""

RENDER_S = 2.0
"""Most processor time that one rendering may take, checked at every piece of output. How long it had to wait for a
processor is not the messages' fault."""


class _Generation(jinja2.ext.Extension):
    """``{% generation %}…{% endgeneration %}`` marks what an assistant said, for training; here it changes nothing."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


class ChatTemplate:
    """One template. ``tokens`` are the names a template may use for special tokens (``bos_token`` …).

    ``reads_tools``: whether it looks at the tools that a caller offers.
    """

    def __init__(self, source: str, tokens: dict[str, str]) -> None:
        environment = _environment()
        try:
            tree = environment.parse(source)
            self._template = environment.from_string(source)
            # They are copied for every rendering, and a chain of mappings takes long over that.
            self._template.globals = dict(self._template.globals)
        except jinja2.TemplateError as error:
            raise ValueError(f"the chat template cannot be compiled: {error}") from error
        self.source = source
        self._tokens = tokens
        self._fields = _fields(tree)
        self.reads_tools = any(node.name == "tools" for node in tree.find_all(jinja2.nodes.Name))
        self._knows_developer = "developer" in source

    def reads(self, field: str) -> bool:
        """Whether the template looks at a field of this name, of a message or of anything else."""
        return field in self._fields

    def role(self, role: str) -> str:
        """What the template calls this role: a template that does not know developers calls them system."""
        return "system" if role == "developer" and not self._knows_developer else role

    def render(self, messages: Sequence[Message], max_length: int, tools: Sequence[Message] = ()) -> str:
        """The prompt's text, ready for the assistant's answer; at most ``max_length`` characters.

        Raises InvalidRequest where the template refuses the messages, fails on them, or takes too long.
        """
        deadline, cpu_deadline = time.monotonic() + RENDER_S, time.thread_time() + RENDER_S
        pieces: list[str] = []
        length = 0
        try:
            for piece in self._template.generate(
                messages=messages, tools=tools or None, documents=None, add_generation_prompt=True, **self._tokens
            ):
                pieces.append(piece)
                length += len(piece)
                if length > max_length:
                    raise InvalidRequest("The messages are too long.", param="messages")
                if time.monotonic() > deadline and time.thread_time() > cpu_deadline:
                    raise InvalidRequest("The chat template takes too long over these messages.", param="messages")
        except jinja2.exceptions.SecurityError:
            raise InvalidRequest("The model's chat template does what it may not.", param="messages") from None
        except jinja2.TemplateError as error:
            raise InvalidRequest(
                f"The model's chat template refuses these messages: {error.message}", param="messages"
            ) from None
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError, AttributeError):
            raise InvalidRequest("The model's chat template cannot render these messages.", param="messages") from None
        return "".join(pieces)


def _fields(tree: jinja2.nodes.Template) -> frozenset[str]:
    names = {node.attr for node in tree.find_all(jinja2.nodes.Getattr)}
    names |= {node.value for node in tree.find_all(jinja2.nodes.Const) if isinstance(node.value, str)}
    return frozenset(names)
