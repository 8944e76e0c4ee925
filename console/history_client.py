"""The History service of the operators' API from the outside: callers' conversations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from control_plane.contracts.history_view import ConversationDetail, ConversationList
from control_plane.contracts.v1 import history_pb2 as pb
from control_plane.contracts.v1.history_pb2_grpc import HistoryStub
from control_plane.contracts.wire.convert import from_wire

Unary = Callable[[Any, Any], Awaitable[Any]]


class HistoryClient:
    """Part of an ``OperatorClient``, on its connection: ``unary`` makes a call there and tells what went wrong."""

    def __init__(self, channel: grpc.aio.Channel, unary: Unary) -> None:
        stub: Any = HistoryStub
        self._stub = stub(channel)
        self._unary = unary

    async def conversations(self, limit: int = 0) -> ConversationList:
        """Those of all tenants that changed last; 0 is as many as the server thinks fit."""
        request = pb.ListConversationsRequest(limit=limit)
        return from_wire(await self._unary(self._stub.ListConversations, request), ConversationList)

    async def conversation(self, conversation_id: str, *, content: bool = False) -> ConversationDetail:
        """``content``: with what was said, which is audited."""
        call = self._stub.ReadConversation if content else self._stub.GetConversation
        request = pb.ConversationRef(conversation_id=conversation_id)
        return from_wire(await self._unary(call, request), ConversationDetail)
