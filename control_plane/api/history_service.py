"""The service of ``history.proto``: conversations as operators see them."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from control_plane.api.answering import Context, unary
from control_plane.api.trail import Trail
from control_plane.contracts.conversation import Conversation, Item
from control_plane.contracts.history_view import ConversationDetail, ConversationList, ConversationView, ItemView
from control_plane.contracts.v1 import history_pb2 as pb
from control_plane.contracts.v1 import history_pb2_grpc
from control_plane.contracts.wire.convert import to_wire
from control_plane.store import Conversations

_LISTED: Final = 1000
_MOST_LISTED: Final = 10_000


class HistoryService(history_pb2_grpc.HistoryServicer):
    def __init__(self, conversations: Conversations, trail: Trail) -> None:
        self._conversations = conversations
        self._trail = trail

    @unary
    async def ListConversations(  # noqa: N802
        self, request: pb.ListConversationsRequest, context: Context
    ) -> pb.ConversationList:
        limit = min(request.limit or _LISTED, _MOST_LISTED)
        found = await asyncio.to_thread(self._conversations.everyones, limit)
        return to_wire(ConversationList(tuple(map(_view, found)), time.time()), pb.ConversationList)

    @unary
    async def GetConversation(self, request: pb.ConversationRef, context: Context) -> pb.ConversationDetail:  # noqa: N802
        return to_wire(await self._detail(request.conversation_id, content=False), pb.ConversationDetail)

    @unary
    async def ReadConversation(self, request: pb.ConversationRef, context: Context) -> pb.ConversationDetail:  # noqa: N802
        detail = await self._detail(request.conversation_id, content=True)
        read = {"items": len(detail.items)}
        await self._trail.left("conversation.read", f"conversation/{request.conversation_id}", {}, read)
        return to_wire(detail, pb.ConversationDetail)

    async def _detail(self, conversation_id: str, *, content: bool) -> ConversationDetail:
        def find() -> ConversationDetail:
            found = self._conversations.anyones(conversation_id)
            items = self._conversations.history(found.tenant, conversation_id)
            return ConversationDetail(_view(found), tuple(_item(item, content) for item in items), time.time())

        return await asyncio.to_thread(find)


def _view(found: Conversation) -> ConversationView:
    return ConversationView(
        found.id, found.tenant, found.created_unix, found.updated_unix, found.items, found.characters
    )


def _item(item: Item, content: bool) -> ItemView:
    return ItemView(
        item.id,
        item.seq,
        item.role,
        item.status,
        item.turn_id,
        item.turn_status,
        len(item.text),
        item.created_unix,
        item.text if content else "",
    )
