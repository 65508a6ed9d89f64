"""Read a new log dir again, and compare its bytes with the written ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from engine.coding.checksums import crc32c
from engine.rebuild.errors import RebuildFailedError
from engine.rebuild.manifest import FileHash, files_below, hash_file
from engine.writing.disk import Disk

_THREADS = 2


def verified_files(
    folder: str, checksums: Mapping[str, int], disk: Disk, advance: Callable[[int], None]
) -> list[FileHash]:
    """Read all files of a log dir again, and return their hashes.

    Args:
        folder: path of the log dir.
        checksums: CRC-32C of the written bytes by relative path; other files are only hashed.
        disk: disk to read with.
        advance: called with the number of bytes read.

    Raises:
        RebuildFailedError: a file has other bytes than were written.
    """
    verify = partial(_verified, folder, checksums, disk, advance)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="verify") as pool:
        return list(pool.map(verify, files_below(folder)))


def _verified(
    folder: str,
    checksums: Mapping[str, int],
    disk: Disk,
    advance: Callable[[int], None],
    path: str,
) -> FileHash:
    full = os.path.join(folder, path)
    checksum = _Checksum() if path in checksums else None
    digest = hash_file(full, disk, advance, None if checksum is None else checksum.update)
    if checksum is not None and checksum.value != checksums[path]:
        raise RebuildFailedError(f"{full}: the disk returns other bytes than were written")
    return FileHash(path, disk.size(full), digest)


class _Checksum:
    def __init__(self) -> None:
        self.value = 0

    def update(self, data: memoryview) -> None:
        self.value = crc32c(data, self.value)
