"""Files of a job's target: on this machine, or on a file system for Hadoop's client (hdfs:, s3a:, …).

A target without a scheme is a path of this machine, which all executors must see; files there are synced before
the ledger mentions them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from engine.disk.disk import TEMPORARY_SUFFIX
from kafkafs.export.errors import OptionError
from kafkafs.export.target import FoundTarget, LocalFiles, refuse_inside
from kafkafs.spark.source.options.source_paths import resolved

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def target_files(spark: SparkSession, target: str) -> LocalFiles | HadoopFiles:
    """Return the files of a target.

    Raises:
        OptionError: the target is not a path.
    """
    if not target.strip():
        raise OptionError("the target is empty: name a folder")
    local = target.removeprefix("file://") if target.startswith("file:///") else target
    if ":/" in local and not os.path.lexists(local):
        return HadoopFiles(spark, target)
    return LocalFiles(os.path.abspath(local))


def outside_of(files: LocalFiles | HadoopFiles, paths: Sequence[str]) -> None:
    """Raise OptionError when a target is below one of the source's paths, or above one."""
    if not isinstance(files, LocalFiles):
        return
    refuse_inside(files.path, resolved(paths))


class HadoopFiles:
    """Files of a target that Hadoop's client reaches, through the driver's JVM.

    Args:
        spark: session with the client.
        target: URI with a scheme.

    Raises:
        OptionError: there is no such file system.
    """

    def __init__(self, spark: SparkSession, target: str) -> None:
        jvm: Any = spark._jvm
        self._hadoop = jvm.org.apache.hadoop.fs
        self._copy = jvm.org.apache.hadoop.io.IOUtils
        self._bytes = jvm.java.io.ByteArrayOutputStream
        self.uri = self.shown = target.rstrip("/")
        session: Any = spark._jsparkSession
        self._root = self._hadoop.Path(self.uri)
        with _jvm(self.uri, OptionError):
            self._system = self._root.getFileSystem(session.sessionState().newHadoopConf())

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder; none if it does not exist."""
        return [status.getPath().getName() for status in self._statuses(folder)]

    def files(self, folder: str) -> Iterator[FoundTarget]:
        """Yield all files below a folder but hidden ones (of Spark and Hadoop), sorted by name."""
        for status in self._statuses(folder):
            name = status.getPath().getName()
            if name.startswith((".", "_")):
                continue
            if status.isDirectory():
                for found in self.files(f"{folder}/{name}"):
                    yield FoundTarget(f"{name}/{found.path}", found.size)
            else:
                yield FoundTarget(name, status.getLen())

    def read(self, path: str) -> bytes:
        """Return the bytes of a small file."""
        with _jvm(path):
            stream = self._system.open(self._full(path))
            out = self._bytes()
            self._copy.copyBytes(stream, out, 65536, True)
            return bytes(out.toByteArray())

    def write(self, path: str, data: bytes) -> None:
        """Write a small file, and rename it to its name."""
        full, temporary = self._full(path), self._full(path + TEMPORARY_SUFFIX)
        with _jvm(path):
            stream = self._system.create(temporary, True)
            try:
                stream.write(bytearray(data))
                if hasattr(stream, "hsync"):
                    stream.hsync()
            finally:
                stream.close()
            self._system.delete(full, False)
            if not self._system.rename(temporary, full):
                raise OSError(f"{path} cannot be renamed to its final name")

    def put(self, local: str, path: str) -> None:
        """Move a file of this machine to a new path."""
        with _jvm(path):
            source = self._hadoop.Path(f"file://{local}")
            self._system.copyFromLocalFile(True, False, source, self._full(path))

    def sync(self, path: str) -> None:
        """Do nothing: a file that Hadoop's client has closed is written."""

    def move(self, old: str, new: str) -> None:
        """Rename a file; make its folders, and replace nothing."""
        with _jvm(new):
            full = self._full(new)
            self._system.mkdirs(full.getParent())
            if self._system.exists(full) or not self._system.rename(self._full(old), full):
                raise OSError(f"{old} cannot be moved to {new}")

    def sync_names(self, folders: set[str]) -> None:
        """Do nothing: Hadoop's renames are durable."""

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all below it."""
        with _jvm(path):
            self._system.delete(self._full(path), True)

    def exists(self, path: str) -> bool:
        """Return whether a path exists."""
        with _jvm(path):
            return bool(self._system.exists(self._full(path)))

    def lock(self, path: str) -> AbstractContextManager[None]:
        """Do nothing: these file systems have no locks."""
        return nullcontext()

    def _statuses(self, folder: str) -> list[Any]:
        with _jvm(folder):
            full = self._full(folder)
            if not self._system.exists(full):
                return []
            found = list(self._system.listStatus(full))
        return sorted(found, key=lambda status: str(status.getPath().getName()))

    def _full(self, path: str) -> Any:  # noqa: ANN401 - an object of the JVM
        return self._hadoop.Path(self._root, path) if path else self._root


@contextmanager
def _jvm(path: str, kind: type[Exception] = OSError) -> Iterator[None]:
    """Raise exceptions of the JVM as errors of ours, with their messages."""
    try:
        yield
    except Exception as error:
        thrown: Any = getattr(error, "java_exception", None)
        if thrown is None and not type(error).__module__.startswith("pyspark."):
            raise
        said = str(error if thrown is None else thrown.getMessage())
        raise kind(f"{path}: {said.splitlines()[0] if said else type(error).__name__}") from error
