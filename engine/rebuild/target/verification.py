"""Read a new log dir again, and compare its bytes with the written ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from engine.coding.checksums import crc32c
from engine.disk.disk import Disk
from engine.rebuild.errors import RebuildFailedError
from engine.rebuild.target.manifest import FileHash, files_below, hash_file, read_pieces
from engine.rebuild.target.records_files import WrittenFile


def verified_files(
    folder: str,
    written: Mapping[str, WrittenFile],
    disk: Disk,
    advance: Callable[[int], None],
    threads: int,
) -> list[FileHash]:
    """Read all files of a log dir again, and return their hashes.

    Args:
        folder: path of the log dir.
        written: what was written, by relative path; other files are hashed now.
        disk: disk to read with.
        advance: called with the number of bytes read.
        threads: number of files at a time.

    Raises:
        RebuildFailedError: a file has other bytes than were written.
    """
    verify = partial(_verified, folder, written, disk, advance)
    with ThreadPoolExecutor(threads, thread_name_prefix="verify") as pool:
        return list(pool.map(verify, files_below(folder)))


def _verified(
    folder: str,
    written: Mapping[str, WrittenFile],
    disk: Disk,
    advance: Callable[[int], None],
    path: str,
) -> FileHash:
    full = os.path.join(folder, path)
    expected = written.get(path)
    if expected is None:
        return FileHash(path, disk.size(full), hash_file(full, disk, advance))
    checksum, size = 0, 0
    for data in read_pieces(full, disk, advance):
        checksum = crc32c(data, checksum)
        size += len(data)
    if (size, checksum) != (expected.size, expected.checksum):
        raise RebuildFailedError(f"{full}: the disk returns other bytes than were written")
    return FileHash(path, size, expected.sha256)
