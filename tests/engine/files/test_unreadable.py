"""Reading a file on a device that cannot read all of it."""

import errno
import pickle
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from engine.errors import UnreadableError
from engine.files.source_files import SourceFile, SourceRoot
from engine.files.unreadable import Stretch, readable_parts
from tests.unreadable import unreadable_bytes

CONTENT = b"".join(b"%07d\n" % number for number in range(40_000))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.log"
    path.write_bytes(CONTENT)
    return path


def opened(path: Path) -> SourceFile:
    return SourceRoot(str(path.parent)).open_fresh(path.name)


def failure_of(file: SourceFile, position: int, size: int) -> OSError:
    with pytest.raises(OSError, match=r"byte|stale|Stale") as caught:
        file.read_at(position, size)
    return caught.value


def stretch_at(file: SourceFile, position: int = 0, size: int = len(CONTENT)) -> tuple[int, int]:
    error = failure_of(file, position, size)
    assert isinstance(error, UnreadableError)
    return error.position, error.length


def test_the_error_names_the_sector_and_the_file(path: Path) -> None:
    with unreadable_bytes({path: [(8192, 12288)]}), opened(path) as file:
        error = failure_of(file, 100, 50_000)
    assert isinstance(error, UnreadableError)
    assert (error.position, error.length, error.errno) == (8192, 4096, errno.EIO)
    assert str(error) == f"{path}: 4096 bytes at byte 8192 cannot be read (Input/output error)"


@pytest.mark.parametrize(
    "number",
    [errno.EIO, errno.ENODATA, errno.EREMOTEIO, errno.EBADMSG, errno.EUCLEAN, errno.EILSEQ],
)
def test_each_errno_of_a_bad_medium_is_told_apart_from_other_errors(
    path: Path, number: int
) -> None:
    with unreadable_bytes({path: [(0, 512)]}, number), opened(path) as file:
        assert stretch_at(file) == (0, 512)


def test_an_error_that_is_no_medium_s_stays_as_it_is(path: Path) -> None:
    with unreadable_bytes({path: [(0, 512)]}, errno.ESTALE), opened(path) as file:
        error = failure_of(file, 0, 10)
    assert error.errno == errno.ESTALE
    assert not isinstance(error, UnreadableError)


def test_what_lies_around_the_sector_is_read(path: Path) -> None:
    with unreadable_bytes({path: [(8192, 12288)]}), opened(path) as file:
        assert file.read_at(8000, 192) == CONTENT[8000:8192]
        assert stretch_at(file, 12287, 1) == (8192, 4096)
        assert file.read_at(12288, 1 << 20) == CONTENT[12288:]
        room = bytearray(100)
        assert file.read_into(room, 12288) == 100
        assert room == CONTENT[12288:12388]
        with pytest.raises(UnreadableError):
            file.read_into(room, 8191)


def test_the_parts_lie_side_by_side(path: Path) -> None:
    with unreadable_bytes({path: [(8192, 12288), (20480, 20992)]}), opened(path) as file:
        parts = list(readable_parts(file, 10_000, 1 << 20))
    assert parts == [
        Stretch(8192, 4096, errno.EIO),
        CONTENT[12288:20480],
        Stretch(20480, 512, errno.EIO),
        CONTENT[20992:],
    ]


def test_a_stretch_that_is_known_is_not_read_again_by_anybody(path: Path) -> None:
    with unreadable_bytes({path: [(8192, 12288)]}) as faults:
        with opened(path) as file:
            stretch_at(file)
        asked = len(faults.failed)
        with opened(path) as another:
            assert stretch_at(another) == (8192, 4096)
            assert stretch_at(another, 9000, 10) == (8192, 4096)
    assert asked < 8
    assert len(faults.failed) == asked


def test_a_failure_that_passes_is_read_again(path: Path) -> None:
    with unreadable_bytes({path: [(8192, 12288)]}) as faults, opened(path) as file:
        faults.most = 1
        assert file.read_at(0, 1 << 20) == CONTENT
    assert len(faults.failed) == 1


def test_a_disk_that_reads_nothing_is_given_up_after_few_reads(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with path.open("wb") as out:
        out.truncate(1 << 30)
    with unreadable_bytes({path: [(0, 1 << 30)]}) as faults, opened(path) as file:
        assert stretch_at(file, 0, 1 << 30) == (0, 1 << 30)
    assert len(faults.failed) < 30


def test_many_dead_files_of_a_device_cost_one_read_each_at_last(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.log" for number in range(100)]
    for path in paths:
        path.write_bytes(CONTENT)
    with unreadable_bytes({path: [(0, 1 << 30)] for path in paths}) as faults:
        for path in paths:
            with opened(path) as file:
                assert stretch_at(file) == (0, len(CONTENT))
    assert len(faults.failed) < 256 + 2 * len(paths) + 20


def test_a_file_that_was_written_anew_is_read_again(path: Path) -> None:
    with unreadable_bytes({path: [(8192, 12288)]}) as faults, opened(path) as file:
        stretch_at(file)
        faults.set({})
        path.touch()  # as a write that made the disk remap the sector does
        with opened(path) as again:
            assert again.read_at(0, 1 << 20) == CONTENT


def test_the_error_comes_whole_out_of_another_process(path: Path) -> None:
    error = UnreadableError(errno.EIO, "a.log", 512, 1024)
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.errno, copy.path, copy.position, copy.length) == (errno.EIO, "a.log", 512, 1024)


@given(
    first=st.integers(0, 600),
    sectors=st.integers(1, 24),
    position=st.integers(0, len(CONTENT)),
    size=st.integers(1, len(CONTENT)),
)
def test_a_stretch_is_found_to_the_block(
    tmp_path_factory: pytest.TempPathFactory, first: int, sectors: int, position: int, size: int
) -> None:
    path = tmp_path_factory.mktemp("block") / "a.log"
    path.write_bytes(CONTENT)
    start, end = 512 * first, min(512 * (first + sectors), len(CONTENT))
    with unreadable_bytes({path: [(start, end)]}), opened(path) as file:
        if position < end and position + size > start and start < len(CONTENT):
            assert stretch_at(file, position, size) == (start, end - start)
        else:
            assert file.read_at(position, size) == CONTENT[position : position + size]
