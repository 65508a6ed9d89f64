"""What Kafka's RemoteIndexCacheTest asks of damaged index files and of names in the cache's folder."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import CorruptIndexError
from engine.files.file_names import FileKind, RemoteIndexName, parse_remote_index_name
from engine.files.source_files import SourceRoot
from engine.index.abstract_index import AbstractIndex
from engine.index.offset_index import OffsetIndex
from engine.index.time_index import TimeIndex
from engine.index.transaction_index import TransactionIndex
from tests import builders
from tests.builders import Aborted

BASE_OFFSET = 100
NAMES = {"offset": "x.index", "time": "x.timeindex", "transaction": "x.txnindex"}
CLASSES = {"offset": OffsetIndex, "time": TimeIndex, "transaction": TransactionIndex}
GOOD = {
    "offset": builders.offset_index([(BASE_OFFSET + 5, 100)], BASE_OFFSET),
    "time": builders.time_index([(1000, BASE_OFFSET + 5)], BASE_OFFSET),
    "transaction": b"",
}
CORRUPT = {
    "offset": b"Hello, world",
    "time": b"Hello, world1",
    "transaction": builders.transaction_index(
        [
            Aborted(0, 0, 10, 11),
            Aborted(1, 5, 15, 13),
            Aborted(2, 18, 35, 25),
            Aborted(3, 32, 50, 40),
        ]
    ),
}

OpenIndex = Callable[[str], AbstractIndex]


@pytest.fixture
def open_index(tmp_path: Path) -> OpenIndex:
    for kind, data in GOOD.items():
        (tmp_path / NAMES[kind]).write_bytes(data)
    root = SourceRoot(str(tmp_path))
    return lambda kind: CLASSES[kind](lambda: root.open(NAMES[kind], fresh=True), BASE_OFFSET)


@pytest.mark.conformance("RemoteIndexCacheTest.testCorruptCacheIndexFileExistsButNotInCache")
@pytest.mark.parametrize("kind", NAMES)
def test_corrupt_cache_index_file_exists_but_not_in_cache(
    kind: str, open_index: OpenIndex, tmp_path: Path
) -> None:
    (tmp_path / NAMES[kind]).write_bytes(CORRUPT[kind])
    with pytest.raises(CorruptIndexError):
        open_index(kind).check()
    (tmp_path / "good").write_bytes(GOOD[kind])
    (tmp_path / "good").rename(tmp_path / NAMES[kind])
    index = open_index(kind)
    index.check()
    assert len(index) == (kind != "transaction")


@pytest.mark.conformance("RemoteIndexCacheTest.testMultipleIndexEntriesExecutionInCorruptException")
def test_multiple_index_entries_execution_in_corrupt_exception(
    open_index: OpenIndex, tmp_path: Path
) -> None:
    indexes = {kind: open_index(kind) for kind in NAMES}
    (tmp_path / NAMES["time"]).write_bytes(CORRUPT["time"])
    with pytest.raises(CorruptIndexError):
        indexes["time"].check()
    indexes["offset"].check()
    indexes["transaction"].check()
    assert indexes["offset"].lookup(BASE_OFFSET + 9) == (BASE_OFFSET + 5, 100)
    (tmp_path / NAMES["time"]).write_bytes(GOOD["time"])
    indexes["time"].check()
    assert indexes["time"].last_entry == (1000, BASE_OFFSET + 5)


@pytest.mark.conformance("RemoteIndexCacheTest.testRSMReturnCorruptedIndexFile")
@pytest.mark.parametrize("kind", NAMES)
def test_rsm_return_corrupted_index_file(kind: str) -> None:
    with pytest.raises(CorruptIndexError):
        CLASSES[kind](CORRUPT[kind], BASE_OFFSET).check()


@pytest.mark.conformance("RemoteIndexCacheTest.testDeleteInvalidIndexFilesOnInit")
def test_delete_invalid_index_files_on_init() -> None:
    segment = uuid.uuid4()
    assert parse_remote_index_name(f"{BASE_OFFSET}_{segment}.index.deleted") is None
    assert parse_remote_index_name(f"{BASE_OFFSET}_{segment}.timeindex.tmp") is None
    valid = {
        ".index": FileKind.OFFSET_INDEX,
        ".timeindex": FileKind.TIME_INDEX,
        ".txnindex": FileKind.TRANSACTION_INDEX,
    }
    segment_id = "sgf5MsZgRTuEMv68ZXKJbQ"
    for suffix, kind in valid.items():
        name = f"{BASE_OFFSET + 100}_{segment_id}{suffix}"
        assert parse_remote_index_name(name) == RemoteIndexName(kind, 200, segment_id)
        assert parse_remote_index_name(name + ".deleted") is None
        assert parse_remote_index_name(name + ".tmp") is None
