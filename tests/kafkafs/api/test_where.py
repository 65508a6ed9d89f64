"""Filters on rows: the same rows as a filter on the whole table, and fewer bytes read."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kafkafs
from engine.log.segment.scan import BatchRun
from engine.units import TopicPartition
from kafkafs.api.opened_source import OpenedSource
from tests.builders import Rec, batch
from tests.fixtures_data import log_dir
from tests.kafkafs.built_logs import BuiltLog

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[arrow]'")
import pyarrow.compute as pc  # noqa: E402

from kafkafs.table.where_filter import WhereFilter  # noqa: E402

F = pc.field
DAY = datetime(2023, 11, 14, 22, 30, tzinfo=UTC)
EXPRESSIONS = {
    "offset": (F("offset") >= 100) & (F("offset") < 200),
    "offsets": F("offset").isin([5, 17, 400]),
    "not": ~(F("offset") > 3),
    "or": (F("offset") == 3) | (F("key") == b"k17"),
    "arithmetic": pc.equal(pc.bit_wise_and(F("offset"), 63), 7),
    "partition": F("partition") == 0,
    "no such partition": F("partition") == 99,
    "topic": F("topic") == "txn",
    "topics": F("topic").isin(["txn", "orders", "nothing"]),
    "timestamp": F("timestamp") >= DAY,
    "timestamp before": F("timestamp") < DAY,
    "no timestamp": F("timestamp").is_null(),
    "timestamp or none": F("timestamp").is_null() | (F("timestamp") >= DAY),
    "codec": F("codec") == "gzip",
    "codecs": F("codec") != "none",
    "key": F("key") == b"k17",
    "keys": F("key").isin([b"k17", b"k3", b"nothing"]),
    "key and value": (F("key") == b"k17")
    & pc.match_substring(F("value").cast(pa.string(), safe=False), "Oslo"),
    "key or null": (F("key") == b"k17") | F("key").is_null(),
    "other keys": F("key") != b"k17",
    "keys between": (F("key") >= b"k17") & (F("key") < b"k2"),
    "two keys at once": (F("key") == b"k17") & (F("key") == b"k3"),
    "value": pc.match_substring(F("value").cast(pa.string(), safe=False), "Oslo"),
    "transaction": F("transaction") == "aborted",
    "null key": F("key").is_null(),
    "everything": pc.scalar(True),
    "nothing": pc.scalar(False),
    "mixed": (F("topic") == "orders") & (F("offset") > 990) & (F("timestamp") >= DAY),
}


@pytest.fixture(scope="module")
def current() -> Iterator[OpenedSource]:
    with kafkafs.open(log_dir("current")) as source:
        yield source


@pytest.fixture(scope="module")
def legacy() -> Iterator[OpenedSource]:
    with kafkafs.open(log_dir("legacy")) as source:
        yield source


@pytest.fixture(scope="module")
def whole(current: OpenedSource, legacy: OpenedSource) -> dict[str, Any]:
    from kafkafs.forms.arrow.arrow_columns import RECORD_FIELDS

    return {
        name: source.scan(columns=list(RECORD_FIELDS)).to_arrow()
        for name, source in (("current", current), ("legacy", legacy))
    }


@pytest.mark.parametrize("kind", ["current", "legacy"])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_rows_are_those_of_the_filtered_table(
    name: str, kind: str, whole: dict[str, Any], current: OpenedSource, legacy: OpenedSource
) -> None:
    source = current if kind == "current" else legacy
    where = EXPRESSIONS[name]
    columns = ["topic", "partition", "offset"]
    wanted = whole[kind].filter(where).select(columns)
    scan = source.scan(where=where, columns=columns)
    assert scan.to_arrow().to_pylist() == wanted.to_pylist()
    assert scan.count() == wanted.num_rows


def read_batches(monkeypatch: pytest.MonkeyPatch, scan: kafkafs.Scan) -> int:
    """The number of batches of which a scan decodes records."""
    decoded = []
    columns = BatchRun.columns

    def counting(self: BatchRun, table: Any = None, *args: Any) -> Any:
        decoded.append(len(self.table if table is None else table))
        return columns(self, table, *args)

    monkeypatch.setattr(BatchRun, "columns", counting)
    scan.to_arrow()
    monkeypatch.undo()
    return sum(decoded)


@pytest.fixture
def built(tmp_path: Path) -> OpenedSource:
    """Two partitions of 100 batches with 10 records, a second apart, every other batch in gzip."""
    from engine.coding.compression import CompressionType

    for number in (0, 1):
        log = BuiltLog(tmp_path, f"orders-{number}")
        batches = [
            batch(
                [Rec(b"v", timestamp=(base + place) * 1000) for place in range(10)],
                base,
                CompressionType.GZIP if base % 20 else CompressionType.NONE,
            )
            for base in range(0, 1000, 10)
        ]
        log.segment(batches, 0, index_interval=512)
    return kafkafs.open(tmp_path)


MOST_READ: dict[str, tuple[Callable[[], Any], int]] = {
    "partition": (lambda: F("partition") == 1, 100),
    "offset": (lambda: (F("offset") == 505) & (F("partition") == 0), 12),
    "offset range": (lambda: F("offset") >= 990, 24),
    "timestamp": (lambda: F("timestamp") >= pa.scalar(990_000, pa.timestamp("ms", "UTC")), 2),
    "codec": (lambda: F("codec") == "gzip", 100),
    "nothing": (lambda: pc.scalar(False), 0),
}


@pytest.mark.parametrize("name", MOST_READ)
def test_batches_without_a_wanted_row_are_not_decoded(
    name: str, built: OpenedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, most = MOST_READ[name]
    assert read_batches(monkeypatch, built.scan(columns=["offset"])) == 200
    scan = built.scan(where=where(), columns=["offset"])
    assert (scan.count() > 0) == (name != "nothing")
    assert read_batches(monkeypatch, scan) <= most


def test_a_null_timestamp_is_never_ruled_out_by_a_bound(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    log.segment([batch([Rec(b"old", timestamp=-1)]), batch([Rec(b"new", timestamp=5000)], 1)], 0)
    moment = pa.scalar(4000, pa.timestamp("ms", "UTC"))
    with kafkafs.open(tmp_path) as source:
        either = F("timestamp").is_null() | (F("timestamp") >= moment)
        assert source.scan(where=either).count() == 2
        assert source.scan(where=F("timestamp") >= moment).count() == 1
        assert source.scan(where=F("timestamp").is_valid()).count() == 1


def test_the_smallest_range_of_offsets_is_found_exactly() -> None:
    from kafkafs.table.where_filter import WhereFilter

    place = TopicPartition("orders", 3)
    for where, bounds in (
        ((F("offset") >= 100) & (F("offset") < 200), (100, 200)),
        (F("offset").isin([7, 5, 1000]), (5, 1001)),
        ((F("partition") == 3) & (F("offset") == 4) | (F("partition") == 2), (4, 5)),
        (F("offset") > 5000, (3000, 3000)),
        (F("value") == b"x", (0, 3000)),
    ):
        assert WhereFilter(where).offsets(place, 0, 3000) == bounds


def test_what_is_no_expression_over_the_columns_is_an_error(current: OpenedSource) -> None:
    with pytest.raises(TypeError, match=r"an expression of pyarrow\.compute, not 'offset > 5'"):
        current.scan("orders", where="offset > 5")  # type: ignore[arg-type]
    with pytest.raises(KeyError, match=r"FieldRef.Name\(ofset\)"):
        current.scan("orders", where=F("ofset") > 5)
    with pytest.raises(pa.ArrowNotImplementedError):
        current.scan("orders", where=F("offset") > "5")


def test_a_filter_travels_and_shows_itself() -> None:
    from kafkafs.table.where_filter import WhereFilter

    where = WhereFilter((F("offset") > 5) & (F("key") == b"k"))
    assert pickle.loads(pickle.dumps(where)).columns == where.columns == ("key", "offset")
    assert "offset > 5" in repr(where)


def test_explain_tells_what_is_read(built: OpenedSource) -> None:
    moment = pa.scalar(5000, pa.timestamp("ms", "UTC"))
    scan = built.scan(
        "orders",
        where=(F("partition") == 1)
        & (F("offset") < 10)
        & (F("codec") == "none")
        & (F("timestamp") >= moment),
        columns=["value"],
        keys=["k"],
        threads=1,
    )
    text = scan.explain()
    assert re.match(r"1 partition, 1 split, [0-9.]+ k?B? ?(bytes )?of records files\n", text)
    assert (
        "\n  orders-1: offsets 0 to 10\ncolumns: value\nkeys: 1 key, looked for in all partitions\n"
        in text
    )
    assert "\n  only batches of codec none\n" in text
    assert (
        "\n  only batches with a timestamp at or after 5000\n1 thread, isolation read_uncommitted"
        in text
    )


@pytest.mark.parametrize(
    ("expression", "keys"),
    [
        (F("key") == b"a", (b"a",)),
        (F("key") == b"", (b"",)),
        ((F("key") == b"b") | (F("key") == b"a"), (b"a", b"b")),
        (F("key").isin([b"a", b"b"]), (b"a", b"b")),
        (~(F("key") != b"a"), (b"a",)),
        ((F("key") == b"a") & (F("value") == b"v"), (b"a",)),
        ((F("key") == b"a") | F("key").is_null(), (b"a", None)),
        ((F("key") == b"a") & (F("key") == b"b"), ()),
        ((F("key") == b"a") | (F("value") == b"v"), None),
        (F("key") != b"a", None),
        (F("key") >= b"a", None),
        (pc.equal(pc.binary_length(F("key")), 1), None),
        (F("value") == b"a", None),
        (F("key").isin([b"%d" % each for each in range(100)]), None),
    ],
    ids=str,
)
def test_keys_are_known_where_no_other_key_can_be_wanted(
    expression: Any, keys: tuple[bytes | None, ...] | None
) -> None:
    assert WhereFilter(expression).keys == keys


def test_where_on_decoded_keys_filters_no_bytes(current: OpenedSource) -> None:
    scan = current.scan("orders", columns=["key"], where=F("key") == b'"k17"', decode="json")
    plain = current.scan("orders", columns=["key"], decode="json").to_arrow()
    assert scan.to_arrow() == plain.filter(F("key") == b'"k17"')
