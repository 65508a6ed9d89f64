"""Targets of messages, names and patterns: the records of internal topics, control records, paths, regular expressions."""

from __future__ import annotations

import json
import re
import struct
import warnings
from collections.abc import Callable
from random import Random
from zlib import crc32

from engine import kernel
from engine.files.file_names import (
    parse_file_name,
    parse_folder_name,
    parse_tiered_file_name,
    parse_tiered_folder_name,
    parse_tiered_topic_name,
)
from engine.lines.json_text import Values, bytes_json
from engine.record.attributes import TimestampType
from engine.record.control_records import ControlRecordType, describe_control
from engine.record.record import Record
from engine.topics import internal_topics as topics
from engine.topics.internal_topics import decoder_for
from engine.topics.message.decoding import read_message
from engine.topics.message.encoding import write_message
from engine.topics.message.schema import Message
from kafkafs.decode.shown_text import plain_json, printable
from kafkafs.records.conditions.regex_automaton import automaton_of
from kafkafs.records.conditions.required_literal import required_literal
from kafkafs.records.conditions.utf8_patterns import compile_pattern
from kafkafs.tree import path_names
from tests.internal_records import random_record
from tests.messages import NAMED, VERSIONS, encode, random_fields
from tests.soak.mutator import EDGE_TEXTS, changed
from tests.soak.targets import Target

_SIZE = struct.Struct(">i")


def joined(key: bytes | None, value: bytes | None) -> bytes:
    """A key and a value as one input: the size of the key, -1 for null, the key, a mark, the value."""
    head = _SIZE.pack(-1 if key is None else len(key)) + (key or b"")
    return head + (b"\0" if value is None else b"\1" + value)


def parted(data: bytes) -> tuple[bytes | None, bytes | None]:
    """The key and value of an input."""
    size = _SIZE.unpack_from(data.ljust(4, b"\0"))[0]
    end = 4 + max(size, 0)
    value = data[end + 1 :] if data[end : end + 1] == b"\1" else None
    return None if size < 0 else data[4:end], value


def internal(topic: str) -> Callable[[], Target]:
    """Records of an internal topic: decoding never fails, as Kafka or not, and gives JSON."""
    decoder = decoder_for(topic)
    assert decoder is not None

    def make(random: Random) -> bytes:
        key, value = random_record(topic, random)
        if key is not None and random.random() < 0.3:
            key = changed(key, random)
        if value is not None and random.random() < 0.8:
            value = changed(value, random)
        return joined(key, value)

    def read(data: bytes) -> None:
        key, value = parted(data)
        for as_kafka in (False, True):
            found = decoder.decode(key, value, as_kafka=as_kafka)
            plain_json([found.kind, found.key_note, found.value_note])
            for part in (found.key, found.value):
                if part is not None:
                    json.loads(plain_json(part))

    return lambda: Target(make, read)


def messages() -> Target:
    """Every message of every version, strictly and as Kafka reads versions that it does not know."""
    kinds: list[tuple[Message, int]] = list(VERSIONS)

    def make(random: Random) -> bytes:
        number = random.randrange(len(kinds))
        message, version = kinds[number]
        data = encode(message, version, random_fields(message, version, random))
        if random.random() < 0.9:
            data = changed(data, random)
        return struct.pack(">H", number) + data

    def read(data: bytes) -> None:
        (number,) = struct.unpack_from(">H", data.ljust(2, b"\0"))
        message, version = kinds[number % len(kinds)]
        _, end = read_message(message, version, data[2:], lenient=bool(number % 2))
        assert 0 <= end <= len(data) - 2
        found = kernel.read_message(message, version, data[2:])
        assert repr(found) == repr(read_message(message, version, data[2:]))
        assert kernel.write_message(message, version, found[0]) == write_message(
            message, version, found[0]
        )

    return Target(make, read)


def control_records() -> Target:
    """Control records of every type."""
    schemas = {
        ControlRecordType.LEADER_CHANGE: NAMED["LeaderChangeMessage"],
        ControlRecordType.SNAPSHOT_HEADER: NAMED["SnapshotHeaderRecord"],
        ControlRecordType.SNAPSHOT_FOOTER: NAMED["SnapshotFooterRecord"],
        ControlRecordType.KRAFT_VERSION: NAMED["KRaftVersionRecord"],
        ControlRecordType.KRAFT_VOTERS: NAMED["VotersRecord"],
    }
    kinds = [kind for kind in ControlRecordType if kind is not ControlRecordType.UNKNOWN]

    def make(random: Random) -> bytes:
        kind = random.choice(kinds)
        if message := schemas.get(kind):
            version = random.randint(message.first_version, message.last_version)
            value = encode(message, version, random_fields(message, version, random))
        else:
            value = struct.pack(">hi", 0, random.randrange(-1, 5))
        key = kind.record_key()
        if random.random() < 0.2:
            key = changed(key, random)
        if random.random() < 0.9:
            value = changed(value, random)
        return joined(key, value)

    def read(data: bytes) -> None:
        key, value = parted(data)
        record = Record(
            offset=0,
            timestamp=0,
            timestamp_type=TimestampType.CREATE_TIME,
            key=key,
            value=value,
            headers=(),
            sequence=-1,
            leader_epoch=0,
        )
        plain_json(describe_control(record))

    return Target(make, read)


_NAMES = (
    b"orders-0", b"a.b_c-12", b"t-0.79a2729b977549e09c3e7eb8181070e2-delete", b"x-3.79a2729b977549e09c3e7eb8181070e2-stray",
    b"00000000000000000035.log", b"00000000000000000035.timeindex.cleaned", b"00000000000000000035.snapshot.deleted",
    b"00000000000000000409-0000000001.checkpoint", b"00000000000000000409-0000000001.checkpoint.part",
    b"leader-epoch-checkpoint", b"partition.metadata", b"12_sgf5MsZgRTuEMv68ZXKJbQ.index",
    b"00000000000000000000-AAAAAAAAAAAAAAAAAAAAAQ.log", b"orders-0-sgf5MsZgRTuEMv68ZXKJbQ", b"orders-sgf5MsZgRTuEMv68ZXKJbQ",
    b"-5.log", b"00000000000000000035.log.swap", b"bootstrap.checkpoint",
)  # fmt: skip
_PATHS = (
    b"35", b"0..10", b"..-1", b"10..", b"-5", b"-5..", b"7+3", b"2024", b"2024-02-29", b"2024-01-01T10", b"2024-01-01T10:30",
    b"2024-01-01T10:30:00Z", b"2024-01-01T10:30:00.123456789+02:00", b"20240101T103000Z", b"1700000000123",
    b"2024-01..2024-02", b"2024-01-01T23:59:60Z", b"9999-12-31T23:59:59Z", b"..2024", b"2024..", b"0001-01-01", b"latest",
)  # fmt: skip


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def names() -> Target:
    """Names of files and folders, of log dirs and tiered copies."""

    def read(data: bytes) -> None:
        text = _text(data)
        for parse in (
            parse_file_name,
            parse_tiered_file_name,
            parse_tiered_folder_name,
            parse_tiered_topic_name,
        ):
            found = parse(text)
            printable(str(found))
        if found := parse_file_name(text):
            assert -(2**63) <= (found.base_offset or 0) < 2**63, found
        parsed = parse_folder_name(text)
        assert 0 <= parsed.topic_partition.partition < 2**31

    return Target(lambda random: changed(random.choice(_NAMES), random, is_text=True), read)


def paths() -> Target:
    """Names in `offset/` and `time/`."""

    def read(data: bytes) -> None:
        text = _text(data)
        offset = path_names.parse_offset(text)
        assert offset is None or offset >= 0
        chosen = path_names.parse_range(text)
        if chosen is not None:
            start, end = chosen.within(10, 500)
            assert 10 <= start <= end <= 500 or start >= end, (start, end)
        instant = path_names.parse_instant(text)
        if instant is not None:
            shown = path_names.instant_name(instant)
            assert shown is None or path_names.parse_instant(shown) == instant, shown
        path_names.parse_time(text)
        path_names.parse_period(text)

    return Target(lambda random: changed(random.choice(_PATHS), random, is_text=True), read)


_PATTERNS = (
    b"a", b"Z.rich", b"^key$", b"[a-f0-9]{2,4}", b"(?i)Error|warn", b"a*b+c?", b"(ab|cd)*e", b"\\d+\\.\\w", b"[^x]\\s",
    b"(?:x{2}){3}", "[äöü]".encode(), b"\\bword\\b", b"a(?=b)", b"(?<!a)b", b"\\x41\\u0042", b".*?end", b"(a)\\1", b"[]a]",
    b"(?s).", b"(?m)^a", b"(?x) a b", b"$^", b"\\Aq\\Z", "ſK".encode(),
)  # fmt: skip
_SUBJECTS = (
    b"", b"a", b"key", b"Z\xc3\xbcrich", b"xxab cde\n", b"ERROR 4.x", b"ab\xff\x80", b"\xc3", b"endend",
    b"word aword", b"\xe2\x84\xaa\xc5\xbf", b"a\nb", b"\x00\x41B", b"aaab1",
)  # fmt: skip


def patterns() -> Target:
    """Patterns of `grep`: what the automaton finds is what `re` finds, and a required literal is in every match."""

    def make(random: Random) -> bytes:
        made = random.choice(_PATTERNS)
        if random.random() < 0.3:
            made += random.choice(_PATTERNS)
        return changed(made, random, is_text=True)[:40]

    def read(data: bytes) -> None:
        chance = Random(crc32(data))
        try:
            text = data.decode()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                pattern = compile_pattern(
                    text, chance.choice((re.NOFLAG, re.IGNORECASE)), is_word=chance.random() < 0.2
                )
        except (UnicodeDecodeError, re.error, OverflowError, RecursionError):
            return
        automaton, literal = automaton_of(pattern), required_literal(pattern)
        for subject in (*_SUBJECTS, changed(chance.choice(_SUBJECTS), chance)[:12]):
            found = bool(pattern.search(subject))
            if automaton is not None:
                assert automaton.accepts(subject) == found, (pattern, subject)
            if found:
                held = subject.lower() if literal.fold else subject
                needle = literal.content.lower() if literal.fold else literal.content
                assert needle in held, (pattern, literal, subject)

    return Target(make, read)


def json_values() -> Target:
    """The JSON of any bytes is JSON, in each way of showing them."""

    def make(random: Random) -> bytes:
        parts = random.choices(EDGE_TEXTS, k=random.randrange(1, 5))
        return changed(
            b'{"a":[1,-0.5e+3,"\\u00e9"],"b":null}' + b"".join(parts), random, is_text=True
        )

    def read(data: bytes) -> None:
        for mode in Values:
            if mode is not Values.NONE:
                shown, _ = bytes_json(data, mode)
                json.loads(shown)

    return Target(make, read)


TARGETS: dict[str, Callable[[], Target]] = {
    "consumer-offsets": internal(topics.CONSUMER_OFFSETS),
    "transaction-state": internal(topics.TRANSACTION_STATE),
    "share-group-state": internal(topics.SHARE_GROUP_STATE),
    "cluster-metadata": internal(topics.CLUSTER_METADATA),
    "remote-log-metadata": internal(topics.REMOTE_LOG_METADATA),
    "messages": messages,
    "control-records": control_records,
    "file-names": names,
    "path-names": paths,
    "patterns": patterns,
    "json-values": json_values,
}
"""What makes each target, by name."""
