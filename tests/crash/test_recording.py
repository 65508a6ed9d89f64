"""What may be left after a crash, on writers whose faults are known."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

from tests.crash.driver import Batch, Promise
from tests.crash.judge import judge_state, promise_at
from tests.crash.recording import (
    FolderNode,
    Recording,
    RecordingDisk,
    State,
    everything,
    materialize,
    nothing,
    plain_states,
    random_state,
)
from tests.crash.soak import record


def contents(recording: Recording, name: str) -> set[bytes | None]:
    """What a file can hold after any crash; None where it is not there."""
    found: set[bytes | None] = set()
    random = Random(5)
    for crash in range(recording.clock + 1):
        states = list(plain_states(recording, crash))
        states += [random_state(recording, crash, random, in_order=False) for _ in range(20)]
        for state in states:
            entry = state.tree.get(name)
            assert not isinstance(entry, dict)
            found.add(entry)
    return found


def replaced(tmp_path: Path, *, synced: bool) -> Recording:
    (tmp_path / "file").write_bytes(b"old!")
    disk = RecordingDisk(tmp_path)
    if synced:
        disk.replace_atomically(tmp_path / "file", b"new content")
    else:
        with disk.open(tmp_path / "file.tmp", create=True) as file:
            file.write_at(0, b"new content")
        disk.rename(tmp_path / "file.tmp", tmp_path / "file")
    return disk.recording


def test_an_atomic_replacement_leaves_the_old_content_or_the_new(tmp_path: Path) -> None:
    assert contents(replaced(tmp_path, synced=True), "file") == {b"old!", b"new content"}


def test_without_a_sync_a_renamed_file_can_be_empty_torn_or_zeros(tmp_path: Path) -> None:
    found = contents(replaced(tmp_path, synced=False), "file")
    assert {b"old!", b"new content", b"", b"new c", bytes(11)} <= found


def test_what_was_synced_stays_and_what_was_not_may_be_lost(tmp_path: Path) -> None:
    disk = RecordingDisk(tmp_path)
    with disk.open(tmp_path / "file", create=True) as file:
        file.write_at(0, b"synced")
        file.sync()
        disk.sync_folder(tmp_path)
        synced = disk.recording.clock
        file.write_at(6, b" and not")
        file.truncate(10)
    found = {
        state.tree["file"]
        for crash in range(synced, disk.recording.clock + 1)
        for state in plain_states(disk.recording, crash)
    }
    assert b"synced" in found
    assert b"synced and" in found
    assert all(isinstance(each, bytes) and each.startswith(b"synced") for each in found)


def test_a_file_never_has_two_names(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"content")
    disk = RecordingDisk(tmp_path)
    disk.rename(tmp_path / "a", tmp_path / "b")
    disk.rename(tmp_path / "b", tmp_path / "c")
    disk.remove(tmp_path / "c")
    random = Random(1)
    names = set()
    for crash in range(disk.recording.clock + 1):
        for _ in range(30):
            state = random_state(disk.recording, crash, random, in_order=False)
            assert len(state.tree) <= 1
            names.update(state.tree)
    assert names == {"a", "b", "c"}


def test_a_folder_that_was_not_synced_takes_its_files_with_it(tmp_path: Path) -> None:
    disk = RecordingDisk(tmp_path)
    disk.make_folder(tmp_path / "synced")
    disk.open(tmp_path / "synced" / "file", create=True).close()
    os.mkdir(tmp_path / "lost")
    disk.recording.make(tmp_path / "lost", FolderNode())
    disk.open(tmp_path / "lost" / "file", create=True).close()
    disk.sync_folder(tmp_path / "lost")
    left = disk.recording.tree(disk.recording.clock, lambda _: False, nothing)
    assert left == {"synced": {}}


def test_the_judge_sees_records_that_are_lost_or_changed_or_missing_in_the_middle(
    tmp_path: Path,
) -> None:
    recording = record("append_flush_roll", tmp_path / "made", Random(1))
    tree = recording.tree(recording.clock, lambda _: True, everything)
    promise = promise_at(recording, recording.clock)
    complete = State(recording.clock, "", tree)
    assert judge_state(complete, promise, tmp_path) == []

    folder = tree["t-0"]
    assert isinstance(folder, dict)
    logs = sorted(name for name in folder if name.endswith(".log"))
    for lost in logs[:-1]:
        left = {name: content for name, content in folder.items() if name != lost}
        assert judge_state(State(0, "", {**tree, "t-0": left}), promise, tmp_path)

    other = Promise(0, 0, ([Batch(0, 0, b"other")],))
    assert judge_state(complete, other, tmp_path)
    more = promise._replace(stable=promise.stable + 1000)
    assert judge_state(complete, more, tmp_path)


def test_states_are_made_as_they_are_described(tmp_path: Path) -> None:
    materialize({"file": b"x", "folder": {"inner": b"y"}}, tmp_path / "made")
    assert (tmp_path / "made" / "file").read_bytes() == b"x"
    assert (tmp_path / "made" / "folder" / "inner").read_bytes() == b"y"
