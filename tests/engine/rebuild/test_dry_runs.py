"""A dry run says what the run will do, whatever is damaged; and no partition keeps the others from being made."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest

from engine.disk.disk import Disk, StrPath
from engine.rebuild import partition_rebuild
from engine.rebuild.errors import RebuildFailedError
from engine.rebuild.rebuilding import rebuild
from tests import builders
from tests.builders import Producer, Rec
from tests.engine.rebuild.made_logs import HITS, MadeLog, facts_of, make_log


def hit_base_offset(made: MadeLog, random: Random, numbers: list[int]) -> None:
    """Overwrite the base offset of one of the batches, which no checksum covers."""
    base, position, batch = made.batches[random.choice(numbers)]
    data = bytearray(made.path(base).read_bytes())
    stated = int.from_bytes(batch[:8], "big") ^ 1 << random.randrange(64)
    data[position : position + 8] = stated.to_bytes(8, "big")
    made.path(base).write_bytes(data)


def in_newest_segment(made: MadeLog) -> list[int]:
    return [number for number, each in enumerate(made.batches) if each[0] == made.bases[-1]]


def checkpoints(made: MadeLog, end: int) -> None:
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (made.log_dir / name).write_text(f"0\n1\norders 0 {end}\n")


@pytest.mark.parametrize("seed", range(40))
def test_a_dry_run_tells_what_the_run_will_tell(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    segments = random.choice([1, 2, 4])
    made = make_log(tmp_path / "source", random, batches=20, segments=segments)
    if random.random() < 0.6:
        checkpoints(made, made.next_offset)
        if random.random() < 0.5:
            (made.log_dir / ".kafka_cleanshutdown").touch()
    for _ in range(random.choice([0, 1, 2])):
        HITS[random.choice([*HITS])](made, random)
    if len(made.path(made.bases[-1]).read_bytes()) > 8:
        hit_base_offset(made, random, in_newest_segment(made))
    dry = rebuild(str(tmp_path / "source"), None)
    real = rebuild(str(tmp_path / "source"), str(tmp_path / "target"))
    assert dry.partitions == real.partitions
    assert dry.left_out == real.left_out == []
    assert dry.lost_something == real.lost_something


@pytest.mark.parametrize("bit", range(1, 7))
def test_a_high_bit_of_the_newest_base_offset_costs_nothing_after_a_clean_stop(
    tmp_path: Path, bit: int
) -> None:
    """Whatever the bit: between the batch before and the log end is room for the batch alone."""
    made = make_log(tmp_path / "source", Random(bit), segments=3, transactions=False)
    checkpoints(made, made.next_offset)
    (made.log_dir / ".kafka_cleanshutdown").touch()
    expected = facts_of(tmp_path / "source")
    base, position, _ = made.batches[-1]
    data = bytearray(made.path(base).read_bytes())
    data[position + 7 - bit] ^= 1 << bit
    made.path(base).write_bytes(data)
    result = rebuild(str(tmp_path / "source"), str(tmp_path / "target"))
    assert result.left_out == []
    assert not result.lost_something
    assert [each["kind"] for each in result.partitions[0]["dropped"]] == ["misplaced"]
    assert result.partitions[0]["logEndOffset"] == made.next_offset
    assert facts_of(tmp_path / "target") == expected


def test_a_negative_base_offset_costs_that_batch_alone(tmp_path: Path) -> None:
    made = make_log(tmp_path / "source", Random(7), segments=3, transactions=False)
    checkpoints(made, made.next_offset)
    expected = facts_of(tmp_path / "source")
    base, position, batch = made.batches[-1]
    data = bytearray(made.path(base).read_bytes())
    data[position] ^= 1 << 7
    made.path(base).write_bytes(data)
    first = int.from_bytes(batch[:8], "big")
    result = rebuild(str(tmp_path / "source"), str(tmp_path / "target"))
    assert result.lost_something
    assert result.partitions[0]["logEndOffset"] == made.next_offset
    assert facts_of(tmp_path / "target") == {
        offset: each for offset, each in expected.items() if offset < first
    }


def test_a_partition_whose_log_cannot_be_made_keeps_no_other_from_being_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("orders-0", "orders-1", "orders-2"):
        make_log(tmp_path / "source", Random(name), name=name)
    real = partition_rebuild.write_log

    def write_log(log_dir: str, new: Any, *rest: Any) -> Any:
        written = real(log_dir, new, *rest)
        if new.partition.partition == 1:
            raise RebuildFailedError("a broker would change the new log")
        return written

    monkeypatch.setattr(partition_rebuild, "write_log", write_log)
    result = rebuild(str(tmp_path / "source"), str(tmp_path / "target"))
    assert result.lost_something
    [left_out] = result.left_out
    assert left_out.path.endswith("orders-1")
    assert "a broker would change the new log" in left_out.reason
    assert sorted(path.name for path in (tmp_path / "target").glob("orders-*")) == [
        *("orders-0", "orders-2"),
    ]
    for name in ("orders-0", "orders-2"):
        assert facts_of(tmp_path / "target", name) == facts_of(tmp_path / "source", name)
    points = (tmp_path / "target/recovery-point-offset-checkpoint").read_text().split("\n")
    assert [line.split()[1] for line in points[2:-1]] == ["0", "2"]


def test_a_log_of_many_segments_is_not_listed_for_each_of_them(tmp_path: Path) -> None:
    class CountingDisk(Disk):
        listed: ClassVar[list[StrPath]] = []

        def list(self, path: StrPath) -> list[str]:
            self.listed.append(path)
            return super().list(path)

    made = MadeLog(tmp_path / "source")
    made.folder.mkdir(parents=True)
    for base in range(120):
        data = builders.batch([Rec(b"x")], base, producer=Producer(id=base % 7, sequence=base // 7))
        made.path(base).write_bytes(data)
    disk = CountingDisk()
    result = rebuild(str(made.log_dir), str(tmp_path / "target"), disk=disk)
    assert not result.lost_something
    assert facts_of(tmp_path / "target") == facts_of(made.log_dir)
    assert len(disk.listed) < 40
