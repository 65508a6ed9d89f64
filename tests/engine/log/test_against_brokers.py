"""Every partition that a real broker wrote, judged by what that broker answered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from engine import kernel
from engine.log.log_directory import open_source
from engine.log.segment.scan import BatchRun
from engine.log.view.log_view import LogView
from engine.log.view.stable_offset import epochs_of_batches
from engine.record.attributes import CONTROL_MASK
from engine.record.fate import Fate
from tests.fixtures_data import (
    WITH_TRUTH,
    TruthRecord,
    copy_of,
    log_dir,
    truth_offsets,
    truth_partitions,
    truth_records,
)

PARTITIONS = [(kind, name) for kind in WITH_TRUTH for name in truth_partitions(kind)]
LIMITED = [
    ("current", "orders-0"),
    ("current", "txn-0"),
    ("current", "compacted-0"),
    ("current", "trimmed-0"),
    ("current", "open-txn-0"),
    ("live", "txn-0"),
    ("legacy", "upgraded-0"),
]


def ids(pair: object) -> str:
    return str(pair)[:30]


def view_of(folder: Path, name: str) -> LogView:
    return open_source(str(folder)).partitions()[name].view()


def records_of(view: LogView, *, committed: bool = False) -> list[TruthRecord]:
    """What a consumer would see, by the fates of batches and the stable offset."""
    found = []
    stop = view.last_stable_offset if committed else view.log_end_offset
    for segment, item in view.runs(None, stop):
        assert isinstance(item, BatchRun)
        fates = view.fates(segment, item)
        columns = kernel.decode(
            item.buffer, item.table, 0, len(item.table), start_position=item.start_position
        )
        assert columns.problems == []
        assert columns.next_row == len(item.table)
        for place in range(len(columns)):
            row = item.table[columns.row[place]]
            offset = int(columns.offset[place])
            if not view.log_start_offset <= offset < stop:
                continue
            if row["magic"] == 2 and row["attributes"] & CONTROL_MASK:
                continue
            fate = Fate.NONE if fates is None else fates[columns.row[place]]
            if committed and fate in (Fate.ABORTED, Fate.OPEN):
                continue
            kind = 0 if row["magic"] == 0 else 2 if row["attributes"] & 8 else 1
            timestamp = int(columns.timestamp[place])
            found.append(
                TruthRecord(
                    offset,
                    kind,
                    timestamp if kind else 0,  # librdkafka says 0 where there is none
                    columns.key(place),
                    columns.value(place),
                    tuple((each.key.decode(), each.value) for each in columns.headers(place)),
                    int(row["leader_epoch"]) if row["magic"] == 2 else None,
                )
            )
    return found


def check_offsets(view: LogView, kind: str, name: str) -> None:
    truth = truth_offsets(kind)[name]
    assert view.log_start_offset == truth["earliest"]
    assert view.log_end_offset == truth["latest"]
    assert view.last_stable_offset == truth["latest_committed"]
    for timestamp, offset in truth.get("for_times", {}).items():
        found = view.offset_for_time(int(timestamp))
        assert (-1 if found is None else found.offset) == offset, timestamp


@pytest.mark.parametrize(("kind", "name"), PARTITIONS, ids=ids)
def test_offsets_and_times_are_the_brokers(kind: str, name: str) -> None:
    view = view_of(log_dir(kind), name)
    if name in truth_offsets(kind):
        check_offsets(view, kind, name)


@pytest.mark.parametrize(("kind", "name"), PARTITIONS, ids=ids)
def test_records_are_those_that_a_consumer_got(kind: str, name: str) -> None:
    view = view_of(log_dir(kind), name)
    assert records_of(view) == list(truth_records(kind, name))
    assert records_of(view, committed=True) == list(truth_records(kind, name, committed=True))
    assert view.problems == []


@pytest.mark.parametrize(("kind", "name"), PARTITIONS, ids=ids)
def test_each_record_is_found_by_its_offset(kind: str, name: str) -> None:
    view = view_of(log_dir(kind), name)
    truth = {record.offset: record for record in truth_records(kind, name)}
    offsets = range(view.log_start_offset, view.log_end_offset)
    for offset in Random(1).sample(offsets, min(200, len(offsets))):
        found = view.record(offset)
        if offset in truth:
            assert found is not None
            columns, place = found
            assert columns.offset[place] == offset
            assert columns.key(place) == truth[offset].key
            assert columns.value(place) == truth[offset].value
        elif found is not None:
            batch = view.batch(offset)
            assert batch is not None
            assert batch[1].table["attributes"][0] & CONTROL_MASK
    assert view.record(view.log_start_offset - 1) is None
    assert view.record(view.log_end_offset) is None


@pytest.mark.parametrize(("kind", "name"), PARTITIONS, ids=ids)
def test_the_epochs_of_the_checkpoint_are_those_of_the_batches(kind: str, name: str) -> None:
    view = view_of(log_dir(kind), name)
    for _, item in view.runs():
        assert isinstance(item, BatchRun)
        for row in item.table:
            if row["leader_epoch"] >= 0:
                assert view.leader_epochs.epoch_for(int(row["last_offset"])) == row["leader_epoch"]
    read = [entry.epoch for entry in epochs_of_batches(view)]
    assert read == [
        entry.epoch for entry in view.leader_epochs if entry.start_offset < view.log_end_offset
    ]


def damage_side_files(folder: Path, how: Callable[[bytes, Random], bytes | None]) -> None:
    """Put something else into everything that can be made from the .log files."""
    random = Random(3)
    for path in sorted(folder.rglob("*")):
        is_index = path.suffix in (".index", ".timeindex", ".txnindex", ".snapshot")
        if is_index or path.name == "leader-epoch-checkpoint":
            new = how(path.read_bytes(), random)
            path.chmod(0o600)
            if new is None:
                path.unlink()
            else:
                path.write_bytes(new)


def flipped(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(min(12, len(data))):
        changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(changed)


HOW: dict[str, Callable[[bytes, Random], bytes | None]] = {
    "deleted": lambda _data, _random: None,
    "empty": lambda _data, _random: b"",
    "random": lambda data, random: random.randbytes(len(data)),
    "zeros": lambda data, _random: bytes(len(data)),
    "cut": lambda data, random: data[: random.randrange(len(data) + 1)],
    "flipped": flipped,
    "shifted": lambda data, _random: data[8:] + data[:8],
}


@pytest.mark.parametrize("how", HOW.values(), ids=HOW.keys())
@pytest.mark.parametrize(("kind", "name"), LIMITED, ids=ids)
def test_side_files_cost_time_never_truth(
    tmp_path: Path, kind: str, name: str, how: Callable[[bytes, Random], bytes | None]
) -> None:
    copy = copy_of(kind, tmp_path, [name])
    damage_side_files(copy, how)
    view = view_of(copy, name)
    check_offsets(view, kind, name)
    assert records_of(view) == list(truth_records(kind, name))
    assert records_of(view, committed=True) == list(truth_records(kind, name, committed=True))
    for record in truth_records(kind, name)[::7]:
        found = view.record(record.offset)
        assert found is not None
        assert found[0].value(found[1]) == record.value


def test_a_log_that_was_cut_off_by_a_crash_is_read_to_its_last_batch() -> None:
    view = view_of(log_dir("crashed"), "crash-0")
    assert view.log_end_offset > 31700
    assert all(isinstance(item, BatchRun) for _, item in view.runs())


def test_what_compaction_and_retention_left_stands_apart() -> None:
    compacted = view_of(log_dir("current"), "compacted-0")
    assert compacted.base_offsets == (0, 1822, 2222)
    assert len(compacted.leftovers) > 10
    assert all(each.name.endswith(".deleted") for each in compacted.leftovers)
    retained = view_of(log_dir("current"), "retained-0")
    assert (retained.base_offsets, retained.log_start_offset) == ((1200,), 1200)


def test_a_trimmed_log_serves_nothing_below_its_start_but_has_it() -> None:
    view = view_of(log_dir("current"), "trimmed-0")
    assert (view.base_offsets[0], view.log_start_offset) == (518, 753)
    assert view.record(752) is None
    assert view.record(753) is not None
    segment = view.segment_for(752)
    assert segment is not None
    assert segment.batch(752) is not None
    first = next(iter(view.runs(0, 1000)))[1]
    assert isinstance(first, BatchRun)
    assert first.base_offset == 518
