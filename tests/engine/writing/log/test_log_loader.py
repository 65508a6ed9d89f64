"""Loading where Kafka's own tests do not look: what a crash, a failing disk or a lost file must not cost."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import ClassVar

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.disk.disk import Disk, WritableFile
from engine.errors import CorruptRecordError, StateError
from engine.files.file_names import log_file_name, producer_snapshot_name, time_index_name
from engine.log.log_segments import LogSegments
from engine.record.batch_frame import MAGIC_POSITION
from engine.units import MAX_INT32, MAX_INT64, EpochEntry, TopicPartition
from engine.writing.checkpoint.leader_epoch_checkpoint_file import LogEpochCheckpoint
from engine.writing.log.loading_steps import OUR_LOADING_RULES
from engine.writing.log.log_loader import LogLoader
from engine.writing.log_config import LogConfig
from engine.writing.log_folder import WritableLogFolder
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.append_origin import AppendOrigin
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
from engine.writing.state.producer_state_manager import ProducerStateManager
from tests.conformance.unified_log_steps import (
    ABORT,
    LogBench,
    aborted_transactions,
    append_many,
    end_txn,
    of_producer,
    one,
    producer,
    rec,
)
from tests.crash.failing import FailingDisk, Failures

PARTITION = TopicPartition("topic", 0)
CONFIG = LogConfig(segment_size=400, index_interval=100, max_index_size=240)


def written(bench: LogBench, count: int = 20) -> list[int]:
    """A log that is closed; the base offsets of its segments."""
    log = bench.open(CONFIG)
    for number in range(count):
        log.append_as_leader(one(f"value {number}", bench.now + number), 0)
    bases = [segment.base_offset for segment in log.segments]
    assert len(bases) > 3
    log.close()
    return bases


def damage(bench: LogBench, base: int) -> None:
    """Zeros in the second half of a segment."""
    path = bench.folder / log_file_name(base)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[: size // 2] + bytes(size - size // 2))


def ends(log: UnifiedLog) -> list[int]:
    return [segment.read_next_offset() for segment in log.segments]


def test_a_damaged_segment_ends_the_log_also_where_a_later_one_lacks_its_indexes(
    tmp_path: Path,
) -> None:
    bench = LogBench(tmp_path)
    bases = written(bench)
    damage(bench, bases[1])
    for name in bench.names("index"):
        if int(name[:20]) >= bases[2]:
            (bench.folder / name).unlink()
    log = bench.open(CONFIG, last_shutdown_clean=False)
    assert [segment.base_offset for segment in log.segments] == bases[:2]
    assert bases[1] < log.log_end_offset < bases[2]
    log.close()


def test_later_segments_are_gone_before_a_damaged_one_is_cut(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    bases = written(bench)
    damage(bench, bases[1])
    whole = (bench.folder / log_file_name(bases[1])).stat().st_size

    class Watching(WritableFile):
        def truncate(self, size: int) -> None:
            if self.path.endswith(log_file_name(bases[1])) and size < whole:
                names = bench.names(".log")
                seen.append([int(name[:20]) for name in names])
            super().truncate(size)

    class WatchingDisk(Disk):
        def _file(self, fd: int, path: str, writable: bool) -> WritableFile:
            return Watching(fd, path, writable=writable)

    seen: list[list[int]] = []
    bench.open(CONFIG, last_shutdown_clean=False, disk=WatchingDisk()).close()
    assert seen == [bases[:2]]


def test_an_io_error_during_recovery_empties_no_segment(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    bases = written(bench)
    sizes = {name: (bench.folder / name).stat().st_size for name in bench.names(".log")}

    class BadSector(WritableFile):
        def read_into(self, buffer: bytearray | memoryview, position: int) -> int:
            if self.path.endswith(log_file_name(bases[1])):
                raise OSError(errno.EIO, "Input/output error", self.path)
            return super().read_into(buffer, position)

        def read_at(self, position: int, size: int) -> bytes:
            if self.path.endswith(log_file_name(bases[1])):
                raise OSError(errno.EIO, "Input/output error", self.path)
            return super().read_at(position, size)

    class BadDisk(Disk):
        def _file(self, fd: int, path: str, writable: bool) -> WritableFile:
            return BadSector(fd, path, writable=writable)

    with pytest.raises(OSError, match="Input/output error"):
        bench.open(CONFIG, last_shutdown_clean=False, disk=BadDisk())
    assert {name: (bench.folder / name).stat().st_size for name in bench.names(".log")} == sizes
    log = bench.open(CONFIG, last_shutdown_clean=False)
    assert log.log_end_offset == 20
    log.close()


class CountingFile(WritableFile):
    """Counts files that are open."""

    open_files: ClassVar[set[CountingFile]] = set()

    def __init__(self, fd: int, path: str, *, writable: bool = True) -> None:
        super().__init__(fd, path, writable=writable)
        self.open_files.add(self)

    def close(self) -> None:
        self.open_files.discard(self)
        super().close()


class CountingDisk(FailingDisk):
    def _file(self, fd: int, path: str, writable: bool) -> WritableFile:
        return CountingFile(fd, path, writable=writable)


def test_a_loading_that_fails_leaves_no_file_open(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    bases = written(bench)
    CountingFile.open_files.clear()
    damage(bench, bases[2])
    failures = Failures(None, errno.EIO, sticky=False)
    with pytest.raises(OSError, match="cannot load"):
        bench.open(CONFIG, last_shutdown_clean=False, disk=RenamesFail(failures))
    assert CountingFile.open_files == set()


class RenamesFail(CountingDisk):
    def rename(self, old: object, new: object) -> None:
        raise OSError(errno.EIO, f"rename of {old}")


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_missing_time_index_is_made_again(tmp_path: Path, was_clean: bool) -> None:
    bench = LogBench(tmp_path)
    bases = written(bench)
    for base in (*bases[:2], bases[-1]):
        (bench.folder / time_index_name(base)).unlink()
    log = bench.open(CONFIG, last_shutdown_clean=was_clean, recovery_point=20)
    for offset in range(20):
        found = log.fetch_offset_by_timestamp(bench.now + offset)
        assert found is not None
        assert found.offset == offset
    log.close()


def begun_too_early(bench: LogBench, config: LogConfig, recovery_point: int) -> UnifiedLog:
    """A log whose active segment is empty, and whose segment before that has lost its end."""
    log = bench.open(config)
    append_many(log, 6, lambda: one("x" * 10, bench.now, b"key"))
    log.roll()
    log.close()
    path = bench.folder / log_file_name(log.segments[-2].base_offset)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 3 * 2])
    return bench.open(config, last_shutdown_clean=False, recovery_point=recovery_point)


BIG = LogConfig(segment_size=1 << 20)


def test_an_active_segment_that_was_begun_too_early_goes(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = begun_too_early(bench, BIG, 0)
    assert log.log_end_offset == 4
    assert len(log.segments) == 1
    assert {Path(name).suffixes[0] for name in bench.names(".deleted")} >= {".log", ".snapshot"}
    bench.clock.sleep(BIG.file_delete_delay_ms)
    assert not bench.names(".deleted")
    log.close()


def test_in_a_compacted_log_and_below_the_recovery_point_it_stays(tmp_path: Path) -> None:
    compacted = LogConfig(segment_size=1 << 20, compact=True)
    for number, (config, recovery_point) in enumerate(((compacted, 0), (BIG, 6))):
        log = begun_too_early(LogBench(tmp_path / str(number)), config, recovery_point)
        assert log.log_end_offset == 6
        assert ends(log)[-1] == 6
        log.close()


def test_segments_below_the_recovery_point_are_not_read(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    bases = written(bench)
    damage(bench, bases[0])
    log = bench.open(CONFIG, last_shutdown_clean=False, recovery_point=bases[2])
    assert len(log.segments) == len(bases), "damage there is not for the loading to find"
    log.close()


def load(bench: LogBench, folder: Path, *, with_producers: bool = False) -> LogLoader:
    folder.mkdir(exist_ok=True)
    producers = ProducerStateManager(PARTITION, folder, 1000, clock=bench.clock)
    if with_producers:
        info = producers.prepare_update(1, AppendOrigin.REPLICATION)
        info.append(next(of_producer(1, 0, rec("a")).batches()), None)
        producers.update(info)
    log_folder = WritableLogFolder(folder, PARTITION, CONFIG, bench.scheduler, bench.clock)
    return LogLoader(
        log_folder,
        False,
        LogSegments[WritableSegment](),
        7,
        0,
        LeaderEpochFileCache(PARTITION, LogEpochCheckpoint(log_folder)),
        producers,
        OUR_LOADING_RULES,
    )


def test_an_empty_folder_becomes_a_log_at_its_start(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    loaded = load(bench, bench.folder).load()
    assert loaded == (7, 0, (7, 7, 0))
    assert (bench.folder / log_file_name(7)).exists()


def test_a_log_that_is_deleted_is_loaded_without_recovery(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    folder = tmp_path / "topic-0.0123456789abcdef0123456789abcdef-delete"
    loaded = load(bench, folder).load()
    assert loaded.next_offset_metadata.offset == 0
    assert loaded.recovery_point == 0


def test_a_log_starts_at_its_first_segment_at_the_earliest(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    bench.folder.mkdir()
    (bench.folder / log_file_name(9)).touch()
    assert load(bench, bench.folder).load().log_start_offset == 9


def test_producers_that_are_known_before_are_refused(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    with pytest.raises(StateError, match="before it is loaded"):
        load(bench, bench.folder, with_producers=True).load()


def test_a_log_that_ends_at_its_start_keeps_its_segments(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    bases = written(bench)
    with bench.open(CONFIG, log_start_offset=20) as log:
        assert [segment.base_offset for segment in log.segments] == bases
        assert (log.log_start_offset, log.log_end_offset) == (20, 20)


def test_a_log_that_ends_below_its_start_begins_anew_there(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    with bench.open(CONFIG) as log:
        for number in range(4):
            log.append_as_leader(of_producer(number, 0, rec("a" * 200, bench.now)), number)
        bases = [segment.base_offset for segment in log.segments]
    assert len(bases) > 1
    log = bench.open(CONFIG, log_start_offset=5)
    assert [segment.base_offset for segment in log.segments] == [5]
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    assert log.leader_epoch_cache.epoch_entries == []
    assert all(log.producer_state.last_entry(number) is None for number in range(4))
    assert bench.snapshot_offsets == [5]
    gone = [f"{log_file_name(base)}.deleted" for base in bases]
    assert bench.names(".log.deleted") == gone, "for file.delete.delay.ms"
    bench.clock.sleep(CONFIG.file_delete_delay_ms)
    assert not bench.names(".deleted")
    log.close()


def test_epochs_above_the_log_end_and_below_the_log_start_go(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    with bench.open(CONFIG) as log:
        for epoch in range(4):
            log.append_as_leader(one("a", bench.now), epoch)
        log.leader_epoch_cache.assign(7, 4)
    with bench.open(CONFIG, log_start_offset=2) as log:
        assert log.leader_epoch_cache.epoch_entries == [EpochEntry(2, 2), EpochEntry(3, 3)]


@pytest.mark.parametrize("has_snapshots", [True, False])
def test_a_transaction_that_is_aborted_in_a_recovered_segment_is_found(
    tmp_path: Path, has_snapshots: bool
) -> None:
    bench = LogBench(tmp_path)
    with bench.open(BIG) as log:
        producer(log, 1, 0, bench.now)(2)
        log.roll()
        end_txn(log, 1, 0, ABORT, bench.now)
        log.roll()
        append_many(log, 2, lambda: one("x", bench.now))
        aborted = aborted_transactions(log)
    assert [(txn.first_offset, txn.last_offset) for txn in aborted] == [(0, 2)]
    if not has_snapshots:
        for name in bench.names(".snapshot"):
            (bench.folder / name).unlink()
    for expiration_ms in (MAX_INT64, 86_400_000):
        log = bench.open(
            BIG,
            last_shutdown_clean=False,
            recovery_point=2,
            producer_id_expiration_ms=expiration_ms,
        )
        assert aborted_transactions(log) == aborted
        assert log.watermarks.first_unstable_offset is None
        log.close()


def test_a_log_that_is_deleted_begins_at_0_without_segments(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    folder = tmp_path / "topic-0.0123456789abcdef0123456789abcdef-delete"
    assert load(bench, folder).load() == (7, 0, (0, 0, 0))
    assert (folder / log_file_name(0)).exists()


def test_a_log_that_is_deleted_keeps_its_damaged_segments(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    bases = written(bench)
    damage(bench, bases[-1])
    folder = tmp_path / "topic-0.0123456789abcdef0123456789abcdef-delete"
    bench.folder.rename(folder)
    before = (folder / log_file_name(bases[-1])).read_bytes()
    with bench.open(CONFIG, folder=folder, last_shutdown_clean=False) as log:
        assert [segment.base_offset for segment in log.segments] == bases
    assert (folder / log_file_name(bases[-1])).read_bytes() == before


def test_a_failure_after_the_first_segment_was_made_leaves_no_file_open(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    CountingFile.open_files.clear()
    loader = load(bench, bench.folder, with_producers=True)
    loader.log_folder.disk = CountingDisk(Failures(None, errno.EIO, sticky=False))
    with pytest.raises(StateError, match="before it is loaded"):
        loader.load()
    assert CountingFile.open_files == set()


def test_snapshots_that_belong_to_no_segment_go(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    bases = written(bench)
    (bench.folder / f"{1:020}.snapshot").write_bytes(
        (bench.folder / f"{20:020}.snapshot").read_bytes()
    )
    assert 1 not in bases
    bench.open(CONFIG, last_shutdown_clean=False).close()
    assert 1 not in bench.snapshot_offsets
    assert bench.snapshot_offsets[-1] == 20


@pytest.mark.parametrize(("magic", "producers"), [(7, {1, 2, 3}), (179, {1, 3})])
def test_an_unknown_magic_in_a_closed_log_ends_neither_its_loading_nor_the_reads_around_it(
    tmp_path: Path, magic: int, producers: set[int]
) -> None:
    """Kafka takes 7 for 2, and a negative magic for a message's; whoever reads that batch is told."""
    bench = LogBench(tmp_path)
    with bench.open(BIG) as log:
        append_many(log, 2, lambda: one("x", bench.now))
        log.roll()
        for number in (1, 2, 3):
            log.append_as_leader(of_producer(number, 0, rec("k", bench.now)), 0)
        middle = [batch.file_position for batch in log.active_segment.log.batches()][1]
    (bench.folder / producer_snapshot_name(5)).unlink()
    path = bench.folder / log_file_name(2)
    data = bytearray(path.read_bytes())
    data[middle + MAGIC_POSITION] = magic
    path.write_bytes(data)
    with bench.open(BIG) as log:
        assert log.log_end_offset == 5
        assert log.producer_state.active_producers.keys() == producers
        segment = log.active_segment
        found = [segment.translate_offset(offset) for offset in (2, 4)]
        assert [each and each.base_offset for each in found] == [2, 4]
        last = segment.read(4, MAX_INT32)
        assert last is not None
        assert [batch.base_offset for batch in last.records.batches()] == [4]
        whole = segment.read(2, MAX_INT32)
        assert whole is not None
        with pytest.raises(CorruptRecordError, match="the magic of a batch is unknown"):
            list(whole.records.batches())
