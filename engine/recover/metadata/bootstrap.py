"""What the format wrote into log dirs: the first levels of the cluster's features, and the first users.

Releases up to 4.3 write bootstrap.checkpoint into each log dir, later ones a snapshot in the metadata log's folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from engine.errors import KafkaStorageError
from engine.files.file_names import BOOTSTRAP_CHECKPOINT
from engine.files.source_files import SourceRoot
from engine.log.log_directory import LogSource
from engine.log.segment.scan import BatchRun, scan
from engine.replay.cluster import ClusterChange, cluster_changes
from engine.replay.partition_records import records_of_run

_LARGEST = 1 << 24


class Bootstrap(NamedTuple):
    """Levels of features by name, and SCRAM credentials by user and number of the mechanism, as at the format."""

    features: Mapping[str, int] = {}
    credentials: Mapping[tuple[str, int], Mapping[str, Any]] = {}


def bootstrap_of(sources: Iterable[LogSource]) -> Bootstrap:
    """Return what the first readable bootstrap.checkpoint in the log dirs says; nothing without one."""
    for source in sources:
        for root in source.log_dirs:
            if root is None:
                continue
            try:
                changes = _read(root, source)
            except (KafkaStorageError, OSError):
                continue
            found = _folded(changes)
            if found.features:
                return found
    return Bootstrap()


def _read(root: SourceRoot, source: LogSource) -> list[ClusterChange]:
    found: list[ClusterChange] = []
    with root.open_fresh(BOOTSTRAP_CHECKPOINT) as file:
        for item in scan(file, 0, min(file.size(), _LARGEST), path=file.path):
            if isinstance(item, BatchRun):
                records = records_of_run(item, source.budgets, BOOTSTRAP_CHECKPOINT, file.path)
                found += cluster_changes(records, [], [])
    return found


def _folded(changes: Iterable[ClusterChange]) -> Bootstrap:
    features: dict[str, int] = {}
    credentials: dict[tuple[str, int], Mapping[str, Any]] = {}
    for change in changes:
        facts = change.facts
        if change.kind == "FEATURE_LEVEL_RECORD":
            features[facts["name"]] = facts["featureLevel"]
        elif change.kind == "USER_SCRAM_CREDENTIAL_RECORD":
            credentials[facts["name"], facts["mechanism"]] = facts
    return Bootstrap(features, credentials)
