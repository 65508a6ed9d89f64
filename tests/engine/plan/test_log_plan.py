"""What a plan says of damage of each kind, as a broker's loader was seen to treat it."""

from __future__ import annotations

import os
import shutil
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.coding.compression import CompressionType
from engine.files.file_names import FolderState
from engine.files.source_files import SourceRoot
from engine.plan.loading.broker_failure import Outcome
from engine.plan.loading.broker_loading import LogToLoad
from engine.plan.loading.broker_versions import broker_version
from engine.plan.log_plan import LogPlan, plan_log
from engine.plan.lost_records import LostOffsets
from engine.plan.overlay.file_changes import ChangeKind
from engine.plan.overlay.overlay_disk import OverlayDisk
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.units import EpochEntry, TopicPartition
from engine.writing.log_config import LogConfig
from tests.builders import (
    Producer,
    Rec,
    batch,
    message,
    patched,
    producer_snapshot,
    resealed,
    values,
    wrapper,
)
from tests.clocks import MockClock, MockScheduler

PER_SEGMENT, PER_BATCH, SEGMENTS = 10, 5, 3
END = PER_SEGMENT * PER_BATCH * SEGMENTS
SECOND, THIRD = f"{50:020}.log", f"{100:020}.log"
CONFIG = LogConfig(max_index_size=4000, index_interval=200)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Offsets 0 to 149 in three segments, as a broker that was stopped properly leaves them."""
    clock = MockClock()
    log = UnifiedLog.create(tmp_path / "t-0", CONFIG, MockScheduler(clock), clock=clock)
    for segment in range(SEGMENTS):
        if segment:
            log.roll()
        for _ in range(PER_SEGMENT):
            records = [SimpleRecord(b"k", b"value" * 10) for _ in range(PER_BATCH)]
            log.append_as_leader(records_of(*records), 0)
    log.flush(force_active_segment=True)
    log.close()
    return tmp_path / "t-0"


def plan(
    folder: Path, *, clean: bool = False, recovery_point: int = 0, log_start: int = 0,
    version: str = "4.4.0", verifies: bool = True,
) -> LogPlan:  # fmt: skip
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}
    with SourceRoot(str(folder.parent)) as root:
        disk = OverlayDisk({"/d": root})
        log = LogToLoad(
            root, folder.name, f"/d/{folder.name}", TopicPartition("t", 0), FolderState.LOG, clean,
            recovery_point, log_start,
        )  # fmt: skip
        made = plan_log(disk, log, broker_version(version), CONFIG, MockClock(), verifies=verifies)
    after = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}
    assert before == after
    return made


def batches(data: bytes) -> Iterator[tuple[int, int]]:
    position = 0
    while position < len(data):
        size = 12 + struct.unpack_from(">i", data, position + 8)[0]
        yield position, size
        position += size


def edit(path: Path, number: int, change: Callable[[bytes, int, int], bytes]) -> None:
    """Change one batch of a file."""
    data = path.read_bytes()
    path.write_bytes(change(data, *list(batches(data))[number]))


def flipped(data: bytes, at: int, size: int) -> bytes:
    return patched(data, at + size - 3, bytes([data[at + size - 3] ^ 0xFF]))


def named(made: LogPlan, change: ChangeKind) -> set[str]:
    return {each.name for each in made.changes if each.change is change}


def test_a_whole_log_loses_nothing(folder: Path) -> None:
    for clean in (True, False):
        made = plan(folder, clean=clean)
        assert made.is_harmless
        assert (made.log_start, made.log_end_before, made.log_end) == (0, END, END)
        assert not made.losses.records


def test_a_flipped_bit_ends_the_log_and_takes_all_later_segments(folder: Path) -> None:
    edit(folder / SECOND, 4, flipped)
    unseen = plan(folder, clean=True)  # the broker does not look
    assert unseen.keeps_records
    assert not unseen.is_harmless
    assert unseen.kept.damaged_batches == 1
    assert unseen.kept.damage[0].startswith(f"{SECOND} at byte ")
    made = plan(folder)
    assert (made.log_end_before, made.log_end) == (END, 70)
    assert made.losses.ranges == (LostOffsets(75, END),)
    assert made.losses.records == END - 75
    data = (folder / SECOND).read_bytes()
    at, size = list(batches(data))[4]
    assert made.losses.damaged_bytes == size
    assert made.losses.bytes == len(data) - at + (folder / THIRD).stat().st_size
    assert named(made, ChangeKind.TRUNCATED) >= {SECOND}
    assert THIRD in {each.name for each in made.changes if each.deleted_later}
    assert not made.is_harmless


def test_what_was_flushed_is_not_looked_at(folder: Path) -> None:
    edit(folder / SECOND, 4, flipped)
    flushed = plan(folder, recovery_point=120)
    assert flushed.keeps_records
    assert flushed.kept.damaged_batches == 1
    assert plan(folder, recovery_point=99).log_end == 70


def test_records_that_the_broker_does_not_read_are_read_unless_that_is_not_wanted(
    folder: Path,
) -> None:
    size = sum(path.stat().st_size for path in folder.glob("*.log"))
    edit(folder / SECOND, 4, flipped)
    for wanted, unread in ((True, 0), (False, size)):
        kept = plan(folder, clean=True, verifies=wanted).kept
        assert (kept.bytes, kept.unread_bytes, kept.is_good) == (size, unread, not wanted)
    kept = plan(folder, recovery_point=120, verifies=False).kept
    assert kept.unread_bytes == size - (folder / THIRD).stat().st_size


def test_a_torn_tail_goes_and_costs_no_record(folder: Path) -> None:
    with (folder / THIRD).open("ab") as file:
        file.write(batch(values("torn"), END)[:40])
    made = plan(folder)
    assert (made.log_end_before, made.log_end) == (END, END)
    assert (made.losses.records, made.losses.bytes, made.losses.damaged_bytes) == (0, 40, 40)
    assert not made.is_harmless


def test_zeros_after_a_segment_take_all_later_ones(folder: Path) -> None:
    with (folder / SECOND).open("ab") as file:
        file.write(bytes(100))
    made = plan(folder)
    assert made.log_end == 100
    assert made.losses.records == 50
    assert made.losses.ranges == (LostOffsets(100, END),)


def test_zeros_at_the_end_keep_a_broker_from_starting_after_a_clean_stop(folder: Path) -> None:
    with (folder / THIRD).open("ab") as file:
        file.write(bytes(100))
    made = plan(folder, clean=True)
    assert (made.outcome, made.java) == (Outcome.BROKER_STOPS, "CorruptRecordException")
    assert plan(folder).log_end == END


def test_a_batch_twice_empties_the_segment(folder: Path) -> None:
    edit(folder / SECOND, 6, lambda data, at, size: data[: at + size] + data[at:])
    made = plan(folder)
    assert made.log_end == 50
    assert made.losses.ranges == (LostOffsets(50, END),)


def test_an_offset_far_above_keeps_a_broker_from_starting(folder: Path) -> None:
    edit(folder / SECOND, 3, lambda data, at, _: patched(data, at, struct.pack(">q", 1 << 40)))
    made = plan(folder)
    assert (made.outcome, made.java) == (Outcome.BROKER_STOPS, "IllegalArgumentException")
    assert made.log_end is None


def test_a_missing_batch_and_an_unknown_magic_are_taken(folder: Path) -> None:
    edit(folder / SECOND, 3, lambda data, at, size: data[:at] + data[at + size :])
    edit(folder / THIRD, 3, lambda data, at, _: patched(data, at + 16, b"\7"))
    made = plan(folder)
    assert (made.log_end, made.losses.records) == (END, 0)


def test_another_leader_epoch_is_believed(folder: Path) -> None:
    edit(folder / SECOND, 3, lambda data, at, _: patched(data, at + 12, struct.pack(">i", 999)))
    made = plan(folder)
    assert made.epochs_before == (EpochEntry(0, 0),)
    assert made.epochs_after == (EpochEntry(0, 0), EpochEntry(999, 65))
    assert made.epochs_changed
    assert not made.is_harmless
    assert made.losses.records == 0


def test_a_missing_index_brings_damage_to_light_even_after_a_clean_stop(folder: Path) -> None:
    edit(folder / SECOND, 4, flipped)
    (folder / SECOND).with_suffix(".index").unlink()
    made = plan(folder, clean=True)
    assert made.log_end == END  # later segments stay, with a hole before them
    assert made.losses.ranges == (LostOffsets(75, 100),)
    # Cut by the time that it is recovered, it does not look damaged any more.
    assert plan(folder).losses.ranges == (LostOffsets(75, 100),)


def test_an_index_that_leads_astray_hides_records_after_a_clean_stop(folder: Path) -> None:
    _, size = next(batches((folder / THIRD).read_bytes()))
    (folder / THIRD).with_suffix(".index").write_bytes(struct.pack(">ii", 2000, size))
    made = plan(folder, clean=True)
    assert (made.log_end_before, made.log_end) == (END, 100)
    assert made.losses.records == 50
    assert plan(folder).is_harmless


@pytest.mark.parametrize(
    ("name", "java"),
    [
        ("foo.log", "NumberFormatException"),
        ("foo.index", "NumberFormatException"),
        ("foo.snapshot", "NumberFormatException"),
        ("a.swap", "NumberFormatException"),
    ],
)
def test_a_stray_name_keeps_a_broker_from_starting(folder: Path, name: str, java: str) -> None:
    (folder / name).write_bytes(b"")
    made = plan(folder, clean=True)
    assert (made.outcome, made.java) == (Outcome.BROKER_STOPS, java)
    assert name in made.reason


def test_a_name_that_is_nearly_a_segments_cuts_the_log(folder: Path) -> None:
    (folder / f"{120}.log").write_bytes(b"")
    made = plan(folder, clean=True)
    assert (made.log_end_before, made.log_end) == (END, 120)
    assert made.losses.ranges == (LostOffsets(120, END),)
    assert made.losses.bytes == 0  # they are still there, and nobody sees them


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("0\n1\nx 0\n", Outcome.BROKER_STOPS),
        ("0\n1\n-1 0\n", Outcome.BROKER_STOPS),
        ("0\n1\n0 0 0\n", Outcome.LOG_DIR_OFFLINE),
        ("0\n7\n0 0\n", Outcome.LOG_DIR_OFFLINE),
        ("\udcff", Outcome.LOG_DIR_OFFLINE),
        ("", Outcome.LOADS),
    ],
)
def test_garbage_among_the_epochs(folder: Path, text: str, outcome: Outcome) -> None:
    data = text.encode(errors="surrogateescape")
    (folder / "leader-epoch-checkpoint").write_bytes(data)
    assert plan(folder, clean=True).outcome is outcome


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("", Outcome.BROKER_STOPS),
        ("version: 0\ntopic_id: short\n", Outcome.BROKER_STOPS),
        ("version: x\n", Outcome.LOG_DIR_OFFLINE),
        ("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n", Outcome.LOG_DIR_OFFLINE),
        ("version: 0\ntopic_id: sgf5MsZgRTuEMv68ZXKJbQ\n", Outcome.LOADS),
    ],
)
def test_garbage_for_a_topic_id(folder: Path, text: str, outcome: Outcome) -> None:
    (folder / "partition.metadata").write_text(text)
    assert plan(folder, clean=True).outcome is outcome


def test_markers_that_a_broker_does_not_expect(folder: Path) -> None:
    for record, java in (
        (Rec(b"\0\0\0\0\0\1", None), "NullPointerException"),
        (Rec(None, b"\0\0\0\1"), "NullPointerException"),
        (Rec(b"\0", b"\0\0\0\1"), "BufferUnderflowException"),
    ):
        marker = batch([record], END, producer=Producer(id=5), transactional=True, control=True)
        saved = (folder / THIRD).read_bytes()
        (folder / THIRD).write_bytes(saved + marker)
        made = plan(folder)
        assert (made.outcome, made.java) == (Outcome.BROKER_STOPS, java)
        (folder / THIRD).write_bytes(saved)


def test_a_marker_that_ends_in_its_header_stops_as_java_does(folder: Path) -> None:
    record = Rec(b"\0\0\0\0\0\1", b"\0\0\0\1")
    marker = batch([record], END, producer=Producer(id=5), transactional=True, control=True)
    short = patched(marker, 8, struct.pack(">i", 48))
    (folder / THIRD).write_bytes((folder / THIRD).read_bytes() + short)
    for path in folder.glob("*.snapshot"):
        path.unlink()
    (folder / f"{100:020}.snapshot").write_bytes(producer_snapshot([]))
    made = plan(folder, clean=True)
    assert (made.outcome, made.java) == (Outcome.BROKER_STOPS, "IndexOutOfBoundsException")


def test_an_unknown_codec_matters_to_nobody_who_loads(folder: Path) -> None:
    odd = bytearray(batch(values("odd"), END))
    odd[22] |= 7
    with (folder / THIRD).open("ab") as file:
        file.write(resealed(bytes(odd)))
    assert plan(folder).log_end == END + 1


def test_an_unknown_codec_of_an_old_batch_matters_where_an_offset_is_looked_up(
    folder: Path,
) -> None:
    old = message(END, None, b"odd", attributes=6)
    (folder / f"{END:020}.log").write_bytes(old)
    made = plan(folder)
    assert (made.outcome, made.java) == (Outcome.BROKER_STOPS, "IllegalArgumentException")
    assert made.reason.endswith("has the unknown codec 6")


@pytest.mark.parametrize(
    ("position", "byte", "java"),
    [
        (26, 0x10, "IndexOutOfBoundsException"),
        (30, 0x10, "IllegalArgumentException"),
        (16, 0xFF, "InvalidRecordException"),
    ],
)
def test_an_old_batch_with_a_length_beyond_it_stops_as_java_does(
    folder: Path, position: int, byte: int, java: str
) -> None:
    old = patched(
        wrapper([message(0, None, b"odd")], END, CompressionType.GZIP), position, bytes([byte])
    )
    (folder / f"{END:020}.log").write_bytes(
        patched(old, 12, zlib.crc32(old[16:]).to_bytes(4, "big"))
    )
    made = plan(folder)
    assert (made.outcome, made.java) == (Outcome.BROKER_STOPS, java)


def test_a_log_without_records_begins_at_a_negative_log_start(folder: Path) -> None:
    assert plan(folder, log_start=-3).log_start == 0
    for path in folder.iterdir():
        path.unlink()
    made = plan(folder, log_start=-3)
    assert (made.outcome, made.log_start, made.log_end) == (Outcome.LOADS, -3, -3)
    assert f"-{3:020}.log" in named(made, ChangeKind.CREATED)


@pytest.mark.parametrize("version", ["2.8.2", "4.3.1", "4.4.0"])
def test_a_batch_with_a_negative_base_offset_gets_a_segment_of_its_own(
    folder: Path, version: str
) -> None:
    for number, base in ((4, -100), (9, 2**40)):
        edit(
            folder / SECOND,
            number,
            lambda data, at, _, base=base: patched(data, at, struct.pack(">q", base)),
        )
    made = plan(folder, version=version)
    assert (made.outcome, made.log_start, made.log_end) == (Outcome.LOADS, 0, 2**40 + PER_BATCH)
    created = named(made, ChangeKind.CREATED)
    assert {SECOND, f"-{100:020}.log", f"{2**40:020}.log"} <= created
    # They are in the segment with the negative base offset, which no reader looks into.
    assert made.losses.ranges == (LostOffsets(75, 95),)


# The version as in the file, what a release reads of it, and whether it refuses that.
TXN_VERSIONS = [
    *(("4.4.0", stated, stated, stated != 0) for stated in (0, 1, 255, 256, 18839, -1, -32768)),
    *(("4.3.1", stated, stated >> 8, stated >> 8 > 0) for stated in (0, 1, 255, 256, 18839, -1, -32768)),
]  # fmt: skip


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(("version", "stated", "read", "refused"), TXN_VERSIONS)
def test_a_broker_ends_at_a_version_in_a_transaction_index_that_it_does_not_know(
    folder: Path, version: str, stated: int, read: int, refused: bool, clean: bool
) -> None:
    index = folder / f"{0:020}.txnindex"
    index.write_bytes(struct.pack(">h4q", stated, 5, 1, 3, 4))
    made = plan(folder, clean=clean, version=version)
    if refused:
        known = (
            "supported version range is 0 to 0" if version == "4.4.0" else "current version is 0"
        )
        assert made.outcome is Outcome.BROKER_STOPS
        assert made.java == "KafkaException"
        assert made.reason == (
            f"Unexpected aborted transaction version {read} in transaction index"
            f" /d/t-0/{index.name}, {known}"
        )
    else:
        assert made.outcome is Outcome.LOADS


def test_a_segment_may_have_a_negative_name(folder: Path) -> None:
    data = (folder / SECOND).read_bytes()
    at, size = next(batches(data))
    early = patched(data[at : at + size], 0, struct.pack(">q", -7))
    (folder / f"-{7:020}.log").write_bytes(early)
    made = plan(folder)
    assert (made.outcome, made.log_start, made.log_end) == (Outcome.LOADS, 0, END)
    assert f"-{7:020}.index" in named(made, ChangeKind.CREATED)


def test_a_log_start_above_the_end_deletes_everything(folder: Path) -> None:
    made = plan(folder, log_start=1000)
    assert (made.log_start, made.log_end) == (1000, 1000)
    assert made.losses.records == 0  # they were deleted before
    assert made.losses.bytes > 0
    assert not made.is_harmless


def test_records_below_the_log_start_are_not_lost(folder: Path) -> None:
    edit(folder / SECOND, 0, flipped)
    made = plan(folder, log_start=57)
    assert made.losses.ranges == (LostOffsets(57, END),)
    assert made.losses.records == END - 57


def test_a_finished_compaction_takes_the_place_of_what_it_replaced(folder: Path) -> None:
    compacted = batch(values("only"), 20)
    (folder / f"{0:020}.log.swap").write_bytes(compacted)
    for file in (SECOND, THIRD):
        for suffix in (".log", ".index", ".timeindex"):
            (folder / file).with_suffix(suffix).rename(folder / f"{file[:-4]}{suffix}.deleted")
    made = plan(folder, clean=True)
    assert (made.log_start, made.log_end) == (0, 21)
    assert f"{0:020}.log" in named(made, ChangeKind.DELETED)
    renamed = {each.name: each.new_name for each in made.changes if each.new_name}
    assert renamed[f"{0:020}.log.swap"] == f"{0:020}.log"
    assert made.losses.ranges == (LostOffsets(25, 50),)


def test_older_brokers_find_an_unfinished_swap_otherwise(folder: Path) -> None:
    (folder / f"{0:020}.log.swap").write_bytes(batch(values("only"), 20))
    new, old = plan(folder, clean=True), plan(folder, clean=True, version="2.8.2")
    assert f"{0:020}.log" in named(new, ChangeKind.DELETED)
    assert {each.name for each in old.changes if each.deleted_later} >= {f"{0:020}.log"}
    assert new.log_end == old.log_end == END
    assert new.losses.records == old.losses.records


def test_a_link_is_not_followed_and_said_so(folder: Path, tmp_path: Path) -> None:
    (folder / THIRD).rename(tmp_path / "elsewhere")
    (folder / THIRD).symlink_to(tmp_path / "elsewhere")
    made = plan(folder)
    assert made.outcome is Outcome.UNKNOWN
    assert any("symbolic link" in note for note in made.notes)


@pytest.mark.parametrize(("has_index", "log_end"), [(False, 135), (True, 100)])
def test_a_length_beyond_the_end_hides_what_follows_after_a_clean_stop(
    folder: Path, has_index: bool, log_end: int
) -> None:
    number = 9 if has_index else 7  # the last index entry is for the last batch
    edit(
        folder / THIRD,
        number,
        lambda data, at, _: patched(data, at + 8, struct.pack(">i", 1 << 20)),
    )
    if not has_index:
        (folder / THIRD).with_suffix(".index").write_bytes(b"")
    made = plan(folder, clean=True)
    assert made.log_end == log_end
    assert made.losses.ranges == (LostOffsets(100, 145) if has_index else LostOffsets(140, END),)
    assert made.losses.bytes == 0
    assert not made.is_harmless


def test_an_old_compressed_batch_is_inflated_to_its_end_where_its_offset_is_asked_for(
    folder: Path,
) -> None:
    inside = [message(END + number, b"k", b"v" * 40, magic=0) for number in range(5)]
    whole = wrapper(inside, END + 4, CompressionType.GZIP, magic=0)
    third = (folder / THIRD).read_bytes()
    (folder / THIRD).write_bytes(third + whole)
    assert plan(folder, clean=True).log_end == END + 5
    (folder / THIRD).write_bytes(third + flipped(whole, 0, len(whole)))
    made = plan(folder, clean=True)
    assert (made.outcome, made.java) == (Outcome.BROKER_STOPS, "KafkaException")
    assert plan(folder).log_end == END


def test_the_checksum_of_an_old_message_covers_its_magic(folder: Path) -> None:
    third = (folder / THIRD).read_bytes()
    whole = message(END, b"k", b"v" * 40, magic=1)
    (folder / THIRD).write_bytes(third + whole)
    assert plan(folder).log_end == END + 1
    below = patched(whole, 16, b"\xff")
    (folder / THIRD).write_bytes(third + below)
    assert plan(folder).log_end == END
    right = patched(below, 12, struct.pack(">I", zlib.crc32(below[16:])))
    (folder / THIRD).write_bytes(third + right)
    assert plan(folder).log_end == END + 1


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata"])
@pytest.mark.parametrize("size", [3 << 30, 100 << 30])
def test_a_text_file_of_gigabytes_is_no_more_read_than_a_broker_can(
    tmp_path: Path, name: str, size: int
) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / name).touch()
    os.truncate(folder / name, size)
    with SourceRoot(str(tmp_path)) as root:
        log = LogToLoad(root, "t-0", "/d/t-0", TopicPartition("t", 0), FolderState.LOG, clean=True)
        made = plan_log(OverlayDisk({"/d": root}), log, broker_version(), CONFIG, MockClock())
    assert (made.outcome, made.java) == (Outcome.BROKER_STOPS, "OutOfMemoryError")


def test_a_text_file_that_is_not_read_whole_tells_what_its_beginning_does(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    outcomes = {}
    for text in (b"0\n1\nx\n", b"0\n9\n" + b"1 1\n" * 2_000_000):
        (folder / "leader-epoch-checkpoint").write_bytes(text)
        os.truncate(folder / "leader-epoch-checkpoint", 3 << 30)
        with SourceRoot(str(tmp_path)) as root:
            log = LogToLoad(
                root, "t-0", "/d/t-0", TopicPartition("t", 0), FolderState.LOG, clean=True
            )
            made = plan_log(OverlayDisk({"/d": root}), log, broker_version(), CONFIG, MockClock())
        outcomes[text[:6]] = made.outcome
    assert list(outcomes.values()) == [Outcome.LOG_DIR_OFFLINE, Outcome.UNKNOWN]


def test_a_producer_id_below_minus_one_is_no_producer(folder: Path) -> None:
    snapshots = {}
    for producer_id in (-1, -2, -(2**63), 5):
        copy = folder.parent / f"{producer_id}" / "t-0"
        shutil.copytree(folder, copy)
        with (copy / THIRD).open("ab") as file:
            made = batch([Rec(b"x")], END, producer=Producer(id=producer_id, epoch=0, sequence=0))
            file.write(made)
        changes = plan(copy).changes
        snapshots[producer_id] = {
            each.size_after for each in changes if each.name == f"{END + 1:020}.snapshot"
        }
    assert snapshots[-1] == snapshots[-2] == snapshots[-(2**63)]
    assert snapshots[5] != snapshots[-1]


def test_a_log_with_the_last_offset_of_all_ends_below_its_start_and_is_emptied(
    folder: Path,
) -> None:
    for path in (*folder.glob("*.index"), *folder.glob("*.snapshot")):
        path.unlink()
    (folder / THIRD).unlink()
    (folder / SECOND).unlink()
    last = batch(values("last"), 2**31 + 7)
    base = 2**63 - 1
    (folder / f"{base - 4:020}.log").write_bytes(patched(last, 0, struct.pack(">q", base)))
    made = plan(folder, clean=True)
    assert (made.outcome, made.log_start, made.log_end) == (Outcome.LOADS, 0, 0)
