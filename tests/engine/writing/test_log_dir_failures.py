"""An I/O error takes its log dir offline, once, and no other."""

from __future__ import annotations

import errno
import threading

import pytest

from engine.errors import LogDirFailureError, StateError
from engine.writing.log_dir_failures import LogDirFailureChannel


def fail(channel: LogDirFailureChannel, log_dir: str, error: Exception) -> None:
    with channel.reporting(log_dir, "writing failed"):
        raise error


def test_the_first_failure_of_a_log_dir_is_handed_out_and_no_later_one() -> None:
    channel = LogDirFailureChannel()
    with pytest.raises(LogDirFailureError, match="writing failed: No space left") as caught:
        fail(channel, "/a", OSError(errno.ENOSPC, "no"))
    assert (caught.value.log_dir, caught.value.errno) == ("/a", errno.ENOSPC)
    assert channel.has_offline_log_dir("/a")
    channel.maybe_add_offline_log_dir("/a", "again", OSError())
    assert channel.take_next_offline_log_dir(0) == "/a"
    assert channel.take_next_offline_log_dir(0) is None


def test_nothing_is_done_in_a_log_dir_that_is_offline() -> None:
    channel = LogDirFailureChannel()
    channel.maybe_add_offline_log_dir("/a", "gone", OSError())
    done = []
    with pytest.raises(LogDirFailureError, match="offline"), channel.reporting("/a", "x"):
        done.append("a")
    with channel.reporting("/b", "x"):
        done.append("b")
    assert done == ["b"]


@pytest.mark.parametrize("error", [ValueError("closed"), StateError("no"), LookupError()])
def test_what_is_not_the_disks_fault_leaves_the_log_dir_online(error: Exception) -> None:
    channel = LogDirFailureChannel()
    with pytest.raises(type(error)):
        fail(channel, "/a", error)
    assert not channel.has_offline_log_dir("/a")


def test_a_failure_that_was_reported_further_in_is_passed_on() -> None:
    channel = LogDirFailureChannel()
    with pytest.raises(LogDirFailureError, match="inner"):
        fail(channel, "/a", LogDirFailureError("inner", "/b"))
    assert not channel.has_offline_log_dir("/a")


def test_whoever_waits_is_woken_by_a_failure() -> None:
    channel = LogDirFailureChannel()
    taken: list[str | None] = []
    waiting = threading.Thread(target=lambda: taken.append(channel.take_next_offline_log_dir(30)))
    waiting.start()
    channel.maybe_add_offline_log_dir("/a", "gone", OSError())
    waiting.join(30)
    assert taken == ["/a"]
