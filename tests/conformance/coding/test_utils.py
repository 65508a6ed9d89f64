"""What Kafka's UtilsTest asks."""

import os
import random
import threading
from pathlib import Path

import pytest

from engine.budgets import DEFAULT_BUDGETS
from engine.coding.checksums import murmur2
from engine.disk.disk import DISK, Disk
from engine.errors import CorruptRecordError, InvalidRecordError, SourceRefusedError
from engine.files.file_names import FileState, log_file_name, parse_file_name
from engine.files.source_files import SourceRoot
from engine.record.control_records import ControlRecordType, parse_quorum_record
from engine.record.log_input_stream import read_batch
from engine.record.memory_records import MemoryRecords
from tests.builders import message, patched, resealed

TEXT = b"hello, world"


@pytest.fixture
def root(tmp_path: Path):
    with SourceRoot(str(tmp_path)) as opened:
        yield opened


MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.conformance("UtilsTest.testMurmur2")
def test_murmur2():
    assert {text: murmur2(text) for text in MURMUR2} == MURMUR2


@pytest.mark.conformance("UtilsTest.getNullableSizePrefixedArrayInvalid")
def test_get_nullable_size_prefixed_array_invalid():
    # In the protocol's messages a length one below null's; in log messages any negative one is null.
    voters = b"\xff\xff\xff\xff\x0f"
    value = bytes.fromhex("0000 00000001") + voters + b"\x01\x00"
    with pytest.raises(InvalidRecordError):
        parse_quorum_record(ControlRecordType.LEADER_CHANGE, value)


@pytest.mark.conformance("UtilsTest.getNullableSizePrefixedArrayUnderflow")
def test_get_nullable_size_prefixed_array_underflow():
    data = message(0, b"key", b"value", magic=1)
    largest = resealed(patched(data, 26, b"\x7f\xff\xff\xff"))
    with pytest.raises(InvalidRecordError) as raised:
        next(MemoryRecords(largest).records())
    assert raised.value.found == 2**31 - 1


@pytest.mark.conformance("UtilsTest.testReadFullyOrFailWithRealFile")
def test_read_fully_or_fail_with_real_file(root, tmp_path):
    (tmp_path / "file").write_bytes(TEXT)
    file = root.open("file")
    assert read_batch(file, 0, len(TEXT), DEFAULT_BUDGETS) == TEXT
    assert read_batch(file, 0, 5, DEFAULT_BUDGETS) == b"hello"
    assert read_batch(file, 7, 5, DEFAULT_BUDGETS) == b"world"
    with pytest.raises(CorruptRecordError, match="the file ends inside"):
        read_batch(file, 0, len(TEXT) + 1, DEFAULT_BUDGETS)


@pytest.fixture
def partial_reads(monkeypatch):
    """Makes every pread stop after a few bytes; gives the list of how many each asked for."""
    asked: list[int] = []
    pread, preadv, chance = os.pread, os.preadv, random.Random(7)

    def short_pread(fd: int, size: int, position: int) -> bytes:
        asked.append(size)
        return pread(fd, min(size, chance.randint(1, 20)), position)

    def short_preadv(fd: int, buffers: list[memoryview], position: int, *flags: int) -> int:
        (buffer,) = buffers
        asked.append(len(buffer))
        return preadv(fd, [memoryview(buffer)[: chance.randint(1, 20)]], position, *flags)

    monkeypatch.setattr(os, "pread", short_pread)
    monkeypatch.setattr(os, "preadv", short_preadv)
    return asked


@pytest.mark.conformance("UtilsTest.testReadFullyOrFailWithPartialFileChannelReads")
def test_read_fully_or_fail_with_partial_file_channel_reads(root, tmp_path, partial_reads):
    data = random.Random(1).randbytes(100)
    (tmp_path / "file").write_bytes(data)
    assert read_batch(root.open("file"), 0, 100, DEFAULT_BUDGETS) == data
    assert len(partial_reads) >= 5


@pytest.mark.conformance("UtilsTest.testReadFullyWithPartialFileChannelReads")
def test_read_fully_with_partial_file_channel_reads(root, tmp_path, partial_reads):
    data = random.Random(2).randbytes(100)
    (tmp_path / "file").write_bytes(data)
    buffer = bytearray(100)
    assert root.open("file").read_into(buffer, 0) == 100
    assert buffer == data
    assert len(partial_reads) >= 5


@pytest.mark.conformance("UtilsTest.testReadFullyIfEofIsReached")
def test_read_fully_if_eof_is_reached(root, tmp_path):
    (tmp_path / "file").write_bytes(b"abcdefghkl")
    file, buffer = root.open("file"), bytearray(100)
    assert file.read_at(0, 100) == b"abcdefghkl"
    assert file.read_into(buffer, 0) == 10
    assert buffer == b"abcdefghkl" + bytes(90)


@pytest.mark.conformance("UtilsTest.testReplaceSuffix")
def test_replace_suffix():
    for state in (FileState.LIVE, FileState.DELETED, FileState.CLEANED, FileState.SWAP):
        name = log_file_name(33, state)
        assert name.startswith("00000000000000000033.log")
        found = parse_file_name(name)
        assert (found.base_offset, found.state) == (33, state)
        assert log_file_name(found.base_offset) == "00000000000000000033.log"
    assert parse_file_name("00000000000000000033.deleted.log") is None
    assert parse_file_name("00000000000000000033.log.deleted.deleted") is None


@pytest.mark.conformance("UtilsTest.testFileAsStringNamedPipe")
def test_file_as_string_named_pipe(root, tmp_path):
    # Kafka reads its configuration from such a thing; a log dir must not make a reader wait for a writer.
    os.mkfifo(tmp_path / "meta.properties")
    outcome: list[Exception] = []

    def read() -> None:
        try:
            root.read("meta.properties", limit=1024)
        except SourceRefusedError as error:
            outcome.append(error)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(10)
    assert not reader.is_alive()
    assert len(outcome) == 1


@pytest.mark.conformance("UtilsTest.testRecursiveDelete")
def test_recursive_delete(tmp_path):
    file = tmp_path / "file"
    file.touch()
    DISK.remove_tree(file)
    assert not file.exists()
    folder = tmp_path / "folder"
    (folder / "a" / "c").mkdir(parents=True)
    (folder / "b").mkdir()
    DISK.remove_tree(folder)
    assert list(tmp_path.iterdir()) == []
    DISK.remove_tree(folder)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.conformance("UtilsTest.testRecursiveDeleteWithDeletedFile")
def test_recursive_delete_with_deleted_file(tmp_path):
    class Vanishing(Disk):
        """What it lists is gone when somebody looks at it."""

        def list(self, path):
            names = super().list(path)
            for name in names:
                DISK.remove_tree(f"{path}/{name}")
            return names

    folder = tmp_path / "folder"
    (folder / "a").mkdir(parents=True)
    (folder / "file").touch()
    Vanishing().remove_tree(folder)
    assert not folder.exists()
