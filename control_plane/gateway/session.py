"""Which calls belong together, as far as where they run is concerned."""

from __future__ import annotations

from hashlib import sha256

from control_plane.gateway.schema.generation import Generation


def session_of(tenant: str, generation: Generation) -> str:
    """A name for the conversation, else for the caller's ``user``, that no call of another tenant has; empty where
    there is neither. It says nothing of the tenant or the user: a router knows neither.

    A key by itself is no session: a whole application may call with it.
    """
    thread = generation.thread
    kind, name = "conversation", thread.conversation_id if thread is not None else ""
    if not name:
        kind, name = "user", generation.user
    return sha256("\0".join((tenant, kind, name)).encode()).hexdigest()[:32] if name else ""
