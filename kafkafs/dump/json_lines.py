"""Files as JSON lines: every field, exact bytes, and a line {"error": ...} for each fault.

Each line has "type" (file, batch, record, entry or note) and "file". Bytes are strings if they are UTF-8, else base64
with a field "…Encoding" beside them, so that no byte is lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from engine import kernel
from engine.budgets import MiB
from engine.columns.batch_table import BatchProblem, Problem
from engine.columns.columns import Columns
from engine.errors import InvalidNameError
from engine.files.file_names import FileKind, parse_folder_name
from engine.lines.dump_text import codec_name, last_sequence, timestamp_label
from engine.lines.json_text import Values, bytes_json, hide
from engine.log.segment.damage import DamageKind
from engine.log.segment.scan import Damage
from engine.memory_gate import LARGE
from engine.record.attributes import (
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    TRANSACTIONAL_MASK,
    TimestampType,
)
from engine.record.control_records import describe_control
from engine.record.record import Header, Record
from engine.topics.decoded_record import DecodedRecord, TopicDecoder
from engine.topics.internal_topics import decoder_for
from engine.topics.topic_names import CLUSTER_METADATA
from kafkafs.decode.shown_text import valid_facts
from kafkafs.dump.dump_file import DumpFile
from kafkafs.dump.dump_options import DumpOptions
from kafkafs.dump.findings import Contradiction, Found, Note, ShownEntry
from kafkafs.dump.records.large_batches import json_field
from kafkafs.dump.records.log_batches import Lost, ShownBatches, batches_of, rows_within
from kafkafs.dump.records.record_parts import LegacyRecord, legacy_records
from kafkafs.dump.report import DumpReport

_ENOUGH = 8 * MiB
_TEXT = 1 * MiB
"""Bytes of lines that are written at once."""
_ROWS = 4096
_BATCH_FIELDS = (
    *(("producerId", "producer_id"), ("producerEpoch", "producer_epoch")),
    *(("leaderEpoch", "leader_epoch"), ("baseTimestamp", "base_timestamp")),
)


class JsonLines:
    """Writer of the lines of one file to a report's output."""

    def __init__(self, options: DumpOptions, report: DumpReport) -> None:
        self.options = options
        self.report = report
        self._name = ""
        self._lines: list[bytes] = []
        self._size = 0

    # Lines

    def _line(self, kind: str, facts: dict[str, Any]) -> None:
        self._append(_json({"type": kind, "file": self._name, **facts}))

    def _append(self, line: bytes) -> None:
        self._lines.append(line)
        self._size += len(line)
        if self._size >= _TEXT:
            self._flush()

    def _error(self, facts: dict[str, Any]) -> None:
        self.report.findings += 1
        shown = {name: _plain(value) for name, value in facts.items() if value is not None}
        self._lines.append(_json({"error": {"file": self._name, **shown}}))

    def _flush(self) -> None:
        if self._lines:
            self.report.out(b"\n".join(self._lines) + b"\n")
            self._lines.clear()
            self._size = 0

    def _headline(self, file: DumpFile, size: int) -> None:
        self._name = file.shown
        facts: dict[str, Any] = {"kind": _kind_name(file), "size": size}
        if file.state:
            facts["state"] = file.state.removeprefix(".")
        if file.kind is FileKind.KRAFT_CHECKPOINT and file.snapshot_id is not None:
            facts["endOffset"], facts["epoch"] = file.snapshot_id
        elif file.base_offset is not None:
            facts["baseOffset"] = file.base_offset
        self._line("file", facts)

    def unreadable(self, shown: str, reason: str) -> None:
        """Write the error line of a file that cannot be read."""
        self._name = shown
        self._error({"kind": "unreadable", "reason": reason})
        self.report.findings -= 1
        self.report.unreadable += 1
        self._flush()

    def unknown(self, file: DumpFile) -> None:
        """Write the note on a file that is not Kafka's."""
        self._name = file.shown
        self._line("note", {"text": "not a file name of Kafka's: the file is not read"})
        self._flush()

    # Entries

    def entries(self, file: DumpFile, found: Iterable[Found]) -> None:
        """Write the lines of a file of entries. Raises the errors of `found`."""
        self._headline(file, file.root.stat(file.name).st_size)
        for item in found:
            if isinstance(item, ShownEntry):
                if not self.options.verify_index_only:
                    self._line("entry", _with_bytes(item.fields))
            elif isinstance(item, Note):
                self._line("note", {"text": item.text})
            elif isinstance(item, Contradiction):
                facts = {"position": item.position, "expected": item.found, "found": item.stated}
                self._error({"kind": item.what.value, **facts})
            else:
                self._error(item._asdict())
        self._flush()

    # Logs

    def log(self, file: DumpFile, advance: Callable[[int], object]) -> None:
        """Write the lines of a records file. Raises OSError, SourceRefusedError when it cannot be opened."""
        with file.open() as opened:
            size = opened.size()
            self._headline(file, size)
            end = min(size, self.options.max_bytes)
            decoder = _decoder_of(file, self.options)
            budgets = self.options.budgets
            done = 0
            for item in batches_of(opened, end, path=file.shown, budgets=budgets):
                if isinstance(item, Lost):
                    self._damage(item.damage)
                    now = item.damage.position + item.damage.length
                else:
                    now = item.end_position
                    if item.damage is not None:
                        self._damage(item.damage)
                    self._batches(file, item, decoder)
                advance(now - done)
                done = now
                del item  # free it before the next read: a batch may be as large as the budget
        self._flush()

    def _damage(self, damage: Damage) -> None:
        if self.options.is_partial and damage.kind is DamageKind.TORN_TAIL:
            return
        facts = damage._asdict()
        del facts["path"]
        for name in ("first_offset", "last_offset"):
            facts[_camel(name)] = facts.pop(name)
        self._error(facts)
        self.report.findings -= damage.kind.is_quiet

    def _batches(self, file: DumpFile, batches: ShownBatches, decoder: TopicDecoder | None) -> None:
        first, last = file.shown_offsets
        for row in np.flatnonzero(rows_within(batches.table, first, last)).tolist():
            fields = batches.table[row]
            self._line("batch", batch_facts(fields))
            is_control = bool(int(fields["attributes"]) & CONTROL_MASK)
            if int(fields["magic"]) >= 2 and decoder is None and not is_control:
                self._plain_records(batches, row, first, last)
                continue
            for record in self._records(batches, row):
                if isinstance(record, BatchProblem):
                    self._problem(record, fields)
                elif first <= int(record["offset"]) <= last:
                    self._record(record, fields, decoder)

    def _plain_records(self, batches: ShownBatches, row: int, first: int, last: int) -> None:
        """Write the records of a batch of magic 2 without a decoder: the common case, and the fast one."""
        fields = batches.table[row]
        columns = self._decoded(batches, row)
        head = _json({"type": "record", "file": self._name, "batchPosition": 0})[:-2]
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
                self._long_line(start, columns, index)
                continue
            key = None if key_size < 0 else bytes(arena[key_at : key_at + key_size])
            value = None if value_size < 0 else bytes(arena[value_at : value_at + value_size])
            shown = (_pair(header) for header in columns.headers(index)) if headers else ()
            self._append(
                b'%s%s,%s,"headers":[%s]}'
                % (start, _field(b"key", key), _field(b"value", value), b",".join(shown))
            )
        for problem in columns.problems:
            self._problem(problem, fields)

    def _long_line(self, start: bytes, columns: Columns, index: int) -> None:
        """Write the line of a record with a large key, value or header piece by piece."""
        self._flush()
        record, arena, out = columns.table[index], columns.arena, self.report.out
        out(start)
        for name, after in (("key", b","), ("value", b',"headers":[')):
            at, size = int(record[f"{name}_start"]), int(record[f"{name}_size"])
            for piece in json_field(name.encode(), None if size < 0 else arena[at : at + size]):
                out(piece)
            out(after)
        for number, header in enumerate(columns.headers(index)):
            out(b",{" if number else b"{")
            for piece in json_field(b"key", memoryview(header.key)):
                out(piece)
            out(b",")
            value = None if header.value is None else memoryview(header.value)
            for piece in json_field(b"value", value):
                out(piece)
            out(b"}")
        out(b"]}\n")

    def _decoded(self, batches: ShownBatches, row: int) -> Columns:
        return kernel.decode(
            batches.buffer,
            batches.readable,
            row,
            row + 1,
            start_position=batches.start_position,
            budgets=self.options.budgets,
            enough=_ENOUGH,
        )

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
        columns = self._decoded(batches, row)
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

    def _record(self, facts: dict[str, Any], row: np.void, decoder: TopicDecoder | None) -> None:
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
        if int(row["magic"]) >= 2 and int(row["attributes"]) & CONTROL_MASK:
            shown["control"] = _control(facts, key, value)
        elif decoder is not None:
            shown["decoded"] = _decoded(decoder.decode(key, value))
        self._line("record", shown)


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
        facts["isControl"] = bool(bits & CONTROL_MASK)
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
    folder = file.absolute.rpartition("/")[0].rpartition("/")[2]
    try:
        return decoder_for(parse_folder_name(folder).topic_partition.topic)
    except InvalidNameError:
        return None


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


def _kind_name(file: DumpFile) -> str:
    assert file.kind is not None
    return file.kind.name.lower()


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _plain(value: object) -> object:
    return value if isinstance(value, int | str | None) else str(value)


def _json(facts: dict[str, Any]) -> bytes:
    """Encode one line without control characters for a terminal; names that are not UTF-8 have \\x escapes."""
    try:
        return _encoded(facts)
    except UnicodeEncodeError:
        return _encoded(valid_facts(facts))


def _encoded(facts: object) -> bytes:
    return hide(json.dumps(facts, ensure_ascii=False, separators=(",", ":"))).encode()
