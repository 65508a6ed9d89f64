"""Read the files that a KRaft node reads beside its metadata log, as it reads them: any error ends its start.

These are bootstrap.checkpoint (its batches' checksums are not verified), the newest snapshot (they are) and quorum-state.
See BootstrapDirectory, RecordsSnapshotReader and FileQuorumStateStore in Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from engine.checkpoint.base64_uuid import canonical_uuid
from engine.coding.compression import CompressionType
from engine.errors import InvalidRecordError
from engine.files.file_names import (
    BOOTSTRAP_CHECKPOINT,
    QUORUM_STATE,
    FileKind,
    FileState,
    kraft_checkpoint_name,
    parse_file_name,
)
from engine.files.folder_entries import EntryKind, SourceEntry
from engine.files.source_files import SourceFile, SourceRoot
from engine.log.folder_listing import KRaftSnapshot
from engine.plan.loading.broker_failure import EXPECTED, BrokerFailure, Outcome, failure_of, stops
from engine.plan.loading.java_text import TEXT_LIMIT, first_line
from engine.plan.overlay.overlay_content import OverlayContent
from engine.plan.overlay.overlay_file import OverlayFile
from engine.record.batch_frame import CURRENT_MAGIC, MAGIC_POSITION, UP_TO_MAGIC
from engine.record.control_records import ControlRecordType, parse_control_key
from engine.record.frame_walk import batch_in, frames
from engine.record.record import Record
from engine.record.record_batch import RecordBatch
from engine.replay.cluster import ClusterChange, control_change
from engine.replay.partition_records import ReplayedControl
from engine.topics.internal_topics import decoder_for
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import MAX_INT32, MAX_INT64, Offset

_T = TypeVar("_T")
METADATA_VERSION = "metadata.version"
_NEWEST_QUORUM_STATE = 1
_OF_IO = ("IOException", "EOFException", "JsonParseException", "MalformedInputException")
_OF_THE_QUORUM = frozenset(
    {
        ControlRecordType.LEADER_CHANGE,
        ControlRecordType.SNAPSHOT_HEADER,
        ControlRecordType.SNAPSHOT_FOOTER,
        ControlRecordType.KRAFT_VERSION,
        ControlRecordType.KRAFT_VOTERS,
    }
)
_AT_FORMAT = KRaftSnapshot(0, 0)
"""The snapshot that the format wrote: a node does without its records."""


class NewestSnapshot(NamedTuple):
    """The snapshot from which a node starts: its records as far as the node reads them."""

    id: KRaftSnapshot
    changes: Sequence[ClusterChange]

    @property
    def name(self) -> str:
        """Name of the file."""
        return kraft_checkpoint_name(*self.id)

    @property
    def is_whole(self) -> bool:
        """Whether it ends with its footer record."""
        footer = ControlRecordType.SNAPSHOT_FOOTER.name
        return bool(self.changes) and self.changes[-1].kind == footer


def check_bootstrap(root: SourceRoot) -> None:
    """Read the bootstrap.checkpoint of the metadata log's log dir, if there is one.

    Raises BrokerFailure if a node does not start with it.
    """
    kinds = {entry.name: entry.kind for entry in root.list()}
    if BOOTSTRAP_CHECKPOINT in kinds:
        _read(root, BOOTSTRAP_CHECKPOINT, kinds[BOOTSTRAP_CHECKPOINT], _read_bootstrap)


def check_quorum_state(root: SourceRoot, folder: str) -> None:
    """Read the quorum-state in the metadata log's folder, if there is one. Raises BrokerFailure as `check_bootstrap`."""
    kinds = {entry.name: entry.kind for entry in root.list(folder)}
    if QUORUM_STATE not in kinds:
        return
    try:
        _read(root, f"{folder}/{QUORUM_STATE}", kinds[QUORUM_STATE], _read_quorum_state)
    except BrokerFailure as failure:
        if failure.java in _OF_IO:
            raise stops("UncheckedIOException", failure.reason) from None
        raise


def newest_snapshot_id(
    root: SourceRoot, folder: str, log_start: Offset = 0
) -> KRaftSnapshot | None:
    """Return the newest snapshot that does not end before the log start, by its name; None without one."""
    found = (snapshot for snapshot, _ in _snapshots(root.list(folder), log_start))
    return max(found, key=lambda each: (each.epoch, each.end_offset), default=None)


def read_snapshot(root: SourceRoot, folder: str, snapshot: KRaftSnapshot) -> NewestSnapshot:
    """Read a snapshot. Raises BrokerFailure as `check_bootstrap`."""
    kind = dict(_snapshots(root.list(folder), snapshot.end_offset))[snapshot]
    path = f"{folder}/{kraft_checkpoint_name(*snapshot)}"
    if kind is EntryKind.DIRECTORY:
        raise stops("UncheckedIOException", f"{root.display(path)} is a folder")
    try:
        return NewestSnapshot(snapshot, _read(root, path, kind, _read_snapshot))
    except BrokerFailure as failure:
        if snapshot == _AT_FORMAT and failure.java == "NoSuchElementException":
            return NewestSnapshot(snapshot, ())
        raise


def snapshot_ends(root: SourceRoot, folder: str) -> list[Offset]:
    """Return the end offsets of the complete snapshots in a folder."""
    return [snapshot.end_offset for snapshot, _ in _snapshots(root.list(folder), 0)]


def _snapshots(
    entries: Sequence[SourceEntry], log_start: Offset
) -> Iterator[tuple[KRaftSnapshot, EntryKind]]:
    for name, kind in entries:
        parsed = parse_file_name(name)
        if parsed is None or parsed.kind is not FileKind.KRAFT_CHECKPOINT:
            continue
        if parsed.state is not FileState.LIVE or parsed.base_offset is None:
            continue
        if parsed.base_offset >= log_start and parsed.epoch is not None:
            yield KRaftSnapshot(parsed.base_offset, parsed.epoch), kind


def _read(root: SourceRoot, path: str, kind: EntryKind, read: Callable[[SourceFile], _T]) -> _T:
    """Return what `read` makes of a file; its errors are failures that end the start."""
    shown = root.display(path)
    if kind is EntryKind.DIRECTORY:
        raise stops("IOException", f"{shown} is a folder")
    if kind is EntryKind.SYMLINK:
        raise BrokerFailure(
            Outcome.UNKNOWN, "", f"{shown} is a symbolic link, which is not followed here"
        )
    try:
        with root.open_fresh(path) as file:
            return read(file)
    except EXPECTED as error:
        failure = failure_of(error, ends_start=True)
        if failure.outcome is Outcome.UNKNOWN:
            raise failure from None
        reason = failure.reason if shown in failure.reason else f"{shown}: {failure.reason}"
        raise stops(failure.java, reason) from None


def _read_bootstrap(file: SourceFile) -> None:
    decoder = decoder_for(CLUSTER_METADATA)
    assert decoder is not None
    has_version = False
    for frame in frames(file, 0, file.size()):
        batch = batch_in(file, frame)
        records = list(batch.records())
        if not records:
            raise stops("IllegalArgumentException", f"a batch of {file.path} has no record")
        if batch.is_control:
            _control_types(records)
            continue
        for record in records:
            decoded = decoder.decode(record.key, record.value)
            if decoded.value is None:
                note = decoded.value_note or "it has no value"
                raise stops("RuntimeException", f"the record at offset {record.offset}: {note}")
            has_version |= (
                decoded.kind == "FEATURE_LEVEL_RECORD"
                and decoded.value["data"]["name"] == METADATA_VERSION
            )
    if not has_version:
        raise stops("RuntimeException", f"{file.path} has no record of the {METADATA_VERSION}")


def metadata_changes(
    contents: Iterable[OverlayContent], first_offset: Offset, end: Offset
) -> list[ClusterChange]:
    """Read the records files of the metadata log after its loading, from an offset on, as a node does: in file order.

    Args:
        contents: the records files.
        first_offset: end of the newest snapshot, or the log start.
        end: end of the log.

    Raises BrokerFailure for a batch or a record that ends its start.
    """
    found: list[ClusterChange] = []
    for content in contents:
        is_reached = False
        file = OverlayFile(content, content.path, writable=False)
        for frame in frames(file, 0, content.size):
            where = f"the batch at byte {frame.position} of {content.path}"
            if frame.magic != CURRENT_MAGIC:
                raise stops("CorruptRecordException", f"{where} has magic {frame.magic}")
            batch = batch_in(file, frame)
            is_reached = is_reached or batch.last_offset >= first_offset
            if not is_reached:
                continue
            found += _changes_in(batch, where)
            first_offset = batch.last_offset + 1
    if first_offset < end:
        reason = f"the node reads the metadata log from offset {first_offset} on for ever"
        raise stops("IllegalStateException", reason)
    return found


def _changes_in(batch: RecordBatch, where: str) -> Iterator[ClusterChange]:
    decoder = decoder_for(CLUSTER_METADATA)
    assert decoder is not None
    if batch.codec_id >= len(CompressionType):
        raise stops("IllegalArgumentException", f"{where} has the unknown codec {batch.codec_id}")
    records = list(batch.records())
    if not records:
        raise stops("IllegalArgumentException", f"{where} has no record")
    for record in records:
        if batch.is_control:
            kind = next(iter(_control_types([record])), None)
            control = ReplayedControl(
                record.offset, record.timestamp, -1, batch.leader_epoch, kind, record.value
            )
            yield from control_change(control, [])
            continue
        is_plain = record.key is None and not record.headers
        if not is_plain or record.timestamp != records[0].timestamp:
            reason = f"{where} has a record that is none of the metadata"
            raise stops("IllegalArgumentException", reason)
        if not record.value:
            raise stops("IllegalArgumentException", f"{where} has a record without a value")
        decoded = decoder.decode(record.key, record.value)
        if decoded.value is None:
            raise stops("RuntimeException", f"{where}: {decoded.value_note}")
        yield ClusterChange(decoded.kind, decoded.value["data"], record.offset, record.timestamp)


def _read_snapshot(file: SourceFile) -> list[ClusterChange]:
    """Return the records of a snapshot up to its end, or to the first batch that it does not have to its end."""
    size = file.size()
    if not size:
        raise stops("NoSuchElementException", f"{file.path} is empty")
    if size < UP_TO_MAGIC:
        raise stops("NullPointerException", f"{file.path} has only {size} bytes")
    found: list[ClusterChange] = []
    is_first, position = True, 0
    for frame in frames(file, 0, size):
        if frame.magic != CURRENT_MAGIC:
            raise stops("IllegalStateException", f"a batch of {file.path} has magic {frame.magic}")
        batch = batch_in(file, frame)
        batch.ensure_valid()
        changes = list(_changes_in(batch, f"the batch at byte {frame.position} of {file.path}"))
        if is_first and ControlRecordType.SNAPSHOT_HEADER.name not in {
            each.kind for each in changes
        }:
            raise stops("IllegalStateException", f"{file.path} does not begin with its header")
        is_first = False
        found += changes
        position = frame.position + frame.size
    head = file.read_at(position, UP_TO_MAGIC)
    if len(head) == UP_TO_MAGIC and head[MAGIC_POSITION] > CURRENT_MAGIC:
        raise stops("CorruptRecordException", f"a batch of {file.path} has no known magic")
    if is_first:
        raise stops("NoSuchElementException", f"{file.path} has no whole batch")
    return found


def _control_types(records: Iterable[Record]) -> set[ControlRecordType]:
    found = set()
    for record in records:
        if not record.key or not record.value:
            raise stops("IllegalArgumentException", "a control record has no key or no value")
        try:
            kind = parse_control_key(record.key).type
        except InvalidRecordError as error:
            raise stops("InvalidRecordException", str(error)) from None
        if kind not in _OF_THE_QUORUM:
            reason = f"the control record at offset {record.offset} is a {kind.name}"
            raise stops("IllegalArgumentException", reason)
        found.add(kind)
    return found


def _read_quorum_state(file: SourceFile) -> None:
    line = first_line(file.read_at(0, TEXT_LIMIT), file.path, file.size())
    if line is None:
        raise stops("EOFException", f"{file.path} is empty")
    fields = _first_value(line, file.path)
    if not isinstance(fields, dict):
        raise stops("IOException", f"{file.path} does not hold a JSON object")
    if "data_version" not in fields:
        raise stops("IOException", f"{file.path} has no data_version")
    version = _short(fields["data_version"])
    if not 0 <= version <= _NEWEST_QUORUM_STATE:
        raise stops("IllegalStateException", f"{file.path} has the data_version {version}")
    required = ["leaderId", "leaderEpoch", "votedId"]
    required += ["clusterId", "appliedOffset", "currentVoters"] if not version else []
    required += ["votedDirectoryId"] if version else []
    for name in required:
        if name not in fields:
            raise stops("RuntimeException", f"{file.path} has no {name}")
    for name, value in fields.items():
        is_valid, java = _FIELDS.get(name, (_is_any, ""))
        if not is_valid(value):
            raise stops(java, f"{file.path} has the {name} {str(value)[:80]!a}")
    if fields.get("currentVoters", ()) is None:
        raise stops("NullPointerException", f"{file.path} has no currentVoters")


def _first_value(line: str, path: str) -> object:
    """Return the first JSON value in a line; a broker ignores what follows."""
    try:
        return json.JSONDecoder(parse_constant=_refuse).raw_decode(line.lstrip(" \t\r\n"))[0]
    except (ValueError, RecursionError):
        raise stops("JsonParseException", f"{path}: {line[:80]!a} is no JSON") from None


def _refuse(name: str) -> object:
    raise ValueError(name)


def _short(value: object) -> int:
    """Return a JSON number as an int16, as Jackson does; 0 for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return (int(value) + (1 << 15)) % (1 << 16) - (1 << 15)


def _is_int32(value: object) -> bool:
    return type(value) is int and -MAX_INT32 - 1 <= value <= MAX_INT32


def _is_int64(value: object) -> bool:
    return type(value) is int and -MAX_INT64 - 1 <= value <= MAX_INT64


def _is_uuid(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(canonical_uuid(value))
    except ValueError:
        return False


def _are_voters(value: object) -> bool:
    return value is None or (
        isinstance(value, list)
        and all(isinstance(each, dict) and _is_int32(each.get("voterId")) for each in value)
    )


def _is_any(_value: object) -> bool:
    return True


_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "clusterId": (lambda value: isinstance(value, str), "RuntimeException"),
    "leaderId": (_is_int32, "NumberFormatException"),
    "leaderEpoch": (_is_int32, "NumberFormatException"),
    "votedId": (_is_int32, "NumberFormatException"),
    "votedDirectoryId": (_is_uuid, "IllegalArgumentException"),
    "appliedOffset": (_is_int64, "NumberFormatException"),
    "currentVoters": (_are_voters, "RuntimeException"),
}
