"""Write records files: several at a time, each hashed by another thread that follows its writer."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple, Self

from engine.budgets import MiB
from engine.coding.checksums import crc32c
from engine.disk.disk import Disk
from engine.rebuild.assembly.pieces import Piece

CHUNK = 1 * MiB


class WrittenFile(NamedTuple):
    """Size, CRC-32C and SHA-256 of the bytes that were written to a file."""

    size: int
    checksum: int
    sha256: str


class RecordsFiles:
    """Writer of records files. With several threads the hashes come later than the bytes.

    A hash follows its writer by reading the file, which is still in memory: a file is begun when less than `threads`
    files wait for their hashes.

    Args:
        disk: disk to write with.
        advance: called with the number of bytes written, by one thread at a time.
        threads: number of files at a time.
    """

    def __init__(self, disk: Disk, advance: Callable[[int], None], threads: int) -> None:
        self._disk = disk
        self._advance = advance
        self._threads = threads
        self._lock = threading.Lock()
        self._failure: BaseException | None = None
        self._files: dict[str, Callable[[], WrittenFile]] = {}
        self._pools = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._failure = self._failure or error
        self._pools.close()

    def written(self) -> dict[str, WrittenFile]:
        """Return what was written by the names of the files. Raises OSError if a file cannot be hashed."""
        return {os.path.basename(path): written() for path, written in self._files.items()}

    def write(self, files: Sequence[tuple[str, Sequence[Piece]]]) -> None:
        """Copy pieces into new files; return when their bytes are written.

        Raises:
            OSError: a source cannot be read, has changed, or the disk fails.
        """
        if self._threads == 1:
            for path, pieces in files:
                digest = hashlib.sha256()
                size, checksum = self._copy(path, pieces, digest.update)
                self._files[path] = partial(WrittenFile, size, checksum, digest.hexdigest())
            return
        hashers, writers = (
            self._pools.enter_context(ThreadPoolExecutor(self._threads, name))
            for name in ("hash", "write")
        )
        unhashed = threading.Semaphore(self._threads)
        copies: list[Future[tuple[int, int]]] = []
        try:
            for path, pieces in files:
                unhashed.acquire()
                follower = _Follower(path, self._disk, self._refuse_failed, unhashed.release)
                sha256 = hashers.submit(follower.run)
                copies.append(writers.submit(self._copy_followed, path, pieces, follower))
                self._files[path] = partial(_joined, copies[-1], sha256)
            for copy in copies:
                copy.result()
        except BaseException as error:
            self._failure = self._failure or error
            raise

    def _refuse_failed(self) -> None:
        """Raise the error that ends the work of all threads, if there is one."""
        if self._failure is not None:
            raise self._failure

    def _copy_followed(
        self, path: str, pieces: Sequence[Piece], follower: _Follower
    ) -> tuple[int, int]:
        try:
            return self._copy(path, pieces, follower.tell)
        except BaseException as error:
            self._failure = self._failure or error
            raise
        finally:
            follower.end()

    def _copy(
        self, path: str, pieces: Sequence[Piece], passed: Callable[[bytes], object]
    ) -> tuple[int, int]:
        """Copy pieces into a new file and sync it; return its size and its CRC-32C."""
        checksum, position = 0, 0
        with self._disk.open(path, exclusive=True) as file:
            for piece in pieces:
                done = 0
                while done < piece.size:
                    self._refuse_failed()
                    data = piece.read(done, min(CHUNK, piece.size - done))
                    if not data:
                        raise OSError(f"{piece.origin} ends before {piece.position + piece.size}")
                    checksum = crc32c(data, checksum)
                    file.write_at(position, data)
                    position += len(data)
                    done += len(data)
                    passed(data)
                    with self._lock:
                        self._advance(len(data))
            file.sync()
        return position, checksum


def _joined(copy: Future[tuple[int, int]], sha256: Future[str]) -> WrittenFile:
    return WrittenFile(*copy.result(), sha256.result())


class _Follower:
    """Hashes a file that another thread writes.

    Args:
        path: path of the file.
        disk: disk to read with.
        refuse_failed: raises an error if the work shall end.
        on_end: is called at the end.
    """

    def __init__(
        self,
        path: str,
        disk: Disk,
        refuse_failed: Callable[[], None],
        on_end: Callable[[], object],
    ) -> None:
        self._path = path
        self._disk = disk
        self._refuse_failed = refuse_failed
        self._on_end = on_end
        self._changed = threading.Condition()
        self._written = 0
        self._is_ended = False

    def tell(self, data: bytes) -> None:
        """Count bytes that the other thread has written."""
        with self._changed:
            self._written += len(data)
            self._changed.notify()

    def end(self) -> None:
        """Note the end of the file: the other thread writes no more."""
        with self._changed:
            self._is_ended = True
            self._changed.notify()

    def run(self) -> str:
        """Return the SHA-256 of the file, once it is ended."""
        try:
            digest = hashlib.sha256()
            buffer = memoryview(bytearray(CHUNK))
            position = self._next(0)
            if not position:
                return digest.hexdigest()
            done = 0
            with self._disk.open(self._path, writable=False) as file:
                while done < position:
                    self._refuse_failed()
                    got = file.read_into(buffer[: position - done], done)
                    if not got:
                        raise OSError(f"{self._path} ends before {position}")
                    digest.update(buffer[:got])
                    done += got
                    if done == position:
                        position = self._next(done)
            return digest.hexdigest()
        finally:
            self._on_end()

    def _next(self, done: int) -> int:
        """Return how many bytes are written: more than `done`, or the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._written > done or self._is_ended)
            return self._written
