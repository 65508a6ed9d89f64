"""The topics' cleanup.policy, from the cluster's metadata log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from engine.errors import KafkaStorageError
from engine.log.log_directory import LogSource
from engine.replay.cluster import ClusterImage, ClusterReplay
from engine.replay.internal_logs import InternalLogs

PolicyOf: TypeAlias = Callable[[str], frozenset[str] | None]
"""Returns the cleanup.policy of a topic; None if unknown."""

_NAME = "cleanup.policy"
_DEFAULT = frozenset({"delete"})


def cluster_image(source: LogSource) -> ClusterImage | None:
    """Return the cluster in a source's own metadata; None without any, or if it cannot be read."""
    replay = ClusterReplay(InternalLogs(source))
    try:
        return replay.image() if replay.exists else None
    except (OSError, KafkaStorageError):
        return None


def policy_in(image: ClusterImage, topic: str) -> frozenset[str] | None:
    """Return the cleanup.policy of a topic in a state of the cluster; None if the cluster has no such topic."""
    if topic not in image.topics:
        return None
    configs = image.table("configs").get(("topic", topic))
    value = None if configs is None else configs.facts["configs"].get(_NAME)
    if not isinstance(value, str):
        return _DEFAULT
    return frozenset(part.strip() for part in value.split(","))
