"""A partition as a sequence of records by offset."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from operator import index
from typing import TYPE_CHECKING, Any, Unpack, overload

from engine.errors import KafkaStorageError
from engine.log.partition_log import PartitionLog
from engine.log.view.log_view import LogView
from engine.units import EpochEntry, Offset, Timestamp
from kafkafs.api.moments import Moment, milliseconds
from kafkafs.api.notebook import MOST_ROWS, html_table
from kafkafs.api.reading import Corrupt, Isolation, row_options
from kafkafs.api.scan_options import ScanOptions, named_options
from kafkafs.api.source_logs import SourceLogs

if TYPE_CHECKING:
    from kafkafs.api.consumer_record import ConsumerRecord
    from kafkafs.api.scan import Scan


class OpenedPartition:
    """The records of a partition: `p[35]`, `p[-1]`, `p[100:200]`, `for record in p`. Thread-safe, picklable.

    Control records are no records here, as for a consumer; records of aborted transactions are (`records` leaves
    them out on request).

    Args:
        logs: the open source.
        log: the partition's log.
    """

    def __init__(self, logs: SourceLogs, log: PartitionLog) -> None:
        self._logs = logs
        self._log = log

    def __repr__(self) -> str:
        view = self._view()
        return f"<{self.name}: offsets {view.log_start_offset} to {view.log_end_offset}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: bounds and sizes. No record is read."""
        facts = ("start", "end", "high_watermark", "size")
        return html_table(self.name, facts, [[getattr(self, name) for name in facts]])

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._logs, self._log.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpenedPartition) and other._log is self._log

    def __hash__(self) -> int:
        return hash(self._log)

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self._log.topic_partition.topic

    @property
    def partition(self) -> int:
        """Number of the partition; -1 if the folder's name has none."""
        return self._log.topic_partition.partition

    @property
    def name(self) -> str:
        """Name of the partition in the source, such as orders-0."""
        return self._log.name

    def view(self) -> LogView:
        """Return the log as it is now, for the look-ups of the engine.

        Raises:
            MaskedError: the topic has a mask; the engine knows no masks.
            OSError: the folder is gone or cannot be read.
        """
        self._logs.refuse_masked("view", self.topic)
        return self._view()

    def _view(self) -> LogView:
        return self._log.view()

    @property
    def log(self) -> PartitionLog:
        """The log in the engine; raises MaskedError as `view`."""
        self._logs.refuse_masked("log", self.topic)
        return self._log

    @property
    def start(self) -> Offset:
        """The first offset that is served."""
        return self._view().log_start_offset

    @property
    def end(self) -> Offset:
        """One past the last record's offset."""
        return self._view().log_end_offset

    @property
    def high_watermark(self) -> Offset:
        """The high watermark that the broker last checkpointed, between `start` and `end`."""
        return self._view().high_watermark

    @property
    def last_stable_offset(self) -> Offset:
        """First offset of the first open transaction, else `end`; read_committed reads up to it."""
        return self._view().last_stable_offset

    @property
    def epochs(self) -> tuple[EpochEntry, ...]:
        """Leader epochs with their first offsets, ascending."""
        return tuple(self._view().leader_epochs.entries)

    @property
    def topic_id(self) -> str | None:
        """The topic id in base64; None if unknown."""
        return self._view().topic_id

    @property
    def size(self) -> int:
        """Bytes of all records files."""
        return self._view().size

    def __len__(self) -> int:
        """Return the number of offsets from `start` to `end`; after compaction there are fewer records (`count`)."""
        view = self._view()
        return view.log_end_offset - view.log_start_offset

    def count(self, *, checksums: bool = True) -> int:
        """Return the number of records, from batch headers where those suffice; see `Scan.count`."""
        return self.scan().count(checksums=checksums)

    # Records

    @overload
    def __getitem__(self, place: int) -> ConsumerRecord: ...

    @overload
    def __getitem__(self, place: slice) -> RecordRange: ...

    def __getitem__(self, place: int | slice) -> ConsumerRecord | RecordRange:
        """Return the record at an offset, or the records of a range of offsets.

        A negative number counts records back from the end: p[-1] is the last record. In a slice it counts offsets
        back from the end, and bounds outside of the log are cut, as Python does.

        Raises:
            IndexError: the offset is outside of [start, end), or there are fewer records.
            KeyError: the offset has no record: compaction removed it, or it is a control record's.
            CorruptBatchError: the batch of the offset is damaged.
            ValueError: a slice has a step.
        """
        if isinstance(place, slice):
            return self._range(place)
        try:
            place = index(place)
        except TypeError:
            raise TypeError(f"offsets are numbers, or ranges of them, not {place!r}") from None
        if place < 0:
            return self._from_end(-place)
        view = self._view()
        if not view.log_start_offset <= place < view.log_end_offset:
            raise IndexError(
                f"{self.name} has offsets {view.log_start_offset} to {view.log_end_offset}, not {place}"
            )
        return self._record(view, place)

    def _record(self, view: LogView, offset: Offset) -> ConsumerRecord:
        # Imported here, as below: only records need numpy, and importing it is slow.
        from kafkafs.api.record_reading import record_at

        decoder = self._logs.decoder(self.topic)
        return record_at(self._log, view, offset, decoder, self._logs.row_mask)

    def _from_end(self, count: int) -> ConsumerRecord:
        """Return the record that `count` records are from on; the search widens over gaps and control records."""
        view = self._view()
        start, stop, width = view.log_start_offset, view.log_end_offset, 2 * count
        while True:
            first = max(start, stop - width)
            last = deque(self.records(first, stop), maxlen=count)
            if len(last) == count:
                return last[0]
            if first == start:
                raise IndexError(f"{self.name} has {len(last)} records, not {count}")
            width *= 4

    def _range(self, place: slice) -> RecordRange:
        if place.step not in (None, 1):
            raise ValueError("a range of offsets has no step: filter the records instead")
        view = self._view()
        start, end = view.log_start_offset, view.log_end_offset

        def bound(given: int | None, default: Offset) -> Offset:
            if given is None:
                return default
            return min(max(end + given if given < 0 else given, start), end)

        first = bound(place.start, start)
        return RecordRange(self, first, max(first, bound(place.stop, end)))

    def at(self, moment: Moment) -> ConsumerRecord | None:
        """Return the first record, in offset order, at or after a moment; None without one.

        Raises:
            ValueError: the moment is no time, or a datetime without a zone.
            CorruptBatchError: the batch of the record is damaged.
        """
        view = self._view()
        found = view.offset_for_time(milliseconds(moment), records_only=True)
        return None if found is None else self._record(view, found.offset)

    def newest(self, key: bytes | str) -> ConsumerRecord | None:
        """Return the newest record of a key; None without one. Records of all transactions count, and tombstones.

        Text is a key as its line shows it: "42" also where a mapping says that keys are numbers.

        The log is searched back from its end. Once look-ups have read as many bytes as it has, its keys are kept in
        memory, if they fit: from then on a look-up reads one batch, and what was appended meanwhile.

        Raises:
            CorruptBatchError: damage may hide a newer record of the key, or its batch is damaged.
            ValueError: a mask of the source hides keys of the topic, or text is no key of the type that its keys have.
        """
        from kafkafs.api.record_reading import newest_record
        from kafkafs.records.conditions.wanted_keys import TopicKeys

        mask = self._logs.row_mask
        lines = None if mask is None else mask.of(self.topic)
        if lines is not None and lines.masks_keys:
            raise ValueError(f"the mask hides the keys of {self.topic}")
        context = self._logs.tree.context
        (wanted,) = TopicKeys([key], context.schemas).of(self.topic)
        assert wanted is not None
        decoder = self._logs.decoder(self.topic)
        return newest_record(self._log, wanted, context.key_maps, decoder, mask)

    @property
    def newest_timestamp(self) -> Timestamp | None:
        """The largest timestamp in milliseconds; None without one."""
        found = self._view().max_timestamp
        return None if found is None else found.timestamp

    def __iter__(self) -> Generator[ConsumerRecord, None, None]:  # noqa: PYI058 - it can be closed
        """Yield all records, from the log start to the log end of this moment; see `records`."""
        return self.records()

    __reversed__ = None  # offsets have gaps: reversed() would ask for each number below len()

    def records(
        self,
        start: Offset | None = None,
        stop: Offset | None = None,
        *,
        isolation: Isolation = "read_uncommitted",
        on_corrupt: Corrupt = "raise",
    ) -> Generator[ConsumerRecord, None, None]:
        """Yield the records with offsets in [start, stop), one run of batches in memory at a time.

        Args:
            start, stop: by default the log start, and the log end of this moment.
            isolation: "read_committed" leaves out aborted records, and ends at the first open transaction.
            on_corrupt: "raise" an error at damage, or "skip" it.

        Raises:
            CorruptBatchError: damage may have cost records of the range; with its file, position and offsets.
            LostRecordsError: the broker deleted records of the range since the first one was asked for.
            ValueError: an unknown isolation or treatment of damage.
        """
        if on_corrupt == "row":
            raise ValueError("on_corrupt='row' is for scans: records have no row for damage")
        from kafkafs.api.record_reading import records_between

        budgets, decoder_of = self._log.budgets, self._logs.decoder
        mask = self._logs.row_mask
        options = row_options(isolation, on_corrupt, budgets, decoder_of=decoder_of, mask=mask)
        return self._warned(records_between(self._log, start, stop, options))

    def _warned(
        self, records: Generator[ConsumerRecord, None, None]
    ) -> Generator[ConsumerRecord, None, None]:
        """Yield records, and warn at their end of fields of the mask that none had."""
        yield from records
        self._logs.warn_unmet()

    @named_options
    def scan(self, **options: Unpack[ScanOptions]) -> Scan:
        """Return a scan of this partition; the options are those of `ScanOptions`."""
        from kafkafs.api.scan import Scan

        return Scan(self._logs, {self.topic: [self.partition]}, **options)


class RecordRange:
    """The records of a partition with offsets in [start, stop); each iteration reads them again.

    Attributes:
        partition: the partition.
        start, stop: the offsets.
    """

    def __init__(self, partition: OpenedPartition, start: Offset, stop: Offset) -> None:
        self.partition = partition
        self.start = start
        self.stop = stop

    def __repr__(self) -> str:
        return f"<{self.partition.name}[{self.start}:{self.stop}]>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the first records, with the text of the error that ends them."""
        rows: list[Sequence[object]] = []
        try:
            for record in islice(self, MOST_ROWS):
                key, value = record.decoded()
                rows.append((record.offset, record.time, key, value))
        except (KafkaStorageError, OSError, RuntimeError) as error:
            rows.append((None, None, None, error))
        left_out = max(0, len(self) - len(rows)) if len(rows) == MOST_ROWS else 0
        caption = f"{self.partition.name}, offsets {self.start} to {self.stop}"
        return html_table(caption, ("offset", "time", "key", "value"), rows, left_out)

    def __len__(self) -> int:
        """Return the number of offsets; after compaction there are fewer records."""
        return self.stop - self.start

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self.partition.records(self.start, self.stop)

    @named_options
    def scan(self, **options: Unpack[ScanOptions]) -> Scan:
        """Return a scan of this range; the options are those of `ScanOptions`."""
        if "offsets" in options:
            raise TypeError("a range has its offsets: leave out the option offsets")
        options["offsets"] = (self.start, self.stop)
        return self.partition.scan(**options)


def _again(logs: SourceLogs, name: str) -> OpenedPartition:
    return OpenedPartition(logs, logs.source.partitions()[name])
