"""Files that a command writes besides its output: never inside of a source."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import click

from engine.errors import SourceError

if TYPE_CHECKING:
    from engine.log.log_directory import LogSource

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""Errnos of file systems without hard links."""


class StagedFile:
    """A file that appears whole under its name, or not at all. A context manager.

    Args:
        path: the file.

    Raises SourceError, as all methods do, if it cannot be written.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        folder = os.path.dirname(os.path.abspath(path))
        try:
            self._file = tempfile.NamedTemporaryFile(  # noqa: SIM115 - closed in __exit__
                dir=folder, prefix=".kafkafs-", delete=False
            )
        except OSError as error:
            raise self._unwritable(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # what is left to write is not wanted
            self._file.close()
        with suppress(FileNotFoundError):
            os.unlink(self._file.name)

    def write(self, data: bytes) -> None:
        """Write bytes at the end."""
        try:
            self._file.write(data)
        except OSError as error:
            raise self._unwritable(error) from error

    def appear(self, mode: int, *, replaces: bool = False) -> None:
        """Sync the file and give it its name.

        Args:
            mode: its permissions.
            replaces: whether it may replace another file; else one with its name is an error.
        """
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            os.chmod(self._file.name, mode)
            if replaces:
                os.replace(self._file.name, self.path)
            else:
                self._link()
        except OSError as error:
            raise self._unwritable(error) from error

    def _link(self) -> None:
        try:
            os.link(self._file.name, self.path)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            self._file.seek(0)
            with open(self.path, "xb") as file:
                shutil.copyfileobj(self._file, file)
                file.flush()
                os.fsync(file.fileno())

    def _unwritable(self, error: OSError) -> SourceError:
        return SourceError(f"cannot write {self.path}: {error.strerror}")


def refuse_inside(source: LogSource, output: str, option: str) -> None:
    """Check that a file is not written into the source. Raises BadParameter."""
    folder = os.path.dirname(os.path.realpath(output))
    for root in source.roots:
        beneath = os.path.realpath(root.path)
        if os.path.commonpath((folder, beneath)) == beneath:
            raise click.BadParameter(
                f"{output} is inside of {root.path}, which is only read", param_hint=option
            )
