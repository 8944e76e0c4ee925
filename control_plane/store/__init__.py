"""What must outlive every process: who may do what, what operators asked for, what happened, and conversations."""

from control_plane.store.audit import Audit
from control_plane.store.conversations import Conversations
from control_plane.store.database import Database
from control_plane.store.desired import DesiredState
from control_plane.store.event_log import EventLog
from control_plane.store.keys import ApiKeys
from control_plane.store.operators import Operators
from control_plane.store.policies import Policies
from control_plane.store.turns import Turns

__all__ = [
    "ApiKeys",
    "Audit",
    "Conversations",
    "Database",
    "DesiredState",
    "EventLog",
    "Operators",
    "Policies",
    "Turns",
]
