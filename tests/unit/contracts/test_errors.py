"""The one table: each drop reason has one class, one HTTP status, one gRPC code."""

from __future__ import annotations

import grpc
import pytest

from control_plane.contracts import errors
from control_plane.contracts.errors import DropReason, InferDeckError, from_reason

HTTP_STATUS = {
    400: {"invalid_request", "context_length_exceeded"},
    401: {"invalid_api_key"},
    403: {"model_not_allowed", "not_an_operator", "role_too_low", "wrong_peer"},
    404: {"model_not_found", "not_found"},
    405: {"method_not_allowed"},
    408: {"request_timeout"},
    409: {"conflict"},
    413: {"request_too_large"},
    415: {"unsupported_media_type"},
    429: {"rate_limit_exceeded", "tier_throttled"},
    431: {"headers_too_large"},
    499: {"request_cancelled"},
    500: {"internal_error"},
    502: {"worker_lost", "engine_dead"},
    503: {"overloaded", "no_capacity", "model_loading", "draining"},
    507: {"store_full"},
}


@pytest.mark.parametrize("reason", DropReason)
def test_every_reason_has_its_status(reason: DropReason) -> None:
    error = from_reason(reason, "what happened", param="field", hint="do this")
    assert reason in HTTP_STATUS[error.status.http]
    assert (error.reason, error.message, error.param, error.hint) == (reason, "what happened", "field", "do this")


def test_the_table_is_complete() -> None:
    assert set(DropReason) == set().union(*HTTP_STATUS.values())


def test_every_class_names_a_real_grpc_code() -> None:
    classes = [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, InferDeckError)]
    assert len(classes) > 15
    for cls in classes:
        assert cls.status.grpc in grpc.StatusCode.__members__
        assert 400 <= cls.status.http <= 599
        assert cls.status.type == ("server_error" if cls.status.http >= 499 else cls.status.type)


def test_an_unknown_reason_keeps_its_message() -> None:
    error = from_reason("from_a_newer_peer", "words")
    assert (type(error), str(error), error.status.http) == (errors.InternalError, "words", 500)
