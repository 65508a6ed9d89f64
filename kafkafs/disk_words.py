"""Words for what takes a disk, for the terminal and the report."""

from __future__ import annotations

from collections.abc import Mapping

from engine.usage.file_kinds import UsageKind
from engine.usage.predictions import Prediction

KIND_NAMES: Mapping[str, str] = {
    UsageKind.LOG.value: "log",
    UsageKind.INDEXES.value: "indexes",
    UsageKind.SIDE_FILES.value: "snapshots, epochs, ids",
    UsageKind.METADATA_SNAPSHOTS.value: "metadata snapshots",
    UsageKind.DELETED.value: ".deleted",
    UsageKind.CLEANED.value: ".cleaned",
    UsageKind.SWAP.value: ".swap",
    UsageKind.LOG_DIR_FILES.value: "files of the log dir",
    UsageKind.TIERED_CACHE.value: "remote-log-index-cache",
    UsageKind.OTHER.value: "other files",
    UsageKind.FOLDERS.value: "folders themselves",
}
"""Names of kinds of files, by their values."""


def kind_name(kind: str) -> str:
    """Return the name of a kind of files, or the suffix of folders as it is.

    >>> kind_name("deleted"), kind_name("-stray")
    ('.deleted', '-stray')
    """
    return KIND_NAMES.get(kind, kind)


def bounds_text(prediction: Prediction) -> str:
    """Return the configuration that bounds a log, as Kafka writes it."""
    config = prediction.rules.config
    bounds = []
    if config.delete and config.retention_ms >= 0:
        bounds.append(f"retention.ms={config.retention_ms}")
    if config.delete and config.retention_size >= 0:
        bounds.append(f"retention.bytes={config.retention_size}")
    if prediction.rules.is_tiered:
        bounds.append("if copied to the remote tier")
    return ", ".join(bounds)
