"""What must outlive every process: API keys, what operators asked for, and what happened."""

from control_plane.store.database import Database
from control_plane.store.desired import DesiredState
from control_plane.store.event_log import EventLog
from control_plane.store.keys import ApiKeys, KeyRecord

__all__ = ["ApiKeys", "Database", "DesiredState", "EventLog", "KeyRecord"]
