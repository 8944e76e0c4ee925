"""A gateway's side of routers that are processes of their own."""

from control_plane.router.remote.router import RemoteRouter

__all__ = ["RemoteRouter"]
