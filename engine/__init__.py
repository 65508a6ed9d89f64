"""Kafka's log storage layer: files, records, indexes, state and logs, read without a broker.

The names in `__all__` are for users of the library, and imported on first use. Every other name may
change at any time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from engine.version import __version__

if TYPE_CHECKING:
    from engine.budgets import Budgets
    from engine.check.log_dir_check import CheckOptions, SourceCheck
    from engine.check.rules.finding import Finding
    from engine.errors import DamagedFileError, KafkaStorageError, SourceError
    from engine.log.log_directory import LogSource, open_source
    from engine.log.partition_log import PartitionLog
    from engine.log.segment.log_segment import LogSegment
    from engine.log.segment.scan import BatchRun, Damage, Disorder
    from engine.log.view.log_view import LogView
    from engine.plan.start_plan import StartPlan

# `engine` is a common name: by this mark kafkafs checks that it has imported its own.
__distribution__ = "kafkafs"

_HOMES = {
    ".budgets": ("Budgets",),
    ".check.log_dir_check": ("CheckOptions", "SourceCheck"),
    ".check.rules.finding": ("Finding",),
    ".errors": ("DamagedFileError", "KafkaStorageError", "SourceError"),
    ".log.log_directory": ("LogSource", "open_source"),
    ".log.view.log_view": ("LogView",),
    ".log.partition_log": ("PartitionLog",),
    ".log.segment.log_segment": ("LogSegment",),
    ".log.segment.scan": ("BatchRun", "Damage", "Disorder"),
    ".plan.start_plan": ("StartPlan",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "BatchRun",
    "Budgets",
    "CheckOptions",
    "Damage",
    "DamagedFileError",
    "Disorder",
    "Finding",
    "KafkaStorageError",
    "LogSegment",
    "LogSource",
    "LogView",
    "PartitionLog",
    "SourceCheck",
    "SourceError",
    "StartPlan",
    "__distribution__",
    "__version__",
    "open_source",
]


def __getattr__(name: str) -> object:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
