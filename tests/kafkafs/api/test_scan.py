"""Scans: PyArrow, DuckDB, Polars and pandas read the rows that a consumer got."""

from __future__ import annotations

import inspect
import json
import pickle
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import kafkafs
from engine.clock import SYSTEM_CLOCK
from engine.lines.line_decoder import DecodedField, LineDecoder
from engine.log.segment.log_segment import LogSegment
from kafkafs.api.opened_source import OpenedSource
from kafkafs.api.scan_options import DEFAULTS, ScanOptions
from kafkafs.forms.arrow.arrow_columns import DECODED
from tests.builders import Rec, batch
from tests.fixtures_data import (
    WITH_TRUTH,
    TruthRecord,
    log_dir,
    truth_partitions,
    truth_records,
)
from tests.kafkafs.built_logs import BuiltLog, text_batch

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[arrow]'")
pc = pytest.importorskip("pyarrow.compute")
duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed: scripts/setup dev")
pl = pytest.importorskip("polars", reason="Polars is not installed: scripts/setup dev")
pd = pytest.importorskip("pandas", reason="pandas is not installed: scripts/setup dev")

COLUMNS = ["offset", "timestampType", "timestamp", "key", "value", "headers", "leaderEpoch"]
LIBRARIES = ("pyarrow", "duckdb", "polars", "pandas", "pyarrow-stream")


@pytest.fixture(scope="module")
def current() -> Iterator[OpenedSource]:
    with kafkafs.open(log_dir("current")) as source:
        yield source


def read_with(library: str, scan: kafkafs.Scan) -> list[dict[str, Any]]:
    """Rows as a library reads them, with timestamps in milliseconds."""
    if library == "duckdb":
        columns = ", ".join(
            'epoch_ms("timestamp") as "timestamp"' if name == "timestamp" else f'"{name}"'
            for name in scan.schema.names
        )
        found = duckdb.sql(f"select {columns} from scan").fetchall()
        return [dict(zip(scan.schema.names, row, strict=True)) for row in found]
    if library == "polars":
        frame = pl.DataFrame(scan).with_columns(pl.col("timestamp").dt.epoch("ms"))
        return frame.to_dicts()
    if library == "pandas":
        frame = scan.to_pandas(timestamp_as_object=False)
        frame["timestamp"] = [
            None if pd.isna(each) else int(each.timestamp() * 1000 + 0.5)
            for each in frame["timestamp"]
        ]
        return [
            {name: _plain(value) for name, value in row.items()}
            for row in frame.to_dict(orient="records")
        ]
    table = pa.table(scan) if library == "pyarrow-stream" else scan.to_arrow()
    place = table.schema.get_field_index("timestamp")
    return table.set_column(place, "timestamp", table["timestamp"].cast(pa.int64())).to_pylist()


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    return None if isinstance(value, float) and value != value else value


def as_truth(row: dict[str, Any]) -> TruthRecord:
    headers = row["headers"] or ()
    kind = {0: 1, 1: 2, -1: 0}[row["timestampType"]]
    return TruthRecord(
        row["offset"],
        kind,
        0 if kind == 0 else row["timestamp"],
        row["key"],
        row["value"],
        tuple((header["key"], header["value"]) for header in headers),
        None if row["leaderEpoch"] < 0 else row["leaderEpoch"],
    )


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", WITH_TRUTH)
def test_each_library_reads_what_a_consumer_got(kind: str, library: str) -> None:
    with kafkafs.open(log_dir(kind)) as source:
        for name in truth_partitions(kind):
            topic, _, number = name.rpartition("-")
            scan = source.scan({topic: [int(number)]}, columns=COLUMNS)
            assert tuple(map(as_truth, read_with(library, scan))) == truth_records(kind, name), name


@pytest.mark.parametrize("kind", WITH_TRUTH)
def test_read_committed_leaves_out_what_a_consumer_does_not_get(kind: str) -> None:
    with kafkafs.open(log_dir(kind)) as source:
        for name in truth_partitions(kind):
            topic, _, number = name.rpartition("-")
            scan = source[topic, int(number)].scan(columns=COLUMNS, isolation="read_committed")
            known = truth_records(kind, name, committed=True)
            assert tuple(map(as_truth, read_with("pyarrow", scan))) == known, name
            assert scan.count() == scan.count(checksums=False) == len(known)


@pytest.mark.parametrize("kind", WITH_TRUTH)
def test_a_scan_of_everything_has_each_partition_in_order(kind: str) -> None:
    with kafkafs.open(log_dir(kind)) as source:
        scan = source.scan(columns=["topic", "partition", "offset"])
        table = scan.to_arrow()
        wanted = [
            (each.topic, each.partition, record.offset)
            for each in source.partitions()
            if not each.topic.startswith("__")
            for record in each
        ]
        assert list(zip(*(column.to_pylist() for column in table.columns), strict=True)) == wanted
        assert scan.count() == scan.count(checksums=False) == len(wanted) == table.num_rows
        for bounds in ((3, 100), (17, 18), (95, None), (None, 50)):
            some = source.scan(offsets=bounds, columns=[])
            assert some.count(checksums=False) == some.to_arrow().num_rows


def test_rows_do_not_depend_on_the_number_of_threads(current: OpenedSource) -> None:
    tables = [current.scan(threads=number).to_arrow() for number in (1, 2, 5)]
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])
    tables[0].validate(full=True)


def test_columns_are_those_asked_for_in_their_order(current: OpenedSource) -> None:
    from kafkafs.forms.arrow.arrow_columns import RECORD_FIELDS

    names = list(reversed(RECORD_FIELDS))
    table = current.scan("txn", columns=names).to_arrow()
    assert table.schema.names == names
    assert set(table["transaction"].to_pylist()) == {None, "committed", "aborted"}
    assert set(current.scan("codec-zstd", columns=["codec"]).to_arrow()["codec"].to_pylist()) == {
        "zstd"
    }
    with pytest.raises(KeyError, match="records have no column 'vlaue': did you mean value"):
        current.scan("orders", columns=["vlaue"])
    with pytest.raises(ValueError, match="twice"):
        current.scan("orders", columns=["key", "key"])


def test_no_columns_are_rows_that_only_count(current: OpenedSource) -> None:
    assert current.scan("orders", columns=[]).to_arrow().num_rows == 1000
    assert current.scan("orders", columns=[], offsets=(7, 11)).to_arrow().num_rows == 4


def test_no_timestamp_is_null() -> None:
    with kafkafs.open(log_dir("legacy")) as source:
        table = source.scan(columns=["timestamp", "timestampType"]).to_arrow()
    rows = table.to_pylist()
    assert {row["timestamp"] is None for row in rows if row["timestampType"] == -1} == {True}
    assert {row["timestamp"] is None for row in rows if row["timestampType"] != -1} == {False}


@pytest.mark.parametrize("timestamp", [2**62, -(2**62), 0, -2])
def test_each_timestamp_of_kafka_fits(tmp_path: Path, timestamp: int) -> None:
    BuiltLog(tmp_path).segment([batch([Rec(b"v", timestamp=timestamp)])], 0)
    with kafkafs.open(tmp_path) as source:
        column = source.scan("orders").to_arrow()["timestamp"]
        assert column.cast(pa.int64()).to_pylist() == [timestamp]
        assert source["orders", 0][0].timestamp == timestamp


# Ranges


def test_offsets_bound_all_partitions_or_some() -> None:
    with kafkafs.open(log_dir("sample")) as source:
        both = source.scan("orders", offsets=(10, 12), columns=["partition", "offset"])
        assert both.count() == sum(min(12, p.end) - 10 for p in source["orders"].values())
        some = source.scan(
            "orders", offsets={("orders", 0): (None, 3), ("orders", 1): (5, 5)}, columns=["offset"]
        )
        assert some.to_arrow()["offset"].to_pylist() == [0, 1, 2]


def test_times_are_those_of_a_period_in_the_tree(current: OpenedSource) -> None:
    for name in ("orders", "out-of-order", "append-time", "txn"):
        times = sorted({record.timestamp for record in current[name, 0]})
        since, until = times[len(times) // 3], times[2 * len(times) // 3]
        lines = current.read(f"{name}-0/time/{since:016}..{until:016}/records.jsonl").splitlines()
        wanted = [json.loads(line)["offset"] for line in lines if b'"control":{' not in line]
        scan = current.scan(name, since=since, until=until, columns=["offset"])
        assert scan.to_arrow()["offset"].to_pylist() == wanted
    assert current.scan("orders", since="2100-01-01").count() == 0
    assert current.scan("orders", until="2001-01-01").count() == 0
    with pytest.raises(ValueError, match="is not a time"):
        current.scan("orders", since="soon")


def test_an_unknown_topic_or_partition_is_a_key_error_at_once(current: OpenedSource) -> None:
    for topics in ("nothing", ["orders", "nothing"], {"orders": [7]}):
        with pytest.raises(KeyError):
            current.scan(topics)


def test_kafkas_own_topics_are_read_when_they_are_named(current: OpenedSource) -> None:
    assert "__consumer_offsets" not in set(
        current.scan(columns=["topic"]).to_arrow()["topic"].to_pylist()
    )
    scan = current.scan("__consumer_offsets", decode="json", columns=["key", "value"])
    keys = [json.loads(key) for key in scan.to_arrow()["key"].to_pylist()]
    assert {"group", "type"} <= set(keys[0]) | set(keys[0].get("data", {}))


class Shouting(LineDecoder):
    """A decoder of some values."""

    def fields(
        self, key: bytes | None, value: bytes | None, headers: Any, timestamp: int
    ) -> tuple[DecodedField | None, DecodedField | None]:
        if value == b"b":
            return None, DecodedField(None, note="not decoded")
        names = [header.key.decode() for header in headers]
        text = json.dumps([str(value), names, timestamp]).encode()
        return None, DecodedField(text, b"shouted")


def test_a_decoder_is_given_keys_values_headers_and_times(tmp_path: Path) -> None:
    records = [Rec(b"a", b"k", 5000, [(b"h", b"1")]), Rec(b"b"), Rec(None, None, 7)]
    BuiltLog(tmp_path).segment([batch(records)], 0)
    with kafkafs.open(tmp_path) as source:
        scan = source.scan("orders", decode=lambda _: Shouting(), columns=["value", "key"])
        table = scan.to_arrow()
        assert table["key"].to_pylist() == [b"k", None, None]
        first, second, third = table["value"].to_pylist()
        assert json.loads(first) == ["b'a'", ["h"], 5000]
        assert second == b"b"
        assert json.loads(third) == ["None", [], 7]
        records = list(source["orders", 0])
        assert records[0].decoded(Shouting()).value == ["b'a'", ["h"], 5000]
        assert records[1].decoded(Shouting()).value == "b"
        assert source.scan("orders", decode=lambda _: None).to_arrow()["value"][0].as_py() == b"a"


# Keys


def test_keys_are_found_in_all_partitions(current: OpenedSource) -> None:
    known = truth_records("current", "orders-0")
    for keys in (["k17"], [b"k17", "k90"], [None], [], ["no such key"]):
        wanted = [
            r.offset
            for r in known
            if r.key in {k.encode() if isinstance(k, str) else k for k in keys}
        ]
        scan = current.scan("orders", keys=keys, columns=["offset"])
        assert scan.to_arrow()["offset"].to_pylist() == wanted
        assert scan.count() == len(wanted)
    nulls = [r.offset for r in truth_records("current", "weird-0") if r.key is None]
    assert nulls
    assert (
        current.scan("weird", keys=[None], columns=["offset"]).to_arrow()["offset"].to_pylist()
        == nulls
    )
    with pytest.raises(TypeError, match=r"write keys=\['k17'\]"):
        current.scan("orders", keys="k17")


def test_only_a_caller_who_names_the_partitioner_reads_fewer_partitions(tmp_path: Path) -> None:
    # The murmur2 of "k1" sends it to partition 1 of 2; somebody wrote it to partition 0 as well.
    for number in (0, 1):
        log = BuiltLog(tmp_path, f"orders-{number}")
        log.segment([batch([Rec(b"v%d" % number, key=b"k1")])], 0)
    with kafkafs.open(tmp_path) as source:
        assert source.scan("orders", keys=["k1"], columns=["value"]).count() == 2
        fewer = source.scan("orders", keys=["k1"], partitioner={"orders": 2}, columns=["partition"])
        found = fewer.to_arrow()["partition"].to_pylist()
        assert len(found) == 1
        assert found == [_partition_of(b"k1", 2)]
        with pytest.raises(ValueError, match="number of partitions of 'orders' is unknown"):
            source.scan("orders", keys=["k1"], partitioner="murmur2")


def _partition_of(key: bytes, count: int) -> int:
    from engine.coding.checksums import murmur2

    return (murmur2(key) & 0x7FFFFFFF) % count


def test_the_clusters_metadata_states_the_number_of_partitions(current: OpenedSource) -> None:
    scan = current.scan("orders", keys=["k17"], partitioner="murmur2", columns=["offset"])
    cluster = current.cluster
    assert cluster is not None
    count = len(cluster.partitions_of(cluster.topics["orders"].facts["topicId"]))
    whole = current.scan("orders", keys=["k17"], columns=["offset"])
    assert scan.count() == (whole.count() if _partition_of(b"k17", count) == 0 else 0)


# Damage


@pytest.fixture
def damaged(tmp_path: Path) -> tuple[Path, int]:
    """A log dir with a damaged batch of offsets 10 to 19, and its position."""
    log = BuiltLog(tmp_path)
    batches = [text_batch(first, 10) for first in (0, 10, 20)]
    path = log.segment(batches, 0)
    data = bytearray(path.read_bytes())
    data[len(batches[0]) + 70] ^= 1
    path.write_bytes(data)
    return tmp_path, len(batches[0])


def test_damage_is_an_error_by_default(damaged: tuple[Path, int]) -> None:
    folder, position = damaged
    with kafkafs.open(folder) as source:
        for read in (source.scan().to_arrow, source.scan().count, source.scan().to_polars):
            with pytest.raises(Exception, match=f"at byte {position}"):
                read()
        with pytest.raises(kafkafs.CorruptBatchError) as failed:
            source.scan().to_arrow()
        assert failed.value.path == str(folder / "orders-0" / "00000000000000000000.log")
        with pytest.raises(duckdb.Error, match="at byte"):
            source.scan().to_duckdb().fetchall()


def test_damage_is_a_row_or_skipped_on_request(damaged: tuple[Path, int]) -> None:
    folder, position = damaged
    with kafkafs.open(folder) as source:
        skipped = source.scan(on_corrupt="skip", columns=["offset"])
        assert skipped.to_arrow()["offset"].to_pylist() == [*range(10), *range(20, 30)]
        assert skipped.count() == 20
        shown = source.scan(on_corrupt="row")
        rows = shown.to_arrow().to_pylist()
        (hole,) = [json.loads(row["_corrupt"]) for row in rows if row["_corrupt"]]
        assert (hole["position"], hole["firstOffset"], hole["lastOffset"]) == (position, 10, 19)
        assert shown.count() == len(rows) == 21
        assert source.problems[0].position == position


def test_damage_shows_whatever_the_filter_on_rows_says(damaged: tuple[Path, int]) -> None:
    import pyarrow.compute as pc

    folder, _ = damaged
    with kafkafs.open(folder) as source:
        nothing = pc.field("value") == b"nothing"
        rows = source.scan(on_corrupt="row", where=nothing, columns=["offset", "_corrupt"])
        assert [row["offset"] for row in rows.to_arrow().to_pylist()] == [10]
        assert rows.count() == 1
        assert source.scan(on_corrupt="row", where=nothing, columns=["offset"]).count() == 1
        with pytest.raises(kafkafs.CorruptBatchError):
            source.scan(where=nothing).count()
        # What lies outside of the offsets that can match is not read.
        assert source.scan(where=pc.field("offset") >= 20).count() == 10


def test_a_count_without_checksums_reads_headers_and_sees_no_damage_behind_them(
    damaged: tuple[Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, position = damaged
    with kafkafs.open(folder) as source:
        source["orders", 0].view()
        with monkeypatch.context() as patch:
            patch.setattr(LogSegment, "scan", lambda *_, **__: pytest.fail("scanned"))
            assert source.scan().count(checksums=False) == 30
        with pytest.raises(kafkafs.CorruptBatchError):
            source.scan().count()
    path = folder / "orders-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[position + 8] ^= 0x40  # the length, so that the next header is not found
    path.write_bytes(data)
    with kafkafs.open(folder) as source:
        with pytest.raises(kafkafs.CorruptBatchError):
            source.scan().count(checksums=False)
        assert source.scan(on_corrupt="skip").count(checksums=False) == 20
        assert source.scan(on_corrupt="row").count(checksums=False) == 21


def test_a_count_without_checksums_scans_small_batches_and_filters(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    log.segment([batch([Rec(b"v", key=b"k%d" % number)], number) for number in range(100)], 0)
    with kafkafs.open(tmp_path) as source:
        assert source.scan().count(checksums=False) == 100
        assert source.scan(keys=["k7"]).count(checksums=False) == 1
        assert source["orders", 0].count(checksums=False) == 100


def test_damage_counts_in_ranges_that_it_may_have_cost(damaged: tuple[Path, int]) -> None:
    folder, _ = damaged
    with kafkafs.open(folder) as source:
        assert source.scan(offsets=(20, None)).count() == 10
        assert source.scan(offsets=(0, 10)).count() == 10
        for offsets in ((5, 11), (19, 25), (12, 13)):
            with pytest.raises(kafkafs.CorruptBatchError):
                source.scan(offsets=offsets).count()


def test_a_last_segment_that_is_damaged_whole_is_no_empty_log(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    log.segment([text_batch(0, 10)], 0)
    (log.folder / "00000000000000000010.log").write_bytes(b"\x07" * 5000)
    with kafkafs.open(tmp_path) as source:
        with pytest.raises(kafkafs.CorruptBatchError):
            source.scan().to_arrow()
        assert source.scan(on_corrupt="skip").count() == 10
        assert source.scan(on_corrupt="row").count() == 11


# One scan, many uses


def test_a_scan_reads_nothing_before_its_first_batch_and_again_for_each_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = BuiltLog(tmp_path)
    log.segment([text_batch(0, 10)], 0)
    reads = []
    scan_file = LogSegment.scan
    monkeypatch.setattr(
        LogSegment,
        "scan",
        lambda self, *args, **options: reads.append(1) or scan_file(self, *args, **options),
    )
    with kafkafs.open(tmp_path) as source:
        scan = source.scan("orders")
        before = len(reads)
        stream, reader = scan.__arrow_c_stream__(), scan.to_reader()
        assert len(reads) == before
        assert scan.to_arrow().num_rows == scan.count() == 10
        assert reader.read_all().num_rows == 10
        assert len(reads) == before + 3
        del stream


def test_a_reader_that_ends_early_leaves_no_thread(current: OpenedSource) -> None:
    with closing(current.scan(threads=3).to_batches()) as batches:
        assert next(batches).num_rows > 0
    assert [each.name for each in threading.enumerate() if each.name.startswith("scan")] == []
    relation = current.scan("orders").to_duckdb()
    assert len(relation.limit(3).fetchall()) == 3


def test_duckdb_joins_and_repeats_a_relation(current: OpenedSource) -> None:
    with duckdb.connect() as connection:
        orders = current.scan("orders", columns=["key", "offset"]).to_duckdb(connection)
        assert orders.aggregate('count(*), max("offset")').fetchall() == [(1000, 999)]
        twice = orders.set_alias("a").join(orders.set_alias("b"), 'a."offset" = b."offset"')
        assert twice.aggregate("count(*)").fetchall() == [(1000,)]


def test_scans_travel_to_other_processes(current: OpenedSource) -> None:
    import pyarrow.compute as pc

    scan = current.scan("orders", where=pc.field("offset") < 5, columns=["offset"], keys=None)
    again = pickle.loads(pickle.dumps(scan))
    assert again.to_arrow().equals(scan.to_arrow())
    assert "where=<pyarrow.compute.Expression (offset < 5)>" in repr(scan)
    assert repr(again) == repr(scan)


def test_threads_share_a_scan(current: OpenedSource) -> None:
    scan = current.scan()
    wanted, found = scan.to_arrow(), []
    threads = [threading.Thread(target=lambda: found.append(scan.to_arrow())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(each.equals(wanted) for each in found)


def test_options_that_make_no_sense_are_errors(current: OpenedSource) -> None:
    with pytest.raises(ValueError, match="isolation is one of read_uncommitted, read_committed"):
        current.scan("orders", isolation="committed")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="on_corrupt is one of raise, skip, row"):
        current.scan("orders", on_corrupt="fail")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        current.scan("orders", colums=["key"])


def test_a_live_log_that_is_compacted_during_a_scan_gives_the_records_that_are_left(
    tmp_path: Path,
) -> None:
    log = BuiltLog(tmp_path)
    log.segment([text_batch(0, 10), text_batch(10, 10)], 0)
    log.segment([text_batch(20, 10)], 20)
    with kafkafs.open(tmp_path) as source:
        scan = source.scan("orders", columns=["offset"], threads=1)
        batches = scan.to_batches()
        assert next(batches)["offset"].to_pylist() == list(range(20))
        log.compact(20, text_batch(25, 5))
        rest = [offset for each in batches for offset in each["offset"].to_pylist()]
        assert rest == list(range(25, 30))


def test_records_deleted_during_a_scan_are_an_error(tmp_path: Path) -> None:
    shutil.copytree(log_dir("sample") / "orders-0", tmp_path / "orders-0")
    with kafkafs.open(tmp_path) as source:
        batches = source.scan("orders", columns=["offset"], threads=1).to_batches()
        next(batches)
        for base in (0, 395):
            for file in (tmp_path / "orders-0").glob(f"{base:020}.*"):
                file.unlink()
        with pytest.raises(kafkafs.LostRecordsError, match=r"offsets \[395, 790\) of orders-0"):
            list(batches)


def test_decoded_columns_are_the_json_beside_the_bytes() -> None:
    with kafkafs.open(log_dir("schemas-confluent")) as source:
        plain = source.scan(columns=["topic", "offset", "key", "value"]).to_arrow().to_pylist()
        both = (
            source.scan(columns=["topic", "offset", "key", "value", *DECODED])
            .to_arrow()
            .to_pylist()
        )
        shown = source.scan(columns=["key", "value"], decode="json").to_arrow().to_pylist()
        found = source.scan(
            columns=["decodedValue"], where=pc.field("decodedValue").is_valid()
        ).to_arrow()
    assert [{name: row[name] for name in plain[0]} for row in both] == plain
    decoded = 0
    for row, json_row in zip(both, shown, strict=True):
        for name, column in (("key", "decodedKey"), ("value", "decodedValue")):
            text = row[column]
            decoded += text is not None
            assert json_row[name] == (row[name] if text is None else text.encode())
    assert decoded
    assert len(found) == sum(row["decodedValue"] is not None for row in both)


# -- options ---------------------------------------------------------------------------------------


def test_the_limit_is_the_first_rows(current: OpenedSource) -> None:
    everything = current.scan("orders", columns=["partition", "offset"]).to_arrow().to_pylist()
    for limit in (0, 1, 999, 1000, 1001, 2500, 10_000):
        scan = current.scan("orders", columns=["partition", "offset"], limit=limit)
        assert scan.to_arrow().to_pylist() == everything[:limit]
        assert scan.count() == scan.count(checksums=False) == min(limit, len(everything))
        assert pickle.loads(pickle.dumps(scan)).count() == scan.count()


def test_the_limit_counts_rows_behind_the_filters(current: OpenedSource) -> None:
    rows = current.scan(
        "orders", columns=["offset"], limit=3, where=pc.field("offset") > 500
    ).to_arrow()
    assert rows["offset"].to_pylist() == [501, 502, 503]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"colums": ["key"]}, TypeError, "scan has no option 'colums': did you mean columns?"),
        ({"xyz": 1}, TypeError, "scan has no option 'xyz'; it has columns, decode,"),
        ({"threads": 0}, ValueError, "threads is 1 or more, not 0"),
        ({"limit": -1}, ValueError, "limit is 0 or more, not -1"),
        (
            {"decode": True},
            ValueError,
            'decode is "none", "json", "columns" or a function, not True',
        ),
        ({"decode": "struct"}, ValueError, 'decode is "none", "json", "columns" or a function'),
        ({"since": "soon"}, ValueError, "'soon' is not a time such as 2024-01-01, .*-1h, today"),
    ],
)
def test_a_wrong_option_is_an_error_that_says_what_is_right(
    current: OpenedSource, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    for scan in (current.scan, current["orders"].scan, current["orders", 0].scan):
        with pytest.raises(error, match=re.escape(message) if ".*" not in message else message):
            scan(**options)


def test_a_wrong_topic_names_the_nearest_one(current: OpenedSource) -> None:
    for look in (lambda: current["ordres"], lambda: current.scan("ordres")):
        with pytest.raises(KeyError, match="no topic 'ordres': did you mean orders"):
            look()


def test_a_relative_time_is_that_of_the_making_of_the_scan(tmp_path: Path) -> None:
    now = SYSTEM_CLOCK.now_ms()
    log = BuiltLog(tmp_path / "data", "t-0")
    batches = [
        text_batch(n, 1, timestamp=now - ago) for n, ago in enumerate((7_200_000, 1_800_000, 0))
    ]
    log.segment(batches, 0)
    with kafkafs.open(log.log_dir) as source:
        assert source.scan("t", since="-1h", columns=["offset"]).to_arrow()[
            "offset"
        ].to_pylist() == [1, 2]
        scan = source.scan("t", until="-1h")
        assert scan.count() == 1
        assert repr(pickle.loads(pickle.dumps(scan))) == repr(scan)


def test_the_signature_of_each_scan_names_all_options(current: OpenedSource) -> None:
    for scan in (current.scan, current["orders"].scan, current["orders", 0].scan):
        names = [name for name in inspect.signature(scan).parameters if name != "topics"]
        assert names == list(ScanOptions.__annotations__) == list(DEFAULTS)


# -- notebooks -------------------------------------------------------------------------------------


def test_a_notebook_shows_everything_as_a_table(current: OpenedSource) -> None:
    orders = current["orders", 0]
    shown = {
        f"orders</td><td>{len(current['orders'])}</td>": current,
        "<td>1,000</td>": current["orders"],
        "high_watermark": orders,
        "offsets 0 to 1000": orders[:],
        "<td>k286</td>": orders[0],
        "decodedValue": current.scan("orders", columns=["decodedValue"]),
    }
    for words, each in shown.items():
        html = each._repr_html_()
        assert words in html
        assert ElementTree.fromstring(f"<body>{html}</body>").find("table") is not None
    assert "and 980 more" in orders[:]._repr_html_()
    assert "more" not in orders[:20]._repr_html_()
    assert current._ipython_key_completions_() == list(current.topics)
    assert current["orders"]._ipython_key_completions_() == list(current["orders"])


def test_a_notebook_shows_records_up_to_damage_and_then_its_error(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "data", "t-0")
    damaged = text_batch(2, 2)[:-1] + b"\xff"
    log.segment([text_batch(0, 2), damaged, text_batch(4, 1)], 0)
    with kafkafs.open(log.log_dir) as source:
        html = source["t", 0][:]._repr_html_()
    assert html.count("<tr>") == 1 + 2 + 1
    assert "at byte 118" in html


# -- live logs -------------------------------------------------------------------------------------


def test_a_range_of_a_growing_log_has_as_many_rows_as_offsets(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "data", "t-0")
    log.segment([text_batch(0, 3)], 0)
    with kafkafs.open(log.log_dir) as source:
        some = source["t", 0][:]
        log.append(text_batch(3, 2))
        assert len(some) == some.scan().to_arrow().num_rows == len(list(some)) == 3
        with pytest.raises(TypeError, match="a range has its offsets"):
            some.scan(offsets=(0, 1))
