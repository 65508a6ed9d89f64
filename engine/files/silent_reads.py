"""Find calls on source files that get no answer: a disk that dies, a file server that is gone.

A watching thread looks at the stacks of the other threads once a second. So a call that is answered costs nothing.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from time import monotonic
from types import FrameType

from engine.files import (
    beneath,
    folder_entries,
    source_files,
    source_presence,
    tries,
    unreadable,
)

SILENT_SECONDS = 5.0
"""Time without an answer after which it is told; then told again after each doubling."""
_LOOK_SECONDS = 1.0
_READERS = frozenset(
    module.__file__
    for module in (beneath, folder_entries, source_files, source_presence, tries, unreadable)
)
"""Modules that call the system for source files."""
_MOST_CALLERS = 8

Tell = Callable[[str, str], object]
"""Called with the path, and a sentence without it."""


class SilentReads:
    """Tells which files give no answer, and when they do again.

    Args:
        tell: called for a call without an answer.
        answered: called when a call that was told has returned.
        after: seconds without an answer after which it is told.
    """

    def __init__(self, tell: Tell, answered: Tell, *, after: float = SILENT_SECONDS) -> None:
        self._tell = tell
        self._answered = answered
        self._after = after
        self._waiting: dict[tuple[int, int, int], _Wait] = {}
        self._end = threading.Event()

    def start(self) -> None:
        """Look from now on, in a thread."""
        threading.Thread(target=self._run, name="silent reads", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._end.set()

    def look(self, now: float) -> None:
        """Look once. `now` is a monotonic time in seconds."""
        before, self._waiting = self._waiting, {}
        for thread, frame in sys._current_frames().items():
            path = _path_read_by(frame)
            if path is None:
                continue
            key = thread, id(frame), frame.f_lasti
            wait = before.pop(key, None)
            if wait is None or wait.path != path:
                wait = _Wait(path, now, self._after)
            self._waiting[key] = wait
            if now - wait.since >= wait.tell_after:
                self._tell(path, f"no answer for {now - wait.since:.0f} s")
                while wait.tell_after <= now - wait.since:
                    wait.tell_after *= 2
                wait.is_told = True
        for wait in before.values():
            if wait.is_told:
                self._answered(wait.path, f"answers again after {now - wait.since:.0f} s")

    def _run(self) -> None:
        while not self._end.wait(_LOOK_SECONDS):
            self.look(monotonic())


class _Wait:
    """A call that has not returned since a look."""

    __slots__ = ("is_told", "path", "since", "tell_after")

    def __init__(self, path: str, since: float, tell_after: float) -> None:
        self.path = path
        self.since = since
        self.tell_after = tell_after
        self.is_told = False


def _path_read_by(frame: FrameType) -> str | None:
    """Return the path that a thread asks the system for; None if it does something else."""
    if frame.f_code.co_filename not in _READERS and not _looks_up(frame):
        return None
    caller: FrameType | None = frame
    for _ in range(_MOST_CALLERS):
        if caller is None:
            return None
        path = _path_in(caller)
        if path is not None:
            return path
        caller = caller.f_back
    return None


def _looks_up(frame: FrameType) -> bool:
    """Return whether the kernel reads for `OpenSegment.locate`."""
    return frame.f_code.co_name == "locate" and "self" in frame.f_code.co_varnames


def _path_in(frame: FrameType) -> str | None:
    """Return the path of the file or folder that a function works on."""
    known = frame.f_locals
    worker = known.get("self")
    file = worker if isinstance(worker, source_files.SourceFile) else getattr(worker, "file", None)
    if isinstance(file, source_files.SourceFile):
        return file.path
    if isinstance(worker, source_files.SourceRoot):
        relative = known.get("relative", known.get("folder", ""))
        return worker.display(relative) if isinstance(relative, str) else worker.path
    path = known.get("path")
    is_check = frame.f_code is source_presence.check_there.__code__
    return path if is_check and isinstance(path, str) else None
