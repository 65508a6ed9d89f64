"""What goes in comes out: each record with all that it has, in batches and segments of the sizes asked for."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings, strategies as st

pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")
pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from engine.record.attributes import TimestampType
from engine.record.record import Record
from kafkafs.spark.sink import task_writer
from kafkafs.spark.sink.frame_columns import RecordError
from tests.kafkafs.spark.sink.written_frames import (
    NOW,
    Row,
    Written,
    bounds_of,
    findings_in,
    records_of,
    row,
    write,
)

BYTES = st.one_of(st.none(), st.binary(max_size=30))
HEADER = st.fixed_dictionaries({"key": st.text(max_size=8), "value": BYTES})
COLUMNS = {
    "key": BYTES,
    "value": BYTES,
    "headers": st.one_of(st.none(), st.lists(HEADER, max_size=4)),
    "timestamp": st.one_of(st.sampled_from([-1, NOW]), st.integers(1, 2**41)),
    "timestampType": st.sampled_from([0, 1]),
    "codec": st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]),
}


def seen(record: Record) -> Row:
    """A record as the row that it was."""
    headers = [{"key": each.key.decode(), "value": each.value} for each in record.headers]
    return {
        "offset": record.offset,
        "key": record.key,
        "value": record.value,
        "headers": headers or None,
        "timestamp": record.timestamp,
        "timestampType": int(record.timestamp_type is TimestampType.LOG_APPEND_TIME),
        "leaderEpoch": record.leader_epoch,
    }


def expected(given: Row) -> Row:
    """What a row comes back as."""
    names = ("offset", "key", "value", "headers", "timestamp", "timestampType", "leaderEpoch")
    found = {"headers": None, "timestampType": 0, "leaderEpoch": 0} | given
    if found["timestamp"] == -1:
        found["timestampType"] = 0
    return {name: found[name] or (None if name == "headers" else found[name]) for name in names}


@settings(max_examples=25, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    rows=st.lists(st.fixed_dictionaries(COLUMNS), min_size=1, max_size=40),
    gaps=st.lists(st.sampled_from([1, 1, 2, 1000, 2**31]), min_size=40, max_size=40),
    epochs=st.lists(st.integers(0, 1), min_size=40, max_size=40),
    batch_bytes=st.sampled_from(["1", "100", "64k"]),
)
def test_any_records_come_back(
    rows: list[Row], gaps: list[int], epochs: list[int], batch_bytes: str
) -> None:
    offset = epoch = 0
    full = []
    for each, gap, step in zip(rows, gaps, epochs, strict=False):
        full.append(row(offset, leaderEpoch=epoch, **each))
        offset, epoch = offset + gap, epoch + step
    home = Path(tempfile.mkdtemp())
    try:
        write(home / "made", full, batchBytes=batch_bytes)
        assert [seen(each) for each in records_of(home / "made")] == [expected(r) for r in full]
        wrong = [
            each
            for each in findings_in(home / "made")
            if not each.startswith(("gap-", "timestamp-seconds"))
        ]
        assert wrong == []
    finally:
        shutil.rmtree(home)


def test_a_long_header_and_a_long_value_come_back(tmp_path: Path) -> None:
    headers = [{"key": "h" * 5000, "value": b"x" * 70_000}, {"key": "", "value": None}]
    rows = [row(0, headers=headers), row(1, headers=[]), row(2, headers=headers[1:])]
    write(tmp_path / "made", rows)
    assert [seen(each) for each in records_of(tmp_path / "made")] == [expected(r) for r in rows]


def test_batches_and_segments_have_the_sizes_that_were_asked_for(tmp_path: Path) -> None:
    rows = [row(number, value=bytes(500)) for number in range(200)]
    manifest = write(tmp_path / "made", rows, batchBytes="2000", segmentBytes="8k")
    [facts] = manifest["partitions"]
    logs = sorted((tmp_path / "made" / "t-0").glob("*.log"))
    assert 50 <= facts["batches"] <= 70
    assert len(logs) == facts["segments"] > 10
    assert all(4096 < path.stat().st_size <= 8192 for path in logs[:-1])
    assert sum(path.stat().st_size for path in logs) == facts["bytes"]
    assert findings_in(tmp_path / "made") == []
    assert [each.offset for each in records_of(tmp_path / "made")] == list(range(200))


def test_records_wait_for_those_of_their_partition_to_fill_a_batch(tmp_path: Path) -> None:
    rows = [row(number // 4, partition=number % 4) for number in range(400)]
    manifest = write(tmp_path / "made", rows)
    assert [each["batches"] for each in manifest["partitions"]] == [1, 1, 1, 1]


def test_more_partitions_than_files_may_be_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_writer, "MOST_OPEN", 3)
    rows = [row(number // 9, partition=number % 9) for number in range(180)]
    manifest = write(tmp_path / "made", rows, batchBytes="1")
    assert len(manifest["partitions"]) == 9
    for number in range(9):
        found = records_of(tmp_path / "made", f"t-{number}")
        assert [each.offset for each in found] == list(range(20))
    assert findings_in(tmp_path / "made") == []


def test_what_waits_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_writer, "MOST_WAITING", 2000)
    rows = [row(number, value=bytes(100)) for number in range(100)]
    manifest = write(tmp_path / "made", rows, batchBytes="1000000")
    assert manifest["partitions"][0]["batches"] > 3
    assert len(records_of(tmp_path / "made")) == 100


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_option_codec_counts_more_than_the_column(tmp_path: Path, codec: str) -> None:
    rows = [row(number, value=b"same" * 50, codec="gzip") for number in range(100)]
    [facts] = write(tmp_path / "made", rows, codec=codec)["partitions"]
    assert (facts["bytes"] > 20_000) is (codec == "none")
    data = next((tmp_path / "made" / "t-0").glob("*.log")).read_bytes()
    assert data[22] & 7 == ["none", "gzip", "snappy", "lz4", "zstd"].index(codec)


def test_records_without_a_timestamp_get_that_of_the_job(tmp_path: Path) -> None:
    rows = [{"topic": "t", "partition": 0, "value": b"v", "offset": 5}]
    write(tmp_path / "made", rows)
    assert [each.timestamp for each in records_of(tmp_path / "made")] == [NOW]


def test_new_offsets_follow_the_order_of_the_tasks_and_of_their_rows(tmp_path: Path) -> None:
    tasks = [[row(value=b"%d-%d" % (task, number)) for number in range(30)] for task in range(3)]
    job = Written(tmp_path / "made", list(tasks[0][0]), batchBytes="100", codec="lz4")
    job.outputs = [job.task(tasks[task], task) for task in (2, 0, 1)]
    job.commit()
    found = records_of(tmp_path / "made")
    assert [each.offset for each in found] == list(range(90))
    assert [each.value for each in found] == [each["value"] for rows in tasks for each in rows]
    assert findings_in(tmp_path / "made") == []


def test_kept_offsets_may_come_from_several_tasks_in_any_order(tmp_path: Path) -> None:
    tasks = [[row(number) for number in range(start, start + 10)] for start in (20, 0, 10)]
    manifest = write(tmp_path / "made", *tasks)
    assert manifest["partitions"][0]["segments"] == 3
    assert [each.offset for each in records_of(tmp_path / "made")] == list(range(30))
    assert findings_in(tmp_path / "made") == []


@pytest.mark.parametrize("key", [b"k", None], ids=["keys", "no-keys"])
@pytest.mark.parametrize("rows_waiting", [1, 1 << 30])
def test_offsets_without_records_are_not_missing(
    tmp_path: Path, key: bytes | None, rows_waiting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check takes a gap between batches for a loss, most of all where records have no keys."""
    monkeypatch.setattr(task_writer, "MOST_WAITING", rows_waiting)
    kept = [*range(3, 600, 3), 5000, 5001, 100_000, 100_001]
    rows = [row(offset, key=key) for offset in kept]
    write(tmp_path / "made", rows[:50], rows[50:120], rows[120:], batchBytes="100")
    assert [each.offset for each in records_of(tmp_path / "made")] == kept
    assert bounds_of(tmp_path / "made") == (3, 100_002)
    assert findings_in(tmp_path / "made") == []


def test_offsets_that_no_batch_can_reach_over_stay_missing(tmp_path: Path) -> None:
    write(tmp_path / "made", [row(5), row(6), row(5_000_000_000)], [row(10_000_000_000)])
    assert [each.offset for each in records_of(tmp_path / "made")] == [
        5, 6, 5_000_000_000, 10_000_000_000,
    ]  # fmt: skip
    assert len(findings_in(tmp_path / "made")) == 2


def test_a_batch_larger_than_what_is_moved_at_once_gets_its_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkafs.spark.sink.moved_batches._CHUNK", 300)
    tasks = [[row(value=bytes(size)) for size in (10, 1000, 20, 500, 30)] for _ in range(2)]
    write(tmp_path / "made", *tasks, batchBytes="1")
    assert [each.offset for each in records_of(tmp_path / "made")] == list(range(10))
    assert findings_in(tmp_path / "made") == []


def test_a_key_says_the_partition_where_the_row_does_not(tmp_path: Path) -> None:
    rows = [row(partition=None, key=key) for key in (b"21", b"foobar")] + [row(partition=9)]
    write(tmp_path / "made", rows, numPartitions="10")
    assert [each.key for each in records_of(tmp_path / "made", "t-0")] == [b"21"]
    assert [each.key for each in records_of(tmp_path / "made", "t-6")] == [b"foobar"]
    assert [each.key for each in records_of(tmp_path / "made", "t-9")] == [b"k"]


# -- bounds


def test_a_log_begins_and_ends_where_it_is_told_to(tmp_path: Path) -> None:
    options = {"logStartOffsets": '{"t":{"0":3,"1":7}}', "logEndOffsets": '{"t":{"0":20,"1":9}}'}
    write(tmp_path / "made", [row(5), row(6)], **options)
    assert bounds_of(tmp_path / "made") == (3, 20)
    assert [each.offset for each in records_of(tmp_path / "made")] == [5, 6]
    assert bounds_of(tmp_path / "made", "t-1") == (7, 9)
    assert records_of(tmp_path / "made", "t-1") == []
    assert [each for each in findings_in(tmp_path / "made") if "gap" not in each] == []


def test_no_empty_segment_stands_before_the_first_records(tmp_path: Path) -> None:
    rows = [row(number, value=bytes(2000), timestamp=NOW + number) for number in range(9, 60)]
    options = {"batchBytes": "2000", "segmentBytes": "40k", "logStartOffsets": '{"t":{"0":3}}'}
    write(tmp_path / "made", rows, **options)
    logs = sorted((tmp_path / "made" / "t-0").glob("*.log"))
    assert logs[0].name == "00000000000000000003.log"
    assert all(path.stat().st_size for path in logs)
    assert logs[0].with_suffix(".index").stat().st_size > 16
    assert [each for each in findings_in(tmp_path / "made") if not each.startswith("gap-")] == []
    far = [row(2**31 + 3), row(2**31 + 4)]
    write(tmp_path / "far", far, logStartOffsets='{"t":{"0":3}}')
    assert bounds_of(tmp_path / "far") == (3, 2**31 + 5)
    assert len(records_of(tmp_path / "far")) == 2


def test_an_end_that_no_batch_reaches_is_an_empty_segment(tmp_path: Path) -> None:
    write(tmp_path / "made", [row(0)], logEndOffsets='{"t":{"0":5000000000}}')
    assert bounds_of(tmp_path / "made") == (0, 5_000_000_000)


def test_a_log_of_no_records_begins_where_it_ends(tmp_path: Path) -> None:
    write(tmp_path / "made", [row(0)], logEndOffsets='{"t":{"0":1},"u":{"0":42}}')
    assert bounds_of(tmp_path / "made", "u-0") == (42, 42)


def test_no_rows_are_an_error_unless_an_empty_log_dir_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"no rows.* allowEmpty=true makes it anyway"):
        write(tmp_path / "made", [])
    assert not (tmp_path / "made").exists()
    assert write(tmp_path / "made", [], allowEmpty="true")["partitions"] == []
    assert (tmp_path / "made" / "recovery-point-offset-checkpoint").read_bytes() == b"0\n0\n"


def test_new_offsets_begin_at_the_log_start(tmp_path: Path) -> None:
    write(tmp_path / "made", [row(), row()], [row()], logStartOffsets='{"t":{"0":100}}')
    assert [each.offset for each in records_of(tmp_path / "made")] == [100, 101, 102]
    assert bounds_of(tmp_path / "made") == (100, 103)


# -- what a broker needs


def test_topics_have_the_ids_that_were_given_and_new_ones_else(tmp_path: Path) -> None:
    given = "sgf5MsZgRTuEMv68ZXKJbQ"
    rows = [row(0, topic="a"), row(0, topic="b"), row(0, topic="b", partition=1)]
    manifest = write(tmp_path / "made", rows, topicIds=f'{{"a":"{given}"}}')
    texts = {
        path.parent.name: path.read_text().split()[-1]
        for path in (tmp_path / "made").glob("*/partition.metadata")
    }
    assert texts["a-0"] == given == manifest["topicIds"]["a"]
    assert texts["b-0"] == texts["b-1"] == manifest["topicIds"]["b"] != given


def test_a_log_dir_for_a_broker_says_whose_it_is(tmp_path: Path) -> None:
    write(tmp_path / "made", [row(0)], clusterId="fGQ9nYsdQ1O8xY5Ov3lLAA", nodeId="3")
    lines = (tmp_path / "made" / "meta.properties").read_text().split()
    assert {"version=1", "cluster.id=fGQ9nYsdQ1O8xY5Ov3lLAA", "node.id=3"} <= set(lines)
    assert any(len(line) == len("directory.id=") + 22 for line in lines)


def test_leader_epochs_are_kept_or_0(tmp_path: Path) -> None:
    write(tmp_path / "kept", [row(0, leaderEpoch=3), row(1, leaderEpoch=5)])
    assert (tmp_path / "kept" / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n2\n3 0\n5 1\n"
    write(tmp_path / "set", [row(0, leaderEpoch=3), row(1, leaderEpoch=1)], leaderEpoch="7")
    assert (tmp_path / "set" / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n7 0\n"
    write(tmp_path / "none", [row(0), row(1)])
    assert (tmp_path / "none" / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


# -- rows that are refused

REFUSED: list[tuple[str, list[list[Row]], dict[str, str]]] = [
    ("offset 3 comes after offset 3", [[row(3), row(3)]], {}),
    ("offset 2 comes after offset 9", [[row(9), *([row(10)] * 0), row(2)]], {}),
    ("cannot have offset -1", [[row(-1)]], {}),
    ("two tasks wrote offsets 0 to 1 and 1 to 2", [[row(0), row(1)], [row(1), row(2)]], {}),
    ("leader epoch goes back to 1", [[row(0, leaderEpoch=2), row(1, leaderEpoch=1)]], {}),
    ("leader epoch goes back to 1", [[row(0, leaderEpoch=2)], [row(1, leaderEpoch=1)]], {}),
    ("null topic present in the data", [[row(0, topic=None)]], {}),
    ("null offset present", [[row(0) | {"offset": None}]], {}),
    ("Invalid partition: -1", [[row(0, partition=-1)]], {}),
    (
        "t has 2 partitions, so there is no partition 2",
        [[row(0, partition=2)]],
        {"numPartitions": "2"},
    ),
    ("null partition present", [[row(0, partition=None)]], {}),
    ("Invalid timestamp: -2", [[row(0, timestamp=-2)]], {}),
    ("header without a key", [[row(0, headers=[{"key": None, "value": b""}])]], {}),
    ("no codec is called 'brotli'", [[row(0, codec="brotli")]], {}),
    ("aborted or open", [[row(0, transaction="aborted")]], {}),
    ("damaged place", [[row(0, _corrupt="{}")]], {}),
    ("no topic name: 'a/b'", [[row(0, topic="a/b")]], {}),
    ("below the log start 5", [[row(4)]], {"logStartOffsets": '{"t":{"0":5}}'}),
    ("is to end at 4", [[row(4)]], {"logEndOffsets": '{"t":{"0":4}}'}),
]


@pytest.mark.parametrize(("words", "tasks", "options"), REFUSED, ids=lambda each: str(each)[:40])
def test_what_no_log_can_hold_is_refused(
    tmp_path: Path, words: str, tasks: list[list[Row]], options: dict[str, Any]
) -> None:
    with pytest.raises(RecordError, match=words):
        write(tmp_path / "made", *tasks, **options)
    assert not (tmp_path / "made").exists()
