"""kafkafs-rebuild.json: the sources of a rebuilt log dir, and the hash of every file in it.

The file is in the log dir itself, where a broker ignores unknown files. While a log dir is being
made, the file marks the folder as one that the next run may remove.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from engine.disk.disk import DISK, Disk
from engine.errors import CorruptCheckpointError
from engine.files.file_names import LOCK

MANIFEST = "kafkafs-rebuild.json"
FORMAT = 1
STAGING, COMPLETE = "staging", "complete"
_CHUNK = 1024 * 1024
_LARGEST = 1024**3

Json: TypeAlias = dict[str, Any]


class FileHash(NamedTuple):
    """A file of a log dir: its relative path, its bytes, their SHA-256 in hex."""

    path: str
    size: int
    sha256: str


class Difference(NamedTuple):
    """A file that differs from the manifest, and how."""

    path: str
    reason: str


def render_manifest(manifest: Json) -> bytes:
    """Return the bytes of the manifest, in valid UTF-8 whatever the names of folders."""
    return (json.dumps(_valid(manifest), ensure_ascii=True, indent=1) + "\n").encode()


def valid_name(name: str) -> str:
    """Return a name or a sentence as the manifest has it: `\\x..` for bytes of a name that are not UTF-8.

    >>> valid_name("orders-\\udcff")
    'orders-\\\\xff'
    """
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _valid(facts: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(facts, str):
        return valid_name(facts)
    if isinstance(facts, dict):
        return {valid_name(name): _valid(value) for name, value in facts.items()}
    return [_valid(each) for each in facts] if isinstance(facts, list | tuple) else facts


def parse_manifest(data: bytes, *, path: str) -> Json:
    """Return the content of a manifest. Raises CorruptCheckpointError for other bytes."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptCheckpointError(f"not a manifest: {error}", line=1, path=path) from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise CorruptCheckpointError("not a manifest of this format", line=1, path=path)
    return found


def files_below(folder: str) -> list[str]:
    """Return the relative paths of all files below a folder, except the manifest and the lock, sorted.

    Entries that are neither files nor folders are included.
    """
    found = []
    for at, folders, files in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(at, name))]
        for name in [*files, *links]:
            path = os.path.relpath(os.path.join(at, name), folder)
            if path not in (MANIFEST, LOCK):
                found.append(path)
    return sorted(found)


def hash_file(path: str, disk: Disk = DISK, advance: Callable[[int], None] | None = None) -> str:
    """Return the SHA-256 of a file's bytes; see `read_pieces`."""
    digest = hashlib.sha256()
    for data in read_pieces(path, disk, advance):
        digest.update(data)
    return digest.hexdigest()


def read_pieces(
    path: str, disk: Disk = DISK, advance: Callable[[int], None] | None = None
) -> Iterator[memoryview]:
    """Yield the bytes of a file, read from the device if the system allows it; each piece is valid until the next one.

    Args:
        path: path of the file.
        disk: disk to read with.
        advance: called with the number of bytes read.
    """
    buffer = memoryview(bytearray(_CHUNK))
    with disk.open(path, writable=False) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        position = 0
        while got := file.read_into(buffer, position):
            yield buffer[:got]
            position += got
            if advance is not None:
                advance(got)


def compare(folder: str, manifest: Json, disk: Disk = DISK) -> Iterable[Difference]:
    """Yield the files of a log dir that differ from its manifest: missing, added or changed.

    Raises:
        CorruptCheckpointError: the log dir was never finished.
        OSError: a file cannot be read.
    """
    if manifest.get("state") != COMPLETE:
        raise CorruptCheckpointError("the log dir was never finished", line=1, path=MANIFEST)
    expected = {each["path"]: each for each in manifest["files"]}
    there = {valid_name(path): path for path in files_below(folder)}
    for path in sorted(expected.keys() - there.keys()):
        yield Difference(path, "it is missing")
    for path in sorted(there.keys() - expected.keys()):
        yield Difference(path, "it was added after the log dir was made")
    for path in sorted(expected.keys() & there.keys()):
        full = os.path.join(folder, there[path])
        status = os.lstat(full)
        if not stat.S_ISREG(status.st_mode):
            yield Difference(path, "it is not a regular file")
        elif status.st_size != expected[path]["size"]:
            size = expected[path]["size"]
            yield Difference(path, f"it has {status.st_size} bytes instead of {size}")
        elif hash_file(full, disk) != expected[path]["sha256"]:
            yield Difference(path, "its bytes differ")


def read_manifest(folder: str, disk: Disk = DISK) -> Json:
    """Return the manifest of a log dir. Raises FileNotFoundError, other OSError, CorruptCheckpointError."""
    path = os.path.join(folder, MANIFEST)
    with disk.open(path, writable=False) as file:
        return parse_manifest(file.read_at(0, _LARGEST), path=path)
