"""Read a new records file again, and compare it with its source: all but the chosen records is equal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress

from engine.erase.records_file import Touched
from engine.log.segment.resync import ScannedFile
from engine.log.segment.scan import CHUNK
from engine.rebuild.assembly.cut import record_facts
from engine.rebuild.errors import RebuildFailedError
from engine.record.batch_frame import CURRENT_MAGIC
from engine.record.default_records import DefaultRecordBatch
from engine.record.memory_records import MemoryRecords
from engine.record.record_batch import RecordBatch, make_batch
from engine.units import Position


def compare_files(
    source: ScannedFile, size: int, new: ScannedFile, new_size: int, touched: Sequence[Touched]
) -> int:
    """Compare a records file with its source; return how many records of touched batches are equal.

    Raises:
        RebuildFailedError: something else than the chosen records differs.
        OSError: a file cannot be read.
    """
    position = new_position = records = 0
    for each in touched:
        _compare_bytes(source, position, new, new_position, each.position - position)
        if each.new_position - new_position != each.position - position:
            raise RebuildFailedError(f"{new.path}: a batch is not at {each.new_position}")
        if each.new_size:
            records += _compare_batch(source, new, each)
        position = each.position + each.size
        new_position = each.new_position + each.new_size
    if size - position != new_size - new_position:
        raise RebuildFailedError(f"{new.path}: it has {new_size} bytes, which is not what is left")
    _compare_bytes(source, position, new, new_position, size - position)
    return records


def _compare_bytes(
    source: ScannedFile, start: Position, new: ScannedFile, new_start: Position, size: int
) -> None:
    done = 0
    while done < size:
        some = min(CHUNK, size - done)
        if source.read_at(start + done, some) != new.read_at(new_start + done, some):
            raise RebuildFailedError(
                f"{new.path}: bytes from {new_start + done} on differ from {source.path}"
            )
        done += some


def _compare_batch(source: ScannedFile, new: ScannedFile, touched: Touched) -> int:
    old = make_batch(
        source.read_at(touched.position, touched.size),
        file_position=touched.position,
        path=source.path,
    )
    data = new.read_at(touched.new_position, touched.new_size)
    made = list(MemoryRecords(data, file_position=touched.new_position, path=new.path).batches())
    kept = [record_facts(each) for each in compress(old.records(), touched.kept.tolist())]
    found = [record_facts(each) for batch in made for each in batch.records()]
    if kept != found or list(_frames([old], old)) != list(_frames(made, old)):
        raise RebuildFailedError(
            f"{new.path}: the batch at {touched.new_position} is not what is left of that at"
            f" {touched.position} of {source.path}"
        )
    return len(kept)


def _frames(batches: Sequence[RecordBatch], old: RecordBatch) -> Iterator[object]:
    """Yield what stays of the headers: offsets, epochs, producers; of magic 0 and 1 where they end."""
    if old.magic < CURRENT_MAGIC:
        yield batches[-1].last_offset
        return
    for batch in batches:
        assert isinstance(batch, DefaultRecordBatch)
        yield batch.base_offset, batch.last_offset, batch.leader_epoch
        yield batch.producer_id, batch.producer_epoch, batch.base_sequence
        yield batch.is_transactional, batch.is_control, batch.timestamp_type
