"""A rebuild says what is missing: never «nothing» where names, indexes, epochs or bytes show a loss."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from engine.log.log_directory import open_source
from engine.rebuild.rebuilding import rebuild
from engine.rebuild.target.rebuilt import Rebuilt
from tests import builders, fixtures_data
from tests.builders import Rec
from tests.engine.rebuild.made_logs import facts_of, holes

CLEAN = ".kafka_cleanshutdown"


def rebuilt(tmp_path: Path, source: Path) -> Rebuilt:
    return rebuild(str(source), str(tmp_path / "target"))


def copied(tmp_path: Path, name: str) -> Path:
    """One partition of a broker's log dir, which has several segments."""
    source = tmp_path / "source"
    data = fixtures_data.DATA / "current" / "data"
    shutil.copytree(data / name, source / name)
    for path in data.iterdir():
        if path.is_file():
            shutil.copy(path, source / path.name)
    return source


def records_files(source: Path, name: str) -> list[Path]:
    return sorted((source / name).glob("*.log"))


def offsets_in(source: Path, name: str) -> set[int]:
    return set(facts_of(source, name))


@pytest.mark.parametrize("indexes", ["kept", "lost"])
@pytest.mark.parametrize("stop", ["clean", "crash"])
def test_a_lost_first_segment_is_missing(tmp_path: Path, stop: str, indexes: str) -> None:
    source = copied(tmp_path, "orders-0")
    whole = offsets_in(source, "orders-0")
    if stop == "clean":
        (source / CLEAN).write_text("")
    else:
        (source / CLEAN).unlink(missing_ok=True)
    first, second, *_ = records_files(source, "orders-0")
    first.unlink()
    if indexes == "lost":
        for path in (source / "orders-0").glob(f"{first.stem}.*"):
            path.unlink()
    result = rebuilt(tmp_path, source)
    [report] = result.partitions
    assert holes(report) == [(0, int(second.stem))]
    assert report["lostSomething"]
    assert result.lost_something
    assert report["losses"][0]["certain"] == (stop == "clean")
    # Where it is sure, consumers pass the gap, as they pass every other one.
    assert report["logStartOffset"] == (0 if stop == "clean" else int(second.stem))
    assert offsets_in(tmp_path / "target", "orders-0") == {
        offset for offset in whole if offset >= int(second.stem)
    }


def test_first_segments_that_a_broker_deleted_are_not_missing(tmp_path: Path) -> None:
    """Retention moves the first leader epoch to the new log start."""
    source = copied(tmp_path, "retained-0")
    assert int(records_files(source, "retained-0")[0].stem) > 0
    assert not rebuilt(tmp_path, source).lost_something


def test_first_segments_in_tiered_storage_are_not_missing(tmp_path: Path) -> None:
    source = copied(tmp_path, "orders-0")
    first, *_ = records_files(source, "orders-0")
    first.unlink()
    (source / "remote-log-index-cache").mkdir()
    (source / "log-start-offset-checkpoint").write_text("0\n1\norders 0 0\n")
    assert not rebuilt(tmp_path, source).lost_something


def compacted(tmp_path: Path, segments: int = 3) -> tuple[Path, list[set[int]]]:
    """A log in which compaction left each third record; the offsets of each segment."""
    source = tmp_path / "source"
    folder = source / "orders-0"
    folder.mkdir(parents=True)
    kept = []
    for number in range(segments):
        base = number * 100
        offsets = list(range(base, base + 100, 3))
        batches = [
            builders.batch([Rec(b"v", f"k{each}".encode(), 1_000_000 + each)], each)
            for each in offsets
        ]
        (folder / f"{base:020}.log").write_bytes(b"".join(batches))
        kept.append(set(offsets))
    (source / "cleaner-offset-checkpoint").write_text(f"0\n1\norders 0 {segments * 100 - 100}\n")
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: sgf5MsZgRTuEMv68ZXKJbQ")
    return source, kept


def test_a_compacted_log_without_damage_lacks_nothing(tmp_path: Path) -> None:
    source, _ = compacted(tmp_path)
    result = rebuilt(tmp_path, source)
    assert not result.lost_something
    assert result.partitions[0]["losses"] == []


@pytest.mark.parametrize("place", range(2))
@pytest.mark.parametrize("from_eighth", [0, 4, 7])
def test_zeros_in_a_compacted_log_may_have_held_records(
    tmp_path: Path, place: int, from_eighth: int
) -> None:
    source, kept = compacted(tmp_path)
    path = records_files(source, "orders-0")[place]
    data = path.read_bytes()
    start = len(data) * from_eighth // 8
    path.write_bytes(data[:start] + bytes(len(data) - start))
    [report] = rebuilt(tmp_path, source).partitions
    there = offsets_in(tmp_path / "target", "orders-0")
    gone = set().union(*kept) - there
    [(first, end)] = holes(report)
    assert gone <= set(range(first, end))
    assert not there & set(range(first, end))
    assert not report["losses"][0]["certain"]
    dropped = [each["size"] for each in report["dropped"] if each["isLoss"]]
    assert sum(dropped) >= len(data) - start


@pytest.mark.parametrize("empty", [b"", bytes(4000)], ids=["empty", "zeros"])
def test_a_lost_first_segment_is_told_also_where_the_next_one_is_empty(
    tmp_path: Path, empty: bytes
) -> None:
    source, kept = compacted(tmp_path)
    folder = source / "orders-0"
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (source / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":5}')
    first, second, *_ = records_files(source, "orders-0")
    first.unlink()
    second.write_bytes(empty)
    index = second.with_suffix(".index")
    index.write_bytes(b"\0\0\0\x21\0\0\x03\0")  # an entry for offset 133
    [report] = rebuilt(tmp_path, source).partitions
    assert holes(report)[0] == (0, 100)
    assert set().union(*kept[:2]) <= {each for hole in holes(report) for each in range(*hole)}


def test_preallocated_zeros_in_the_last_segment_are_no_loss(tmp_path: Path) -> None:
    source, _ = compacted(tmp_path)
    path = records_files(source, "orders-0")[-1]
    path.write_bytes(path.read_bytes() + bytes(5000))
    assert not rebuilt(tmp_path, source).lost_something


@pytest.mark.parametrize("size", ["empty", "cut"])
@pytest.mark.parametrize("place", range(2))
def test_an_index_names_records_that_a_compacted_segment_has_lost(
    tmp_path: Path, place: int, size: str
) -> None:
    source, kept = compacted(tmp_path)
    path = records_files(source, "orders-0")[place]
    last = max(kept[place])
    base = int(path.stem)
    path.with_suffix(".timeindex").write_bytes(
        builders.time_index([(1_000_000 + last, last)], base)
    )
    data, end = path.read_bytes(), 0
    while (
        size == "cut" and end < len(path.read_bytes()) // 2
    ):  # between two batches: no torn one tells
        end += int.from_bytes(data[end + 8 : end + 12], "big") + 12
    path.write_bytes(data[:end])
    [report] = rebuilt(tmp_path, source).partitions
    [(first, following)] = holes(report)
    gone = set().union(*kept) - offsets_in(tmp_path / "target", "orders-0")
    assert gone <= set(range(first, following))
    assert not report["losses"][0]["certain"]
    assert path.with_suffix(".timeindex").name in report["losses"][0]["reason"]


@pytest.mark.parametrize("seed", range(8))
def test_a_hole_has_the_times_of_the_records_around_it(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    source = copied(tmp_path, "orders-0")
    path = random.choice(records_files(source, "orders-0"))
    data = bytearray(path.read_bytes())
    data[random.randrange(len(data) // 4, len(data) // 2)] ^= 1
    times = {offset: fact.timestamp for offset, fact in facts_of(source, "orders-0").items()}
    path.write_bytes(data)
    [report] = rebuilt(tmp_path, source).partitions
    [hole] = report["losses"]
    assert hole["offsets"] == report["lossTotals"]["offsets"]
    assert hole["timestampBefore"] <= times[hole["firstOffset"]]
    assert times[hole["firstOffset"] - 1] <= hole["timestampBefore"]
    assert hole["timestampAfter"] == times[hole["nextOffset"]]


def test_the_listing_of_the_source_decides_what_is_a_partition(tmp_path: Path) -> None:
    """A link is not followed: its partition could not be read, as every command says."""
    source = copied(tmp_path, "orders-0")
    shutil.copytree(source / "orders-0", tmp_path / "elsewhere")
    (source / "orders-1").symlink_to(tmp_path / "elsewhere")
    result = rebuilt(tmp_path, source)
    assert [each["partition"] for each in result.partitions] == ["orders-0"]
    [left] = [each for each in result.left_out if each.is_loss]
    assert left.path == f"{source}/orders-1"
    assert result.lost_something
    with_source = open_source(str(source))
    try:
        assert result.unread == with_source.unread_folders()
    finally:
        with_source.close()


def test_a_log_that_was_rebuilt_before_is_not_taken_for_a_compacted_one(tmp_path: Path) -> None:
    """A batch without records keeps the log end of the first rebuild, as compaction would leave one."""
    folder = tmp_path / "source" / "orders-0"
    folder.mkdir(parents=True)
    batches = [builders.batch([Rec(b"v")] * 5, base) for base in range(0, 50, 5)]
    path = folder / f"{0:020}.log"
    path.write_bytes(b"".join([*batches[:-1], batches[-1][:-1] + b"?"]))
    first = rebuild(str(tmp_path / "source"), str(tmp_path / "first"))
    assert holes(first.partitions[0]) == [(45, 50)]
    again = tmp_path / "first" / "orders-0" / path.name
    data = again.read_bytes()
    size = len(batches[0])
    again.write_bytes(data[: 3 * size] + data[4 * size :])
    second = rebuild(str(tmp_path / "first"), str(tmp_path / "second"))
    assert holes(second.partitions[0]) == [(15, 20)]
    assert second.lost_something
