"""All or nothing: whatever fails or dies, and whenever, the target is whole or not there, and nothing stays beside it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from engine.disk.file_lock import FileLock
from engine.errors import CorruptCheckpointError
from engine.files.file_names import LOCK
from engine.rebuild import writing
from engine.rebuild.errors import RebuildFailedError, RebuildRefusedError
from engine.rebuild.rebuilding import rebuild
from engine.rebuild.target.manifest import MANIFEST, compare, files_below, read_manifest
from engine.rebuild.target.staging import Staging, remove_leftovers
from engine.writing.log_config import LogConfig
from tests.crash.failing import FailingDisk, Failures
from tests.crash.recording import (
    Recording,
    RecordingDisk,
    State,
    materialize,
    random_plain_state,
    random_state,
)
from tests.crash.soak import work_folder
from tests.engine.rebuild.made_logs import facts_of, make_log, state_of

STATES = int(os.environ.get("KAFKAFS_REBUILD_STATES", "60"))
FAILING_CALLS = int(os.environ.get("KAFKAFS_REBUILD_CALLS", "24"))


@pytest.fixture
def work() -> Iterator[Path]:
    """A folder in memory: there is much to write."""
    folder = work_folder()
    (folder / "at").mkdir()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def small_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes are as large as they may get until they are closed."""
    monkeypatch.setattr(writing, "LOADED", LogConfig(compact=True, max_index_size=1024))


def states_of(recording: Recording, random: Random) -> Iterator[State]:
    """Crashes at random moments: all files alike, each for itself, and names out of order."""
    for number in range(STATES):
        late = random.random() < 0.3  # most calls come before the target has its name
        crash = recording.clock - random.randrange(4) if late else random.randrange(recording.clock)
        if number % 3 == 0:
            yield random_plain_state(recording, crash, random)
        else:
            yield random_state(recording, crash, random, in_order=number % 3 == 1)


def small_log(folder: Path) -> Path:
    make_log(folder / "source", Random(3), batches=8, segments=2)
    return folder / "source"


def is_whole(target: Path) -> bool:
    return not list(compare(str(target), read_manifest(str(target))))


def test_fault_131_after_a_crash_at_any_moment_the_target_is_whole_or_the_next_run_makes_it(work):
    source = small_log(work)
    disk = RecordingDisk(work / "at")
    rebuild(str(source), str(work / "at/target"), disk=disk)
    expected = facts_of(source)
    seen = {"whole": 0, "not there": 0, "left over": 0}
    for number, state in enumerate(states_of(disk.recording, Random(5))):
        at = work / f"after-{number}"
        materialize(state.tree, at)
        if (at / "target").exists():
            seen["whole"] += 1
            assert is_whole(at / "target"), state.what
        else:
            seen["not there"] += 1
            seen["left over"] += bool(list(at.iterdir()))
            adopt(at, work / "at")
            result = rebuild(str(source), str(at / "target"))
            assert len(result.removed) == len([name for name in state.tree if name != "target"])
        assert facts_of(at / "target") == expected, state.what
        assert [path.name for path in at.iterdir()] == ["target"], state.what
        shutil.rmtree(at)
    assert all(seen.values()), seen


def adopt(at: Path, made_in: Path) -> None:
    """What lies there was made for a target elsewhere: let the manifests name this one."""
    for manifest in at.glob(f".*/{MANIFEST}"):
        text = manifest.read_text().replace(str(made_in), str(at))
        manifest.write_text(text)


def some_calls(source: Path, at: Path, code: int) -> list[int]:
    """The first and the last call of each kind that can fail so, and some at random."""
    failures = Failures(None, code, sticky=False)
    rebuild(str(source), str(at / "counted"), disk=FailingDisk(failures))
    numbers = range(failures.calls)
    last = {failures.kinds[number]: number for number in numbers}
    first = {failures.kinds[number]: number for number in reversed(numbers)}
    assert {
        "open",
        "write",
        "truncate",
        "sync",
        "close",
        "rename",
        "make folder",
        "sync folder",
    } <= {*last}
    chosen = {*first.values(), *last.values()}
    rest = max(FAILING_CALLS - len(chosen), 0)
    return sorted({*chosen, *Random(1).sample(numbers, min(rest, failures.calls))})


def failure_of(source: Path, target: Path, failures: Failures) -> OSError | None:
    """How a rebuild ends on a disk that fails."""
    try:
        rebuild(str(source), str(target), disk=FailingDisk(failures))
    except OSError as error:
        return error if error.errno == failures.code else pytest.fail(repr(error))
    return None


def test_each_file_of_a_partition_is_synced_once(work):
    """A log dir of very many small segments would take minutes of nothing but syncing."""
    disk = RecordingDisk(work / "at")
    rebuild(str(small_log(work)), str(work / "at/target"), disk=disk)
    target = work / "at/target"
    paths = [path for path in files_below(str(target)) if "/" in path]
    nodes = [disk.recording.node(target / path) for path in paths]
    assert len(paths) > 4
    assert {
        path: len(node.syncs) for path, node in zip(paths, nodes, strict=True)
    } == dict.fromkeys(paths, 1)


@pytest.mark.parametrize(
    ("code", "sticky"),
    [
        (errno.ENOSPC, False),
        (errno.ENOSPC, True),
        (errno.EIO, False),
        (errno.EIO, True),
        (errno.EDQUOT, False),
        (errno.EINTR, False),
    ],
)
def test_fault_133_when_any_call_fails_there_is_no_target_and_the_source_is_as_it_was(
    work, code, sticky
):
    source, at = small_log(work), work / "at"
    before = state_of(source)
    failed, calls = 0, some_calls(source, work, code)
    for number in calls:
        failures = Failures(number, code, sticky=sticky)
        if failure_of(source, at / "target", failures) is not None:
            failed += 1
            if (at / "target").exists():
                # The name was not on the device, and the disk did not let it be taken back.
                assert (sticky, failures.struck) == (True, "sync folder at")
            else:
                assert sticky or not list(at.iterdir()), failures.struck
                rebuild(str(source), str(at / "target"))
        assert is_whole(at / "target"), failures.struck
        assert [path.name for path in at.iterdir()] == ["target"], failures.struck
        shutil.rmtree(at / "target")
    assert failed > len(calls) // 2
    assert state_of(source) == before


def test_fault_133_short_writes_make_the_same_target(work, monkeypatch):
    source, sizes, real = small_log(work), [], os.pwrite

    def short(fd: int, data: bytes | memoryview, position: int) -> int:
        view = memoryview(data).cast("B")
        sizes.append(len(view))
        return real(fd, view[: max(len(view) // 2, 1)], position)

    monkeypatch.setattr(os, "pwrite", short)
    rebuild(str(source), str(work / "at/target"))
    assert max(sizes) > 1000
    assert is_whole(work / "at/target")
    assert facts_of(work / "at/target") == facts_of(source)


def test_fault_133_signals_that_interrupt_calls_change_nothing(work):
    source, caught, stop = small_log(work), [], threading.Event()
    main = threading.main_thread().ident
    assert main is not None
    previous = signal.signal(signal.SIGUSR1, lambda *_: caught.append(1))

    def interrupt() -> None:
        while not stop.wait(0.0005):
            signal.pthread_kill(main, signal.SIGUSR1)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    try:
        rebuild(str(source), str(work / "at/target"))
    finally:
        stop.set()
        interrupting.join()
        signal.signal(signal.SIGUSR1, previous)
    assert caught
    assert facts_of(work / "at/target") == facts_of(source)


def test_a_run_that_is_killed_leaves_no_target_and_the_next_one_removes_what_it_left(work):
    source, at = make_log(work / "source", Random(3), batches=300).log_dir, work / "at"
    command = [sys.executable, "-m", "kafkafs", "rebuild", str(source), str(at / "target")]
    left_over = 0
    for number in range(4):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not list(at.iterdir()) and process.poll() is None:
            time.sleep(0.002)
        time.sleep(0.01 * number)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if not (at / "target").exists():
            left_over += bool(list(at.iterdir()))
            rebuild(str(source), str(at / "target"))
        assert is_whole(at / "target")
        assert [path.name for path in at.iterdir()] == ["target"]
        shutil.rmtree(at / "target")
    assert left_over


def test_fault_147_a_run_that_is_asked_to_stop_cleans_up(work):
    source, at = make_log(work / "source", Random(3), batches=600).log_dir, work / "at"
    command = [sys.executable, "-m", "kafkafs", "rebuild", str(source), str(at / "target")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list(at.iterdir()) and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.SIGTERM)
    process.wait()
    assert process.returncode in (0, 143)
    assert [path.name for path in at.iterdir()] == ([] if process.returncode else ["target"])


def test_fault_146_a_disk_that_gives_other_bytes_back_is_found(work):
    class Forgetful(RecordingDisk):
        def sync_folder(self, path: str) -> None:  # type: ignore[override]
            super().sync_folder(path)
            for log in Path(path).glob("*/*0.log"):
                data = bytearray(log.read_bytes())
                data[-1] ^= 1
                if not list(log.parent.glob("*.snapshot")):
                    continue
                log.write_bytes(data)

    source = small_log(work)
    with pytest.raises(RebuildFailedError, match="other bytes"):
        rebuild(str(source), str(work / "at/target"), disk=Forgetful(work / "at"))
    assert not list((work / "at").iterdir())


# Refusals


def test_fault_135_targets_that_are_refused(tmp_path):
    source = small_log(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    shutil.copytree(source, tmp_path / "broker")
    before = state_of(tmp_path)
    for target, why in {
        source: "inside the source",
        source / "new": "inside the source",
        source / "orders-0": "inside the source",
        tmp_path: "the source .* is inside",
        tmp_path / "full": "not empty",
        tmp_path / "file": "already exists",
        tmp_path / "link": "already exists",
        tmp_path / "broker/new": "broker's log dir",
        tmp_path / "no/where": "is no folder",
    }.items():
        with pytest.raises(RebuildRefusedError, match=why):
            rebuild(str(source), str(target))
    assert state_of(tmp_path) == before


def test_a_target_inside_a_copy_that_is_merged_is_refused(tmp_path):
    source = small_log(tmp_path)
    shutil.copytree(source, tmp_path / "other")
    with pytest.raises(RebuildRefusedError, match="inside the source"):
        rebuild(str(source), str(tmp_path / "other/new"), merge=[str(tmp_path / "other")])


def test_fault_135_a_target_that_a_broker_holds_is_refused_by_its_process(tmp_path):
    source = small_log(tmp_path)
    shutil.copytree(source, tmp_path / "held")
    lock = FileLock(tmp_path / "held" / LOCK)
    assert lock.try_lock()
    try:
        with pytest.raises(RebuildRefusedError, match=f"in use by process {os.getpid()}"):
            rebuild(str(source), str(tmp_path / "held"))
    finally:
        lock.destroy()


def test_a_target_may_have_the_longest_name(tmp_path):
    target = tmp_path / ("ä" * 127)
    rebuild(str(small_log(tmp_path)), str(target))
    assert is_whole(target)


def test_an_empty_target_is_taken(tmp_path):
    (tmp_path / "target").mkdir()
    rebuild(str(small_log(tmp_path)), str(tmp_path / "target"))
    assert is_whole(tmp_path / "target")


def test_fault_135_a_target_that_comes_up_meanwhile_is_not_replaced(tmp_path):
    staging = Staging(str(tmp_path / "target"))
    (tmp_path / "target").mkdir()
    (tmp_path / "target/file").write_text("precious")
    with pytest.raises(OSError):  # noqa: PT011
        staging.publish()
    staging.discard()
    assert (tmp_path / "target/file").read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


# Leftovers


def test_fault_132_only_what_an_interrupted_run_for_the_same_target_left_is_removed(tmp_path):
    target = tmp_path / "target"
    staged = Staging(str(target))
    running = tmp_path / os.path.basename(staged.path)
    name = f".target.kafkafs-rebuild-{'0' * 16}"
    strange = {
        name: {"format": 1, "state": "staging", "target": str(tmp_path / "another")},
        name[:-1] + "1": {"format": 7},
    }
    for each, manifest in strange.items():
        (tmp_path / each).mkdir()
        (tmp_path / each / MANIFEST).write_text(json.dumps(manifest))
    (tmp_path / (name[:-1] + "2")).mkdir()
    (tmp_path / (name[:-1] + "2") / "mine").touch()
    (tmp_path / (name[:-1] + "3")).symlink_to(tmp_path / name)
    (
        tmp_path / (name[:-1] + "4")
    ).mkdir()  # as a crash right after the making of the folder left it
    kept = {path.name for path in tmp_path.iterdir()} - {name[:-1] + "4"}
    assert remove_leftovers(str(target)) == [str(tmp_path / (name[:-1] + "4"))]
    assert {path.name for path in tmp_path.iterdir()} == kept
    assert (running / MANIFEST).exists()
    staged.discard()
    assert not running.exists()


# The manifest


def test_fault_146_a_manifest_finds_every_change(tmp_path):
    rebuild(str(small_log(tmp_path)), str(tmp_path / "target"))
    target = tmp_path / "target"
    manifest = read_manifest(str(target))
    paths = files_below(str(target))
    assert [each["path"] for each in manifest["files"]] == paths
    random = Random(2)
    for path in paths:
        full = target / path
        data = full.read_bytes()
        changed = [data + b"x", data[:-1] if data else b"y"]
        if data:
            at = random.randrange(len(data))
            changed.append(
                data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
            )
        for other in changed:
            full.write_bytes(other)
            assert [each.path for each in compare(str(target), manifest)] == [path]
        full.unlink()
        assert [each.reason for each in compare(str(target), manifest)] == ["it is missing"]
        full.write_bytes(data)
    (target / "orders-0/more").touch()
    (target / "link").symlink_to(target)
    found = {each.path for each in compare(str(target), manifest)}
    assert found == {"orders-0/more", "link"}


def test_an_unfinished_log_dir_does_not_pass(tmp_path):
    staging = Staging(str(tmp_path / "target"))
    with pytest.raises(CorruptCheckpointError, match="never finished"):
        list(compare(staging.path, read_manifest(staging.path)))
    staging.discard()


def test_fault_137_files_have_the_access_they_should_whatever_the_umask(tmp_path):
    source = small_log(tmp_path)
    old = os.umask(0o077)
    try:
        rebuild(str(source), str(tmp_path / "target"))
    finally:
        os.umask(old)
    assert (tmp_path / "target").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "target/orders-0").stat().st_mode & 0o777 == 0o750
    for path in files_below(str(tmp_path / "target")):
        assert (tmp_path / "target" / path).stat().st_mode & 0o777 == 0o640
