"""The files of a worker's tokenizer, checked against the hash that the worker goes by."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import grpc

from control_plane.contracts.errors import InternalError
from control_plane.contracts.identity import Peer
from control_plane.contracts.v1 import worker_pb2 as pb
from control_plane.contracts.v1.worker_pb2_grpc import WorkerStub
from control_plane.contracts.wire.secure import open_channel
from control_plane.contracts.wire.status import error_from

TIMEOUT_S = 30.0


def tokenizer_hash(files: Mapping[str, bytes]) -> str:
    """sha256 over the files in order of their names: name, a zero byte, the size as 8 bytes big-endian, the bytes."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(name.encode() + b"\0" + len(files[name]).to_bytes(8, "big"))
        digest.update(files[name])
    return digest.hexdigest()


async def fetch_tokenizer(address: str, expected_hash: str, credentials: str = "") -> dict[str, bytes]:
    """File name → content. Raises Unavailable when nobody answers, InternalError when it is not what was promised."""
    pieces: dict[str, bytearray] = {}
    sizes: dict[str, int] = {}
    try:
        async with open_channel(address, credentials, Peer.WORKER) as channel:
            make_stub: Any = WorkerStub
            async for chunk in make_stub(channel).GetTokenizer(pb.GetTokenizerRequest(), timeout=TIMEOUT_S):
                pieces.setdefault(chunk.name, bytearray()).extend(chunk.data)
                sizes[chunk.name] = chunk.size
    except grpc.aio.AioRpcError as error:
        raise error_from(error, peer=address, waited_s=TIMEOUT_S) from None
    files = {name: bytes(data) for name, data in pieces.items()}
    if any(len(files[name]) != size for name, size in sizes.items()) or tokenizer_hash(files) != expected_hash:
        raise InternalError(f"the tokenizer that {address} sent is not the one that it goes by")
    return files
