"""Logs with sectors that cannot be read: what is lost, and what is not."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import CorruptRecordError
from engine.files.unreadable import Stretch
from engine.log.log_directory import open_source
from engine.log.segment.scan import BatchRun, Damage
from engine.log.view.log_view import LogView
from tests.builders import CompressionType, Rec, batch, write_segment
from tests.unreadable import unreadable_bytes

LZ4 = CompressionType.LZ4
BLOCK = 512


def batches(count: int, value: int, codec: CompressionType = CompressionType.NONE) -> list[bytes]:
    """Batches of four records; each record's value has `value` bytes."""
    return [
        batch(
            [
                Rec(b"%06d" % (4 * n + i) * (value // 6), b"k", 1_700_000_000_000 + 4 * n + i)
                for i in range(4)
            ],
            4 * n,
            codec,
        )
        for n in range(count)
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "t-0"


def view_of(folder: Path) -> LogView:
    return next(iter(open_source(str(folder.parent)).partitions().values())).view()


def log_of(folder: Path) -> Path:
    return folder / f"{0:020}.log"


def split(view: LogView) -> tuple[list[int], list[Damage]]:
    """The base offsets of the good batches, and the damage."""
    good, damages = [], []
    for _, item in view.runs():
        if isinstance(item, BatchRun):
            good += item.table["base_offset"].tolist()
        else:
            damages.append(item)
    return good, damages


def sectors(size: int) -> Iterator[tuple[int, int]]:
    for start in range(0, size, BLOCK):
        yield start, min(start + BLOCK, size)


def test_exactly_the_batches_that_touch_a_sector_are_lost_whichever_it_is(folder: Path) -> None:
    made = batches(24, 60)
    write_segment(folder, made)
    ends = [sum(map(len, made[: n + 1])) for n in range(len(made))]
    path = log_of(folder)
    for start, end in sectors(ends[-1]):
        with unreadable_bytes({path: [(start, end)]}):
            good, damages = split(view_of(folder))
        touched = {
            4 * n
            for n, (stop, data) in enumerate(zip(ends, made, strict=True))
            if stop > start and stop - len(data) < end
        }
        assert set(good) == {4 * n for n in range(len(made))} - touched, (start, end)
        assert {damage.kind for damage in damages} == {"unreadable"}
        assert {each for damage in damages for each in damage.stretches} == {
            Stretch(start, end - start, errno.EIO)
        }
        lost = [offset for d in damages for offset in range(d.first_offset or 0, last_of(d) + 1)]
        assert lost == sorted(lost)
        assert {offset - offset % 4 for offset in lost} >= touched - {4 * (len(made) - 1)}


def last_of(damage: Damage) -> int:
    return (damage.first_offset or 0) if damage.last_offset is None else damage.last_offset


def test_a_batch_whose_header_can_be_read_tells_its_offsets_and_leads_to_the_next(
    folder: Path,
) -> None:
    made = batches(3, 1200)
    write_segment(folder, made)
    first, second = len(made[0]), len(made[0]) + len(made[1])
    start = (first + 61 + BLOCK) // BLOCK * BLOCK
    with unreadable_bytes({log_of(folder): [(start, start + BLOCK)]}):
        good, (damage,) = split(view_of(folder))
    assert good == [0, 8]
    assert (damage.position, damage.length) == (first, second - first)
    assert (damage.first_offset, damage.last_offset) == (4, 7)
    assert damage.reason == f"512 bytes at byte {start} cannot be read (Input/output error)"
    assert (damage.expected, damage.found) == (None, None)


def test_records_on_readable_bytes_of_an_uncompressed_batch_are_told_and_not_served(
    folder: Path,
) -> None:
    made = batches(2, 3000)
    write_segment(folder, made)
    with unreadable_bytes({log_of(folder): [(4096, 4608)]}):
        good, (damage,) = split(view_of(folder))
    assert good == [4]
    # The second record's value lies across the sector; the lengths around it can be read.
    assert damage.unproven == ((0, 0), (2, 3))


def test_a_compressed_batch_has_no_records_on_readable_bytes(folder: Path) -> None:
    made = batches(3, 3000, LZ4)
    write_segment(folder, made)
    with unreadable_bytes({log_of(folder): [(0, 512)]}):
        _, damages = split(view_of(folder))
    assert [damage.unproven for damage in damages] == [()] * len(damages)


def test_filler_that_happens_to_be_right_proves_nothing(folder: Path) -> None:
    data = batch([Rec(b"\xff" * 8192, b"k", 1)], 0)
    write_segment(folder, [data, *batches(3, 60)[1:]])
    with unreadable_bytes({log_of(folder): [(4096, 4608)]}):
        good, damages = split(view_of(folder))
    assert good == [4, 8]
    assert [damage.kind for damage in damages] == ["unreadable"]


@pytest.mark.parametrize("size", [512, 4096])
def test_each_record_is_looked_up_or_its_loss_is_explained(folder: Path, size: int) -> None:
    made = batches(40, 400)
    write_segment(folder, made, index_interval=0)
    bad = (8192, 8192 + size)
    ends = [sum(map(len, made[: n + 1])) for n in range(len(made))]
    with unreadable_bytes({log_of(folder): [bad]}):
        view = view_of(folder)
        for n, (end, data) in enumerate(zip(ends, made, strict=True)):
            offset = 4 * n + 1
            if end > bad[0] and end - len(data) < bad[1]:
                with pytest.raises(CorruptRecordError, match="cannot be read"):
                    view.record(offset)
            else:
                found = view.record(offset)
                assert found is not None
                assert int(found[0].offset[found[1]]) == offset
        (problem,) = view.problems
        assert (problem["kind"], problem["position"], problem["length"]) == (
            "unreadable",
            *_at(bad),
        )


def _at(bad: tuple[int, int]) -> tuple[int, int]:
    return bad[0], bad[1] - bad[0]


def test_the_first_sector_of_the_only_segment_costs_its_batches_only(folder: Path) -> None:
    made = batches(40, 400)
    write_segment(folder, made)
    with unreadable_bytes({log_of(folder): [(0, 4096)]}):
        view = view_of(folder)
        good, (damage,) = split(view)
        assert view.log_end_offset == 160
    assert good[-1] == 156
    assert good[0] == (damage.last_offset or 0) + 1
    assert damage.first_offset == 0


def test_the_last_sector_leaves_all_before_it(folder: Path) -> None:
    made = batches(40, 400)
    write_segment(folder, made)
    size = log_of(folder).stat().st_size
    start = (size - 1) // 4096 * 4096
    with unreadable_bytes({log_of(folder): [(start, size)]}):
        good, damages = split(view_of(folder))
    assert good == [4 * n for n in range(len(good))]
    assert len(good) == sum(sum(map(len, made[: n + 1])) <= start for n in range(len(made)))
    assert damages[-1].position + damages[-1].length == size


def test_above_an_unreadable_log_end_nothing_is_known_but_by_the_recovery_point_of_a_clean_stop(
    folder: Path,
) -> None:
    made = batches(40, 400)
    path = write_segment(folder, made)
    size = path.stat().st_size
    bad = {path: [((size - 1) // 4096 * 4096, size)]}

    def is_known(offset: int) -> bool:
        with unreadable_bytes(bad):
            try:
                found = view_of(folder).batch(offset)
            except CorruptRecordError:
                return False
        assert found is None
        return True

    recovery_point = folder.parent / "recovery-point-offset-checkpoint"
    recovery_point.write_text("0\n1\nt 0 160\n")
    assert not is_known(160)
    (folder.parent / ".kafka_cleanshutdown").touch()
    assert [is_known(offset) for offset in (159, 160, 161, 1 << 40)] == [False, True, True, True]
    recovery_point.write_text("0\n1\nt 0 100\n")
    assert not is_known(160), "a recovery point below the records is wrong"
    recovery_point.unlink()
    assert not is_known(160)


def test_a_disk_that_reads_nothing_is_one_stretch_a_file(folder: Path) -> None:
    made = batches(400, 4000)
    write_segment(folder, made)
    size = log_of(folder).stat().st_size
    with unreadable_bytes({log_of(folder): [(0, size)]}) as faults:
        view = view_of(folder)
        good, _ = split(view)
    assert good == []
    assert len(faults.failed) < 40
    assert {each["kind"] for each in view.problems} == {"unreadable"}
    assert sum(each["length"] for each in view.problems) == size


def test_every_layer_together_asks_the_disk_for_a_sector_a_few_times(folder: Path) -> None:
    write_segment(folder, batches(400, 400), index_interval=0)
    with unreadable_bytes({log_of(folder): [(65536, 69632)]}) as faults:
        view = view_of(folder)
        for _ in range(3):
            split(view)
            split(view_of(folder))
            for offset in range(0, 1600, 40):
                view.locate(offset)
            view.offset_for_time(1_700_000_000_500)
    assert len(faults.failed) < 10


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_an_unreadable_index_is_a_missing_one_and_a_problem_that_names_it(
    folder: Path, suffix: str
) -> None:
    write_segment(folder, batches(400, 400), index_interval=0)
    index = log_of(folder).with_suffix(suffix)
    index.touch()
    with unreadable_bytes({index: [(0, 1 << 20)]}):
        view = view_of(folder)
        assert view.record(801) is not None
        found = view.offset_for_time(1_700_000_000_700)
        assert found is not None
        assert found.offset == 700
        problems = {each["file"].rpartition("/")[2] for each in view.problems}
    assert problems == ({index.name} if index.stat().st_size else set())


@pytest.mark.parametrize(
    "name", ["leader-epoch-checkpoint", "partition.metadata", "meta.properties"]
)
def test_an_unreadable_small_file_is_a_missing_one_and_a_problem_that_names_it(
    folder: Path, name: str
) -> None:
    write_segment(folder, batches(4, 400))
    path = folder.parent / name if name == "meta.properties" else folder / name
    path.write_text("version: 0\n")
    with unreadable_bytes({path: [(0, 512)]}):
        source = open_source(str(folder.parent))
        view = next(iter(source.partitions().values())).view()
        assert view.topic_id is None
        assert view.leader_epochs.latest is not None
        assert source.meta_properties == (None,)
        problems = source.problems
    places = [
        (each["file"].rpartition("/")[2], each["position"], each["length"]) for each in problems
    ]
    assert places == [(name, 0, len("version: 0\n"))]
