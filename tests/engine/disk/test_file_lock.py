"""The lock is seen by processes that lock as a broker does, and theirs by us."""

from __future__ import annotations

import subprocess
import sys

import pytest

from engine.disk.file_lock import FileLock
from engine.files.source_files import SourceRoot

# Locks the whole file with fcntl, owned by the process, and says whether it could.
OTHER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("locked", flush=True)
except OSError:
    print("refused", flush=True)
sys.stdin.read()
"""


class OtherProcess:
    def __init__(self, path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", OTHER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.answer = self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.communicate()


@pytest.fixture
def lock(tmp_path):
    made = FileLock(tmp_path / ".lock")
    yield made
    made.destroy()


def test_fault_143_a_process_that_locks_as_a_broker_does_is_kept_out(lock):
    assert lock.try_lock()
    other = OtherProcess(lock.path)
    assert other.answer == "refused"
    other.end()
    lock.unlock()
    other = OtherProcess(lock.path)
    assert other.answer == "locked"
    other.end()


def test_fault_143_we_are_kept_out_by_a_process_that_locks_as_a_broker_does(lock):
    other = OtherProcess(lock.path)
    assert not lock.try_lock()
    assert not lock.is_held
    assert lock.holder_pid() == other.process.pid
    other.end()
    assert lock.holder_pid() is None
    lock.lock()
    assert lock.is_held


def test_who_waits_gets_the_lock_when_the_other_process_ends(lock):
    other = OtherProcess(lock.path)
    other.process.stdin.close()
    lock.lock()
    assert lock.is_held
    other.process.stdout.close()
    other.process.wait()


def test_a_reader_in_this_process_does_not_drop_the_lock(lock, tmp_path):
    assert lock.try_lock()
    with SourceRoot(str(tmp_path)) as root:
        assert root.broker_pid() is not None
    (tmp_path / ".lock").read_bytes()
    other = OtherProcess(lock.path)
    assert other.answer == "refused"
    other.end()


def test_the_file_stays_when_the_lock_is_only_closed(lock, tmp_path):
    assert lock.try_lock()
    lock.unlock_and_close()
    lock.unlock_and_close()
    assert (tmp_path / ".lock").exists()
    again = FileLock(tmp_path / ".lock")
    assert again.try_lock()
    again.unlock_and_close()
