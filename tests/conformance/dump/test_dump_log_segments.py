"""DumpLogSegmentsTest: what is printed of logs, indexes, snapshots and internal topics."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.broker.raft.raft_snapshot import RaftSnapshotWriter, SnapshotId
from engine.coding.compression import CompressionType
from engine.coding.varint import encode_unsigned_varint
from engine.log.segment.fetch import FetchIsolation
from engine.record.control_records import ControlRecordType, EndTransactionMarker
from engine.record.encoding.building import (
    end_transaction_marker,
    quorum_batch,
    records_of,
)
from engine.record.encoding.simple_record import SimpleRecord
from engine.writing.log_config import LogConfig
from engine.writing.state.append_origin import AppendOrigin
from kafkafs.dump.records.decoded import DecodedText, decoded_text
from tests.conformance.unified_log_steps import LogBench
from tests.kafkafs.dump.dumped import dump
from tests.message_bytes import coordinator_key, coordinator_value, framed, message_bytes
from tests.messages import NAMED

MISSING_KEY = (
    "Failed to decode message at offset 0 using the specified decoder (message had a missing key)"
)
TOPIC_ID = "Uj5wn_FqTXirEASvVZRY1w"


class Batch(NamedTuple):
    """Records of a batch, and what they have."""

    records: list[SimpleRecord]
    has_keys: bool
    has_values: bool


class Bench:
    """A log of the size and index interval of Kafka's test."""

    def __init__(self, tmp_path: Path) -> None:
        self.bench = LogBench(tmp_path, "topic-0")
        self.log: UnifiedLog = self.bench.open(LogConfig(index_interval=128))
        stem = self.bench.folder / "00000000000000000000"
        self.file = stem.with_suffix(".log")
        self.index = stem.with_suffix(".index")
        self.time_index = stem.with_suffix(".timeindex")

    def add_simple_records(self) -> list[Batch]:
        now = self.bench.now

        def batch(numbers: range, step: int, *, keys: bool, values: bool) -> Batch:
            records = [
                SimpleRecord(
                    f"message key {i}".encode() if keys else None,
                    f"message value {i}".encode() if values else None,
                    now + i * step,
                )
                for i in numbers
            ]
            return Batch(records, keys, values)

        batches = [
            batch(range(10), 2, keys=True, values=True),
            batch(range(10, 30), 3, keys=True, values=False),
            batch(range(30, 50), 5, keys=False, values=True),
            batch(range(50, 60), 7, keys=False, values=False),
        ]
        for each in batches:
            self.log.append_as_leader(records_of(*each.records), leader_epoch=0)
        self.log.flush(force_active_segment=False)
        return batches


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.log.close()


def fields_of(line: str) -> dict[str, str]:
    words = line.removeprefix("|").split()
    assert all(word.endswith(":") for word in words[::2]), line
    return {name[:-1]: value for name, value in zip(words[::2], words[1::2], strict=True)}


@pytest.mark.conformance("DumpLogSegmentsTest.testBatchAndRecordMetadataOutput")
def test_batch_and_record_metadata_output(bench: Bench) -> None:
    log, gzip = bench.log, CompressionType.GZIP
    log.append_as_leader(
        records_of(SimpleRecord(value=b"a"), SimpleRecord(value=b"b")), leader_epoch=0
    )
    timed = SimpleRecord(b"c", b"1", bench.bench.now)
    log.append_as_leader(records_of(timed, SimpleRecord(value=b"d"), compression=gzip), 3)
    keyed = [SimpleRecord(b"e", None), SimpleRecord(None, b"f"), SimpleRecord(value=b"g")]
    log.append_as_leader(records_of(*keyed), 3)
    log.append_as_leader(
        records_of(
            SimpleRecord(value=b"h"), producer_id=29342342, producer_epoch=15, base_sequence=234123
        ),
        3,
    )
    log.append_as_leader(
        records_of(
            *(SimpleRecord(value=b"i"), SimpleRecord(value=b"j")),
            producer_id=98323,
            producer_epoch=99,
            base_sequence=266,
            compression=gzip,
            is_transactional=True,
        ),
        5,
    )
    marker = EndTransactionMarker(ControlRecordType.COMMIT, 100)
    log.append_as_leader(
        end_transaction_marker(
            marker, producer_id=98323, producer_epoch=99, timestamp=bench.bench.now
        ),
        7,
        origin=AppendOrigin.COORDINATOR,
        transaction_version=0,
    )
    read = log.read(0, 2**31 - 1, FetchIsolation.LOG_END)
    lines = iter(
        line
        for line in dump(bench.file, "--deep-iteration").lines
        if line.startswith(("baseOffset", "|"))
    )
    for batch in read.records.batches():
        shown = fields_of(next(lines))
        assert shown["baseOffset"] == str(batch.base_offset)
        assert shown["lastOffset"] == str(batch.last_offset)
        assert shown["count"] == str(batch.record_count)
        assert shown["partitionLeaderEpoch"] == str(batch.leader_epoch)
        assert shown["isTransactional"] == str(batch.is_transactional).lower()
        assert shown["isControl"] == str(batch.is_control).lower()
        assert shown["producerId"] == str(batch.producer_id)
        assert shown["producerEpoch"] == str(batch.producer_epoch)
        assert shown["baseSequence"] == str(batch.base_sequence)
        assert shown["compresscodec"] == batch.compression.name.lower()
        for record in batch.records():
            one = fields_of(next(lines))
            assert one["offset"] == str(record.offset)
            assert one["keySize"] == str(-1 if record.key is None else len(record.key))
            assert one["valueSize"] == str(-1 if record.value is None else len(record.value))
            assert one[batch.timestamp_type.label] == str(record.timestamp)
            assert one["sequence"] == str(record.sequence)
            assert not one.keys() & {"baseOffset", "lastOffset", "producerId", "compresscodec"}
            assert not one.keys() & {"partitionLeaderEpoch", "isTransactional", "isControl"}
    assert next(lines, None) is None


@pytest.mark.conformance("DumpLogSegmentsTest.testPrintDataLog")
def test_print_data_log(bench: Bench) -> None:
    batches = bench.add_simple_records()
    total = sum(len(batch.records) for batch in batches) + len(batches)

    def verify(*options: str, contents: bool) -> None:
        lines = iter(dump(bench.file, *options).lines[-total:])
        offsets = count()
        offset = next(offsets)
        for batch in batches:
            assert next(lines).startswith(f"baseOffset: {offset} lastOffset: ")
            for _ in batch.records:
                line = next(lines)
                assert line.startswith(f"| offset: {offset}")
                if contents:
                    end = "headerKeys: []"
                    end += f" key: message key {offset}" if batch.has_keys else ""
                    end += f" payload: message value {offset}" if batch.has_values else ""
                    assert line.endswith(end)
                offset = next(offsets)

    decoder = "org.apache.kafka.tools.api.StringDecoder"
    verify("--print-data-log", contents=True)
    verify("--print-data-log", "--deep-iteration", contents=True)
    verify("--value-decoder-class", decoder, contents=True)
    verify("--key-decoder-class", decoder, contents=True)
    verify("--deep-iteration", contents=False)
    assert not any(line.startswith("|") for line in dump(bench.file).lines)


@pytest.mark.conformance("DumpLogSegmentsTest.testDumpIndexMismatches")
def test_dump_index_mismatches(bench: Bench) -> None:
    bench.add_simple_records()
    found = dump(bench.index, "--verify-index-only", "--max-message-size", str(2**31 - 1))
    assert (found.err, found.status) == ("", 0)


@pytest.mark.conformance("DumpLogSegmentsTest.testDumpTimeIndexErrors")
def test_dump_time_index_errors(bench: Bench) -> None:
    bench.add_simple_records()
    found = dump(bench.time_index, "--verify-index-only")
    assert (found.err, found.status) == ("", 0)


def metadata_records() -> list[SimpleRecord]:
    values = [
        framed(0, 0, NAMED["RegisterBrokerRecord"], brokerId=0, brokerEpoch=10),
        framed(0, 0, NAMED["RegisterBrokerRecord"], brokerId=1, brokerEpoch=20),
        framed(2, 0, NAMED["TopicRecord"], name="test-topic", topicId=TOPIC_ID),
        framed(
            *(5, 0, NAMED["PartitionChangeRecord"]),
            topicId=TOPIC_ID,
            leader=1,
            partitionId=0,
            isr=[0, 1, 2],
        ),
    ]
    return [SimpleRecord(None, value) for value in values]


@pytest.mark.conformance("DumpLogSegmentsTest.testDumpMetadataRecords")
def test_dump_metadata_records(bench: Bench) -> None:
    bench.log.append_as_leader(records_of(*metadata_records()), leader_epoch=1)
    bench.log.flush(force_active_segment=False)
    text = "\n".join(dump(bench.file, "--cluster-metadata-decoder").lines)
    assert "Log starting offset: 0" in text
    assert "TOPIC_RECORD" in text
    assert "BROKER_RECORD" in text
    short = ("--cluster-metadata-decoder", "--skip-record-metadata")
    text = "\n".join(dump(bench.file, *short).lines)
    assert "TOPIC_RECORD" in text
    assert "BROKER_RECORD" in text

    bogus = encode_unsigned_varint(10000) * 2
    bench.log.append_as_leader(records_of(SimpleRecord(None, bogus)), leader_epoch=2)
    bench.log.append_as_leader(records_of(*metadata_records()), leader_epoch=2)
    lines = dump(bench.file, *short).lines
    bogus_at = next(at for at, line in enumerate(lines) if "skipping" in line)
    after = "\n".join(lines[bogus_at:])
    assert "TOPIC_RECORD" in after
    assert "BROKER_RECORD" in after


@pytest.mark.conformance("DumpLogSegmentsTest.testDumpControlRecord")
def test_dump_control_record(bench: Bench) -> None:
    def append(records: object) -> None:
        bench.log.append_as_leader(
            records,  # type: ignore[arg-type]
            0,
            origin=AppendOrigin.COORDINATOR,
            transaction_version=0,
        )

    at = {"base_offset": 0, "timestamp": 0, "leader_epoch": 0}
    marker = EndTransactionMarker(ControlRecordType.COMMIT, 100)
    append(end_transaction_marker(marker, producer_id=0, producer_epoch=0, timestamp=0))
    append(quorum_batch(ControlRecordType.LEADER_CHANGE, {"leaderId": 0}, **at))
    append(quorum_batch(ControlRecordType.SNAPSHOT_HEADER, {"lastContainedLogTimestamp": 0}, **at))
    append(quorum_batch(ControlRecordType.SNAPSHOT_FOOTER, {}, **at))
    append(quorum_batch(ControlRecordType.KRAFT_VERSION, {"kRaftVersion": 0}, **at))
    append(quorum_batch(ControlRecordType.KRAFT_VOTERS, {}, **at))
    bench.log.flush(force_active_segment=False)
    lines = dump(bench.file, "--cluster-metadata-decoder").lines
    for said in (
        " endTxnMarker: COMMIT coordinatorEpoch: 100",
        ' LeaderChange: {"version":0,"leaderId":0,"voters":[],"grantingVoters":[]}',
        ' SnapshotHeader {"version":0,"lastContainedLogTimestamp":0}',
        ' SnapshotFooter {"version":0}',
        ' KRaftVersion {"version":0,"kRaftVersion":0}',
        ' KRaftVoters {"version":0,"voters":[]}',
    ):
        assert sum(line.endswith(said) for line in lines) == 1, said


@pytest.mark.conformance("DumpLogSegmentsTest.testDumpMetadataSnapshot")
def test_dump_metadata_snapshot(tmp_path: Path) -> None:
    voters = [
        {
            "voterId": node,
            "voterDirectoryId": TOPIC_ID,
            "endpoints": [{"name": "LISTENER", "host": f"replica-{node}", "port": 1234}],
            "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
        }
        for node in (1, 2, 3)
    ]
    at = {"timestamp": 0, "leader_epoch": 0}
    with RaftSnapshotWriter.create(tmp_path, SnapshotId(0, 0)) as writer:
        header = {"lastContainedLogTimestamp": 10000}
        writer.append(quorum_batch(ControlRecordType.SNAPSHOT_HEADER, header, base_offset=0, **at))
        writer.append(
            quorum_batch(ControlRecordType.KRAFT_VERSION, {"kRaftVersion": 1}, base_offset=1, **at)
        )
        writer.append(
            quorum_batch(ControlRecordType.KRAFT_VOTERS, {"voters": voters}, base_offset=2, **at)
        )
        writer.append(records_of(*metadata_records(), base_offset=3))
        writer.append(quorum_batch(ControlRecordType.SNAPSHOT_FOOTER, {}, base_offset=7, **at))
        writer.freeze()
    (path,) = tmp_path.iterdir()
    text = "\n".join(dump(path, "--cluster-metadata-decoder").lines)
    seen = ("Snapshot end offset: 0, epoch: 0", "TOPIC_RECORD", "BROKER_RECORD")
    control = ("SnapshotHeader", "SnapshotFooter", "KRaftVersion", "KRaftVoters")
    for each in (*seen, *control, '"lastContainedLogTimestamp":10000'):
        assert each in text
    short = "\n".join(dump(path, "--cluster-metadata-decoder", "--skip-record-metadata").lines)
    assert all(each in short for each in seen)
    assert not any(each in short for each in (*control, '"lastContainedLogTimestamp":10000'))


@pytest.mark.conformance("DumpLogSegmentsTest.testDumpEmptyIndex")
def test_dump_empty_index(bench: Bench) -> None:
    bench.index.write_bytes(b"")
    found = dump(bench.index, "--verify-index-only")
    assert found.lines == [f"Dumping {bench.index}", f"{bench.index} is empty."]
    assert found.status == 0


@pytest.mark.conformance("DumpLogSegmentsTest.testPrintDataLogPartialBatches")
def test_print_data_log_partial_batches(bench: Bench) -> None:
    batches = bench.add_simple_records()
    wanted = len(batches) // 2
    lines = [line for line in dump(bench.file).lines if line.startswith("baseOffset")]
    sizes = [int(re.findall(r" size: (\d+)", line)[0]) for line in lines]
    partial = dump(bench.file, "--max-bytes", str(sum(sizes[:wanted]))).lines
    assert [line for line in partial if line.startswith("baseOffset")] == lines[:wanted]


def parsed(topic: str, key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
    found = decoded_text(topic, 0, key, value)
    assert not found.complaint
    shown = [None if part is None else part.decode() for part in (found.key, found.payload)]
    return shown[0], shown[1]


def unknown_type() -> tuple[bytes, bytes]:
    return struct.pack(">h", 2**15 - 1), b""


@pytest.mark.conformance("DumpLogSegmentsTest.testOffsetsMessageParser")
def test_offsets_message_parser() -> None:
    topic = "__consumer_offsets"
    assert decoded_text(topic, 0, None, None) == DecodedText(complaint=MISSING_KEY)

    group_key = coordinator_key(3, NAMED["ConsumerGroupMetadataKey"], groupId="group")
    shown_key = '{"type":"3","data":{"groupId":"group"}}'
    value = coordinator_value(0, NAMED["ConsumerGroupMetadataValue"], epoch=10)
    assert parsed(topic, group_key, value) == (
        shown_key,
        '{"version":"0","data":{"epoch":10}}',
    )

    subscription = struct.pack(">h", 3) + message_bytes(
        *(NAMED["ConsumerProtocolSubscription"], 3),
        topics=["foo"],
        userData=None,
        ownedPartitions=[{"topic": "foo", "partitions": [0]}],
        generationId=0,
        rackId="rack",
    )
    assignment = struct.pack(">h", 3) + message_bytes(
        *(NAMED["ConsumerProtocolAssignment"], 3),
        assignedPartitions=[{"topic": "foo", "partitions": [0]}],
        userData=None,
    )
    assert parsed(topic, *group_metadata(subscription, assignment)) == shown_group(
        '{"topics":["foo"],"userData":null,"ownedPartitions":[{"topic":"foo","partitions":[0]}],'
        '"generationId":0,"rackId":"rack"}',
        '{"assignedPartitions":[{"topic":"foo","partitions":[0]}],"userData":null}',
    )
    assert parsed(topic, *group_metadata(b"Subscription", b"Assignment")) == shown_group(
        '"U3Vic2NyaXB0aW9u"', '"QXNzaWdubWVudA=="'
    )
    assert parsed(topic, group_key, None) == (shown_key, "<DELETE>")
    assert parsed(topic, *unknown_type()) == (
        "Unknown record type 32767 at offset 0, skipping.",
        None,
    )
    other = coordinator_value(0, NAMED["ConsumerGroupMemberMetadataValue"])
    assert parsed(topic, group_key, other) == (
        (
            "Error at offset 0, skipping. Could not read record with version 0 from value's buffer due"
            " to: Error reading byte array of 536870911 byte(s): only 1 byte(s) available."
        ),
        None,
    )


def group_metadata(subscription: bytes, assignment: bytes) -> tuple[bytes, bytes]:
    member = {
        "memberId": "member",
        "clientId": "client",
        "clientHost": "host",
        "groupInstanceId": "instance",
        "sessionTimeout": 100,
        "rebalanceTimeout": 1000,
        "subscription": subscription,
        "assignment": assignment,
    }
    value = coordinator_value(
        *(4, NAMED["GroupMetadataValue"]),
        protocolType="consumer",
        protocol="range",
        leader="member",
        generation=10,
        members=[member],
    )
    return coordinator_key(2, NAMED["GroupMetadataKey"], group="group"), value


def shown_group(subscription: str, assignment: str) -> tuple[str, str]:
    return (
        '{"type":"2","data":{"group":"group"}}',
        (
            '{"version":"4","data":{"protocolType":"consumer","generation":10,"protocol":"range",'
            '"leader":"member","currentStateTimestamp":-1,"members":[{"memberId":"member",'
            '"groupInstanceId":"instance","clientId":"client","clientHost":"host",'
            f'"rebalanceTimeout":1000,"sessionTimeout":100,"subscription":{subscription},'
            f'"assignment":{assignment}}}]}}}}'
        ),
    )


@pytest.mark.conformance("DumpLogSegmentsTest.testTransactionLogMessageParser")
def test_transaction_log_message_parser() -> None:
    topic, message = "__transaction_state", NAMED["TransactionLogValue"]
    assert decoded_text(topic, 0, None, None) == DecodedText(complaint=MISSING_KEY)
    key = coordinator_key(0, NAMED["TransactionLogKey"], transactionalId="txnId")
    shown_key = '{"type":"0","data":{"transactionalId":"txnId"}}'
    value = coordinator_value(0, message, producerId=123, transactionPartitions=[])
    assert parsed(topic, key, value) == (
        shown_key,
        (
            '{"version":"0","data":{"producerId":123,"producerEpoch":0,"transactionTimeoutMs":0,'
            '"transactionStatus":"Empty","transactionPartitions":[],"transactionLastUpdateTimestampMs":0,'
            '"transactionStartTimestampMs":0}}'
        ),
    )
    assert parsed(topic, key, None) == (shown_key, "<DELETE>")
    assert parsed(topic, *unknown_type())[0] == "Unknown record type 32767 at offset 0, skipping."
    value = coordinator_value(
        *(1, message),
        clientTransactionVersion=0,
        nextProducerId=10,
        previousProducerId=11,
        producerEpoch=2,
        producerId=12,
        transactionLastUpdateTimestampMs=123,
        transactionPartitions=[
            {"topic": "topic1", "partitionIds": [0, 1, 2]},
            {"topic": "topic2", "partitionIds": [3, 4, 5]},
        ],
        transactionStartTimestampMs=13,
        transactionStatus=0,
        transactionTimeoutMs=14,
    )
    assert parsed(topic, key, value) == (
        shown_key,
        (
            '{"version":"1","data":{"producerId":12,"previousProducerId":11,"nextProducerId":10,'
            '"producerEpoch":2,"transactionTimeoutMs":14,"transactionStatus":"Empty",'
            '"transactionPartitions":[{"topic":"topic1","partitionIds":[0,1,2]},'
            '{"topic":"topic2","partitionIds":[3,4,5]}],"transactionLastUpdateTimestampMs":123,'
            '"transactionStartTimestampMs":13}}'
        ),
    )


@pytest.mark.conformance("DumpLogSegmentsTest.testShareGroupStateMessageParser")
def test_share_group_state_message_parser() -> None:
    topic, now = "__share_group_state", 1_700_000_000_000
    assert decoded_text(topic, 0, None, None) == DecodedText(complaint=MISSING_KEY)
    named = {"groupId": "gs1", "topicId": TOPIC_ID, "partition": 0}
    states = [{"firstOffset": 0, "lastOffset": 4, "deliveryState": 2, "deliveryCount": 1}]
    shown_states = (
        '"stateBatches":[{"firstOffset":0,"lastOffset":4,"deliveryState":2,"deliveryCount":1}]'
    )
    snapshot_key = coordinator_key(0, NAMED["ShareSnapshotKey"], **named)
    shown = f'"data":{{"groupId":"gs1","topicId":"{TOPIC_ID}","partition":0}}}}'
    value = coordinator_value(
        *(0, NAMED["ShareSnapshotValue"]),
        snapshotEpoch=0,
        stateEpoch=0,
        leaderEpoch=0,
        startOffset=0,
        createTimestamp=now,
        writeTimestamp=now,
        stateBatches=states,
    )
    assert parsed(topic, snapshot_key, value) == (
        '{"type":"0",' + shown,
        (
            '{"version":"0","data":{"snapshotEpoch":0,"stateEpoch":0,"leaderEpoch":0,"startOffset":0,'
            f'"createTimestamp":{now},"writeTimestamp":{now},{shown_states}}}}}'
        ),
    )
    value = coordinator_value(
        *(0, NAMED["ShareUpdateValue"]),
        snapshotEpoch=0,
        leaderEpoch=0,
        startOffset=0,
        stateBatches=states,
    )
    assert parsed(topic, coordinator_key(1, NAMED["ShareUpdateKey"], **named), value) == (
        '{"type":"1",' + shown,
        (
            '{"version":"0","data":{"snapshotEpoch":0,"leaderEpoch":0,"startOffset":0,'
            f"{shown_states}}}}}"
        ),
    )
    assert parsed(topic, snapshot_key, None) == ('{"type":"0",' + shown, "<DELETE>")
    assert parsed(topic, *unknown_type())[0] == "Unknown record type 32767 at offset 0, skipping."
    update_key = coordinator_key(
        *(1, NAMED["ShareUpdateKey"]), groupId="group", topicId=TOPIC_ID, partition=0
    )
    assert parsed(topic, update_key, coordinator_value(0, NAMED["ShareSnapshotValue"])) == (
        (
            "Error at offset 0, skipping. Could not read record with version 0 from value's buffer due"
            " to: non-nullable field stateBatches was serialized as null."
        ),
        None,
    )
