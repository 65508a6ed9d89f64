"""Origin of an append, which decides what is checked."""

from __future__ import annotations

from enum import Enum, auto


class AppendOrigin(Enum):
    """Origin of an append."""

    REPLICATION = auto()
    """A follower, with batches that its leader has checked."""
    COORDINATOR = auto()
    """A group or transaction coordinator, which may write control records."""
    CLIENT = auto()
    """A producer: everything is checked."""
    RAFT_LEADER = auto()
    """The leader of the metadata quorum, with assigned offsets."""
