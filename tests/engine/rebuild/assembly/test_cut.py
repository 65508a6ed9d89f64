"""A cut holds exactly the records that were asked for, with everything that was said of them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from engine.coding.compression import CompressionType
from engine.log.view.log_bound import LogBound
from engine.rebuild.assembly.cut import cut_batch
from engine.rebuild.options import RebuildOptions
from engine.rebuild.rebuilding import rebuild
from engine.record.record_batch import make_batch
from tests import builders
from tests.builders import LOG_APPEND_TIME, Producer, Rec
from tests.engine.rebuild.made_logs import START, MadeLog, facts_of, holes, make_log
from tests.fixtures_data import log_dir, truth_records


def cut_to(
    tmp_path: Path, start: LogBound | None, stop: LogBound | None, *, whole: bool = False
) -> dict[str, object]:
    options = RebuildOptions(start=start, stop=stop, whole_batches=whole, allow_empty=True)
    [report] = rebuild(str(tmp_path / "source"), str(tmp_path / "target"), options).partitions
    return report


@pytest.mark.parametrize("seed", range(12))
def test_the_records_between_two_offsets_are_there_and_no_others(tmp_path, seed):
    random = Random(seed)
    made = make_log(tmp_path / "source", random, first=random.choice([0, 1000]))
    first = made.bases[0]
    start, stop = sorted(random.sample(range(first, made.next_offset), 2))
    report = cut_to(tmp_path, LogBound(offset=start), LogBound(offset=stop))
    assert (report["logStartOffset"], report["logEndOffset"]) == (start, stop)
    assert report["losses"] == []
    expected = {
        offset: each
        for offset, each in facts_of(tmp_path / "source").items()
        if start <= offset < stop
    }
    found = facts_of(tmp_path / "target", below=True)
    assert found.keys() == expected.keys()
    open_from = report["lastStableOffset"]
    for offset, each in expected.items():
        # The marker that tells a transaction's fate may lie behind the cut.
        fate = found[offset].fate if offset >= open_from else each.fate
        assert found[offset] == each._replace(fate=fate)


@pytest.mark.parametrize("seed", range(4))
def test_whole_batches_stay_byte_for_byte(tmp_path, seed):
    random = Random(seed)
    made = make_log(tmp_path / "source", random)
    start, stop = sorted(random.sample(range(made.next_offset), 2))
    report = cut_to(tmp_path, LogBound(offset=start), LogBound(offset=stop), whole=True)
    inside = [
        batch
        for _, _, batch in made.batches
        if builders.last_offset(batch) >= start and int.from_bytes(batch[:8], "big") < stop
    ]
    kept = b"".join(
        path.read_bytes() for path in sorted((tmp_path / "target/orders-0").glob("*.log"))
    )
    assert kept == b"".join(inside)
    assert report["logStartOffset"] <= start
    assert report["logEndOffset"] >= stop


@pytest.mark.parametrize("seed", range(6))
def test_a_period_is_cut_where_the_first_record_at_or_after_each_end_is(tmp_path, seed):
    random = Random(seed)
    make_log(tmp_path / "source", random, transactions=False)
    source = facts_of(tmp_path / "source")
    times = sorted(random.sample(range(START - 5000, START + len(source) * 1000 + 5000), 2))
    bounds = [
        next((each.offset for each in source.values() if each.timestamp >= time), len(source))
        for time in times
    ]
    cut_to(tmp_path, LogBound(timestamp=times[0]), LogBound(timestamp=times[1]))
    found = facts_of(tmp_path / "target")
    assert list(found) == list(range(*bounds))
    assert all(found[offset] == source[offset] for offset in found)


@pytest.mark.parametrize(
    ("start", "stop"), [(None, 20), (20, None), (0, 10**9), (10**9, None), (30, 30), (40, 10)]
)
def test_bounds_outside_of_the_log_or_of_each_other(tmp_path, start, stop):
    made = make_log(tmp_path / "source", Random(2), transactions=False)
    bounds = [None if each is None else LogBound(offset=each) for each in (start, stop)]
    report = cut_to(tmp_path, *bounds)
    low = min(start or 0, made.next_offset)
    high = max(low, min(made.next_offset if stop is None else stop, made.next_offset))
    assert (report["logStartOffset"], report["logEndOffset"]) == (low, high)
    assert list(facts_of(tmp_path / "target")) == list(range(low, high))


@pytest.mark.parametrize("codec", CompressionType)
@pytest.mark.parametrize("append_time", [False, True])
def test_a_cut_batch_keeps_all_that_is_said_of_its_records(codec, append_time):
    records = [
        Rec(b"v%d" % at, None if at % 3 else b"k", START + 17 * at, [(b"h", None), (b"h", b"x")])
        for at in range(10)
    ]
    data = builders.batch(
        records,
        100,
        codec,
        producer=Producer(id=5, epoch=3, sequence=2**31 - 4),
        transactional=True,
        leader_epoch=7,
        **(
            {"timestamp_type": LOG_APPEND_TIME, "log_append_time": START + 5} if append_time else {}
        ),
    )
    made = cut_batch(data, 103, 108)
    assert made is not None
    old, new = (make_batch(each, file_position=0, path=None) for each in (data, made.data))
    new.ensure_valid()
    expected = list(old.records())[3:8]
    for before, after in zip(expected, new.records(), strict=True):
        assert (after.offset, after.timestamp, after.key, after.value, after.headers) == (
            *(before.offset, before.timestamp, before.key, before.value, before.headers),
        )
        assert (after.sequence, after.leader_epoch) == (before.sequence, before.leader_epoch)
        assert after.timestamp_type is before.timestamp_type
    for name in ("producer_id", "producer_epoch", "is_transactional", "compression", "is_control"):
        assert getattr(new, name) == getattr(old, name)
    assert (new.base_offset, new.last_offset) == (103, 107)


def test_a_batch_that_lies_inside_is_not_made_anew():
    data = builders.batch([Rec(b"a"), Rec(b"b")], 10)
    made = cut_batch(data, 10, 12)
    assert made is not None
    assert not made.data
    assert cut_batch(data, 12, 20) is None


@pytest.mark.parametrize("partition", ["v0-gzip-0", "v0-none-0", "v1-lz4-0", "upgraded-0"])
def test_message_sets_of_old_formats_are_cut_too(tmp_path, partition):
    topic = partition.rpartition("-")[0]
    if not (log_dir("legacy") / partition).is_dir():
        pytest.fail(f"the test data has no {partition}")
    truth = truth_records("legacy", partition)
    start, stop = truth[37].offset, truth[-41].offset
    options = RebuildOptions(
        topics=(topic,), start=LogBound(offset=start), stop=LogBound(offset=stop)
    )
    rebuild(str(log_dir("legacy")), str(tmp_path / "target"), options)
    found = facts_of(tmp_path / "target", partition)
    expected = [record for record in truth if start <= record.offset < stop]
    assert [
        (each.offset, max(each.timestamp, 0), each.key, each.value) for each in found.values()
    ] == [(each.offset, each.timestamp, each.key, each.value) for each in expected]


def test_an_edge_that_cannot_be_read_is_named_and_left_out(tmp_path):
    made = MadeLog(tmp_path / "source")
    made.folder.mkdir(parents=True)
    whole = builders.batch([Rec(b"x")] * 5, 0)
    odd = builders.batch([Rec(b"y")] * 5, 5, section=b"no records")
    made.path(0).write_bytes(whole + odd)
    report = cut_to(tmp_path, None, LogBound(offset=7))
    assert [each["kind"] for each in report["dropped"]] == ["cannot_be_cut"]
    assert holes(report) == [(5, 7)]
    assert list(facts_of(tmp_path / "target")) == list(range(5))


def test_damage_outside_of_a_cut_is_no_loss(tmp_path):
    made = make_log(tmp_path / "source", Random(2), transactions=False)
    base, position, batch = made.batches[-5]
    data = bytearray(made.path(base).read_bytes())
    data[position + len(batch) - 1] ^= 1
    made.path(base).write_bytes(data)
    first = int.from_bytes(batch[:8], "big")
    options = RebuildOptions(start=LogBound(offset=3), stop=LogBound(offset=first))
    assert not rebuild(str(tmp_path / "source"), str(tmp_path / "target"), options).lost_something
    options = RebuildOptions(start=LogBound(offset=3), stop=LogBound(offset=first + 1))
    assert rebuild(str(tmp_path / "source"), None, options).lost_something
