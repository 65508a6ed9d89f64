"""`offset/`: records by offset, their keys, values and batches, and ranges of records.

The folder lists links only, so that a walk over the mount reads no record a second time: `earliest`, `latest`, and the
first record of each segment under its offset with 20 digits.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from engine.coding.compression import CompressionType
from engine.columns.columns import Columns
from engine.errors import DamagedFileError, UnsupportedCodecError
from engine.log.view.log_view import LogView
from engine.memory_gate import LARGE
from engine.record.attributes import (
    COMPRESSION_MASK,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    TimestampType,
    is_control,
)
from engine.units import MAX_INT64, NO_TIMESTAMP, Offset, Timestamp
from kafkafs.decode.damaged_record import DamagedRecordError
from kafkafs.decode.error_line import exception_facts
from kafkafs.decode.rendered_batch import RenderedBatch
from kafkafs.decode.shown_text import plain_json
from kafkafs.tree.content import BytesContent, FileContent, InflatedContent
from kafkafs.tree.errors import BYTES, NotFound
from kafkafs.tree.listing import README, entry
from kafkafs.tree.lookups import offsets_of_range
from kafkafs.tree.node import (
    Attrs,
    Cancel,
    Content,
    Entry,
    File,
    Kind,
    Node,
    inode_number,
    mtime_of,
)
from kafkafs.tree.partition.line_files import LineFile
from kafkafs.tree.partition.link_targets import (
    AFTER_LANDMARKS,
    LINKS,
    offset_link,
    segment_targets,
    target_entries,
    target_link,
    target_name,
)
from kafkafs.tree.partition.partition import Partition, retried
from kafkafs.tree.partition.readme import readme_file, readme_of_offsets
from kafkafs.tree.partition.record_folder import RecordFolder
from kafkafs.tree.path_names import OffsetRange, parse_range
from kafkafs.tree.plain_files import FailingFile
from kafkafs.tree.streams import LineSource

_MOST_DIGITS = 20
_RECORD = re.compile(rf"([0-9]{{1,{_MOST_DIGITS}}})(\.key|\.value|\.batch)?")
_LOOKS = 4


class OffsetFolder(RecordFolder):
    """`offset/`. Lists links to a few records; every record can be looked up."""

    __slots__ = ()

    @retried
    def lookup(self, name: str) -> Node:
        partition = self.partition
        if name.isdecimal() and name.isascii() and len(name) < _MOST_DIGITS:
            view, offset = partition.view(), int(name)
            found = partition.records.line(view, offset)
            if found is not None:
                return RecordLineFile(f"{self.path}/{name}", partition, view, offset, *found)
        match = _RECORD.fullmatch(name)
        if match is None:
            return self._other(name)
        return self._find(name, int(match[1]), match[2])

    def _find(self, name: str, offset: Offset, field: str | None) -> Node:
        partition = self.partition
        if field is not None:
            partition.refuse_masked(self.child(name), BYTES)
        view = partition.view()
        if name == target_name(offset):
            self.lookup(str(offset))
            return target_link(self.child(name), partition, view, str(offset))
        try:
            batch = partition.records.find(view, offset)
            if batch is None and view.live:
                view, batch = self._find_again(view, offset)
        except (DamagedFileError, UnsupportedCodecError) as error:
            try:
                view, batch = self._find_again(view, offset, error)
            except (DamagedFileError, UnsupportedCodecError) as error:
                return self._damaged(name, view, offset, field, error)
        if batch is None:
            raise NotFound(self.child(name), "no record with this offset")
        path = self.path + "/" + name
        if field is None and batch.large == offset:
            return LargeRecordFile(path, FoundRecord(partition, view, batch, offset, b""))
        line = batch.line(offset) or b""
        found = FoundRecord(partition, view, batch, offset, line)
        if field is not None:
            return self._field(path, found, field)
        if not line:
            raise NotFound(path)
        return RecordFile(path, found, line)

    def _find_again(
        self, view: LogView, offset: Offset, error: Exception | None = None
    ) -> tuple[LogView, RenderedBatch | None]:
        """Search again while the cleaner replaces segments: the view may still have the old ones.

        A segment's cleaned file may already hold the records of the next segment too. A result that stays the same
        without a change of the folder is final.
        """
        partition = self.partition
        for look in range(_LOOKS):
            if not partition.look_again(is_first=error is not None and look == 0):
                break
            view = partition.view()
            try:
                batch, error = partition.records.find(view, offset), None
            except (DamagedFileError, UnsupportedCodecError) as found:
                error = found
                continue
            if batch is not None:
                return view, batch
        if error is not None:
            raise error
        return view, None

    def entries(self, after: int = 0) -> Iterator[Entry]:
        partition = self.partition
        view = partition.view()
        yield from target_entries(self, partition, view, after)
        for offset in segment_targets(partition, view, after - AFTER_LANDMARKS):
            cookie = min(offset + AFTER_LANDMARKS, MAX_INT64)
            if cookie > after:
                yield entry(self, target_name(offset), Kind.LINK, cookie)

    def _other(self, name: str) -> Node:
        partition = self.partition
        view = partition.view()
        if name in LINKS:
            return offset_link(self.child(name), partition, view, LINKS[name](partition, view), "")
        if name == README:
            return readme_file(self.child(name), partition, partial(readme_of_offsets, partition))
        offsets = parse_range(name)
        if offsets is None:
            raise NotFound(self.child(name))
        return LineFile(
            self.child(name), partition, lambda view: range_source(partition, view, offsets)
        )

    def _field(self, path: str, found: FoundRecord, field: str) -> Node:
        batch = found.batch
        if field == ".batch":
            size = batch.header("size")
            if size > LARGE:
                place = FieldPlace(batch.header("position"), size, is_stored=True)
                return LargeFieldFile(path, found, place)
            return RecordFile(path, found, batch.raw())
        columns = batch.columns()
        number = batch.number_of(columns, found.offset)
        if number is None:
            raise NotFound(path)
        size = int((columns.key_size if field == ".key" else columns.value_size)[number])
        if size < 0:
            raise NotFound(path, f"the record's {field[1:]} is null")
        if size > LARGE:
            return LargeFieldFile(path, found, place_of(batch, columns, number, field))
        data = columns.key(number) if field == ".key" else columns.value(number)
        return RecordFile(path, found, data or b"")

    def _damaged(
        self, name: str, view: LogView, offset: Offset, field: str | None, error: Exception
    ) -> Node:
        """Return a file for a record that cannot be read. Its raw batch is readable if the batch is whole."""
        partition = self.partition
        if field == ".batch":
            batch = partition.records.locate(view, offset)
            if batch is None:
                raise error
            rendered = RenderedBatch(
                batch.segment,
                batch.run(),
                0,
                partition.options,
                0,
                budgets=partition.context.budgets,
            )
            line = rendered.line(offset) or b""
            found = FoundRecord(partition, view, rendered, offset, line)
            return RecordFile(self.child(name), found, rendered.raw())
        facts = error.damage if isinstance(error, DamagedRecordError) else exception_facts(error)
        if partition.mask is not None:
            facts = partition.mask.damage(facts)
            path, position = facts.get("file"), facts.get("position")
            error = DamagedFileError(facts["reason"], path=path, position=position)
        return FailingFile(
            self.child(name),
            error,
            partition.owner(view),
            ttl=partition.ttl(view),
            xattrs={"user.kafka.error": plain_json(facts)},
        )


def range_source(partition: Partition, view: LogView, offsets: OffsetRange) -> LineSource:
    """Return the lines of a range: an open end follows the log, a count of last records is fixed now."""
    start, end = offsets_of_range(view, offsets)
    if offsets.last is None:
        start = max(offsets.start or 0, view.log_start_offset)
        end = MAX_INT64 if offsets.end is None else max(start, offsets.end)
    return LineSource(partition.name, None, start, end)


class FoundRecord(NamedTuple):
    """A record of a partition, as of a view of the log: its offset, its batch, and its JSON line.

    The line is empty for an offset without a record (the batch that spans it has bytes all the same), and for a
    line that is too long to cache.
    """

    partition: Partition
    view: LogView
    batch: RenderedBatch
    offset: Offset
    line: bytes


class FileOfRecord(File):
    """A file in `offset/` with one record, a part of it, or its batch."""

    __slots__ = ("_found",)

    def __init__(self, path: str, found: FoundRecord) -> None:
        self.path = path
        self._found = found

    @property
    @abstractmethod
    def _size(self) -> int:
        """Size of the content in bytes."""

    def attrs(self) -> Attrs:
        partition, view, batch, _, line = self._found
        owner = partition.owner(view)
        mtime = record_mtime(batch, line, owner.mtime_ns)
        return owner.file(self.path, self._size, mtime, partition.ttl(view))

    def xattrs(self) -> dict[str, bytes]:
        found = self._found
        return record_xattrs(found.batch, found.offset, found.line, hides=_hides(found.partition))


class RecordFile(FileOfRecord):
    """`offset/N`, `N.key`, `N.value` or `N.batch`, with its bytes in memory."""

    __slots__ = ("_data",)

    def __init__(self, path: str, found: FoundRecord, data: bytes) -> None:
        self.path = path
        self._found = found
        self._data = data

    @property
    def _size(self) -> int:
        return len(self._data)

    def open(self, cancel: Cancel | None = None) -> Content:
        return BytesContent(self._data)


class RecordLineFile(File):
    """`offset/N`, read alone: nothing of its batch is kept."""

    __slots__ = ("_data", "_offset", "_partition", "_timestamp", "_view")

    def __init__(
        self,
        path: str,
        partition: Partition,
        view: LogView,
        offset: Offset,
        data: bytes,
        timestamp: Timestamp,
    ) -> None:
        self.path = path
        self._partition = partition
        self._view = view
        self._offset = offset
        self._data = data
        self._timestamp = timestamp

    def attrs(self) -> Attrs:
        # The most frequent request: no call that can be saved.
        owner, ttl = self._partition.owner_and_ttl(self._view)
        timestamp = self._timestamp
        mtime = owner.mtime_ns if timestamp == NO_TIMESTAMP else mtime_of(timestamp)
        inode, size = inode_number(self.path), len(self._data)
        uid, gid, mode = owner.uid, owner.gid, owner.file_mode
        return Attrs(Kind.FILE, mode, size, mtime, inode, 1, uid, gid, True, ttl)

    def xattrs(self) -> dict[str, bytes]:
        batch = self._partition.records.find(self._view, self._offset)
        if batch is None:
            raise NotFound(self.path)
        return record_xattrs(batch, self._offset, self._data, hides=_hides(self._partition))

    def open(self, cancel: Cancel | None = None) -> Content:
        return BytesContent(self._data)


class LargeRecordFile(LineFile):
    """`offset/N` of a record with a line too long to cache: the line is made when it is read, like a range."""

    __slots__ = ("_found",)

    def __init__(self, path: str, found: FoundRecord) -> None:
        partition, _, _, offset, _ = found
        source = LineSource(partition.name, None, offset, offset + 1)
        super().__init__(path, partition, lambda _view: source)
        self._found = found

    def xattrs(self) -> dict[str, bytes]:
        found = self._found
        facts = record_xattrs(found.batch, found.offset, found.line, hides=_hides(found.partition))
        return facts | super().xattrs()


class FieldPlace(NamedTuple):
    """Location of the bytes of a large field.

    Attributes:
        start, size: the byte range in the segment's file, or in the inflated batch.
        is_stored: whether `start` is a position in the file.
    """

    start: int
    size: int
    is_stored: bool


def place_of(batch: RenderedBatch, columns: Columns, number: int, field: str) -> FieldPlace:
    """Return the location of a record's key or value."""
    is_key = field == ".key"
    start = int((columns.key_start if is_key else columns.value_start)[number])
    size = int((columns.key_size if is_key else columns.value_size)[number])
    is_stored = not batch.header("attributes") & COMPRESSION_MASK
    if is_stored:
        start += batch.buffer_start
    return FieldPlace(start, size, is_stored)


class LargeFieldFile(FileOfRecord):
    """`offset/N.key`, `.value`, `.batch` of more than LARGE bytes, read piece by piece."""

    __slots__ = ("_place",)

    slow = True

    def __init__(self, path: str, found: FoundRecord, place: FieldPlace) -> None:
        super().__init__(path, found)
        self._place = place

    @property
    def _size(self) -> int:
        return self._place.size

    def open(self, cancel: Cancel | None = None) -> Content:
        start, size, is_stored = self._place
        found = self._found
        if is_stored:
            return FileContent(found.batch.segment.file, start, start + size)
        return InflatedContent(found.batch, start, size, found.partition.context.chunks)


def record_mtime(batch: RenderedBatch, line: bytes, otherwise: int) -> int:
    """Return the record's timestamp as a file time in ns; `otherwise` if it has none."""
    timestamp = batch.timestamp(line) if line else batch.header("max_timestamp")
    return otherwise if timestamp == NO_TIMESTAMP else mtime_of(timestamp)


def _hides(partition: Partition) -> bool:
    return partition.mask is not None


def record_xattrs(
    batch: RenderedBatch, offset: Offset, line: bytes, *, hides: bool
) -> dict[str, bytes]:
    """Return the facts of the batch header and the record as extended attributes.

    Args:
        hides: leave out the checksum, which tells what a short record is.
    """
    attributes = batch.header("attributes")
    magic = batch.header("magic")
    facts: dict[str, Any] = {
        "offset": offset,
        "segment": batch.segment.base_offset,
        "magic": magic,
        "batch_position": batch.header("position"),
        "batch_size": batch.header("size"),
        "batch_base_offset": batch.header("base_offset"),
        "batch_last_offset": batch.header("last_offset"),
        "crc": batch.header("crc"),
        "compression": _name(CompressionType, attributes & COMPRESSION_MASK),
        "timestamp_type": _timestamp_type(magic, attributes),
    }
    if hides:
        del facts["crc"]
    if line:
        facts["timestamp"] = batch.timestamp(line)
    if magic >= 2:
        facts |= {
            "leader_epoch": batch.header("leader_epoch"),
            "producer_id": batch.header("producer_id"),
            "producer_epoch": batch.header("producer_epoch"),
            "is_transactional": "true" if attributes & TRANSACTIONAL_MASK else "false",
            "is_control": "true" if is_control(magic, attributes) else "false",
        }
        columns = batch.columns()
        number = batch.number_of(columns, offset)
        if number is not None:
            facts["timestamp"] = int(columns.timestamp[number])
            facts["sequence"] = int(columns.sequence[number])
    return {f"user.kafka.{name}": str(value).encode() for name, value in facts.items()}


def _name(names: type[CompressionType], number: int) -> str:
    return names(number).name.lower() if number in list(names) else f"unknown({number})"


def _timestamp_type(magic: int, attributes: int) -> str:
    if magic == 0:
        return TimestampType.NO_TIMESTAMP_TYPE.label
    kind = (
        TimestampType.LOG_APPEND_TIME
        if attributes & TIMESTAMP_TYPE_MASK
        else TimestampType.CREATE_TIME
    )
    return kind.label
