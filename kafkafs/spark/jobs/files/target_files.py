"""Files of a job's target: on this machine, or on a file system for Hadoop's client (hdfs:, s3a:, …).

A target without a scheme is a path of this machine, which all executors must see; files there are synced before
the ledger mentions them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from engine.writing.checkpoint.file_lock import FileLock
from engine.writing.disk import DISK, TEMPORARY_SUFFIX, Disk
from kafkafs.spark.errors import OptionError
from kafkafs.spark.source.options.source_paths import resolved

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class FoundTarget(NamedTuple):
    """A file below a folder: its relative path with "/" between names, and its size in bytes."""

    path: str
    size: int


class TargetFiles(Protocol):
    """Operations of a job on its target. Paths are relative to the target; failures raise OSError.

    Attributes:
        uri: URI of the target, for Spark.
    """

    uri: str

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder; none if it does not exist."""

    def files(self, folder: str) -> Iterator[FoundTarget]:
        """Yield all files below a folder but hidden ones (of Spark and Hadoop), sorted by name."""

    def read(self, path: str) -> bytes:
        """Return the bytes of a small file."""

    def write(self, path: str, data: bytes) -> None:
        """Write a small file atomically."""

    def sync(self, path: str) -> None:
        """Sync a file that Spark wrote to the device."""

    def move(self, old: str, new: str) -> None:
        """Rename a file; make its folders, and replace nothing."""

    def sync_names(self, folders: set[str]) -> None:
        """Sync the names in some folders to the device."""

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all below it; do nothing if it does not exist."""

    def exists(self, path: str) -> bool:
        """Return whether a path exists."""

    def lock(self, path: str) -> AbstractContextManager[None]:
        """Lock the target against other jobs; raise OptionError when it is locked."""


def target_files(spark: SparkSession, target: str) -> TargetFiles:
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


def outside_of(files: TargetFiles, paths: Sequence[str]) -> None:
    """Raise OptionError when a target is below one of the source's paths, or above one."""
    if not isinstance(files, LocalFiles):
        return
    target = os.path.realpath(files.path)
    for path in resolved(paths):
        source = os.path.realpath(path)
        if os.path.commonpath([source, target]) in (source, target):
            raise OptionError(
                f"the target {files.path} and the source {path} are inside each other"
            )


class LocalFiles:
    """Files of a target on this machine.

    Args:
        path: absolute path.
    """

    def __init__(self, path: str, disk: Disk = DISK) -> None:
        self.path = path
        self.uri = f"file://{path}"
        self._disk = disk

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder; none if it does not exist."""
        path = self._full(folder)
        return self._disk.list(path) if self._disk.is_dir(path) else []

    def files(self, folder: str) -> Iterator[FoundTarget]:
        """Yield all files below a folder but hidden ones (of Spark and Hadoop), sorted by name."""
        for name in self.names(folder):
            if name.startswith((".", "_")):
                continue
            path = f"{folder}/{name}"
            if self._disk.is_dir(self._full(path)):
                for found in self.files(path):
                    yield FoundTarget(f"{name}/{found.path}", found.size)
            else:
                yield FoundTarget(name, self._disk.size(self._full(path)))

    def read(self, path: str) -> bytes:
        """Return the bytes of a small file."""
        return self._disk.read(self._full(path))

    def write(self, path: str, data: bytes) -> None:
        """Write a small file atomically."""
        full = self._full(path)
        self._disk.make_folder(os.path.dirname(full))
        self._disk.replace_atomically(full, data)

    def sync(self, path: str) -> None:
        """Sync a file that Spark wrote to the device."""
        with self._disk.open(self._full(path)) as file:
            file.sync()

    def move(self, old: str, new: str) -> None:
        """Rename a file; make its folders, and replace nothing."""
        full = self._full(new)
        self._disk.make_folder(os.path.dirname(full))
        self._disk.rename_new(self._full(old), full)

    def sync_names(self, folders: set[str]) -> None:
        """Sync the names in some folders to the device."""
        for folder in sorted(folders):
            self._disk.sync_folder(self._full(folder))

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all below it."""
        self._disk.remove_tree(self._full(path))

    def exists(self, path: str) -> bool:
        """Return whether a path exists."""
        return self._disk.exists(self._full(path))

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """Lock the target against other jobs; raise OptionError when it is locked."""
        full = self._full(path)
        self._disk.make_folder(os.path.dirname(full))
        lock = FileLock(full, self._disk)
        if not lock.try_lock():
            pid = lock.holder_pid()
            lock.unlock_and_close()
            by = f" by process {pid}" if pid else ""
            raise OptionError(f"{self.path} is being written{by}: wait for it, or choose another")
        try:
            yield
        finally:
            lock.unlock_and_close()

    def _full(self, path: str) -> str:
        return os.path.join(self.path, path) if path else self.path


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
        self.uri = target.rstrip("/")
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
