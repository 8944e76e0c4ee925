"""The port of the operators' API."""

from __future__ import annotations

import socket
from unittest.mock import MagicMock

import pytest

from control_plane.api.server import ApiServer
from control_plane.contracts.errors import Conflict


async def test_a_port_that_cannot_be_had_is_told_with_its_setting() -> None:
    api = ApiServer(MagicMock(), "op-inferdeck-x", MagicMock())
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(Conflict) as caught:
            api.bind("127.0.0.1", port)
    assert f"api.port: cannot listen on 127.0.0.1:{port}" in caught.value.message
    assert "[api]" in (caught.value.hint or "")
    await api.stop(0.0)
