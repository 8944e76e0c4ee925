"""The tokenizers of the models, each fetched once from any of its workers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from control_plane.contracts.call import TokenizerBundle
from control_plane.contracts.errors import InferDeckError, Unavailable
from control_plane.contracts.fleet import Endpoint, WorkerPhase

_log = logging.getLogger(__name__)

Fetch = Callable[[Endpoint, str], Awaitable[dict[str, bytes]]]


class Tokenizers:
    """Bundles by model and hash. With no worker up, the last one of a model still serves.

    ``endpoints`` gives a model's endpoints, ``fetch`` the files from one of them, checked against a hash.
    """

    def __init__(self, endpoints: Callable[[str], Sequence[Endpoint]], fetch: Fetch) -> None:
        self._endpoints = endpoints
        self._fetch = fetch
        self._bundles: dict[str, TokenizerBundle] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def get(self, model: str) -> TokenizerBundle:
        """Raises Unavailable while no worker can give it, InternalError when all give something else."""
        async with self._locks.setdefault(model, asyncio.Lock()):
            ready = [e for e in self._endpoints(model) if e.phase is WorkerPhase.READY and e.info and e.info.model]
            bundle = self._bundles.get(model)
            if bundle is not None and (not ready or any(bundle.hash == _hash(endpoint) for endpoint in ready)):
                return bundle
            failure: InferDeckError = Unavailable(f"no worker of {model!r} is up, so its tokenizer is not at hand")
            for endpoint in ready:
                try:
                    self._bundles[model] = await self._from(endpoint)
                    return self._bundles[model]
                except InferDeckError as error:
                    _log.warning("no tokenizer from %s: %s", endpoint.worker_id, error, extra={"model": model})
                    failure = error
            raise failure

    async def _from(self, endpoint: Endpoint) -> TokenizerBundle:
        assert endpoint.info is not None
        assert endpoint.info.model is not None
        info = endpoint.info.model
        files = await self._fetch(endpoint, info.tokenizer_hash)
        # A call that its whole KV cache can't hold would never run.
        bounds = (info.max_context, info.total_blocks * info.block_size)
        room = min((bound for bound in bounds if bound), default=0)
        return TokenizerBundle(info.tokenizer_hash, files, room, info.vocab_size)


def _hash(endpoint: Endpoint) -> str:
    return endpoint.info.model.tokenizer_hash if endpoint.info and endpoint.info.model else ""
