"""What a dump is asked for, as files: files, partition folders, log dirs, and patterns of these."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from engine.errors import InvalidNameError, KafkaStorageError, SourceError
from engine.file_names import FileKind, parse_folder_name
from engine.folder_entries import EntryKind
from engine.source_files import SourceRoot
from engine.units import Offset
from kafkafs.dump.dump_file import SEGMENT_KINDS, DumpFile, kind_of
from kafkafs.dump.extent import Extent

_WILDCARDS = frozenset("*?[")
_WITH_OFFSETS = SEGMENT_KINDS - {FileKind.PRODUCER_SNAPSHOT, FileKind.KRAFT_CHECKPOINT}
"""Files of which a range of offsets shows a part."""


class Missing(NamedTuple):
    """Something that was asked for and cannot be dumped, and why."""

    shown: str
    reason: str


def expand(arguments: Sequence[str], extent: Extent | None = None) -> Iterator[DumpFile | Missing]:
    """The files that arguments name, in their order; in folders by name.

    Of folders come the files that Kafka keeps in them; of a log dir also those of its partitions' folders,
    whatever state they are in. With an extent, of folders only what holds offsets, and only that part.
    """
    for argument in arguments:
        for path in _matches(argument):
            yield from _expand_path(_as_java(path), extent)


def _matches(argument: str) -> list[str]:
    if os.path.lexists(argument) or not _WILDCARDS & set(argument):
        return [argument]
    return sorted(glob.glob(argument)) or [argument]


def _as_java(path: str) -> str:
    """A path as java.io.File shows it: no slash twice, none at the end."""
    parts = [part for part in path.split("/") if part]
    return ("/" if path.startswith("/") else "") + "/".join(parts)


def _expand_path(path: str, extent: Extent | None) -> Iterator[DumpFile | Missing]:
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            yield from _folder(path, extent)
            return
        if os.path.islink(path):  # the operator's own word, so it is followed
            target = os.path.realpath(path)
            root = SourceRoot(os.path.dirname(target))
            name = os.path.basename(target)
        else:
            root = SourceRoot(os.path.dirname(path) or ".")
            name = os.path.basename(path)
    except OSError as error:
        yield Missing(path, _reason(error))
        return
    file = DumpFile(root, name, path, *kind_of(os.path.basename(path)))
    yield from _within([file], os.path.dirname(os.path.abspath(path)), extent)


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file or directory"
    return error.strerror or str(error)


def _folder(path: str, extent: Extent | None) -> Iterator[DumpFile | Missing]:
    root = SourceRoot(path)
    found = False
    for folder in ("", *_partition_folders(root)):
        inside = f"{path}/{folder}" if folder else path
        try:
            files = list(_files(root, folder, path))
        except OSError as error:
            yield Missing(inside, _reason(error))
            continue
        found = found or bool(files) or bool(folder)
        yield from _within(files, inside, extent)
    if not found:
        yield Missing(path, "no file of a log directory is in it")


def _partition_folders(root: SourceRoot) -> list[str]:
    found = []
    for entry in root.list():
        if entry.kind is EntryKind.DIRECTORY:
            try:
                parse_folder_name(entry.name)
            except InvalidNameError:
                continue
            found.append(entry.name)
    return sorted(found)


def _files(root: SourceRoot, folder: str, shown: str) -> Iterator[DumpFile]:
    names, _ = root.list_apart(folder)
    prefix = f"{folder}/" if folder else ""
    for name in sorted(names):
        kind, state = kind_of(name)
        if kind is not None and kind is not FileKind.LOCK:
            path = f"{shown.rstrip('/')}/{prefix}{name}"
            yield DumpFile(root, prefix + name, path, kind, state, is_named=False)


def _within(
    files: list[DumpFile], folder: str, extent: Extent | None
) -> Iterator[DumpFile | Missing]:
    """The files, or with an extent the parts of them that lie in it."""
    if extent is None:
        yield from files
        return
    wanted = [file for file in files if file.is_named or file.kind in _WITH_OFFSETS]
    if not wanted:
        return
    try:
        first, last = extent.offsets_in(folder)
    except (SourceError, KafkaStorageError, OSError) as error:
        yield Missing(folder, f"the range cannot be looked up: {error}")
        return
    ends = _ends(wanted)
    for file in wanted:
        base = file.base_offset
        outside = base is not None and (base > last or ends.get(base, last) < first)
        if file.is_named or not outside:
            yield replace(file, first=first, last=last)


def _ends(files: list[DumpFile]) -> dict[Offset, Offset]:
    """The last offset that a segment can hold, by its base offset; of the last one it is not known."""
    logs = (file for file in files if file.kind is FileKind.LOG and not file.state)
    bases = sorted({base for file in logs if (base := file.base_offset) is not None})
    return {base: after - 1 for base, after in pairwise(bases)}
