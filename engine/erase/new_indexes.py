"""Make the indexes of a records file that was written anew."""

from __future__ import annotations

from engine.clock import SYSTEM_CLOCK
from engine.columns.batch_facts import BatchHead
from engine.disk.disk import Disk
from engine.errors import KafkaStorageError
from engine.files.file_names import FileName
from engine.log.segment.resync import ScannedFile
from engine.log.segment.scan import scan, tables
from engine.rebuild.errors import RebuildFailedError
from engine.writing.log_config import LogConfig
from engine.writing.segment.writable_segment import WritableSegment


def make_indexes(folder: str, name: FileName, new: ScannedFile, size: int, disk: Disk) -> None:
    """Write the offset and the time index of a records file, beside it.

    Args:
        folder: the partition's folder.
        name: name of the records file.
        new: the records file.
        size: its bytes.
        disk: disk to write with.

    Raises:
        RebuildFailedError: no index can be made of the offsets.
        OSError: the disk fails.
    """
    assert name.base_offset is not None
    segment = WritableSegment.open(
        folder,
        name.base_offset,
        LogConfig(),
        SYSTEM_CLOCK,
        file_already_exists=True,
        suffix=name.state.value,
        disk=disk,
    )
    try:
        for table in tables(scan(new, 0, size, any_order=True)):
            columns = (table[field].tolist() for field in ("last_offset", "max_timestamp", "size"))
            heads: list[BatchHead] = list(zip(*columns, strict=True))
            segment.indexes.add(heads, int(table["position"][0]))
        segment.indexes.finish()
    except (KafkaStorageError, ValueError) as error:
        raise RebuildFailedError(f"{new.path}: no index can be made of it: {error}") from None
    finally:
        segment.close()
