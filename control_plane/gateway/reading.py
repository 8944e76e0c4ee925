"""A request's body to a checked value, off the event loop where that takes long."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from control_plane.contracts.errors import InferDeckError, InternalError
from control_plane.gateway.http.exchange import Exchange
from control_plane.gateway.prompt.lanes import Job, Lanes
from control_plane.gateway.schema.json_text import read_object

log = logging.getLogger(__name__)

T = TypeVar("T")

SMALL_BODY = 16 * 1024
"""Bodies of no more bytes are read at once: a millisecond at most, whatever is in them."""


def read_body(
    exchange: Exchange,
    lanes: Lanes,
    read: Callable[[dict[str, Any]], T],
    then: Callable[[T], None],
    refuse: Callable[[Exchange, InferDeckError], None],
) -> None:
    """Call ``then`` on the loop with what ``read`` makes of the body's object, unless the client leaves before.

    What ``read`` or ``then`` raise of the error tree goes to ``refuse``; where the body is small it is raised here.
    """
    if exchange.received <= SMALL_BODY:
        then(read(read_object(exchange.take_body())))
        return
    body = exchange.body

    def done(job: Job[T]) -> None:
        exchange.on_gone = None
        exchange.take_body()
        try:
            if job.error is not None:
                raise job.error
            then(job.result)  # type: ignore[arg-type]
        except InferDeckError as error:
            refuse(exchange, error)
        except Exception as error:
            log.error("a body could not be handled", exc_info=error, extra={"request_id": exchange.request_id})
            refuse(exchange, InternalError("The request could not be handled."))

    job: Job[T] = Job(lambda: read(read_object(body)), done)

    def gone() -> None:
        job.cancelled = True

    exchange.on_gone = gone
    lanes.submit(job, exchange.received)
