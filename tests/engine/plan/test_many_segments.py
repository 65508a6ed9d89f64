"""Plans of logs of many tiny segments, and of files far larger than a broker makes them."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from engine.files.file_names import FolderState
from engine.files.source_files import SourceRoot
from engine.plan.loading import broker_segments
from engine.plan.loading.broker_failure import Outcome
from engine.plan.loading.broker_loading import LogToLoad
from engine.plan.loading.broker_versions import broker_version
from engine.plan.log_plan import LogPlan, plan_log
from engine.plan.overlay.overlay_content import OverlayBudget
from engine.plan.overlay.overlay_disk import OverlayDisk
from engine.units import TopicPartition
from engine.writing.state.snapshot_file import SnapshotFile, SnapshotFiles
from tests.builders import Producer, Rec, batch, patched, producer_snapshot, time_index
from tests.clocks import MockClock

SEGMENTS = 300


def made(folder: Path, segments: int, first: int = 0) -> Path:
    """One batch a segment, with empty offset indexes."""
    folder.mkdir()
    for base in range(first, first + segments):
        data = batch([Rec(b"v")], base, producer=Producer(id=base % 5, sequence=base // 5))
        path = folder / f"{base:020}.log"
        path.write_bytes(data)
        path.with_suffix(".index").write_bytes(b"")
        path.with_suffix(".timeindex").write_bytes(time_index([(1, base)], base))
    return folder


def link_of(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except FileNotFoundError:  # the listing's own
        return ""


class WatchingDisk(OverlayDisk):
    """Counts listings of folders, and the anonymous files that are open when a snapshot is written."""

    listings = 0
    most = 0

    def list(self, folder: str | os.PathLike[str]) -> list[str]:
        """See Disk."""
        self.listings += 1
        return super().list(folder)

    def open(self, path, **options):  # type: ignore[no-untyped-def]
        """See Disk."""
        if str(path).endswith(".snapshot"):
            open_now = map(link_of, os.listdir("/proc/self/fd"))
            self.most = max(self.most, sum("overlay" in link for link in open_now))
        return super().open(path, **options)


def planned(folder: Path, disk_type: type[OverlayDisk] = OverlayDisk, *, clean: bool = False,
            disks: list[OverlayDisk] | None = None) -> LogPlan:  # fmt: skip
    with SourceRoot(str(folder.parent)) as root:
        disk = disk_type({"/d": root}, OverlayBudget())
        if disks is not None:
            disks.append(disk)
        log = LogToLoad(
            root, folder.name, f"/d/{folder.name}", TopicPartition("t", 0), FolderState.LOG, clean
        )
        return plan_log(disk, log, broker_version("4.3.1"), clock=MockClock())


def test_recovered_segments_keep_no_descriptors_and_the_folder_is_listed_seldom(
    tmp_path: Path,
) -> None:
    few, many = [], []
    planned(made(tmp_path / "few-0", 20), WatchingDisk, disks=few)
    result = planned(made(tmp_path / "many-0", SEGMENTS), WatchingDisk, disks=many)
    assert result.outcome is Outcome.LOADS
    assert result.log_end == SEGMENTS
    [small], [large] = few, many
    assert isinstance(small, WatchingDisk)
    assert isinstance(large, WatchingDisk)
    assert large.listings == small.listings
    assert large.most == small.most


def test_the_newest_snapshot_is_found_without_a_look_at_all() -> None:
    files = SnapshotFiles(SnapshotFile(f"/d/{offset}", offset) for offset in (30, 10, 20))
    assert (files.oldest, files.latest) == (10, 30)
    files.add(SnapshotFile("/d/40", 40))
    files.add(SnapshotFile("/d/other", 40))
    assert files.outside(10, 30) == [10, 40]
    assert files.take(40) is not None
    assert files.take(40) is None
    assert (files.latest, sorted(files)) == (30, [10, 20, 30])
    assert SnapshotFiles().latest is None


@pytest.mark.parametrize("ending", ["index", "timeindex"])
def test_an_index_that_java_cannot_map_stops_the_broker(tmp_path: Path, ending: str) -> None:
    folder = made(tmp_path / "t-0", 3)
    os.truncate(folder / f"{1:020}.{ending}", 100 << 30)
    plan = planned(folder)
    assert plan.outcome is Outcome.BROKER_STOPS
    assert plan.java == "IllegalArgumentException"
    assert plan.reason.endswith(
        f"{1:020}.{ending} has 107374182400 bytes, more than the 2147483647 that Java maps"
    )


def test_a_snapshot_that_java_cannot_hold_stops_the_broker(tmp_path: Path) -> None:
    folder = made(tmp_path / "t-0", 3)
    path = folder / f"{3:020}.snapshot"
    path.write_bytes(producer_snapshot([]))
    os.truncate(path, 100 << 30)
    plan = planned(folder, clean=True)
    assert (plan.outcome, plan.java) == (Outcome.BROKER_STOPS, "OutOfMemoryError")
    os.truncate(path, 1 << 30)
    plan = planned(folder, clean=True)
    assert plan.outcome is Outcome.UNKNOWN
    assert plan.reason.endswith("and a broker may lack the memory for them")


def test_of_a_transaction_index_of_any_size_so_much_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_segments, "TRANSACTIONS_LIMIT", 1 << 20)
    folder = made(tmp_path / "t-0", 1)
    (folder / f"{0:020}.txnindex").touch()
    os.truncate(folder / f"{0:020}.txnindex", 100 << 30)
    plan = planned(folder)
    assert plan.outcome is Outcome.UNKNOWN
    assert "were checked" in plan.reason


def test_a_left_over_of_the_epochs_stays_where_a_recovery_begins_no_epoch(tmp_path: Path) -> None:
    """Kafka writes the checkpoint, over what was left, only when the epochs change."""
    folder = made(tmp_path / "t-0", 2, 10)
    path = folder / f"{11:020}.log"
    path.write_bytes(patched(path.read_bytes(), 30, struct.pack(">b", 77)))  # recovered slowly
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 10\n")
    (folder / "leader-epoch-checkpoint.tmp").write_text("left over")
    plan = planned(folder)
    assert plan.losses.bytes
    assert not [change for change in plan.changes if change.name.startswith("leader-epoch")]
    (folder / "leader-epoch-checkpoint").write_text("0\n0\n")
    plan = planned(folder)
    assert "leader-epoch-checkpoint.tmp" in {change.name for change in plan.changes}
