"""Files as JSON lines: every field, exact bytes, and a line {"error": ...} for each fault.

Each line has "type" (file, batch, record, entry or note) and "file". Bytes are strings if they are UTF-8, else base64
with a field "…Encoding" beside them, so that no byte is lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from engine.budgets import MiB
from engine.columns.batch_table import BatchProblem, Problem, holds_control
from engine.columns.columns import Columns
from engine.errors import KafkaStorageError
from engine.files.file_names import FileKind
from engine.json_facts import camel_case
from engine.lines.dump_text import codec_name, last_sequence, timestamp_label
from engine.lines.json_text import Values, bytes_json, hide
from engine.lines.line_decoder import LineDecoder
from engine.log.segment.damage import DamageKind
from engine.log.segment.scan import Damage
from engine.memory_gate import LARGE
from engine.record.attributes import (
    DELETE_HORIZON_MASK,
    TRANSACTIONAL_MASK,
    TimestampType,
    is_control,
)
from engine.record.control_records import describe_control
from engine.record.record import Header, Record
from engine.topics.decoded_record import DecodedRecord, TopicDecoder
from engine.topics.internal_topics import decoder_for
from engine.topics.topic_names import CLUSTER_METADATA
from kafkafs.decode.shown_text import valid_facts
from kafkafs.dump.dump_file import DumpFile
from kafkafs.dump.dump_items import DumpItem, Tally
from kafkafs.dump.dump_options import DumpOptions
from kafkafs.dump.findings import Contradiction, Found, Note, ShownEntry
from kafkafs.dump.records.large_batches import json_field
from kafkafs.dump.records.log_batches import ShownBatches, rows_within
from kafkafs.dump.records.record_parts import LegacyRecord, legacy_records
from kafkafs.dump.records.schema_fields import decoded_member

_ENOUGH = 8 * MiB
_TEXT = 1 * MiB
"""Bytes of lines that are written at once."""
_ROWS = 4096
_BATCH_FIELDS = (
    *(("producerId", "producer_id"), ("producerEpoch", "producer_epoch")),
    *(("leaderEpoch", "leader_epoch"), ("baseTimestamp", "base_timestamp")),
)


class JsonForm:
    """See DumpForm. Python makes the lines of records."""

    is_native = False

    def __init__(self, options: DumpOptions) -> None:
        self.options = options

    def opening(self, file: DumpFile) -> list[DumpItem]:
        """Return nothing: the line of a file has its size."""
        return []

    def unreadable(self, shown: str, sentence: str) -> list[DumpItem]:
        """Return an error line."""
        facts = {"kind": "unreadable", "reason": sentence.removeprefix(f"{shown}: ")}
        return [error_line(shown, facts), Tally(unreadable=1)]

    def unknown(self, file: DumpFile) -> list[DumpItem]:
        """Return a note."""
        text = "not a file name of Kafka's: the file is not read"
        return [json_line("note", file.shown, {"text": text})]

    def around(self, file: DumpFile) -> JsonAround:
        """Return a maker of the lines around the batches."""
        return JsonAround(file, self.options)

    def batches(self, file: DumpFile, batches: ShownBatches) -> Iterator[DumpItem]:
        """Yield the lines of batches and their records."""
        return JsonLines(file, self.options).batches(batches)

    def entries(self, file: DumpFile, found: Iterator[Found]) -> Iterator[DumpItem]:
        """Yield the lines of a file of entries. Raises the errors of `found`."""
        return JsonLines(file, self.options).entries(found)


class JsonAround:
    """Lines of one records file apart from its batches."""

    def __init__(self, file: DumpFile, options: DumpOptions) -> None:
        self.file = file
        self.options = options

    def headline(self, size: int) -> list[DumpItem]:
        """Return the line of the file."""
        return [_headline(self.file, size)]

    def lost_bytes(self, damage: Damage, end: int) -> list[DumpItem]:
        """Return the error line of bytes without a batch."""
        if self.options.is_partial and damage.kind is DamageKind.TORN_TAIL:
            return []
        facts = damage._asdict()
        del facts["path"]
        for name in ("first_offset", "last_offset"):
            facts[camel_case(name)] = facts.pop(name)
        return [error_line(self.file.shown, facts), Tally(findings=not damage.kind.is_quiet)]

    def before(self, batches: ShownBatches) -> list[DumpItem]:
        """Return the error line of a damaged batch."""
        return [] if batches.damage is None else self.lost_bytes(batches.damage, 0)

    def tail(self, left: int) -> list[DumpItem]:
        """Return nothing: each damaged place has its line."""
        return []


class JsonLines:
    """Lines of batches or entries of one file, some at a time."""

    def __init__(self, file: DumpFile, options: DumpOptions) -> None:
        self.file = file
        self.options = options
        self._lines: list[bytes] = []
        self._size = 0
        self._findings = 0

    # Lines

    def _add(self, line: bytes) -> None:
        self._lines.append(line)
        self._size += len(line)

    def _error(self, facts: dict[str, Any]) -> None:
        self._findings += 1
        self._add(error_line(self.file.shown, facts))

    def _text(self) -> bytes:
        """Return the lines so far, and forget them."""
        text = b"".join(self._lines)
        self._lines.clear()
        self._size = 0
        return text

    def _rest(self) -> Iterator[DumpItem]:
        yield self._text()
        yield Tally(findings=self._findings)
        self._findings = 0

    # Entries

    def entries(self, found: Iterable[Found]) -> Iterator[DumpItem]:
        """Yield the lines of a file of entries. Raises the errors of `found`, after the lines before them."""
        file, shown = self.file, self.file.shown
        self._add(_headline(file, file.root.stat(file.name).st_size))
        try:
            for item in found:
                if isinstance(item, ShownEntry):
                    if not self.options.verify_index_only:
                        self._add(json_line("entry", shown, _with_bytes(item.fields)))
                elif isinstance(item, Note):
                    self._add(json_line("note", shown, {"text": item.text}))
                elif isinstance(item, Contradiction):
                    facts = {
                        "position": item.position,
                        "expected": item.found,
                        "found": item.stated,
                    }
                    self._error({"kind": item.what.value, **facts})
                else:
                    self._error(item._asdict())
                if self._size >= _TEXT:
                    yield self._text()
        except (OSError, KafkaStorageError):
            yield from self._rest()
            raise
        yield from self._rest()

    # Batches

    def batches(self, batches: ShownBatches) -> Iterator[DumpItem]:
        """Yield the lines of batches and their records, as far as they are in the range of the file."""
        first, last = self.file.shown_offsets
        decoder = _decoder_of(self.file, self.options)
        schemas = None if decoder is not None else _schemas_of(self.file, self.options)
        for row in np.flatnonzero(rows_within(batches.table, first, last)).tolist():
            fields = batches.table[row]
            self._add(json_line("batch", self.file.shown, batch_facts(fields)))
            is_control = holds_control(fields)
            if int(fields["magic"]) >= 2 and decoder is None and not is_control:
                yield from self._plain_records(batches, row, first, last, schemas)
                continue
            for record in self._records(batches, row):
                if isinstance(record, BatchProblem):
                    self._problem(record, fields)
                elif first <= int(record["offset"]) <= last:
                    self._record(record, fields, decoder, schemas)
                if self._size >= _TEXT:
                    yield self._text()
        yield from self._rest()

    def _plain_records(
        self,
        batches: ShownBatches,
        row: int,
        first: int,
        last: int,
        schemas: LineDecoder | None,
    ) -> Iterator[bytes]:
        """Yield the records of a batch of magic 2 of no internal topic: the common case, and the fast one."""
        fields = batches.table[row]
        columns = batches.decoded(row, row + 1, self.options.budgets, _ENOUGH)
        head = _json({"type": "record", "file": self.file.shown, "batchPosition": 0})[:-3]
        head += b'%d,"index":' % fields["position"]
        label = timestamp_label(fields).encode()
        arena = columns.arena
        for index, record in enumerate(rows_of(columns)):
            offset, timestamp, key_at, value_at, _, key_size, value_size = record[:7]
            headers_size, headers, sequence = record[7:10]
            if not first <= offset <= last:
                continue
            start = b'%s%d,"offset":%d,"timestamp":%d,"sequence":%d,"timestampType":"%s",' % (
                *(head, index, offset, timestamp, sequence, label),
            )
            if max(key_size, 0) + max(value_size, 0) + headers_size > LARGE:
                yield self._text()
                yield from _long_line(start, columns, index, schemas)
                continue
            key = None if key_size < 0 else bytes(arena[key_at : key_at + key_size])
            value = None if value_size < 0 else bytes(arena[value_at : value_at + value_size])
            pairs = columns.headers(index) if headers else ()
            decoded = b""
            if schemas is not None:
                decoded = decoded_member(schemas, key, value, pairs, timestamp)
            shown = b",".join(map(_pair, pairs))
            self._add(
                b'%s%s,%s,"headers":[%s]%s}\n'
                % (start, _field(b"key", key), _field(b"value", value), shown, decoded)
            )
            if self._size >= _TEXT:
                yield self._text()
        for problem in columns.problems:
            self._problem(problem, fields)

    def _problem(self, problem: BatchProblem, row: np.void) -> None:
        self._error(
            {
                "position": int(row["position"]),
                "length": int(row["size"]),
                "kind": Problem(problem.code).name.lower(),
                "reason": problem.detail,
                "record": problem.record_index,
            }
        )

    def _records(self, batches: ShownBatches, row: int) -> Iterator[dict[str, Any] | BatchProblem]:
        """Yield the records of a batch as facts, then the problem that ends them early."""
        fields = batches.table[row]
        if int(fields["magic"]) < 2:
            for index, found in enumerate(legacy_records(batches, row, self.options.budgets)):
                yield found if isinstance(found, BatchProblem) else _legacy_facts(found, index)
            return
        columns = batches.decoded(row, row + 1, self.options.budgets, _ENOUGH)
        offsets, timestamps = columns.offset.tolist(), columns.timestamp.tolist()
        sequences = columns.sequence.tolist()
        for index in range(len(columns)):
            yield {
                "index": index,
                "offset": offsets[index],
                "timestamp": timestamps[index],
                "sequence": sequences[index],
                "key": columns.key(index),
                "value": columns.value(index),
                "headers": columns.headers(index),
            }
        yield from columns.problems

    def _record(
        self,
        facts: dict[str, Any],
        row: np.void,
        decoder: TopicDecoder | None,
        schemas: LineDecoder | None,
    ) -> None:
        key, value = facts.pop("key"), facts.pop("value")
        headers: tuple[Header, ...] = facts.pop("headers")
        shown = {
            "batchPosition": int(row["position"]),
            **facts,
            "timestampType": timestamp_label(row),
            **_bytes("key", key),
            **_bytes("value", value),
            "headers": [{**_bytes("key", h.key), **_bytes("value", h.value)} for h in headers],
        }
        if holds_control(row):
            shown["control"] = _control(facts, key, value)
        elif decoder is not None:
            shown["decoded"] = _decoded(decoder.decode(key, value))
        line = json_line("record", self.file.shown, shown)
        if schemas is not None and "control" not in shown:
            decoded = decoded_member(schemas, key, value, headers, facts["timestamp"])
            line = b"%s%s}\n" % (line.removesuffix(b"}\n"), decoded)
        self._add(line)


def _long_line(
    start: bytes, columns: Columns, index: int, schemas: LineDecoder | None
) -> Iterator[bytes]:
    """Yield the line of a record with a large key, value or header in pieces."""
    record, arena = columns.table[index], columns.arena
    headers, fields = columns.headers(index), []
    yield start
    for name, after in (("key", b","), ("value", b',"headers":[')):
        at, size = int(record[f"{name}_start"]), int(record[f"{name}_size"])
        fields.append(None if size < 0 else arena[at : at + size])
        yield from json_field(name.encode(), fields[-1])
        yield after
    for number, header in enumerate(headers):
        yield b",{" if number else b"{"
        yield from json_field(b"key", memoryview(header.key))
        yield b","
        value = None if header.value is None else memoryview(header.value)
        yield from json_field(b"value", value)
        yield b"}"
    yield b"]"
    if schemas is not None:
        yield decoded_member(schemas, fields[0], fields[1], headers, int(record["timestamp"]))
    yield b"}\n"


def rows_of(columns: Columns) -> Iterator[tuple[int, ...]]:
    """Yield the records' fields; few rows at a time become Python objects, to bound memory."""
    for first in range(0, len(columns), _ROWS):
        yield from columns.table[first : first + _ROWS].tolist()


def _decoded(found: DecodedRecord) -> dict[str, Any]:
    facts = {
        "kind": found.kind or None,
        "key": found.key,
        "value": found.value,
        "keyNote": found.key_note,
        "valueNote": found.value_note,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _control(facts: dict[str, Any], key: bytes | None, value: bytes | None) -> dict[str, Any]:
    kind = TimestampType.CREATE_TIME
    return describe_control(Record(facts["offset"], facts["timestamp"], kind, key, value))


def batch_facts(row: np.void) -> dict[str, Any]:
    """Return the header fields of a batch, and whether its checksum is right."""
    magic, bits = int(row["magic"]), int(row["attributes"])
    facts: dict[str, Any] = {"position": int(row["position"]), "size": int(row["size"])}
    facts["magic"] = magic
    if magic >= 2:
        facts["baseOffset"] = int(row["base_offset"])
    facts["lastOffset"] = int(row["last_offset"])
    if magic >= 2:
        facts["count"] = int(row["record_count"])
        facts["baseSequence"] = int(row["base_sequence"])
        facts["lastSequence"] = last_sequence(row)
        facts |= {name: int(row[field]) for name, field in _BATCH_FIELDS}
        facts["isTransactional"] = bool(bits & TRANSACTIONAL_MASK)
        facts["isControl"] = is_control(magic, bits)
        horizon = int(row["base_timestamp"]) if bits & DELETE_HORIZON_MASK else None
        facts["deleteHorizonMs"] = horizon
    facts["timestampType"] = timestamp_label(row)
    facts["maxTimestamp"] = int(row["max_timestamp"])
    facts["compression"] = codec_name(row)
    facts["attributes"] = bits
    facts["crc"] = int(row["crc"])
    facts["isValid"] = bool(row["crc_ok"])
    return facts


def _legacy_facts(record: LegacyRecord, index: int) -> dict[str, Any]:
    return {
        "index": index,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "magic": record.magic,
        "crc": record.crc,
        "isValid": record.is_valid,
        "key": record.key,
        "value": record.value,
        "headers": (),
    }


def _decoder_of(file: DumpFile, options: DumpOptions) -> TopicDecoder | None:
    """Return the decoder of the option, else of the folder's topic; KRaft snapshots are always metadata."""
    if options.decoder is not None:
        return decoder_for(options.decoder)
    if file.kind is not FileKind.LOG:
        return decoder_for(CLUSTER_METADATA)
    return decoder_for(file.topic)


def _schemas_of(file: DumpFile, options: DumpOptions) -> LineDecoder | None:
    """Return the decoder by schemas, also for a file outside a partition's folder: most bytes name their schema."""
    return None if options.schemas is None else options.schemas.decoder(file.topic)


def _bytes(name: str, data: bytes | None) -> dict[str, Any]:
    """Return a field of bytes, with its encoding if the bytes are not text."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        text, encoding = bytes_json(data, Values.BASE64)
        return {name: text[1:-1].decode(), f"{name}Encoding": encoding}


def _field(name: bytes, data: bytes | None) -> bytes:
    """Return a field of bytes as JSON, with its encoding if the bytes are not text."""
    if data is None:
        return b'"%s":null' % name
    text, encoding = bytes_json(data, Values.TEXT)
    if encoding is None:
        return b'"%s":%s' % (name, text)
    return b'"%s":%s,"%sEncoding":"%s"' % (name, text, name, encoding.encode())


def _pair(header: Header) -> bytes:
    return b"{%s,%s}" % (_field(b"key", header.key), _field(b"value", header.value))


def _with_bytes(fields: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, value in fields.items():
        shown |= _bytes(name, value) if isinstance(value, bytes) else {name: value}
    return shown


def json_line(kind: str, shown: str, facts: dict[str, Any]) -> bytes:
    """Return the line of a file, batch, record, entry or note."""
    return _json({"type": kind, "file": shown, **facts})


def error_line(shown: str, facts: dict[str, Any]) -> bytes:
    """Return the line of a fault; facts that are None are left out."""
    given = {name: _plain(value) for name, value in facts.items() if value is not None}
    return _json({"error": {"file": shown, **given}})


def _headline(file: DumpFile, size: int) -> bytes:
    assert file.kind is not None
    facts: dict[str, Any] = {"kind": file.kind.name.lower(), "size": size}
    if file.state:
        facts["state"] = file.state.removeprefix(".")
    if file.kind is FileKind.KRAFT_CHECKPOINT and file.snapshot_id is not None:
        facts["endOffset"], facts["epoch"] = file.snapshot_id
    elif file.base_offset is not None:
        facts["baseOffset"] = file.base_offset
    return json_line("file", file.shown, facts)


def _plain(value: object) -> object:
    return value if isinstance(value, int | str | None) else str(value)


def _json(facts: dict[str, Any]) -> bytes:
    """Return a line without control characters for a terminal; names that are not UTF-8 have \\x escapes."""
    try:
        return _encoded(facts)
    except UnicodeEncodeError:
        return _encoded(valid_facts(facts))


def _encoded(facts: object) -> bytes:
    return hide(json.dumps(facts, ensure_ascii=False, separators=(",", ":"))).encode() + b"\n"
