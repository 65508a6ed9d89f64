"""JSON lines: every field, exact bytes, errors at their place."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests import builders, fixtures_data
from tests.builders import Aborted, Producer, Rec, SnapshotEntry, patched, values
from tests.kafkafs.dump.dumped import dump
from tests.message_bytes import coordinator_key, coordinator_value
from tests.messages import NAMED


def lines_of(path: Path, *options: str) -> list[dict[str, Any]]:
    return dump(path, "--json", *options).json


def written(tmp_path: Path, *batches: bytes, name: str = "00000000000000000000.log") -> Path:
    path = tmp_path / name
    path.write_bytes(b"".join(batches))
    return path


def test_a_batch_and_its_records_have_every_field(tmp_path: Path) -> None:
    headers = [(b"h", b"1"), (b"h", None), (b"\xff", b"\xfe")]
    data = builders.batch(
        [Rec(b"\x00\xff", b"k", 1000, headers), Rec(None, b"", 1001)],
        7,
        producer=Producer(id=9, epoch=2, sequence=4),
        leader_epoch=3,
    )
    path = written(tmp_path, data)
    head, batch, first, second = lines_of(path)
    assert head == {
        "type": "file",
        "file": str(path),
        "kind": "log",
        "size": len(data),
        "baseOffset": 0,
    }
    assert batch == {
        "type": "batch",
        "file": str(path),
        "position": 0,
        "size": len(data),
        "magic": 2,
        "baseOffset": 7,
        "lastOffset": 8,
        "count": 2,
        "baseSequence": 4,
        "lastSequence": 5,
        "producerId": 9,
        "producerEpoch": 2,
        "leaderEpoch": 3,
        "baseTimestamp": 1000,
        "isTransactional": False,
        "isControl": False,
        "deleteHorizonMs": None,
        "timestampType": "CreateTime",
        "maxTimestamp": 1001,
        "compression": "none",
        "attributes": 0,
        "crc": int.from_bytes(data[17:21], "big"),
        "isValid": True,
    }
    assert first == {
        "type": "record",
        "file": str(path),
        "batchPosition": 0,
        "index": 0,
        "offset": 7,
        "timestamp": 1000,
        "sequence": 4,
        "timestampType": "CreateTime",
        "key": "k",
        "value": "AP8=",
        "valueEncoding": "base64",
        "headers": [
            {"key": "h", "value": "1"},
            {"key": "h", "value": None},
            {"key": "/w==", "keyEncoding": "base64", "value": "/g==", "valueEncoding": "base64"},
        ],
    }
    assert (second["key"], second["value"], second["headers"]) == ("", None, [])


@pytest.mark.parametrize("partition", ["weird-0", "txn-0", "codec-zstd-0"])
def test_the_bytes_are_those_that_a_consumer_saw(partition: str) -> None:
    found = {
        line["offset"]: line
        for path in fixtures_data.logs("current", partition)
        for line in lines_of(path)
        if line.get("type") == "record"
    }

    def data(line: dict[str, Any], name: str) -> bytes | None:
        text = line[name]
        if text is None or line.get(f"{name}Encoding") is None:
            return None if text is None else str(text).encode()
        return base64.b64decode(text)

    for record in fixtures_data.truth_records("current", partition):
        line = found[record.offset]
        assert (data(line, "key"), data(line, "value")) == (record.key, record.value)
        assert line["timestamp"] == record.timestamp
        shown = [(data(header, "key"), data(header, "value")) for header in line["headers"]]
        assert shown == [(name.encode(), value) for name, value in record.headers]


def test_control_records_say_what_they_are(tmp_path: Path) -> None:
    path = written(tmp_path, builders.end_marker(0, Producer(id=5, epoch=1), commit=True))
    *_, record = lines_of(path)
    assert record["control"] == {"type": "COMMIT", "version": 0, "coordinatorEpoch": 0}
    assert base64.b64decode(record["key"]) if "keyEncoding" in record else record["key"]


def test_records_of_internal_topics_are_decoded_by_their_folders_name(tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-7"
    folder.mkdir()
    key = coordinator_key(3, NAMED["ConsumerGroupMetadataKey"], groupId="group")
    value = coordinator_value(0, NAMED["ConsumerGroupMetadataValue"], epoch=10)
    path = written(folder, builders.batch([Rec(value, key), Rec(b"?", b"\x7f\xff")]))
    *_, good, unknown = lines_of(path)
    assert good["decoded"] == {
        "kind": "CONSUMER_GROUP_METADATA",
        "key": {"type": "3", "data": {"groupId": "group"}},
        "value": {"version": "0", "data": {"epoch": 10}},
    }
    assert base64.b64decode(good["value"]) if "valueEncoding" in good else good["value"] is not None
    assert "not known" in unknown["decoded"]["keyNote"]


def test_messages_of_old_formats_have_a_magic_and_a_checksum_each(tmp_path: Path) -> None:
    data = builders.message(5, b"k", b"v", magic=1)
    _, batch, record = lines_of(written(tmp_path, data))
    assert batch["magic"] == 1
    assert "baseOffset" not in batch
    assert (record["magic"], record["isValid"]) == (1, True)
    assert record["crc"] == int.from_bytes(data[12:16], "big")


def test_damage_is_a_line_at_its_place(tmp_path: Path) -> None:
    first, second, third = (builders.batch(values("a", "b"), base) for base in (0, 2, 4))
    broken = patched(second, 8, b"\x7f\xff\xff\xff")
    path = written(tmp_path, first, broken, third)
    found = dump(path, "--json")
    kinds = ["error" if "error" in line else line["type"] for line in found.json]
    assert kinds == [*("file", "batch", "record", "record", "error", "batch", "record", "record")]
    error = found.json[4]["error"]
    assert (error["position"], error["length"]) == (len(first), len(broken))
    assert error["firstOffset"] == 2
    assert (found.err, found.status) == ("", 1)


def test_a_batch_that_does_not_decode_says_where_it_ends(tmp_path: Path) -> None:
    data = builders.batch(values("a", "b", "c"), section=b"\x02\x00")
    errors = [line["error"] for line in lines_of(written(tmp_path, data)) if "error" in line]
    assert len(errors) == 1
    assert errors[0]["record"] == 0
    assert errors[0]["position"] == 0


def test_index_entries_and_what_is_against_them_are_lines(tmp_path: Path) -> None:
    batches = [builders.batch(values("a", "b"), base) for base in (0, 2)]
    written(tmp_path, *batches)
    index = tmp_path / "00000000000000000000.index"
    index.write_bytes(builders.offset_index([(1, 0), (7, len(batches[0]))]))
    _, one, error, two = lines_of(index)
    assert one["offset"], one["logPosition"] == (1, 0)
    assert error["error"] == {
        "file": str(index),
        "kind": "index_mismatch",
        "position": 8,
        "expected": 3,
        "found": 7,
    }
    assert (two["slot"], two["offset"]) == (1, 7)


def test_snapshots_and_transaction_indexes_have_every_field(tmp_path: Path) -> None:
    snapshot = tmp_path / "00000000000000000009.snapshot"
    snapshot.write_bytes(builders.producer_snapshot([SnapshotEntry(88, 1, 4, 8, 2, 1000, -1, 2)]))
    assert lines_of(snapshot)[1] == {
        "type": "entry",
        "file": str(snapshot),
        "slot": 0,
        "producerId": 88,
        "producerEpoch": 1,
        "lastSequence": 4,
        "lastOffset": 8,
        "offsetDelta": 2,
        "timestamp": 1000,
        "coordinatorEpoch": -1,
        "currentTxnFirstOffset": 2,
    }
    aborted = tmp_path / "00000000000000000000.txnindex"
    aborted.write_bytes(builders.transaction_index([Aborted(7, 1, 5, 0)]))
    assert lines_of(aborted)[1]["lastStableOffset"] == 0


def test_a_file_that_cannot_be_read_is_a_line(tmp_path: Path) -> None:
    found = dump(tmp_path / "gone.log", "--json")
    assert found.json[0]["error"]["kind"] == "unreadable"
    assert found.status == 3


def test_no_name_and_no_byte_can_drive_a_terminal(tmp_path: Path) -> None:
    folder = tmp_path / "a\x1b[2J\nb-0"
    folder.mkdir()
    written(folder, builders.batch([Rec("\x1b]0;x\x07\u202e".encode())]))
    text = dump(folder, "--json").out.decode()
    assert not set(text) & {"\x1b", "\x07", "\u202e"}
    assert all(json.loads(line) for line in text.splitlines())
