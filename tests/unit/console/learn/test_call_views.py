from __future__ import annotations

from typing import Any

import pytest

from console.http import Endpoint
from console.learn import errand
from console.learn.call_views import ROOM, call_view_lines, client_lines, token_lines
from console.learn.calls import Caller
from console.learn.keyring import Keyring
from console.text import width
from control_plane.contracts.errors import InferDeckError
from tests.unit.console.openai_server import Call, serving


class Sandbox:
    key = "own"

    def __init__(self, url: str) -> None:
        self.endpoint = Endpoint.parse(url)


async def test_a_text_is_shown_in_the_gateways_own_tokens() -> None:
    async def script(call: Call) -> None:
        assert call.path == "/tokenize"
        assert call.body == {"model": "m", "prompt": "hi you", "return_token_strs": True}
        await call.json({"count": 2, "tokens": [5, 12345], "token_strs": ["hi", " you"]})

    nobody: Any = None
    async with serving(script) as server:
        sandbox: Any = Sandbox(server.url)
        caller = Caller(sandbox.endpoint, Keyring("own"), "m", "s")
        lines = await call_view_lines(nobody, "tokens", "hi you", sandbox, caller)
    assert lines == ("hi  ·you", "5   12345", "", "2 tokens; · is a space")


async def test_a_gateway_that_cannot_tell_yet_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errand, "RETRY_S", 0.0)
    asked = 0

    async def script(call: Call) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            await call.error(503, "keys_unavailable")
        else:
            await call.json({"count": 1, "tokens": [5], "token_strs": ["hi"]})

    nobody: Any = None
    async with serving(script) as server:
        sandbox: Any = Sandbox(server.url)
        caller = Caller(sandbox.endpoint, Keyring("own"), "m", "s")
        lines = await call_view_lines(nobody, "tokens", "hi", sandbox, caller)
    assert (asked, lines[-1]) == (2, "1 token; · is a space")


async def test_a_tokenizer_that_refuses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errand, "RETRY_S", 0.0)

    async def script(call: Call) -> None:
        await call.error(503, "model_loading")

    nobody: Any = None
    async with serving(script) as server:
        sandbox: Any = Sandbox(server.url)
        caller = Caller(sandbox.endpoint, Keyring("own"), "m", "s")
        with pytest.raises(InferDeckError, match="no: model_loading"):
            await call_view_lines(nobody, "tokens", "hi", sandbox, caller)


async def test_a_call_that_was_not_made_here_is_said_so() -> None:
    nobody: Any = None
    sandbox: Any = Sandbox("http://127.0.0.1:1")
    caller = Caller(sandbox.endpoint, Keyring("own"), "m", "s")
    for view in ("wire", "waterfall", "hops"):
        (line,) = await call_view_lines(nobody, view, "one", sandbox, caller)  # type: ignore[arg-type]
        assert "no call 'one' was made in this sandbox yet" in line


def test_tokens_fill_the_room_and_no_more() -> None:
    tokens = [(number, "word" if number % 3 else "\x1b") for number in range(60)]
    lines = list(token_lines(tokens, 40))
    assert all(width(line) <= 40 for line in lines)
    assert "\x1b" not in "".join(lines)
    assert lines[-1] == "60 tokens; · is a space"
    assert sum(line.split().count("59") for line in lines) == 1


def test_a_program_of_ones_own_is_told_where_the_sandbox_is() -> None:
    text = "\n".join(client_lines(Endpoint.parse("http://127.0.0.1:4711/v1"), "/tmp/home", "some-model"))
    assert "export INFERDECK_HOME=/tmp/home\nexport OPENAI_BASE_URL=http://127.0.0.1:4711/v1\n" in text
    assert all(width(line) <= ROOM for line in text.splitlines()), "nothing is cut beside a lesson's words"
    program = text.partition("from openai")[2]
    compile("from openai" + program, "program", "exec")
    assert 'model="some-model"' in program
