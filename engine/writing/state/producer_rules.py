"""Rules for valid producer snapshots and control batches: ours; those of a broker differ."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

from engine.disk.disk import Disk
from engine.record.record import Record
from engine.record.record_batch import RecordBatch
from engine.state.producer_state_entry import ProducerStateEntry
from engine.writing.state.snapshot_file import SnapshotFile, list_snapshot_files, read_snapshot


class ProducerRules(NamedTuple):
    """Rules of a ProducerStateManager for files and batches that may be damaged.

    Attributes:
        list_snapshots: lists the snapshots in a folder.
        read_snapshot: reads the producers in a snapshot; CorruptSnapshotError has the snapshot deleted.
        control_record: decodes the record of a control batch; None for a batch that the log cleaner has emptied.
    """

    list_snapshots: Callable[[str | os.PathLike[str], Disk], Iterable[SnapshotFile]]
    read_snapshot: Callable[[str | os.PathLike[str], Disk], list[ProducerStateEntry]]
    control_record: Callable[[RecordBatch], Record | None]


def first_record(batch: RecordBatch) -> Record | None:
    """Decode the first record of a batch; None when the batch is empty. Raises InvalidRecordError."""
    return next(iter(batch.records()), None)


OUR_PRODUCER_RULES = ProducerRules(list_snapshot_files, read_snapshot, first_record)
