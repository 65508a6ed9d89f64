"""Damage at the ends of things: of a log, of a split, of a range of offsets."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from engine.errors import CorruptRecordError
from tests.builders import batch, patched, resealed, values
from tests.fixtures_data import log_dir

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")

SCHEMA = pa.schema([("offset", pa.int64()), ("_corrupt", pa.string())])


def rows_of(folder: Path, **options: str) -> list[dict[str, Any]]:
    from kafkafs.spark.source.options.read_options import parse_options
    from kafkafs.spark.source.planning.batch_plan import plan_batch
    from kafkafs.spark.source.rows import SplitReader

    given = parse_options({"path": str(folder)} | options)
    reader = SplitReader(SCHEMA, given)
    return [
        row
        for split in plan_batch(given)
        for batch in reader.read(split)
        for row in batch.to_pylist()
    ]


def offsets(rows: list[dict[str, Any]]) -> list[int]:
    return [row["offset"] for row in rows if not row["_corrupt"]]


def holes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [json.loads(row["_corrupt"]) for row in rows if row["_corrupt"]]


@pytest.fixture(autouse=True)
def tasks_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkafs.spark import data_source

    monkeypatch.setattr(data_source, "make_ready", lambda: None)


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    folder = tmp_path / "orders-0"
    shutil.copytree(log_dir("current") / "orders-0", folder)
    return folder


def batches(log: Path) -> list[tuple[int, int, int]]:
    """Position, size and base offset of each batch."""
    data, position, found = log.read_bytes(), 0, []
    while position < len(data):
        base, length = struct.unpack_from(">qi", data, position)
        found.append((position, length + 12, base))
        position += length + 12
    return found


def flip(log: Path, position: int) -> None:
    data = bytearray(log.read_bytes())
    data[position] ^= 0x40
    log.write_bytes(data)


@pytest.mark.parametrize("size", ["9k", "64m"])
def test_a_damaged_last_batch_of_the_log_is_not_passed_over(orders: Path, size: str) -> None:
    log = max(orders.glob("*.log"))
    position, length, base = batches(log)[-1]
    flip(log, position + 80)
    with pytest.raises(CorruptRecordError):
        rows_of(orders, splitBytes=size)
    assert offsets(rows_of(orders, splitBytes=size, onCorrupt="skip")) == list(range(base))
    (hole,) = holes(rows_of(orders, splitBytes=size, onCorrupt="row"))
    assert (hole["position"], hole["length"], hole["firstOffset"]) == (position, length, base)


@pytest.mark.parametrize(
    "options",
    [{}, {"minPartitions": "3"}, {"maxRecordsPerPartition": "10"}, {"view": "batches"}],
    ids=str,
)
def test_a_log_that_is_damaged_whole_is_not_taken_for_an_empty_one(
    orders: Path, options: dict[str, str]
) -> None:
    first, *others = sorted(orders.glob("*.log"))
    for log in others:
        log.unlink()
    first.write_bytes(b"\x07" * 5000)
    with pytest.raises(CorruptRecordError):
        read_all(orders, **options)
    (row,) = read_all(orders, onCorrupt="row", **options)
    facts = json.loads(row["_corrupt"])
    assert (facts["file"], facts["position"], facts["length"]) == (str(first), 0, 5000)
    assert read_all(orders, onCorrupt="skip", **options) == []


def read_all(folder: Path, **options: str) -> list[dict[str, Any]]:
    """All rows that the tasks of a frame give."""
    from kafkafs.spark import data_source

    source = data_source.KafkaLogDataSource({"path": str(folder)} | options)
    schema = source.schema()
    schema = type(schema)([field for field in schema if field.name in ("topic", "_corrupt")])
    reader = source.reader(schema)
    return [
        row
        for task in reader.partitions()
        for batch in reader.read(task)
        for row in batch.to_pylist()
    ]


def test_a_batch_that_is_cut_off_at_the_logs_end_was_never_in_it(orders: Path) -> None:
    log = max(orders.glob("*.log"))
    position, _, base = batches(log)[-1]
    log.write_bytes(log.read_bytes()[: position + 100])
    for how in ("fail", "skip"):
        assert offsets(rows_of(orders, onCorrupt=how)) == list(range(base))
    (hole,) = holes(rows_of(orders, onCorrupt="row"))
    assert (hole["kind"], hole["position"], hole["length"]) == ("torn_tail", position, 100)


def test_a_batch_that_is_cut_off_inside_the_log_is_damage(orders: Path) -> None:
    log = min(orders.glob("*.log"))
    position, _, base = batches(log)[-1]
    log.write_bytes(log.read_bytes()[: position + 100])
    with pytest.raises(CorruptRecordError):
        rows_of(orders)
    following = int(sorted(orders.glob("*.log"))[1].stem)
    wanted = [*range(base), *range(following, 1000)]
    assert offsets(rows_of(orders, onCorrupt="skip")) == wanted


@pytest.mark.parametrize("size", ["3k", "5k", "64m"])
@pytest.mark.parametrize("at", [57, 80], ids=["count", "records"])
def test_each_hole_is_one_row_wherever_a_split_ends(orders: Path, size: str, at: int) -> None:
    log = min(orders.glob("*.log"))
    hurt = batches(log)[3:-3:7]
    for position, _, _ in hurt:
        flip(log, position + at)
    rows = rows_of(orders, splitBytes=size, onCorrupt="row")
    assert [hole["position"] for hole in holes(rows)] == [position for position, _, _ in hurt]
    lost = {
        each for hole in holes(rows) for each in range(hole["firstOffset"], hole["lastOffset"] + 1)
    }
    assert offsets(rows) == [each for each in range(1000) if each not in lost]


@pytest.mark.parametrize(("place", "size", "stop"), [(11, "1k", 160), (-1, "64m", 1000)])
def test_a_batch_that_states_offsets_of_what_follows_it_does_not_hide(
    orders: Path, place: int, size: str, stop: int
) -> None:
    """The last one of a split or of a segment, which nothing there contradicts."""
    log = min(orders.glob("*.log"))
    position, _, base = batches(log)[place]
    flip(log, position)
    options = {"splitBytes": size, "endingOffsets": json.dumps({"orders": {"0": stop}})}
    with pytest.raises(CorruptRecordError, match="states offsets of"):
        rows_of(orders, **options)
    (hole,) = holes(rows_of(orders, **options, onCorrupt="row"))
    assert (hole["position"], hole["found"] >> 32) == (position, 0x4000_0000)
    assert base not in offsets(rows_of(orders, **options, onCorrupt="skip"))


@pytest.mark.parametrize("size", ["3k", "64m"])
@pytest.mark.parametrize("at", [0, 5, 7], ids=["high", "middle", "low"])
def test_a_batch_whose_base_offset_is_wrong_does_not_hide(orders: Path, size: str, at: int) -> None:
    """No checksum covers a base offset: the batch is out of place, and not the ones after it."""
    log = min(orders.glob("*.log"))
    position, _, base = batches(log)[3]
    after = batches(log)[4]
    flip(log, position + at)
    with pytest.raises(CorruptRecordError, match="states offsets of"):
        rows_of(orders, splitBytes=size)
    (hole,) = holes(rows_of(orders, splitBytes=size, onCorrupt="row"))
    assert (hole["kind"], hole["position"]) == ("offset_order", position)
    found = offsets(rows_of(orders, splitBytes=size, onCorrupt="skip"))
    assert set(range(1000)) - set(found) == set(range(base, after[2]))
    bounds = {
        "startingOffsets": json.dumps({"orders": {"0": base}}),
        "endingOffsets": json.dumps({"orders": {"0": after[2]}}),
    }
    with pytest.raises(CorruptRecordError, match="states offsets of"):
        rows_of(orders, **bounds)
    rows = rows_of(orders, maxRecordsPerPartition="300", onCorrupt="row")
    assert len(holes(rows)) == 1


@pytest.mark.parametrize("most", ["20", "1000"])
def test_a_hole_across_the_border_of_two_ranges_is_told_of_once(orders: Path, most: str) -> None:
    log = min(orders.glob("*.log"))
    hurt = batches(log)[2::5]
    for position, _, _ in hurt:
        flip(log, position + 80)
    rows = rows_of(orders, maxRecordsPerPartition=most, onCorrupt="row")
    assert [hole["position"] for hole in holes(rows)] == [position for position, _, _ in hurt]
    assert offsets(rows) == offsets(rows_of(orders, onCorrupt="skip"))


def test_damage_outside_of_the_range_is_not_its_business(orders: Path) -> None:
    log = min(orders.glob("*.log"))
    position, _, base = batches(log)[2]
    after = batches(log)[3][2]
    flip(log, position + 80)
    for first, stop in ((0, base), (after, 200)):
        bounds = {
            "startingOffsets": json.dumps({"orders": {"0": first}}),
            "endingOffsets": json.dumps({"orders": {"0": stop}}),
        }
        assert offsets(rows_of(orders, **bounds)) == list(range(first, stop))


def test_a_segment_that_was_rewritten_under_the_same_number_is_read_by_offsets(
    orders: Path,
) -> None:
    """A file system gives a new file the number of one that was removed."""
    from kafkafs.spark.source.options.read_options import parse_options
    from kafkafs.spark.source.planning.batch_plan import plan_batch
    from kafkafs.spark.source.rows import SplitReader

    given = parse_options({"path": str(orders), "splitBytes": "9k"})
    splits = plan_batch(given)
    log = min(orders.glob("*.log"))
    places = batches(log)
    data = log.read_bytes()
    position, size, base = places[1]
    log.write_bytes(data[:position] + data[position + size :])  # as compaction leaves it
    reader = SplitReader(SCHEMA, given)
    found = [row["offset"] for split in splits for b in reader.read(split) for row in b.to_pylist()]
    assert found == [*range(base), *range(places[2][2], 1000)]


@pytest.mark.parametrize("most", ["3", "4", "1000"])
def test_records_that_do_not_decode_are_told_of_once(tmp_path: Path, most: str) -> None:
    """The checksum is right, and the eleventh record's length is not."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    data = b"".join(batch(values(*map(str, range(20))), base_offset=base) for base in (0, 20, 40))
    size = len(data) // 3
    record = (size - 61) // 20
    hurt = resealed(patched(data[size : 2 * size], 61 + 10 * record, b"\x02"))
    log = folder / f"{0:020}.log"
    log.write_bytes(data[:size] + hurt + data[2 * size :])
    rows = rows_of(folder, maxRecordsPerPartition=most, onCorrupt="row")
    (hole,) = holes(rows)
    assert (hole["position"], hole["firstOffset"], hole["lastOffset"]) == (size, 30, 39)
    assert offsets(rows) == [*range(30), *range(40, 60)]
    bounds = {"endingOffsets": '{"t":{"0":30}}', "maxRecordsPerPartition": most}
    assert offsets(rows_of(folder, **bounds)) == list(range(30))
