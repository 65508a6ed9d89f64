"""What interrupted operations leave in a log's folder is brought to one end, whatever crashes meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from engine.disk.disk import DISK, Disk, WritableFile
from engine.files.file_names import FileKind
from engine.record.batch_frame import MAGIC_POSITION
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.units import TopicPartition
from engine.writing.log.leftovers import clear_leftovers, log_files, remove_orphaned_indexes
from engine.writing.log_config import LogConfig
from engine.writing.log_folder import WritableLogFolder
from engine.writing.scheduler import DeferredScheduler
from tests.crash.recording import RecordingDisk

CONFIG = LogConfig(max_index_size=120)


def name(base: int, rest: str) -> str:
    return f"{base:020d}{rest}"


def fill(folder: Path, names: Iterable[str]) -> None:
    """Records of offsets base to base + 9 in .log files, anything in others."""
    for each in names:
        data = each.encode()
        if ".log" in each:
            record = SimpleRecord(b"k", each.encode())
            data = bytes(records_of(*[record] * 10, base_offset=int(each[:20])).buffer)
        if "index" in each:
            data = b""
        (folder / each).write_bytes(data)


def segment(base: int, suffix: str = "") -> list[str]:
    return [name(base, f"{kind}{suffix}") for kind in (".log", ".index", ".timeindex")]


def log_folder(path: Path, disk: Disk = DISK) -> WritableLogFolder:
    return WritableLogFolder(
        path, TopicPartition("topic", 0), CONFIG, DeferredScheduler(), disk=disk
    )


def clear(folder: Path) -> list[str]:
    clear_leftovers(log_folder(folder))
    return sorted(path.name for path in folder.iterdir())


def origin(folder: Path, base: int) -> str:
    """The name under which a segment's records were written."""
    return (
        next(path for path in folder.iterdir() if path.name == name(base, ".log"))
        .read_bytes()[-30:]
        .decode("latin-1")
    )


def test_deleted_files_go_but_kraft_snapshots_and_folders_stay(tmp_path: Path) -> None:
    kraft = "00000000000000000010-0000000001.checkpoint.deleted"
    fill(tmp_path, [*segment(0), *segment(5, ".deleted"), name(7, ".snapshot.deleted"), kraft])
    (tmp_path / "other.deleted").write_text("")
    (tmp_path / "folder.deleted").mkdir()
    assert clear(tmp_path) == sorted([*segment(0), kraft, "folder.deleted"])


def test_segments_that_were_not_finished_go(tmp_path: Path) -> None:
    fill(tmp_path, [*segment(0), *segment(0, ".cleaned"), *segment(20)])
    assert clear(tmp_path) == sorted([*segment(0), *segment(20)])


def test_swap_files_at_and_above_an_unfinished_segment_go_with_it(tmp_path: Path) -> None:
    files = [*segment(0), *segment(20), *segment(0, ".cleaned"), *segment(20, ".swap")]
    fill(tmp_path, [*files, name(30, ".log.swap")])
    assert clear(tmp_path) == sorted([*segment(0), *segment(20)])


def test_a_swap_file_of_the_unfinished_segment_itself_is_incomplete(tmp_path: Path) -> None:
    fill(tmp_path, [*segment(0), *segment(5, ".swap"), *segment(5, ".cleaned")])
    assert clear(tmp_path) == sorted(segment(0))


def test_swap_files_below_an_unfinished_segment_are_complete(tmp_path: Path) -> None:
    fill(tmp_path, [*segment(0), *segment(0, ".swap"), *segment(20), *segment(20, ".cleaned")])
    assert clear(tmp_path) == sorted([*segment(0), *segment(20)])
    assert "swap" in origin(tmp_path, 0)


def test_complete_segments_take_the_place_of_all_that_lie_within_their_offsets(
    tmp_path: Path,
) -> None:
    old = [*segment(0), *segment(3), *segment(6), name(3, ".snapshot"), name(6, ".txnindex")]
    fill(tmp_path, [*old, *segment(0, ".swap"), *segment(10), name(10, ".snapshot")])
    assert clear(tmp_path) == sorted([*segment(0), *segment(10), name(10, ".snapshot")])
    assert "swap" in origin(tmp_path, 0)


def test_a_complete_segment_without_indexes_replaces_all_within_its_offsets(
    tmp_path: Path,
) -> None:
    fill(tmp_path, [*segment(0), *segment(3), name(0, ".log.swap")])
    assert clear(tmp_path) == [name(0, ".log")]
    assert "swap" in origin(tmp_path, 0)


def test_an_index_without_a_successor_makes_the_segment_rebuild_its_indexes(tmp_path: Path) -> None:
    fill(tmp_path, [*segment(0, ".swap"), name(0, ".txnindex")])
    assert clear(tmp_path) == [name(0, ".log"), name(0, ".timeindex")]


@pytest.mark.parametrize("magic", [3, 127, 128, 179, 255])
def test_an_unknown_magic_in_a_complete_segment_does_not_hide_its_end(
    tmp_path: Path, magic: int
) -> None:
    """Kafka's FileLogInputStream looks at lengths only."""
    fill(tmp_path, [*segment(0), *segment(10), *segment(20), name(0, ".log.swap")])
    new = tmp_path / name(0, ".log.swap")
    later = records_of(SimpleRecord(b"k", b"new"), base_offset=14)
    unknown = bytearray(new.read_bytes())
    unknown[MAGIC_POSITION] = magic
    new.write_bytes(unknown + bytes(later.buffer))
    assert clear(tmp_path) == sorted([name(0, ".log"), *segment(20)])


def test_noise_after_a_complete_segment_is_no_batch_of_it(tmp_path: Path) -> None:
    """Its length leads past the end of the file, so Kafka does not look at its magic."""
    fill(tmp_path, [*segment(0), *segment(10), name(0, ".log.swap")])
    noise = bytearray(b"\x7f" * 61)
    noise[MAGIC_POSITION] = 179
    with (tmp_path / name(0, ".log.swap")).open("ab") as file:
        file.write(noise)
    assert clear(tmp_path) == sorted([name(0, ".log"), *segment(10)])


def test_index_files_alone_replace_nothing(tmp_path: Path) -> None:
    fill(tmp_path, [name(0, ".log"), name(0, ".index.swap"), *segment(3)])
    assert clear(tmp_path) == sorted([name(0, ".log"), name(0, ".index"), *segment(3)])


def test_looking_into_a_new_segment_makes_no_index_of_it(tmp_path: Path) -> None:
    fill(tmp_path, [name(0, ".log.swap")])
    assert clear(tmp_path) == [name(0, ".log")]


def test_new_segments_get_their_names_in_order_each_on_the_device_before_the_next(
    tmp_path: Path,
) -> None:
    fill(tmp_path, [*segment(20, ".swap"), *segment(0, ".swap"), *segment(10, ".swap")])
    disk = RecordingDisk(tmp_path)
    clear_leftovers(log_folder(tmp_path, disk))
    calls = [call.split(" to ")[0] for call in disk.recording.calls if "truncate" not in call]
    assert calls[-12:] == [
        step
        for base in (0, 10, 20)
        for step in (*(f"rename {each}" for each in segment(base, ".swap")), "sync folder " + tmp_path.name)
    ]  # fmt: skip


def test_names_that_kafka_does_not_write_are_left_alone(tmp_path: Path) -> None:
    odd = ["0.log.swap", "x.cleaned", "notes.txt", "+5.index.swap"]
    for each in odd:
        (tmp_path / each).write_text("")
    assert clear(tmp_path) == sorted(odd)
    assert log_files(str(tmp_path), DISK) == []


def test_files_come_by_offset_with_the_records_first(tmp_path: Path) -> None:
    fill(tmp_path, [*segment(10), *segment(2), name(2, ".snapshot"), name(2, ".txnindex")])
    kinds = [(file.base_offset, file.kind) for file in log_files(str(tmp_path), DISK)]
    of_2 = [
        FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX, FileKind.PRODUCER_SNAPSHOT,
    ]  # fmt: skip
    assert kinds == [(2, kind) for kind in of_2] + [(10, kind) for kind in of_2[:3]]


@pytest.mark.parametrize("kind", [".index", ".timeindex", ".txnindex"])
def test_an_index_without_records_goes(tmp_path: Path, kind: str) -> None:
    fill(tmp_path, [*segment(0), name(5, kind), name(5, ".snapshot")])
    remove_orphaned_indexes(str(tmp_path), DISK)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [*segment(0), name(5, ".snapshot")]
    )


def calls_on_records(folder: Path, names: Iterable[str]) -> list[str]:
    """Clear leftovers; what the disk was told about records files, and the syncs of the folder."""
    folder.mkdir(exist_ok=True)
    fill(folder, names)
    disk = RecordingDisk(folder)
    clear_leftovers(log_folder(folder, disk))
    calls = [call.split(" to ")[0] for call in disk.recording.calls]
    return [call for call in calls if ".log" in call or call == f"sync folder {folder.name}"]


def test_swap_files_are_undone_on_the_device_before_the_unfinished_segment_goes(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "topic-0"
    files = [*segment(0), name(20, ".log.swap"), name(10, ".log.cleaned")]
    assert calls_on_records(folder, files) == [
        f"remove {name(20, '.log.swap')}",
        "sync folder topic-0",
        f"remove {name(10, '.log.cleaned')}",
    ]


def test_replaced_segments_are_gone_on_the_device_before_new_ones_take_their_names(
    tmp_path: Path,
) -> None:
    swaps = [name(0, ".log.swap"), name(10, ".log.swap")]
    calls = calls_on_records(tmp_path / "topic-0", [*segment(3), *segment(13), *swaps])
    assert [call for call in calls if call not in [f"sync {swap}" for swap in swaps]] == [
        f"remove {name(3, '.log')}",
        f"remove {name(13, '.log')}",
        "sync folder topic-0",
        f"rename {swaps[0]}",
        "sync folder topic-0",
        f"rename {swaps[1]}",
        "sync folder topic-0",
    ]


def test_two_indexes_without_successors_cost_the_offset_index_once(tmp_path: Path) -> None:
    new = [name(0, ".log.swap"), name(0, ".index.swap")]
    fill(tmp_path, [*new, name(0, ".timeindex"), name(0, ".txnindex")])
    assert clear(tmp_path) == [name(0, ".log")]


def test_files_that_were_looked_into_are_closed(tmp_path: Path) -> None:
    opened: list[WritableFile] = []

    class Noting(Disk):
        def _file(self, fd: int, path: str, writable: bool) -> WritableFile:
            opened.append(super()._file(fd, path, writable))
            return opened[-1]

    fill(tmp_path, segment(0, ".swap"))
    clear_leftovers(log_folder(tmp_path, Noting()))
    assert opened
    assert all(file.is_closed for file in opened)
