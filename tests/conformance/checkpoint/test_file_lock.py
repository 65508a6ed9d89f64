"""What Kafka's FileLockTest asks."""

from __future__ import annotations

import pytest

from engine.disk.file_lock import FileLock
from engine.errors import DirectoryLockedError


@pytest.fixture
def path(tmp_path):
    (tmp_path / ".lock").write_bytes(b"")
    return tmp_path / ".lock"


@pytest.mark.conformance("FileLockTest.testLock")
def test_lock(path):
    lock1 = FileLock(path)
    lock1.lock()
    with pytest.raises(DirectoryLockedError, match="locked by this process"):
        lock1.lock()
    lock2 = FileLock(path)
    with pytest.raises(DirectoryLockedError, match="locked by this process"):
        lock2.lock()
    assert not lock2.try_lock()
    lock2.unlock_and_close()
    lock1.unlock()
    lock1.destroy()


@pytest.mark.conformance("FileLockTest.testTryLock")
def test_try_lock(path):
    lock1 = FileLock(path)
    assert lock1.try_lock()
    assert not lock1.try_lock()
    lock2 = FileLock(path)
    assert not lock2.try_lock()
    with pytest.raises(DirectoryLockedError, match="locked by this process"):
        lock2.lock()
    lock2.unlock_and_close()
    lock1.unlock()
    lock1.destroy()


@pytest.mark.conformance("FileLockTest.testUnlock")
def test_unlock(path):
    lock1 = FileLock(path)
    lock1.lock()
    lock1.unlock()
    lock1.lock()
    lock1.unlock()
    assert lock1.try_lock()
    lock1.unlock()
    assert lock1.try_lock()
    lock1.unlock()
    lock2 = FileLock(path)
    assert lock2.try_lock()
    lock2.unlock()
    lock2.lock()
    lock2.unlock()
    lock2.unlock_and_close()
    lock1.destroy()


@pytest.mark.conformance("FileLockTest.testDestroy")
def test_destroy(path):
    lock1 = FileLock(path)
    lock1.destroy()
    assert not path.exists()
    lock1.destroy()
