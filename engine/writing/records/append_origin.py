"""Where an append comes from, which decides what is checked."""

from __future__ import annotations

from enum import Enum, auto


class AppendOrigin(Enum):
    """Who appends."""

    REPLICATION = auto()
    """A follower, with what its leader has checked."""
    COORDINATOR = auto()
    """A group or transaction coordinator, which may write control records."""
    CLIENT = auto()
    """A producer: everything is checked."""
    RAFT_LEADER = auto()
    """The leader of the metadata quorum: its offsets are assigned already."""
