"""Scripts of building, stamping and filtering records: made at random, and run by the engine.

A line is words with blanks between them; bytes are x and hexadecimal digits, - is null. A step answers with
one line: nothing, numbers, or bytes in hexadecimal (- for none) and numbers, or «refused». tests/kafka/Records.java
runs the same lines with Kafka's classes.

    new                              begin a script: no builder, no bytes
    forget                           no bytes
    builder MAGIC CODEC TYPE BASE APPENDTIME PID EPOCH SEQUENCE TXN CONTROL LEADEREPOCH HORIZON
    append OFFSET TIME KEY VALUE [HEADERKEY HEADERVALUE]…
    marker TIME TYPE COORDINATOREPOCH;  leader TIME ID VOTERS GRANTING;  header TIME TIMESTAMP;
    footer TIME;  version TIME VERSION;  voters TIME ID,DIRECTORY,NAME,HOST,PORT,MIN,MAX…
    last OFFSET                      override the last offset
    producer PID EPOCH SEQUENCE TXN  reopen and rewrite
    room TIME KEY VALUE […]          the estimated size, and whether it would fit
    build                            the batch, added to the bytes; its largest timestamp and where it is
    move BY;  epoch N;  stamp TYPE TIME      change all batches where they lie
    filter NOW RETENTIONMS RETENTION MARKER OFFSETS      batches whose last offset ends in 4 or 9 go
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from engine.broker.cleaning.record_filter import BatchRetention, BatchRetentionResult, filter_to
from engine.coding.compression import CompressionType, decompress
from engine.errors import KafkaStorageError
from engine.record.attributes import TimestampType
from engine.record.batch_frame import HEADER
from engine.record.control_records import ControlRecordType, EndTransactionMarker
from engine.record.default_records import DefaultRecordBatch
from engine.record.encoding.records_builder import RecordsBuilder
from engine.record.encoding.writable_batch import (
    set_last_offset,
    set_max_timestamp,
    set_partition_leader_epoch,
)
from engine.record.legacy_records import LegacyRecordBatch
from engine.record.memory_records import MemoryRecords
from engine.record.record import Header, Record
from engine.record.record_batch import RecordBatch

GOLDEN = Path(__file__).parent / "data" / "golden" / "records.txt.gz"
"""Lines and Kafka's answers to them, by turns; tests/kafka/record_bytes.py writes it."""
_LIMIT = 1 << 16
_MAX = 2**63 - 1


class Runner:
    """Runs the lines of a script."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.builder: RecordsBuilder | None = None

    def run(self, line: str) -> str:
        """The answer to a line."""
        name, *words = line.split()
        try:
            answer = getattr(self, "_" + name)(*words)
        except (KafkaStorageError, ValueError, AttributeError):
            return "refused"
        return answer or ""

    def _new(self) -> None:
        self.data, self.builder = bytearray(), None

    def _forget(self) -> None:
        self.data = bytearray()

    def _builder(self, *words: str) -> None:
        self.builder = None
        (
            magic,
            codec,
            kind,
            base,
            append_time,
            pid,
            epoch,
            sequence,
            is_transactional,
            is_control,
            leader_epoch,
            horizon,
        ) = map(int, words)
        self.builder = RecordsBuilder(
            magic=magic,
            compression=CompressionType(codec),
            timestamp_type=TimestampType(kind),
            base_offset=base,
            log_append_time=append_time,
            producer_id=pid,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=bool(is_transactional),
            is_control_batch=bool(is_control),
            partition_leader_epoch=leader_epoch,
            write_limit=_LIMIT,
            delete_horizon_ms=horizon,
        )

    def _append(self, offset: str, time: str, key: str, value: str, *headers: str) -> None:
        self.builder.append_with_offset(
            int(offset), int(time), unhex(key), unhex(value), _headers(headers)
        )

    def _marker(self, time: str, kind: str, epoch: str) -> None:
        marker = EndTransactionMarker(ControlRecordType[kind], int(epoch))
        self.builder.append_end_transaction_marker(int(time), marker)

    def _leader(self, time: str, leader: str, *voters: str) -> None:
        both = [[{"voterId": int(one)} for one in word.split(",") if one != "-"] for word in voters]
        self.builder.append_quorum_record(
            int(time),
            ControlRecordType.LEADER_CHANGE,
            {"leaderId": int(leader), "voters": both[0], "grantingVoters": both[1]},
        )

    def _header(self, time: str, newest: str) -> None:
        self.builder.append_quorum_record(
            int(time), ControlRecordType.SNAPSHOT_HEADER, {"lastContainedLogTimestamp": int(newest)}
        )

    def _footer(self, time: str) -> None:
        self.builder.append_quorum_record(int(time), ControlRecordType.SNAPSHOT_FOOTER, {})

    def _version(self, time: str, version: str) -> None:
        self.builder.append_quorum_record(
            int(time), ControlRecordType.KRAFT_VERSION, {"kRaftVersion": int(version)}
        )

    def _voters(self, time: str, *words: str) -> None:
        voters = []
        for word in words:
            voter, directory, name, host, port, lowest, highest = word.split(",")
            voters.append(
                {
                    "voterId": int(voter),
                    "voterDirectoryId": directory,
                    "endpoints": [{"name": name, "host": host, "port": int(port)}],
                    "kRaftVersionFeature": {
                        "minSupportedVersion": int(lowest),
                        "maxSupportedVersion": int(highest),
                    },
                }
            )
        self.builder.append_quorum_record(
            int(time), ControlRecordType.KRAFT_VOTERS, {"voters": voters}
        )

    def _last(self, offset: str) -> None:
        self.builder.override_last_offset(int(offset))

    def _producer(self, pid: str, epoch: str, sequence: str, is_transactional: str) -> None:
        self.builder.reopen_and_rewrite_producer_state(
            int(pid), int(epoch), int(sequence), is_transactional == "1"
        )

    def _room(self, time: str, key: str, value: str, *headers: str) -> str:
        has_room = self.builder.has_room_for(int(time), unhex(key), unhex(value), _headers(headers))
        return f"{self.builder.estimated_size} {str(has_room).lower()}"

    def _build(self) -> str:
        built = self.builder.build().buffer
        self.data += built
        if self.builder.record_count == 0:
            return built.hex() or "-"
        timestamp, offset = self.builder.info
        return f"{built.hex()} {timestamp} {offset}"

    def _batches(self) -> Iterator[tuple[int, RecordBatch]]:
        position = 0
        for batch in MemoryRecords(bytes(self.data)).batches():
            yield position, batch
            position += batch.size

    def _move(self, by: str) -> str:
        for position, batch in self._batches():
            set_last_offset(self.data, position, batch.last_offset + int(by))
        return self._hex()

    def _epoch(self, epoch: str) -> str:
        for position, _ in self._batches():
            set_partition_leader_epoch(self.data, position, int(epoch))
        return self._hex()

    def _stamp(self, kind: str, time: str) -> str:
        for position, _ in self._batches():
            set_max_timestamp(self.data, position, TimestampType(int(kind)), int(time))
        return self._hex()

    def _filter(self, now: str, keep_ms: str, retention: str, marker: str, gone: str) -> str:
        batches = MemoryRecords(bytes(self.data)).batches()
        rule = _Rule(
            int(now), int(keep_ms), BatchRetention[retention], marker == "1", gone.split(",")
        )
        result = filter_to(batches, rule)
        self.data = result.output
        return (
            f"{self._hex()} {result.messages_read} {result.bytes_read} {result.messages_retained} "
            f"{result.bytes_retained} {result.max_offset} {result.max_timestamp} "
            f"{result.offset_of_max_timestamp}"
        )

    def _hex(self) -> str:
        return self.data.hex() or "-"


class _Rule:
    def __init__(
        self, now: int, keep_ms: int, retention: BatchRetention, marker: bool, gone: list[str]
    ) -> None:
        self.current_time = now
        self.delete_retention_ms = keep_ms
        self.retention = retention
        self.marker = marker
        self.gone = gone

    def check_batch_retention(self, batch: RecordBatch) -> BatchRetentionResult:
        is_gone = batch.last_offset % 5 == 4
        return BatchRetentionResult(
            BatchRetention.DELETE if is_gone else self.retention, self.marker
        )

    def should_retain_record(self, batch: RecordBatch, record: Record) -> bool:
        return str(record.offset) not in self.gone


def unhex(word: str) -> bytes | None:
    return None if word == "-" else bytes.fromhex(word[1:])


def _headers(words: tuple[str, ...]) -> list[Header]:
    pairs = zip(words[::2], words[1::2], strict=True)
    return [Header(unhex(key) or b"", unhex(value)) for key, value in pairs]


def comparable(answer: str) -> tuple[object, ...]:
    """An answer without what a codec's library decides: compressed bytes, their size and checksum."""
    first, *rest = answer.split() or [""]
    if not rest and first in ("", "refused"):
        return (answer,)
    try:
        data = b"" if first == "-" else bytes.fromhex(first)
    except ValueError:  # a size
        return (answer,)
    batches = [_plain(batch) for batch in MemoryRecords(data).batches()]
    compressed = any(batch.is_compressed for batch in MemoryRecords(data).batches())
    if len(rest) == 7:
        rest[1] = "?"  # bytes read, of batches that may be gone
        rest[3] = "?" if compressed else rest[3]  # bytes retained
    return (*batches, *rest)


def _plain(batch: RecordBatch) -> object:
    batch.ensure_valid()
    if not batch.is_compressed:
        return bytes(batch.raw)
    if isinstance(batch, DefaultRecordBatch):
        section = decompress(batch.compression, batch.raw[HEADER.size :], limit=1 << 30)
        return batch.header._replace(length=0, crc=0), section
    assert isinstance(batch, LegacyRecordBatch)
    inner = decompress(batch.compression, batch.value() or b"", limit=1 << 30, magic=batch.magic)
    return batch.header._replace(size=0, crc=0), batch.timestamp, batch.key(), inner


def random_script(seed: int, largest: int = 63_000) -> Iterable[str]:
    """The lines of a script, mostly of what is allowed; `largest` bounds keys and values in bytes."""
    pick = random.Random(seed)
    magic = pick.choice((0, 1, 2, 2, 2, 2))
    yield "new"
    base = pick.choice((4, 7, 2**40))
    for _ in range(pick.randrange(1, 5)):
        control = magic == 2 and pick.random() < 0.2
        yield f"builder {magic} {_builder_words(pick, magic, base, control)}"
        offset = base
        for _ in range(1 if control else pick.choice((0, 1, 3, 10))):
            if control:
                yield _control(pick)
            else:
                offset += pick.choice((0, 0, 0, 1, 200, -1 if offset > base else 0))
                yield f"append {offset} {_record(pick, magic, largest)}"
            offset += 1
        if pick.random() < 0.3:
            yield f"room {_record(pick, magic, largest)}"
        if magic == 2 and pick.random() < 0.1:
            yield f"last {offset + 3}"
        if pick.random() < 0.1:
            yield "build"
            yield "forget"
            yield f"producer {pick.choice((-1, 5))} {pick.choice((-1, 3))} {pick.choice((-1, 9))} 0"
        yield "build"
        base = offset + pick.choice((0, 3))
    if pick.random() < 0.5:
        yield from pick.sample(
            [f"move {pick.choice((0, 5, -3))}", "epoch 9", f"stamp {pick.choice((-1, 0, 1))} 77"], 2
        )
    if pick.random() < 0.6:
        gone = ",".join(str(base - pick.randrange(20)) for _ in range(12))
        retention = pick.choice(("DELETE_EMPTY", "RETAIN_EMPTY"))
        for _ in range(pick.choice((1, 2))):
            yield f"filter 5000 {pick.choice((0, 1000))} {retention} {pick.choice((0, 0, 1))} {gone}"


def _builder_words(pick: random.Random, magic: int, base: int, control: bool) -> str:
    codec = (
        0
        if control
        else pick.choice((0, 0, 0, 1, 2, 3, 4 if magic == 2 or pick.random() < 0.1 else 0))
    )
    kind = pick.choice((0, 0, 1)) if pick.random() < 0.98 else -1
    producer = "-1 -1 -1 0"
    if (magic == 2 and (control or pick.random() < 0.5)) or pick.random() < 0.05:
        sequence = pick.choice((0, 5, 2**31 - 2, -1 if control else 3))
        producer = f"{pick.choice((9, 2**40))} {pick.choice((0, 7, -1))} {sequence} {int(control or pick.random() < 0.3)}"
    horizon = pick.choice((-1, -1, -1, 1500)) if magic == 2 and not control else -1
    return (
        f"{codec} {kind} {base} {pick.choice((-1, 4321, 10**12))} {producer} {int(control)} "
        f"{pick.choice((-1, 4)) if magic == 2 else -1} {horizon}"
    )


def _control(pick: random.Random) -> str:
    time = pick.choice((-1, 1000, 10**12))
    return pick.choice(
        (
            f"marker {time} {pick.choice(('COMMIT', 'ABORT'))} {pick.choice((0, 347))}",
            f"leader {time} 5 1,2,3 {pick.choice(('-', '2,3'))}",
            f"header {time} {pick.choice((0, 10**12))}",
            f"footer {time}",
            f"version {time} 1",
            f"voters {time} 1,AAAAAAAAAAAAAAAAAAAAAQ,PLAIN,host-1,9092,0,1 2,MkU3OEVBNTcwNTJENDM2Qg,SSL,h,65535,0,1",
        )
    )


def _record(pick: random.Random, magic: int, largest: int) -> str:
    def data() -> str:
        size = min(pick.choice((-1, 0, 1, 5, 63, 64, 100, 700, 63_000)), largest)
        if size < 0:
            return "-"
        piece = pick.randbytes(pick.choice((1, 7)))
        return "x" + (piece * size)[:size].hex()

    time = pick.choice((1000, 999, 1063, 1064, 10**12, 0, -1, -2 if pick.random() < 0.1 else 5))
    if pick.random() < 0.02:
        time = _MAX
    headers = []
    if (magic == 2 and pick.random() < 0.3) or pick.random() < 0.02:
        for _ in range(pick.choice((1, 2, 70 if largest > 1000 else 3))):
            headers += [
                "x" + pick.choice(("", "68", "6865616465722d6b6579" * 9)),
                pick.choice(("-", "x", "xff00")),
            ]
    return " ".join([str(time), data(), data(), *headers])
