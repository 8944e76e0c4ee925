"""Which calls belong together, as far as where they run is concerned."""

from __future__ import annotations

from control_plane.gateway.schema.generation import Generation


def session_of(tenant: str, generation: Generation) -> str:
    """A name for the conversation, else for the caller's ``user`` within its tenant; empty where there is neither.

    A key by itself is no session: a whole application may call with it.
    """
    thread = generation.thread
    if thread is not None and thread.conversation_id:
        return thread.conversation_id
    return f"{tenant}\0{generation.user}" if generation.user else ""
