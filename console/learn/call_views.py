"""Views of a lesson's calls, as lines: over the wire, by their stages, in tokens, in a conversation, and from one's own
program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from console import figures
from console.client import OperatorClient
from console.http import Endpoint
from console.learn.calls import Caller, Made
from console.learn.conversation_view import conversation_lines
from console.learn.errand import errand
from console.learn.sandbox import RunningSandbox
from console.learn.token_way import hop_lines, hops_seen
from console.learn.wire import wire_lines
from console.plain.timeline import timeline_lines
from console.text import literal, width
from lessons.model import View

ROOM: Final = 56
"""Cells: what is told stands beside a lesson's words."""

_TABLE_ROOM: Final = 75


async def call_view_lines(
    client: OperatorClient, view: View, of: str, sandbox: RunningSandbox, calls: Caller
) -> tuple[str, ...]:
    if view == "client":
        return tuple(client_lines(sandbox.endpoint, str(sandbox.home.path), calls.model))
    if view == "tokens":
        return tuple(token_lines(await _tokens(sandbox.endpoint, sandbox.key, calls.model, of)))
    if view == "conversation":
        return await _conversation(sandbox.endpoint, of, calls)
    made = calls.latest.get(of)
    if made is None:  # who goes on with a lesson has a new sandbox
        return (f"no call {of!r} was made in this sandbox yet: go back, and run its experiment again",)
    if view == "wire":
        return tuple(wire_lines(f"/v1{made.path}", made.body, made.answer, ROOM))
    if view == "hops":
        return tuple(hop_lines(hops_seen(made, await client.timeline(made.request_id))))
    return tuple(await _waterfall(client, made))


async def _waterfall(client: OperatorClient, made: Made) -> list[str]:
    timeline = await client.timeline(made.request_id)
    return list(timeline_lines(timeline, timeline.request.duration_s, ROOM))


async def _conversation(endpoint: Endpoint, name: str, calls: Caller) -> tuple[str, ...]:
    if name not in calls.conversations:  # likewise
        return (f"no conversation {name!r} was held in this sandbox yet: go back, and run its experiment again",)
    items = await calls.conversations.read(endpoint, name)
    return tuple(conversation_lines(calls.conversations.id_of(name), items, calls.talks.get(name, ()), _TABLE_ROOM))


async def _tokens(endpoint: Endpoint, key: str, model: str, text: str) -> list[tuple[int, str]]:
    """The ids that a call of this text would have, each with its text, by the gateway's own tokenizer."""
    body = {"model": model, "prompt": text, "return_token_strs": True}
    told = await errand(replace(endpoint, path=""), "/tokenize", key, body)
    return list(zip(told["tokens"], told["token_strs"], strict=True))


def token_lines(tokens: list[tuple[int, str]], room: int = ROOM) -> Iterator[str]:
    """Each token's text above its id, as many beside each other as there is room for."""
    above, below = "", ""
    for token_id, text in tokens:
        shown = literal(text).replace(" ", "·") or "–"
        cells = max(width(shown), len(str(token_id)))
        if above and len(below) + 2 + cells > room:
            yield from (above.rstrip(), below.rstrip(), "")
            above, below = "", ""
        above += shown + " " * (cells - width(shown) + 2)
        below += str(token_id).ljust(cells + 2)
    if above:
        yield from (above.rstrip(), below.rstrip(), "")
    yield f"{figures.plural(len(tokens), 'token')}; · is a space"


def client_lines(endpoint: Endpoint, home: str, model: str) -> Iterator[str]:
    """What another terminal needs: the address, the key, and two programs that use them."""
    yield f"export INFERDECK_HOME={home}"
    yield f"export OPENAI_BASE_URL={endpoint.url}"
    yield "export OPENAI_API_KEY=$(inferdeck key --reveal)"
    yield ""
    yield 'inferdeck chat --temperature 0 "What is 2 + 2?"'
    yield ""
    yield "from openai import OpenAI"
    yield 'ask = {"role": "user", "content": "Say hello."}'
    yield "stream = OpenAI().chat.completions.create("
    yield f'    model="{model}",'
    yield "    messages=[ask], stream=True)"
    yield "for event in stream:"
    yield "    text = event.choices[0].delta.content"
    yield '    print(text or "", end="", flush=True)'
