"""What loading a log did to its folder's files: an overlay's folder compared with the source's."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from engine.file_names import FileKind, FileState
from engine.folder_entries import EntryKind
from engine.plan.overlay_content import OverlayContent
from engine.plan.overlay_disk import OverlayDisk, OverlayFolder, SourceName
from engine.source_files import SourceRoot

_DELETED = FileState.DELETED.value
_INDEXES = (FileKind.OFFSET_INDEX.value, FileKind.TIME_INDEX.value)
_CHUNK = 1 << 20


class Change(Enum):
    """What becomes of a file.

    PREALLOCATED: an index of the active segment, which grows to segment.index.bytes in any start.
    """

    CREATED = "created"
    DELETED = "deleted"
    RENAMED = "renamed"
    TRUNCATED = "truncated"
    REWRITTEN = "rewritten"
    PREALLOCATED = "preallocated"


class FileChange(NamedTuple):
    """One file.

    Attributes:
        name: in the source, or of the new file.
        change: what becomes of it.
        size_before, size_after: bytes; None where there is no file.
        new_name: of a renamed file.
        deleted_later: whether it goes for good file.delete.delay.ms after the start.
    """

    name: str
    change: Change
    size_before: int | None = None
    size_after: int | None = None
    new_name: str | None = None
    deleted_later: bool = False


def file_changes(
    disk: OverlayDisk, folder: str, root: SourceRoot, relative: str
) -> list[FileChange]:
    """All files of a folder that are not as they were, by name.

    Args:
        disk: with the folder after the loading.
        folder: its path there, now.
        root, relative: where it is in the source.
    """
    entry = disk.entry(folder)
    entries = entry.entries(disk) if isinstance(entry, OverlayFolder) else {}
    now: dict[str, tuple[str, OverlayContent | None]] = {}
    changes: list[FileChange] = []
    for name, each in entries.items():
        if isinstance(each, SourceName):
            now[each.relative] = name, None
        elif isinstance(each, OverlayContent):
            if each.place is None:
                changes.append(FileChange(name, Change.CREATED, None, each.size))
            else:
                now[each.place.relative] = name, each
    for name, kind in root.list(relative):
        if kind is EntryKind.FILE:
            path = f"{relative}/{name}" if relative else name
            changes += _changes_of(root, path, name, now.get(path))
    return sorted(changes, key=lambda change: (change.name, change.change.value))


def _changes_of(
    root: SourceRoot, path: str, name: str, now: tuple[str, OverlayContent | None] | None
) -> Iterator[FileChange]:
    if now is None:
        yield FileChange(name, Change.DELETED, root.stat(path).st_size)
        return
    new_name, content = now
    before = content.place.size if content is not None and content.place is not None else None
    after = None if content is None else content.size
    if new_name != name:
        size = root.stat(path).st_size if before is None else before
        doomed = new_name.endswith(_DELETED)
        after = size if after is None else after
        yield FileChange(name, Change.RENAMED, size, after, new_name, doomed)
    elif content is not None and before is not None and after is not None:
        change = _content_change(name, content, before, after)
        if change is not None:
            yield FileChange(name, change, before, after)


def _content_change(name: str, content: OverlayContent, before: int, after: int) -> Change | None:
    if not content.is_own:
        return Change.TRUNCATED if after < before else None
    if not _starts_alike(content, min(before, after)):
        return Change.REWRITTEN
    if after < before:
        return Change.TRUNCATED
    if after == before:
        return None
    return Change.PREALLOCATED if name.endswith(_INDEXES) else Change.REWRITTEN


def _starts_alike(content: OverlayContent, size: int) -> bool:
    """Whether our copy begins with the bytes that the source has."""
    position = 0
    while position < size:
        wanted = min(_CHUNK, size - position)
        mine, source = content.read_at(position, wanted), content.source_at(position, wanted)
        if mine != source:
            return False
        if not mine:
            break
        position += len(mine)
    return True
