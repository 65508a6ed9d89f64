"""The files behind the parts of a stream: kept open while the stream is in use, and always the same ones."""

from __future__ import annotations

import threading

from engine.files.source_files import SourceFile
from engine.log.segment.log_segment import LogSegment
from kafkafs.decode.failures import ChangedFileError

MOST_PINNED = 64
"""Maximum number of files that an open stream holds; it opens the others on demand."""


class PartFiles:
    """Files of a stream's parts, by the index of the part. Thread-safe.

    While the files are pinned, the text stays readable when the log deletes them.
    """

    def __init__(self) -> None:
        self._files: dict[int, SourceFile] = {}
        self._identities: dict[int, tuple[int, int]] = {}
        self._pins = 0
        self._lock = threading.Lock()

    @property
    def is_pinned(self) -> bool:
        """Whether someone uses the files."""
        return self._pins > 0

    def pin(self) -> None:
        """Keep the files that `file` returns from now on, up to MOST_PINNED."""
        with self._lock:
            self._pins += 1

    def unpin(self) -> None:
        """Release a `pin`."""
        with self._lock:
            self._pins -= 1
            if self._pins == 0:
                self._files = {}

    def file(self, part: int, segment: LogSegment) -> SourceFile:
        """Return the file of a part.

        Raises:
            ChangedFileError: another file has the name now.
            OSError: the file cannot be opened.
        """
        file = self._files.get(part)
        if file is not None:
            return file
        file = segment.file
        identity = file.device, file.inode
        if self._identities.setdefault(part, identity) != identity:
            raise ChangedFileError("another file has taken the name of this one", path=file.path)
        with self._lock:
            if self._pins and len(self._files) < MOST_PINNED:
                self._files[part] = file
        return file
