"""What a stream takes for a record: whole batches, around damage, below open transactions."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")

from engine.errors import CorruptRecordError
from tests import builders
from tests.builders import Producer, Rec
from tests.kafkafs.built_logs import BuiltLog, after_a_tick
from tests.kafkafs.spark.streaming.engine_calls import EARLIEST, Query, grow, offsets_of

pytestmark = pytest.mark.usefixtures("look_each_time")

# Bytes


@pytest.mark.parametrize("on_corrupt", ["fail", "skip", "row"])
def test_a_batch_that_is_being_written_is_read_when_it_is_there(
    orders: BuiltLog, on_corrupt: str
) -> None:
    query = Query(orders.log_dir, onCorrupt=on_corrupt, **EARLIEST)
    run = query.run()
    batch = builders.batch([Rec(b"%d" % i) for i in range(10, 14)], 10)
    for part in (batch[:7], batch[7:40], batch[40:-1]):
        with open(orders.active, "ab") as file:
            file.write(part)
        run.all()
        assert offsets_of(query) == list(range(10))
    with open(orders.active, "ab") as file:
        file.write(batch[-1:])
    run.all()
    assert offsets_of(query) == list(range(14))
    assert query.ends == [{"orders": {"0": 10}}, {"orders": {"0": 14}}]


def test_a_batch_cut_off_at_the_end_of_a_copy_is_no_hole_of_a_stream(orders: BuiltLog) -> None:
    batch = builders.batch([Rec(b"%d" % i) for i in range(10, 14)], 10)
    orders.append(batch[:-9])
    orders.next_offset = 14
    query = Query(orders.log_dir, onCorrupt="row", **EARLIEST)
    run = query.run()
    run.all()
    with open(orders.active, "ab") as file:
        file.write(batch[-9:])
    grow(orders, 2)
    run.all()
    assert offsets_of(query) == list(range(16))


def test_the_zeros_of_a_preallocated_file_are_no_records(orders: BuiltLog) -> None:
    end = orders.active.stat().st_size
    with open(orders.active, "r+b") as file:
        file.truncate(end + 100_000)
    query = Query(orders.log_dir, onCorrupt="row", **EARLIEST)
    run = query.run()
    run.all()
    with open(orders.active, "r+b") as file:
        file.seek(end)
        file.write(builders.batch([Rec(b"10")], 10))
    run.all()
    assert offsets_of(query) == list(range(11))


def spoil(log: BuiltLog, batch: bytes) -> None:
    """Flip a bit in a batch's records."""
    data = bytearray(log.active.read_bytes())
    data[data.index(batch) + len(batch) - 2] ^= 1
    log.active.write_bytes(data)


def test_a_hole_is_one_row_however_micro_batches_divide_it(orders: BuiltLog) -> None:
    bad = builders.batch([Rec(b"bad %d" % i) for i in range(6)], 10)
    orders.append(bad)
    grow(orders, 4)
    spoil(orders, bad)
    for limit in (1, 3, 7, 100):
        query = Query(orders.log_dir, onCorrupt="row", maxOffsetsPerTrigger=limit, **EARLIEST)
        query.run().all()
        assert [row["offset"] for row in query.rows if not row["_corrupt"]] == [
            *range(10), *range(16, 20),
        ]  # fmt: skip
        (hole,) = [json.loads(row["_corrupt"]) for row in query.rows if row["_corrupt"]]
        assert (hole["firstOffset"], hole["lastOffset"]) == (10, 15)


def test_a_query_that_begins_inside_of_a_hole_tells_of_it(orders: BuiltLog) -> None:
    bad = builders.batch([Rec(b"bad %d" % i) for i in range(6)], 10)
    orders.append(bad)
    grow(orders, 4)
    spoil(orders, bad)
    query = Query(
        orders.log_dir,
        onCorrupt="row",
        startingOffsets='{"orders":{"0":12}}',
        maxOffsetsPerTrigger=2,
    )
    query.run().all()
    assert sum(row["_corrupt"] is not None for row in query.rows) == 1


def test_damage_stops_the_query_unless_it_is_to_be_skipped(orders: BuiltLog) -> None:
    bad = builders.batch([Rec(b"bad")], 10)
    orders.append(bad)
    grow(orders, 1)
    spoil(orders, bad)
    with pytest.raises(CorruptRecordError, match=r"onCorrupt=skip"):
        Query(orders.log_dir, **EARLIEST).run().trigger()
    query = Query(orders.log_dir, onCorrupt="skip", **EARLIEST)
    query.run().all()
    assert offsets_of(query) == [*range(10), 11]


def test_a_stream_of_committed_records_waits_for_open_transactions(orders: BuiltLog) -> None:
    writer = Producer(id=7)
    query = Query(orders.log_dir, isolationLevel="read_committed", **EARLIEST)
    run = query.run()

    def write(first: int, sequence: int) -> None:
        producer = Producer(id=7, sequence=sequence)
        data = builders.batch([Rec(b"t")] * 2, first, producer=producer, transactional=True)
        orders.append(data)

    write(10, 0)
    run.all()
    assert offsets_of(query) == list(range(10))
    grow(orders, 1)
    run.all()
    assert offsets_of(query) == list(range(10))
    orders.append(builders.end_marker(13, writer, commit=False))
    run.all()
    assert offsets_of(query) == [*range(10), 12]
    write(14, 2)
    orders.append(builders.end_marker(16, writer, commit=True))
    run.all()
    assert offsets_of(query) == [*range(10), 12, 14, 15]


def test_a_stream_can_stay_below_what_is_replicated(orders: BuiltLog) -> None:
    def note(offset: int) -> None:
        path = orders.log_dir / "replication-offset-checkpoint"
        path.with_suffix(".tmp").write_text(f"0\n1\norders 0 {offset}\n")
        path.with_suffix(".tmp").replace(path)
        after_a_tick()

    note(4)
    query = Query(orders.log_dir, endAt="highWatermark", **EARLIEST)
    run = query.run()
    run.all()
    assert offsets_of(query) == list(range(4))
    grow(orders, 5)
    note(11)
    run.all()
    assert offsets_of(query) == list(range(11))
