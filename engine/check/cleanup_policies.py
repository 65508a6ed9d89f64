"""Which topics are compacted, where the source has the cluster's metadata log."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

from engine.errors import KafkaStorageError
from engine.log.log_directory import LogSource
from engine.replay.cluster import ClusterImage, ClusterReplay
from engine.replay.topic_replay import InternalLogs

PolicyOf: TypeAlias = Callable[[str], frozenset[str] | None]
"""The cleanup.policy of a topic; None where it is not known."""

_NAME = "cleanup.policy"
_DEFAULT = frozenset({"delete"})


def cleanup_policies(source: LogSource) -> PolicyOf:
    """What the source's own metadata says about its topics; the log is read when somebody asks.

    A topic without the setting is taken to have Kafka's default: what a broker's own file of properties says
    is not in the metadata.
    """

    @cache
    def image() -> ClusterImage | None:
        replay = ClusterReplay(InternalLogs(source))
        try:
            return replay.image() if replay.exists else None
        except (OSError, KafkaStorageError):
            return None

    def policy(topic: str) -> frozenset[str] | None:
        known = image()
        if known is None or topic not in known.topics:
            return None
        configs = known.table("configs").get(("topic", topic))
        value = None if configs is None else configs.facts["configs"].get(_NAME)
        if not isinstance(value, str):
            return _DEFAULT
        return frozenset(part.strip() for part in value.split(","))

    return policy
