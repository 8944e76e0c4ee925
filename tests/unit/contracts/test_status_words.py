"""Errors over gRPC: whatever a caller's words in them are, the caller hears the error and no other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from control_plane.contracts.errors import DropReason, InferDeckError, InvalidRequest
from control_plane.contracts.wire.status import abort_with, error_from


class Refusing:
    """A server that ends every call with ``error``."""

    error: InferDeckError

    async def answer(self, request: bytes, context: Any) -> bytes:
        await abort_with(context, self.error)

    async def told(self, call: Any, error: InferDeckError) -> InferDeckError:
        self.error = error
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await call(b"")
        return error_from(ended.value)


@pytest.fixture
async def server() -> AsyncIterator[tuple[Refusing, Any]]:
    refusing, server = Refusing(), grpc.aio.server()
    handlers = {"Ask": grpc.unary_unary_rpc_method_handler(refusing.answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield refusing, channel.unary_unary("/test.Service/Ask")
    await server.stop(0)


async def test_an_error_comes_whole(server: tuple[Refusing, Any]) -> None:
    refusing, call = server
    told = await refusing.told(call, InvalidRequest("no é here\nnor there", param="a.b", hint="inferdeck get x"))
    assert (type(told), told.reason) == (InvalidRequest, DropReason.INVALID_REQUEST)
    assert (told.message, told.param, told.hint) == ("no é here\nnor there", "a.b", "inferdeck get x")


@pytest.mark.parametrize("words", ["\x1b[31mred", "a\0b", "a\tb\r\nc", "\x7f", "日本\u202e", "\udcff\ud800"])
async def test_a_callers_odd_characters_do_not_become_an_error_of_grpcs_own(
    server: tuple[Refusing, Any], words: str
) -> None:
    refusing, call = server
    told = await refusing.told(call, InvalidRequest(f"{words} is wrong", param=words, hint=f"not {words}"))
    assert told.reason == DropReason.INVALID_REQUEST
    assert told.message.endswith(" is wrong")
    assert (told.param or "").isprintable()
    assert told.hint.isprintable()


@pytest.mark.parametrize("char", ["x", "%", "é", "\0", "😀", "\udcff"])
async def test_a_callers_many_words_are_cut(server: tuple[Refusing, Any], char: str) -> None:
    refusing, call = server
    words = char * 100_000
    told = await refusing.told(call, InvalidRequest(f"not so: {words}", param=words, hint=words))
    assert told.reason == DropReason.INVALID_REQUEST
    assert told.message.startswith("not so: ")
    assert told.message.endswith("...")
