"""The connection's promises hold over TLS as they do without: the same tests, through a handshake.

Left out are those that speak to the socket below TLS, or hold only where a connection begins with its first request;
test_tls.py has their kin.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from control_plane.trust.keyring import Keyring
from tests.integration.gateway import test_cancel, test_http, test_shutdown, test_slow_clients
from tests.integration.gateway.rig import Https, https

LEFT_OUT = {
    "test_many_that_leave_at_random_moments_leave_nothing_behind",  # some leave before their handshake is done
    "test_a_call_whose_model_has_no_worker_does_not_keep_a_gateway_that_stops",  # stops within the handshake
    "test_a_free_port_is_found_and_told",  # an http:// address
    "test_a_slow_reader_gets_everything",  # a raw socket
}

for module in (test_cancel, test_http, test_shutdown, test_slow_clients):
    globals().update(
        {name: value for name, value in vars(module).items() if name.startswith("test_") and name not in LEFT_OUT}
    )


@pytest.fixture(autouse=True, scope="module")
def over_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    keyring = Keyring(tmp_path_factory.mktemp("tls"))
    keyring.make_server(["127.0.0.1"])
    token = https.set(Https(keyring))
    yield
    https.reset(token)
