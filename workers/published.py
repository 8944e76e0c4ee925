"""The published engine protocol, ``vllm.grpc.engine.VllmEngine``, beside our own: other routers can drive our workers.

The service itself is the one that its authors publish (``smg-grpc-servicer``); it runs on the same vLLM engine. It is
imported when it is first asked for: it brings parts of vLLM that nothing else here needs.
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Sequence
from typing import Any

_log = logging.getLogger(__name__)
_SERVICER = "smg_grpc_servicer.vllm.servicer"


def preload() -> None:
    """Import the service now, so that forked workers have it."""
    try:
        importlib.import_module(_SERVICER)
    except ImportError as error:
        _log.warning("the published VllmEngine service is not available: %s", error)


def add_service(llm: Any, server: Any) -> Sequence[str]:
    """Add the service for this ``AsyncLLM`` to a ``grpc.aio.Server`` before it starts; returns what is on."""
    try:
        from smg_grpc_proto import vllm_engine_pb2, vllm_engine_pb2_grpc
        from smg_grpc_servicer.vllm.servicer import VllmEngineServicer
    except ImportError as error:
        _log.warning("the published VllmEngine service is not available: %s", error)
        return ()
    vllm_engine_pb2_grpc.add_VllmEngineServicer_to_server(VllmEngineServicer(llm, time.time()), server)
    return (vllm_engine_pb2.DESCRIPTOR.services_by_name["VllmEngine"].full_name,)
