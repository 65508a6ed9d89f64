"""Faults 99 to 110: a broker that works on the files while they are read.

What is being written is not there yet, what was taken away is gone, and neither is damage.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from engine.files.source_files import SourceFile
from engine.log.log_directory import LogSource, open_source
from engine.log.segment import active_tail
from kafkafs.tree.errors import NotFound
from kafkafs.tree.tree import Tree
from tests.builders import Rec, batch, offset_index, patched, write_segment
from tests.damage.cases import AT, BEFORE, GOOD_VALUES, START, VICTIM, good, log_dir
from tests.damage.conftest import fingerprint
from tests.damage.survey import MEANT

LOG = f"{0:020}.log"
RECORDS = f"t-0/records/{0:020}.jsonl"
_HOLD = """
import fcntl, sys
lock = open(sys.argv[1], "w")
fcntl.lockf(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


class Live:
    """A log dir whose lock another process holds, and the tree over it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "t-0" / LOG
        self.source: LogSource = open_source(str(folder))
        self.tree = Tree(self.source)

    def look_again(self) -> None:
        """As if enough time had passed since the last look."""
        self.source.partitions(max_age=0)["t-0"].view(max_age=0)

    def append(self, data: bytes) -> None:
        with self.log.open("ab") as file:
            file.write(data)
        self.look_again()

    def write_at(self, position: int, data: bytes) -> None:
        with self.log.open("r+b") as file:
            file.seek(position)
            file.write(data)
        self.look_again()

    def facts(self, path: str = RECORDS) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.read(path).splitlines()]

    def read(self, path: str) -> bytes:
        node: Any = self.tree.resolve(path)
        content = node.open()
        try:
            data: bytes = content.read(0, content.size)
            return data
        finally:
            content.close()

    def values(self, path: str = RECORDS) -> list[Any]:
        facts = self.facts(path)
        assert not [fact for fact in facts if "error" in fact], "a false alarm"
        return [fact["value"] for fact in facts]

    def value_at(self, offset: int) -> str | None:
        try:
            value: str = json.loads(self.read(f"t-0/offset/{offset}"))["value"]
        except NotFound:
            return None
        return value


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    log_dir(tmp_path, BEFORE)
    command = [sys.executable, "-c", _HOLD, tmp_path / ".lock"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as broker:
        assert broker.stdout is not None
        assert broker.stdin is not None
        assert broker.stdout.readline() == b"held\n"
        opened = Live(tmp_path)
        assert opened.source.broker_pid == broker.pid
        yield opened
        opened.source.close()
        broker.stdin.close()


def test_fault_099_no_file_of_the_source_is_mapped(live: Live) -> None:
    index = live.log.with_suffix(".index")
    index.write_bytes(offset_index([(5, len(BEFORE[0]))]) + bytes(10 << 20))
    live.look_again()
    assert live.values() == GOOD_VALUES[:6]
    assert live.value_at(4) == "b1"
    assert str(live.folder) not in Path("/proc/self/maps").read_text()


def test_fault_099_an_index_cut_off_under_a_reader_costs_nothing(live: Live) -> None:
    index = live.log.with_suffix(".index")
    entries = offset_index([(5, len(BEFORE[0]))])
    for content in (entries + bytes(10 << 20), entries, b"", entries + bytes(1 << 20)):
        index.write_bytes(content)
        for offset, value in enumerate(GOOD_VALUES[:6]):
            assert live.value_at(offset) == value
        live.look_again()


def test_fault_100_a_batch_is_there_when_its_last_byte_is(live: Live) -> None:
    for byte in range(len(VICTIM)):
        live.append(VICTIM[byte : byte + 1])
        is_there = byte == len(VICTIM) - 1
        assert live.value_at(6) == ("x0" if is_there else None)
        if byte % 10 == 0 or is_there:
            assert len(live.values()) == (9 if is_there else 6)
    assert not live.source.problems


def test_fault_101_a_preallocated_file_has_no_damage(live: Live) -> None:
    live.append(bytes(1 << 20))
    assert live.values() == GOOD_VALUES[:6]
    assert VICTIM[-2:] == b"2\x00"  # so zeros complete it
    for end in (5, 20, 61, 80, len(VICTIM) - 2):
        live.write_at(AT, VICTIM[:end])
        assert live.values() == GOOD_VALUES[:6]
        assert live.value_at(6) is None
    live.write_at(AT, VICTIM)
    assert live.value_at(8) == "x2"
    assert not live.source.problems


def test_fault_101_a_bad_tail_that_stays_and_has_something_behind_it_is_damage(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.append(patched(VICTIM, 70, b"\xff") + good("c", 9))
    assert live.values() == GOOD_VALUES[:6]
    assert live.value_at(9) is None
    monkeypatch.setattr(active_tail, "PATIENCE", 0.0)
    live.look_again()
    facts = live.facts()
    assert [fact["value"] for fact in facts if "value" in fact] == GOOD_VALUES[:9]
    assert [fact["error"]["kind"] for fact in facts if "error" in fact] == ["crc_mismatch"]
    assert live.value_at(9) == "c0"


def test_fault_102_after_a_truncation_the_new_records_are_the_log(live: Live) -> None:
    live.append(VICTIM)
    assert live.value_at(8) == "x2"
    node: Any = live.tree.resolve(RECORDS)
    held = node.open()
    size = held.size
    os.truncate(live.log, len(BEFORE[0]))
    live.look_again()
    assert live.value_at(2) == "a2"
    assert [live.value_at(offset) for offset in range(3, 9)] == [None] * 6
    live.append(good("n", 3) + good("o", 6))
    assert [live.value_at(offset) for offset in range(3, 9)] == ["n0", "n1", "n2", "o0", "o1", "o2"]
    assert live.values() == ["a0", "a1", "a2", "n0", "n1", "n2", "o0", "o1", "o2"]
    with suppress(*MEANT):  # the file was cut under it: an error is right, other bytes are not
        assert b'"n0"' not in held.read(0, size)
    held.close()


@pytest.mark.parametrize("view", ["records", "committed", "segments"])
def test_fault_103_a_deleted_segment_is_gone_and_open_files_go_on(live: Live, view: str) -> None:
    write_segment(live.folder / "t-0", [good("c", 6)], 6)
    live.look_again()
    path = f"t-0/{view}/{LOG if view == 'segments' else LOG.replace('.log', '.jsonl')}"
    node: Any = live.tree.follow(live.tree.resolve(path))
    held = node.open()
    whole = held.read(0, held.size)
    for suffix in ("log", "index", "timeindex"):
        os.rename(live.log.with_suffix(f".{suffix}"), live.log.with_suffix(f".{suffix}.deleted"))
    live.look_again()
    assert held.read(0, held.size) == whole
    for gone in (path, "t-0/offset/0", "t-0/offset/5.value"):
        with pytest.raises(NotFound):
            live.tree.resolve(gone)
    assert live.value_at(6) == "c0"
    for leftover in (live.folder / "t-0").glob("*.deleted"):
        leftover.unlink()
    live.look_again()
    assert held.read(0, held.size) == whole
    held.close()
    assert live.read("t-0/state/leftovers.json") == b"[]\n"


def test_fault_103_a_folder_that_goes_while_it_is_listed(live: Live) -> None:
    node: Any = live.tree.resolve("t-0/segments")
    entries = node.entries()
    first = next(entries)
    for path in (live.folder / "t-0").iterdir():
        path.unlink()
    assert first.name
    for entry in entries:
        with pytest.raises(NotFound):
            node.lookup(entry.name)


def test_fault_104_a_compacted_segment_is_another_file_of_the_same_name(live: Live) -> None:
    write_segment(live.folder / "t-0", [good("c", 6)], 6)
    live.look_again()
    node: Any = live.tree.resolve(RECORDS)
    held = node.open()
    whole = held.read(0, held.size)
    clean = live.folder / "t-0" / f"{LOG}.cleaned"
    clean.write_bytes(BEFORE[1])
    os.rename(clean, live.log.with_suffix(".log.swap"))
    live.look_again()
    assert live.value_at(0) is None  # the broker is about to rename it
    assert live.values() == ["b0", "b1", "b2"]
    os.rename(live.log.with_suffix(".log.swap"), live.log)
    live.look_again()
    assert held.read(0, held.size) == whole
    held.close()
    assert [live.value_at(offset) for offset in (0, 2, 3, 5)] == [None, None, "b0", "b2"]
    assert live.values() == ["b0", "b1", "b2"]


def test_fault_105_every_state_of_an_index_is_a_normal_one(live: Live) -> None:
    index = live.log.with_suffix(".index")
    times = live.log.with_suffix(".timeindex")
    for content in (None, b"", bytes(10 << 20), offset_index([(5, len(BEFORE[0]))])):
        for path in (index, times):
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_bytes(content if path is index else content[:0])
        opened = Live(live.folder)
        assert opened.values() == GOOD_VALUES[:6]
        assert opened.value_at(5) == "b2"
        link: Any = opened.tree.resolve(f"t-0/time/{START + 4000}")
        assert link.target == "../offset/4"
        assert not opened.source.problems


@pytest.mark.parametrize(("stated", "shown"), [(None, 0), (4, 4), (99, 6)])
def test_fault_106_the_high_watermark_is_what_the_checkpoint_says(
    live: Live, stated: int | None, shown: int
) -> None:
    if stated is not None:
        checkpoint = live.folder / "replication-offset-checkpoint"
        checkpoint.write_bytes(b"0\n1\nt 0 %d\n" % stated)
    state = json.loads(live.read("t-0/state/offsets.json"))
    assert state["highWatermark"] == shown
    facts = live.facts(RECORDS)
    assert [fact["value"] for fact in facts if "value" in fact] == GOOD_VALUES[:6]
    lost = [fact["error"]["lastOffset"] for fact in facts if "error" in fact]
    assert lost == ([] if stated is None or stated <= 6 else [stated - 1])


def test_fault_107_a_topic_made_anew_is_another_one(live: Live) -> None:
    node: Any = live.tree.resolve(RECORDS)
    held = node.open()
    whole = held.read(0, held.size)
    gone = live.folder / "t-0.0123456789abcdef0123456789abcdef-delete"
    os.rename(live.folder / "t-0", gone)
    live.source.partitions(max_age=0)
    for path in ("t-0", RECORDS, "t-0/offset/0"):
        with pytest.raises(NotFound):
            live.tree.resolve(path)
    assert live.values(f"{gone.name}/records/{0:020}.jsonl") == GOOD_VALUES[:6]
    log_dir(live.folder, [good("z", 0)])
    live.look_again()
    assert live.values() == ["z0", "z1", "z2"]
    assert live.value_at(5) is None
    for path in gone.iterdir():
        path.unlink()
    gone.rmdir()
    live.source.partitions(max_age=0)
    assert held.read(0, held.size) == whole
    held.close()


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO, errno.ENOMEM, errno.EINTR])
def test_fault_108_an_error_of_the_file_system_comes_out_as_itself_and_goes_again(
    live: Live, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    assert live.value_at(0) == "a0"

    def fails(self: SourceFile, position: int, size: int) -> bytes:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as broken:
        broken.setattr(SourceFile, "read_at", fails)
        node: Any = live.tree.resolve(RECORDS)
        with pytest.raises(OSError, match=r"\[Errno") as raised:
            node.open()
        assert raised.value.errno == number
    assert live.values() == GOOD_VALUES[:6]


def test_fault_109_the_lock_is_seen_and_neither_taken_nor_made(live: Live, tmp_path: Path) -> None:
    before = fingerprint(live.folder)
    assert live.values() == GOOD_VALUES[:6]
    facts = json.loads(live.read("state/meta.properties.json"))[0]
    assert facts["live"] is True
    assert facts["brokerPid"] == live.source.broker_pid
    assert fingerprint(live.folder) == before
    (tmp_path / "rest").mkdir()
    rest = Live(log_dir(tmp_path / "rest", BEFORE))
    assert rest.source.broker_pid is None
    assert rest.values() == GOOD_VALUES[:6]
    assert not (rest.folder / ".lock").exists()


def test_fault_110_no_clock_is_believed(live: Live) -> None:
    far = 4_000_000_000
    for path in (live.folder, live.folder / "t-0", live.log):
        os.utime(path, (far, far))
    live.look_again()
    live.append(good("y", 6))
    os.utime(live.log, (1, 1))
    live.look_again()
    assert live.value_at(8) == "y2"
    live.append(batch([Rec(b"old", b"k", START - 10**9), Rec(b"new", b"k", START + 10**9)], 9))
    assert live.value_at(10) == "new"
    for when, offset in ((START - 10**9, 0), (START + 5500, 6), (START + 8001, 10)):
        link: Any = live.tree.resolve(f"t-0/time/{when}")
        assert link.target == f"../offset/{offset}"
