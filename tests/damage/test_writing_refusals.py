"""What the writing half makes of faults 13, 41, 77, 86 and 92: it refuses them, or does what a broker does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from engine.broker.checkpoint.offset_checkpoint_file import OffsetCheckpointFile
from engine.broker.log.unified_log import UnifiedLog
from engine.errors import CorruptCheckpointError, OffsetOverflowError
from engine.rebuild.errors import RebuildRefusedError
from engine.rebuild.options import RebuildOptions
from engine.rebuild.rebuilding import rebuild
from engine.record.memory_records import MemoryRecords
from engine.units import TopicPartition
from engine.writing.log_config import LogConfig
from engine.writing.state.append_origin import AppendOrigin
from tests.builders import Producer, batch, control_batch
from tests.clocks import MockClock, MockScheduler
from tests.damage.cases import BEFORE, GOOD_VALUES, behind, good, log_dir, records
from tests.damage.test_side_files import METADATA
from tests.engine.rebuild.made_logs import make_log

LOG = f"{0:020}.log"
FAR = 2**40
WRITER = Producer(id=7, epoch=0, sequence=0)


@contextmanager
def loaded(folder: Path) -> Iterator[UnifiedLog]:
    """The log t-0 as after a crash."""
    clock = MockClock()
    log = UnifiedLog.create(
        folder / "t-0", LogConfig(), MockScheduler(clock), clock=clock, last_shutdown_clean=False
    )
    try:
        yield log
    finally:
        log.close_handlers()


def values_of(log: UnifiedLog) -> list[str]:
    found = [record for segment in log.segments for record in segment.log.records()]
    return [(record.value or b"").decode() for record in found]


def test_fault_013_a_jump_of_2_to_the_40_is_split_as_a_broker_does(tmp_path: Path) -> None:
    with loaded(behind(tmp_path, good("x", FAR) + good("y", FAR + 3))) as log:
        assert [segment.base_offset for segment in log.segments] == [0, FAR]
        assert log.log_end_offset == FAR + 6 == 1_099_511_627_782
        assert values_of(log) == [*GOOD_VALUES[:6], "x0", "x1", "x2", "y0", "y1", "y2"]


def test_fault_013_a_segment_refuses_an_offset_that_far(tmp_path: Path) -> None:
    with loaded(log_dir(tmp_path, BEFORE)) as log:
        size = log.active_segment.size
        with pytest.raises(OffsetOverflowError):
            log.active_segment.append(FAR + 2, MemoryRecords(good("x", FAR)))
        assert log.active_segment.size == size
        log.append_as_follower(MemoryRecords(good("x", FAR)), 0)
        assert [segment.base_offset for segment in log.segments] == [0, FAR]


def odd_marker(base_offset: int, kind: int = 99) -> bytes:
    return control_batch(kind, b"?", base_offset, producer=WRITER, transactional=True)


@pytest.mark.parametrize("kind", [-1, 2, 6, 99])  # unknown, leader change, KRaft voters, unknown
def test_fault_041_a_producers_control_batch_that_ends_no_transaction_is_not_appended(
    tmp_path: Path, kind: int
) -> None:
    # In Kafka, EndTransactionMarker.deserialize raises IllegalArgumentException, which nobody catches.
    with loaded(log_dir(tmp_path, BEFORE)) as log:
        with pytest.raises(ValueError, match="does not end a transaction"):
            log.append_as_follower(MemoryRecords(odd_marker(6, kind)), 0)
        with pytest.raises(ValueError, match="does not end a transaction"):
            log.append_as_leader(MemoryRecords(odd_marker(0, kind)), 0, AppendOrigin.COORDINATOR)
        assert log.log_end_offset == 6
        assert values_of(log) == GOOD_VALUES[:6]
        log.append_as_follower(MemoryRecords(good("x", 6)), 0)
        assert log.log_end_offset == 9


@pytest.mark.parametrize("kind", [-1, 2, 6, 99])
def test_a_control_batch_without_a_producer_is_appended_whatever_its_type(
    tmp_path: Path, kind: int
) -> None:
    with loaded(log_dir(tmp_path, BEFORE)) as log:
        log.append_as_follower(MemoryRecords(control_batch(kind, b"?", 6)), 0)
        assert log.log_end_offset == 7


def test_fault_041_a_log_with_an_unknown_control_type_is_not_loaded(tmp_path: Path) -> None:
    began = batch(records(6, "x0"), 6, producer=WRITER, transactional=True)
    folder = log_dir(tmp_path, [*BEFORE, began, odd_marker(7)])
    before = (folder / "t-0" / LOG).read_bytes()
    with pytest.raises(ValueError, match="UNKNOWN does not end a transaction"), loaded(folder):
        pass
    assert (folder / "t-0" / LOG).read_bytes() == before


@pytest.mark.parametrize("case", METADATA)
def test_fault_077_a_log_whose_topic_id_is_none_is_not_loaded(tmp_path: Path, case: str) -> None:
    folder = log_dir(tmp_path, BEFORE)
    path = folder / "t-0" / "partition.metadata"
    path.write_bytes(METADATA[case])
    with pytest.raises(CorruptCheckpointError), loaded(folder):
        pass
    assert path.read_bytes() == METADATA[case]


@pytest.mark.parametrize("topic", ["y" * 250, "a b", "ä"])
def test_fault_086_a_topic_that_no_client_may_create_is_not_rebuilt(
    tmp_path: Path, topic: str
) -> None:
    made = make_log(tmp_path / "source", Random(4))
    log_dir(tmp_path / "source", BEFORE, name=f"{topic}-0")
    result = rebuild(str(tmp_path / "source"), str(tmp_path / "target"))
    assert [each["partition"] for each in result.partitions] == [made.name]
    (left,) = result.left_out
    assert Path(left.path).name == f"{topic}-0"
    assert "topic name" in left.reason
    asked = RebuildOptions(renames={"orders": topic})
    with pytest.raises(RebuildRefusedError, match="no topic name"):
        rebuild(str(made.log_dir), str(tmp_path / "renamed"), asked)
    assert not (tmp_path / "renamed").exists()


def test_fault_092_a_rebuild_writes_to_no_file_of_another_name(tmp_path: Path) -> None:
    made = make_log(tmp_path / "source", Random(4))
    elsewhere = {}
    for path in [*made.folder.iterdir()]:
        link = tmp_path / f"elsewhere-{path.name}"
        os.link(path, link)
        elsewhere[link] = (path.read_bytes(), path.stat().st_mtime_ns)
    rebuild(str(made.log_dir), str(tmp_path / "target"))
    assert {link: (link.read_bytes(), link.stat().st_mtime_ns) for link in elsewhere} == elsewhere
    files = [path for path in (tmp_path / "target").rglob("*") if path.is_file()]
    assert files
    assert all(path.stat().st_nlink == 1 for path in files)


def test_fault_092_a_checkpoint_is_replaced_and_not_written_over(tmp_path: Path) -> None:
    checkpoint = OffsetCheckpointFile(tmp_path / "offsets")
    checkpoint.write({TopicPartition("t", 0): 1})
    before = (tmp_path / "offsets").read_bytes()
    os.link(tmp_path / "offsets", tmp_path / "elsewhere")
    checkpoint.write({TopicPartition("t", 0): 2})
    assert (tmp_path / "elsewhere").read_bytes() == before
    assert checkpoint.read() == {TopicPartition("t", 0): 2}
