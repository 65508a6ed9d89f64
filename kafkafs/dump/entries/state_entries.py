"""Entries of the small files of a log directory: producer snapshots, checkpoints, identities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from engine.checkpoint.clean_shutdown import parse_clean_shutdown
from engine.checkpoint.leader_epoch_checkpoint import parse_leader_epochs
from engine.checkpoint.meta_properties import parse_meta_properties
from engine.checkpoint.offset_checkpoint import parse_offset_checkpoint
from engine.checkpoint.partition_metadata import parse_partition_metadata
from engine.checkpoint.quorum_state import parse_quorum_state
from engine.coding.checksums import crc32c
from engine.errors import CorruptCheckpointError, LimitExceededError
from engine.files.file_names import FileKind
from engine.json_facts import camel_case, facts_of
from engine.record.default_records import decrement_sequence
from engine.state.producer_snapshot import CURRENT_VERSION, ENTRY, HEADER, SnapshotEntry
from kafkafs.dump.dump_file import DumpFile
from kafkafs.dump.dump_options import DumpOptions
from kafkafs.dump.findings import Fault, Found, ShownEntry

_CHECKED_FROM = HEADER.position_of("entry_count")


def producer_entries(file: DumpFile, data: bytes) -> Iterator[Found]:
    """Yield the producers of a snapshot: all complete entries, also with a wrong checksum."""
    if len(data) < HEADER.size:
        reason = "Snapshot failed schema validation: null"
        yield Fault("cut", reason, 0, f"at least {HEADER.size} bytes", f"{len(data)} bytes")
        return
    header = HEADER.unpack(data)
    if header.version != CURRENT_VERSION:
        yield Fault(
            "unknown_version",
            "Snapshot failed schema validation:"
            f" Snapshot contained an unknown file version {header.version}",
            0,
            CURRENT_VERSION,
            header.version,
        )
        return
    there = (len(data) - HEADER.size) // ENTRY.size
    computed = crc32c(memoryview(data)[_CHECKED_FROM:])
    if not 0 <= header.entry_count <= there:
        reason = (
            f"Snapshot failed schema validation: {header.entry_count} entries are stated,"
            f" {there} are there"
        )
        yield Fault("entry_count", reason, _CHECKED_FROM, header.entry_count, there)
    elif computed != header.crc:
        yield Fault(
            "crc_mismatch",
            "Snapshot is corrupt (CRC is no longer valid)."
            f" Stored crc: {header.crc}. Computed crc: {computed}",
            None,
            header.crc,
            computed,
        )
    count = min(max(header.entry_count, 0), there)
    body = memoryview(data)[HEADER.size : HEADER.size + count * ENTRY.size]
    for slot, entry in enumerate(ENTRY.iter_unpack(body)):
        yield ShownEntry(_producer_text(entry), {"slot": slot, **_json_names(entry._asdict())})


def _producer_text(entry: SnapshotEntry) -> str:
    first = entry.current_txn_first_offset
    shown = f"OptionalLong[{first}]" if first >= 0 else "OptionalLong.empty"
    text = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch}"
        f" coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: {shown}"
        f" lastTimestamp: {entry.timestamp}"
    )
    if entry.last_offset < 0:
        return text
    sequence = decrement_sequence(entry.last_sequence, entry.offset_delta)
    return (
        f"{text} firstSequence: {sequence} lastSequence: {entry.last_sequence}"
        f" lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta}"
        f" timestamp: {entry.timestamp}"
    )


def _json_names(fields: dict[str, Any]) -> dict[str, Any]:
    return {camel_case(name): value for name, value in fields.items()}


def _epochs(data: bytes, path: str) -> Iterator[dict[str, Any]]:
    for entry in parse_leader_epochs(data, path=path):
        yield {"epoch": entry.epoch, "startOffset": entry.start_offset}


def _offsets(data: bytes, path: str) -> Iterator[dict[str, Any]]:
    for (topic, partition), offset in parse_offset_checkpoint(data, path=path).items():
        yield {"topic": topic, "partition": partition, "offset": offset}


def _partition(data: bytes, path: str) -> Iterator[dict[str, Any]]:
    yield _json_names(parse_partition_metadata(data, path=path)._asdict())


def _meta(data: bytes, path: str) -> Iterator[dict[str, Any]]:
    found = parse_meta_properties(data, path=path)
    fields = {
        "version": int(found.version),
        **facts_of(found, "cluster_id node_id directory_id"),
    }
    yield {name: value for name, value in fields.items() if value is not None}


def _quorum(data: bytes, path: str) -> Iterator[dict[str, Any]]:
    fields = _json_names(parse_quorum_state(data, path=path)._asdict())
    fields["currentVoters"] = list(fields["currentVoters"])
    known = fields["version"] == 0
    gone = ("votedDirectoryId",) if known else ("clusterId", "appliedOffset", "currentVoters")
    yield {name: value for name, value in fields.items() if name not in gone}


def _shutdown(data: bytes, path: str) -> Iterator[dict[str, Any]]:
    found = parse_clean_shutdown(data, path=path)
    fields = {"version": found.version, "brokerEpoch": found.broker_epoch}
    yield {name: value for name, value in fields.items() if value is not None}


_READERS: dict[FileKind, Callable[[bytes, str], Iterator[dict[str, Any]]]] = {
    FileKind.LEADER_EPOCH_CHECKPOINT: _epochs,
    FileKind.OFFSET_CHECKPOINT: _offsets,
    FileKind.PARTITION_METADATA: _partition,
    FileKind.META_PROPERTIES: _meta,
    FileKind.QUORUM_STATE: _quorum,
    FileKind.CLEAN_SHUTDOWN: _shutdown,
}
STATE_KINDS = frozenset({FileKind.PRODUCER_SNAPSHOT, *_READERS})
"""Kinds of files that are read whole."""


def state_entries(file: DumpFile, options: DumpOptions) -> Iterator[Found]:
    """Yield the content of a small file. Raises OSError when it cannot be read."""
    assert file.kind is not None
    data = b""
    try:
        data = file.root.read(file.name, limit=options.budgets.checkpoint_bytes)
        if file.kind is FileKind.PRODUCER_SNAPSHOT:
            yield from producer_entries(file, data)
            return
        for fields in _READERS[file.kind](data, file.shown):
            yield ShownEntry(_text(fields), fields)
    except (CorruptCheckpointError, LimitExceededError) as error:
        yield Fault("damaged", str(error), error.position, error.expected, error.found)
        for number, line in enumerate(data.splitlines(), 1):
            yield ShownEntry(f"line {number}: {ascii(line)[2:-1]}", {"line": number, "bytes": line})


def _text(fields: dict[str, Any]) -> str:
    words = (f"{name}: {_value(value)}" for name, value in fields.items())
    return " ".join(words) or "(empty)"


def _value(value: object) -> str:
    """Return a value as one word without control characters for a terminal."""
    text = str(value)
    return text if text.isprintable() else ascii(text)
