"""Contents without decoding: bytes, and ranges of files."""

from pathlib import Path

import pytest

from engine.files.source_files import SourceRoot
from kafkafs.tree.content import BytesContent, FileContent

DATA = bytes(range(256)) * 20


@pytest.fixture
def root(tmp_path: Path) -> SourceRoot:
    (tmp_path / "file").write_bytes(DATA)
    return SourceRoot(str(tmp_path))


@pytest.mark.parametrize(("offset", "size"), [(0, 5), (3, 4), (0, 100), (5, 0), (9, 1), (100, 5)])
def test_bytes_are_read_by_position(offset: int, size: int) -> None:
    content = BytesContent(b"0123456789")
    assert content.read(offset, size) == b"0123456789"[offset : offset + size]
    assert content.read_now(offset, size) == content.read(offset, size)


def test_equal_bytes_have_equal_identities() -> None:
    assert BytesContent(b"a").identity == BytesContent(b"a").identity
    assert BytesContent(b"a").identity != BytesContent(b"b").identity


@pytest.mark.parametrize(
    ("start", "end", "offset", "size"),
    [(0, 5120, 0, 5120), (10, 20, 0, 100), (10, 20, 5, 100), (10, 20, 10, 1), (10, 20, 99, 1)],
)
def test_a_range_of_a_file_ends_where_it_ends(
    root: SourceRoot, start: int, end: int, offset: int, size: int
) -> None:
    content = FileContent(root.open("file"), start, end)
    assert content.size == end - start
    expected = DATA[start:end][offset : offset + size]
    assert content.read(offset, size) == expected
    assert content.read_now(offset, size) in (None, expected)


def test_a_read_larger_than_the_buffer_takes_the_way_with_waiting(root: SourceRoot) -> None:
    content = FileContent(root.open("file"), 0, len(DATA))
    assert content.read(0, 1 << 22) == DATA


def test_a_file_that_was_cut_gives_short_reads(root: SourceRoot, tmp_path: Path) -> None:
    content = FileContent(root.open("file"), 0, len(DATA))
    with open(tmp_path / "file", "r+b") as file:
        file.truncate(100)
    assert content.read(0, 5000) == DATA[:100]
    assert content.read_now(0, 5000) is None
    assert content.read(200, 10) == b""


def test_a_deleted_file_stays_readable(root: SourceRoot, tmp_path: Path) -> None:
    content = FileContent(root.open("file"), 0, len(DATA))
    (tmp_path / "file").unlink()
    root.forget("")
    assert content.read(0, 10) == DATA[:10]


def test_identity_tells_a_changed_file(root: SourceRoot, tmp_path: Path) -> None:
    file = root.open("file")
    before = FileContent(file, 0, 10).identity
    assert FileContent(file, 0, 10).identity == before
    assert FileContent(file, 0, 11).identity != before
