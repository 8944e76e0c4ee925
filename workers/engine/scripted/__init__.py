"""A test engine that does exactly what each request's script says."""

from workers.engine.scripted.engine import ScriptedEngine

__all__ = ["ScriptedEngine"]
