"""Arguments of a dump as files: files, partition folders, log dirs, and patterns of these."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from engine.errors import InvalidNameError, KafkaStorageError, SourceError, SourceRefusedError
from engine.files.file_names import FileKind, parse_folder_name
from engine.files.folder_entries import EntryKind
from engine.files.read_failures import error_name, reason_of, way_out
from engine.files.source_files import SourceRoot
from engine.files.stores import STORES
from engine.files.tries import tried
from engine.log.foreign_sources import MOUNT_FIRST
from engine.log.log_directory import open_source
from engine.log.log_dirs_below import is_partition_name
from engine.log.partition_choice import ALL_PARTITIONS, NamedPartition, PartitionChoice
from engine.log.source_identity import identify
from engine.log.tiered.folders import candidates, folders_of_copies
from engine.log.view.log_bound import LogRange
from engine.units import MAX_INT64, Offset
from kafkafs.dump.dump_file import SEGMENT_KINDS, DumpFile, kind_of

_WILDCARDS = frozenset("*?[")
_WITH_OFFSETS = SEGMENT_KINDS - {FileKind.PRODUCER_SNAPSHOT, FileKind.KRAFT_CHECKPOINT}
"""Kinds of files that a range of offsets cuts to a part."""

_NO_FILE = "contains no file of a log directory"
_NO_SOURCE = ("is not a log dir", "is empty")
_NAMES_ONE = "name one of its files"
_NOT_CHOSEN = "no partition matches --topic and --partition"
_REASONS = {
    EntryKind.SYMLINK: "a symbolic link, not followed",
    EntryKind.DIRECTORY: "a folder in place of a file",
}


def offsets_in(extent: LogRange, folder: str) -> tuple[Offset, Offset]:
    """Return the first and the last offset of a range in a partition's folder, both inclusive.

    A time becomes the offset of the first record, in offset order, at or after it, or the log end when there
    is no such record. In an empty range the last offset is below the first.

    Raises:
        SourceError: a time must be looked up, and the folder is not a partition's.
    """
    if extent.needs_log:
        first, end = _looked_up(extent, folder)
    else:
        first, end = (None if bound is None else bound.offset for bound in extent)
    return first or 0, MAX_INT64 if end is None else end - 1


def why_beside(extent: LogRange, folder: str) -> str | None:
    """Return why the log in a folder has no offset of a range; None when it may have some."""
    try:
        source = open_source([folder])
    except (SourceError, OSError):
        return None
    try:
        logs = list(source.partitions().values())
        if len(logs) != 1:
            return None
        view = logs[0].view()
        if logs[0].has_unread:
            return None
        first, last = offsets_in(extent, folder)
        start, end = min([view.log_start_offset, *view.base_offsets[:1]]), view.log_end_offset
    except (KafkaStorageError, OSError):
        return None
    finally:
        source.close()
    if start >= end:
        return "its log is empty"
    is_beside = first >= end or last < start or last < first
    return f"its log has offsets {start} to {end - 1}" if is_beside else None


def _looked_up(extent: LogRange, folder: str) -> tuple[Offset | None, Offset | None]:
    source = open_source([folder])
    try:
        logs = list(source.partitions().values())
        if len(logs) != 1:
            raise SourceError(f"{folder} is not one partition's folder")
        view = logs[0].view()
        first, end = (None if bound is None else bound.offset_in(view) for bound in extent)
        return first, end
    finally:
        source.close()


class MissingInput(NamedTuple):
    """A named input that cannot be dumped, and the reason."""

    shown: str
    reason: str


def expand(
    arguments: Sequence[str],
    extent: LogRange | None = None,
    choice: PartitionChoice = ALL_PARTITIONS,
) -> Iterator[DumpFile | MissingInput]:
    """Yield the files that the arguments name, in their order; files of a folder by name.

    A folder gives the files that Kafka keeps in it; a log dir also those of its partitions' folders in any state. With
    an extent, a folder gives only files with offsets, cut to the extent. With a choice, only files of chosen
    partitions are given, and an argument without one is missing.
    """
    for argument in arguments:
        for path in matches(argument):
            yield from _expand_path(_as_java(path), extent, choice)


def matches(argument: str) -> list[str]:
    """Return the paths that an argument names: itself, or what its pattern matches."""
    if os.path.lexists(argument) or not _WILDCARDS & set(argument):
        return [argument]
    return sorted(glob.glob(argument)) or [argument]


def _as_java(path: str) -> str:
    """Return a path as java.io.File shows it: without double slashes and without one at the end."""
    parts = [part for part in path.split("/") if part]
    return ("/" if path.startswith("/") else "") + "/".join(parts)


def _expand_path(
    path: str, extent: LogRange | None, choice: PartitionChoice
) -> Iterator[DumpFile | MissingInput]:
    try:
        mode = tried(lambda: os.stat(path), path).st_mode
        if stat.S_ISDIR(mode):
            yield from _folder(path, extent, choice)
            return
        if stat.S_ISBLK(mode):
            yield MissingInput(path, _refusal(path) or _NO_FILE)
            return
        if os.path.islink(path):  # named by the operator, and therefore followed
            target = os.path.realpath(path)
            root = SourceRoot(os.path.dirname(target))
            name = os.path.basename(target)
        else:
            root = SourceRoot(os.path.dirname(path) or ".")
            name = os.path.basename(path)
    except OSError as error:
        yield MissingInput(path, _reason(error))
        return
    kind, state = kind_of(os.path.basename(path))
    if kind is None:
        refusal = _refusal(path)
        if refusal is not None and MOUNT_FIRST in refusal:
            yield MissingInput(path, refusal)
            return
        kind = FileKind.LOG if refusal is None else None
    file = DumpFile(root, name, STORES.shown(path), kind, state)
    folder = os.path.dirname(os.path.abspath(path))
    if not _is_chosen(folder, choice):
        yield MissingInput(path, _NOT_CHOSEN)
        return
    within = list(_within([file], folder, extent))
    yield from within or [_beside(path, folder, extent)]


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file or directory"
    hint = way_out(error_name(error))
    return f"{reason_of(error)} ({hint})" if hint else reason_of(error)


def _folder(
    path: str, extent: LogRange | None, choice: PartitionChoice
) -> Iterator[DumpFile | MissingInput]:
    root = SourceRoot(path)
    refusal = _refusal(path)
    if refusal is not None and _NAMES_ONE not in refusal and refusal != _NO_FILE:
        yield MissingInput(path, refusal)
        return
    found = within = False
    if not choice:
        yield from _not_read(root, "", path)
    folders = [
        each for each in ("", *_partition_folders(root)) if _is_chosen(f"{path}/{each}", choice)
    ]
    if not folders:
        yield MissingInput(path, _NOT_CHOSEN)
        return
    for folder in folders:
        inside = f"{path}/{folder}" if folder else path
        try:
            files = list(_files(root, folder, path))
        except OSError as error:
            yield MissingInput(inside, _reason(error))
            continue
        found = found or bool(files) or bool(folder)
        for file in _within(files, inside, extent):
            within = True
            yield file
        if folder:
            yield from _not_read(root, folder, inside)
    if not found:
        yield MissingInput(path, _NO_FILE)
    elif not within:
        yield _beside(path, path, extent)


def _refusal(path: str) -> str | None:
    """Return why a path is no source; None for one."""
    try:
        identify(path, open_files=1, cross_device=False).close()
    except SourceError as error:
        reason = str(error).removeprefix(path).strip()
        return _NO_FILE if reason in _NO_SOURCE else f"{reason} ({error.hint})"
    except (OSError, SourceRefusedError):
        return _NO_FILE
    return None


def _beside(path: str, folder: str, extent: LogRange | None) -> MissingInput:
    """Return the message for files without an offset of the extent."""
    reason = None if extent is None else why_beside(extent, folder)
    return MissingInput(
        path, f"no record is in the range; {reason}" if reason else "no record is in the range"
    )


def _partition_folders(root: SourceRoot) -> list[str]:
    others = root.list_apart()[1]
    folders = [entry.name for entry in others if entry.kind is EntryKind.DIRECTORY]
    tiered = folders_of_copies(root, candidates(root.path, others))
    return sorted({*filter(is_partition_name, folders), *tiered})


def _not_read(root: SourceRoot, folder: str, shown: str) -> Iterator[MissingInput]:
    """Yield entries with a name of Kafka's that are no regular file or folder, as that name requires."""
    try:
        _, others = root.list_apart(folder)
    except OSError:
        return  # the listing of its files reports the error
    for entry in sorted(others, key=lambda entry: entry.name):
        is_folder = entry.kind is EntryKind.DIRECTORY
        kind, _ = kind_of(entry.name)
        if kind is None and (folder or is_folder or not is_partition_name(entry.name)):
            continue
        if kind is FileKind.LOCK:
            continue
        reason = _REASONS.get(entry.kind, "neither a file nor a folder, not read")
        yield MissingInput(f"{shown.rstrip('/')}/{entry.name}", reason)


def _is_chosen(path: str, choice: PartitionChoice) -> bool:
    """Return whether a folder is that of a chosen partition; without a choice any is."""
    if not choice:
        return True
    name = os.path.basename(os.path.abspath(path))
    try:
        return choice.takes(NamedPartition(name, parse_folder_name(name).topic_partition))
    except InvalidNameError:
        return False


def _files(root: SourceRoot, folder: str, shown: str) -> Iterator[DumpFile]:
    names, _ = root.list_apart(folder)
    prefix = f"{folder}/" if folder else ""
    for name in sorted(names):
        kind, state = kind_of(name)
        if kind is not None and kind is not FileKind.LOCK:
            path = f"{STORES.shown(shown).rstrip('/')}/{prefix}{name}"
            yield DumpFile(root, prefix + name, path, kind, state, is_named=False)


def _within(
    files: list[DumpFile], folder: str, extent: LogRange | None
) -> Iterator[DumpFile | MissingInput]:
    """Yield the files; with an extent, only files with offsets of it, cut to it."""
    if extent is None:
        yield from files
        return
    wanted = [file for file in files if file.is_named or file.kind in _WITH_OFFSETS]
    if not wanted or why_beside(extent, folder) is not None:
        return
    try:
        first, last = offsets_in(extent, folder)
    except (SourceError, KafkaStorageError, OSError) as error:
        yield MissingInput(folder, f"the range cannot be looked up: {error}")
        return
    ends = _ends(wanted)
    for file in wanted:
        base = file.base_offset
        outside = base is not None and (base > last or ends.get(base, last) < first)
        if file.is_named or not outside:
            yield replace(file, first=first, last=last)


def _ends(files: list[DumpFile]) -> dict[Offset, Offset]:
    """Return the last possible offset of each segment by base offset; the last segment's is unknown."""
    logs = (file for file in files if file.kind is FileKind.LOG and not file.state)
    bases = sorted({base for file in logs if (base := file.base_offset) is not None})
    return {base: after - 1 for base, after in pairwise(bases)}
