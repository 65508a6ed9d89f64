"""Records of one partition, by offset and by range."""

from __future__ import annotations

import sys
from collections.abc import Generator

from engine.errors import DamagedFileError
from engine.kernel import LineOptions
from engine.lines.line_decoder import LineDecoder
from engine.log.partition_log import PartitionLog
from engine.log.view.log_view import LogView
from engine.units import Offset
from engine.verdict.log_losses import losses_of
from engine.verdict.loss import LostRecordError
from kafkafs.api.consumer_record import ConsumerRecord, consumer_records
from kafkafs.api.reading import usual_threads
from kafkafs.decode.searching.key_maps import KeyMaps
from kafkafs.decode.searching.key_search import KeySearch
from kafkafs.decode.searching.live_key_search import LiveKeySearch
from kafkafs.records.conditions.wanted_keys import WantedKey
from kafkafs.records.row_mask import RowMask
from kafkafs.records.rows import Rows
from kafkafs.records.visible import SeenRun, Wanted
from kafkafs.table.errors import CorruptBatchError
from kafkafs.table.row_options import RowOptions
from kafkafs.table.split_records import SplitRecords
from kafkafs.table.splits.split import QueryRange, plan_live

_WHOLE_SEGMENT = sys.maxsize


def record_at(
    log: PartitionLog,
    view: LogView,
    offset: Offset,
    decoder: LineDecoder | None,
    mask: RowMask | None = None,
) -> ConsumerRecord:
    """Return the record at an offset of a log, masked if there is a mask.

    Raises:
        KeyError: compaction removed it, or it is a control record.
        CorruptBatchError: the batch of the offset is damaged.
    """
    try:
        found = view.batch(offset)
    except DamagedFileError as error:
        raise _corrupt(log, _shown(error, log, mask), offset) from (None if mask else error)
    gone = KeyError(f"{log.name} has no record at offset {offset}: compaction removed it")
    if found is None:
        loss = losses_of(view).at(offset)
        if loss is not None:
            raise _corrupt(log, LostRecordError(loss), offset)
        raise gone
    segment, run = found
    seen = SeenRun(view, segment, run, Wanted(offset, offset + 1))
    if seen.is_control[0]:
        raise KeyError(f"offset {offset} of {log.name} is a control record's")
    for columns, indices in seen.columns(log.budgets):
        if len(indices):
            base = segment.base_offset
            rows = Rows(view.partition, base, columns, run.table, seen.fates, indices, decoder)
            return next(consumer_records(rows if mask is None else mask.masked(rows)))
        for problem in columns.problems:
            damage = DamagedFileError(problem.detail, path=segment.path, position=run.position)
            raise _corrupt(log, _shown(damage, log, mask), offset)
    raise gone


def newest_record(
    log: PartitionLog,
    key: WantedKey,
    maps: KeyMaps,
    decoder: LineDecoder | None,
    mask: RowMask | None = None,
) -> ConsumerRecord | None:
    """Return the newest record of a key in a log, masked if there is a mask; None without one.

    Raises:
        CorruptBatchError: damage may hide a newer record, or the batch of the record is damaged.
    """
    topic, partition = log.topic_partition
    lines = None if mask is None else mask.of(topic)

    def make(view: LogView) -> KeySearch:
        options = LineOptions(
            topic,
            partition,
            from_offset=view.log_start_offset,
            to_offset=view.log_end_offset,
            mask=lines,
        )
        return KeySearch(view, key, options, usual_threads())

    def read(search: KeySearch, offset: Offset) -> ConsumerRecord | None:
        try:
            return record_at(log, search.view, offset, decoder, mask)
        except KeyError:  # compaction removed it
            return None

    live = LiveKeySearch(log, make, lambda search: maps.newest(log, search))
    findings, record = live.at_newest(live.newest(), read)
    if findings.damage:
        facts = findings.damage[0]
        raise CorruptBatchError(
            f"a newer record of the key may be lost: {facts['reason']}",
            path=log.display(facts["file"]),
            position=facts["position"],
        )
    return record


def records_between(
    log: PartitionLog, start: Offset | None, stop: Offset | None, options: RowOptions
) -> Generator[ConsumerRecord, None, None]:
    """Yield the records of a log with offsets in [start, stop); see `OpenedPartition.records`."""
    view = log.view()
    first = view.log_start_offset if start is None else max(start, view.log_start_offset)
    end = view.end(committed=options.committed)
    wanted = QueryRange(view.partition, first, end if stop is None else min(stop, end))
    reader = SplitRecords(options)
    for split in plan_live(log, wanted, _WHOLE_SEGMENT):
        for item in reader.read(split, log):
            if isinstance(item, Rows):
                yield from consumer_records(item)


def _shown(error: DamagedFileError, log: PartitionLog, mask: RowMask | None) -> DamagedFileError:
    """Return an error without numbers from the bytes of masked records."""
    lines = None if mask is None else mask.of(log.topic_partition.topic)
    if lines is None:
        return error
    return DamagedFileError(lines.damage({})["reason"], path=error.path, position=error.position)


def _corrupt(log: PartitionLog, error: DamagedFileError, offset: Offset) -> CorruptBatchError:
    return CorruptBatchError(
        error.reason,
        path=None if error.path is None else log.display(error.path),
        position=error.position,
        expected=error.expected,
        found=error.found,
        first_offset=offset,
        last_offset=offset,
    )
