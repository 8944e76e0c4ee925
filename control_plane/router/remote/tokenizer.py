"""A model's tokenizer, by way of a router."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import grpc

from control_plane.contracts.call import TokenizerBundle
from control_plane.contracts.errors import InternalError
from control_plane.contracts.identity import Peer
from control_plane.contracts.v1 import router_pb2 as pb
from control_plane.contracts.v1.router_pb2_grpc import RouterStub
from control_plane.contracts.wire.secure import open_channel
from control_plane.contracts.wire.status import error_from
from control_plane.router.forwarder.tokenizer import tokenizer_hash

TIMEOUT_S = 30.0


async def fetch_bundle(
    address: str, model: str, known: TokenizerBundle | None = None, credentials: str = ""
) -> TokenizerBundle:
    """The bundle; ``known`` itself where it is the same still.

    Raises what the router says, Unavailable when nobody answers, InternalError when it is not what was promised.
    """
    request = pb.ModelTokenizerRequest(model=model, known_hash=known.hash if known is not None else "")
    pieces: dict[str, bytearray] = {}
    head: pb.TokenizerChunk | None = None
    try:
        async with open_channel(address, credentials, Peer.ROUTER) as channel:
            make_stub: Any = RouterStub
            async for chunk in make_stub(channel).GetTokenizer(request, timeout=TIMEOUT_S):
                if head is None:
                    head = chunk
                else:
                    pieces.setdefault(chunk.file.name, bytearray()).extend(chunk.file.data)
    except grpc.aio.AioRpcError as error:
        raise error_from(error, peer=address, waited_s=TIMEOUT_S) from None
    if head is None:
        raise InternalError(f"the router at {address} told nothing of the tokenizer")
    if head.unchanged and known is not None:
        if (head.max_context, head.vocab_size) == (known.max_context, known.vocab_size):
            return known
        return replace(known, max_context=head.max_context, vocab_size=head.vocab_size)
    files = {name: bytes(data) for name, data in pieces.items()}
    if tokenizer_hash(files) != head.hash:
        raise InternalError(f"the tokenizer that {address} sent is not the one that it goes by")
    return TokenizerBundle(head.hash, files, head.max_context, head.vocab_size)
