"""Which calls belong together: they take the same side of a split, and are better served by one worker."""

from __future__ import annotations

from hashlib import sha256

from control_plane.gateway.schema.generation import Generation


def session_of(tenant: str, generation: Generation) -> str:
    """A name for the conversation, else for the caller's ``user``, else for the responses that follow each other, that
    no call of another tenant has; empty where there is none of these. It says nothing of the tenant or the user: a
    router knows neither.

    A key by itself is no session: a whole application may call with it.
    """
    thread = generation.thread
    kind, name = "conversation", thread.conversation_id if thread is not None else ""
    if not name:
        kind, name = "user", generation.user
    if not name:
        kind, name = "responses", thread.chain if thread is not None else ""
    return sha256("\0".join((tenant, kind, name)).encode()).hexdigest()[:32] if name else ""
