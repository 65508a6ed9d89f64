"""What loading a log did to its folder's files: an overlay's folder compared with the source's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple, TypeAlias

from engine.files.file_names import FileKind, FileState
from engine.files.folder_entries import EntryKind
from engine.files.source_files import SourceRoot
from engine.plan.overlay.overlay_content import OverlayContent
from engine.plan.overlay.overlay_disk import OverlayDisk, OverlayFolder, SourceName

_DELETED = FileState.DELETED.value
_INDEXES = (FileKind.OFFSET_INDEX.value, FileKind.TIME_INDEX.value)
_CHUNK = 1 << 20

Read: TypeAlias = Callable[[int, int], bytes]


class ChangeKind(Enum):
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
    change: ChangeKind
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
    moved: dict[str, tuple[str, OverlayContent | None]] = {}
    new: dict[str, OverlayContent] = {}
    for name, each in entries.items():
        if isinstance(each, SourceName):
            moved[each.relative] = name, None
        elif isinstance(each, OverlayContent):
            if each.place is None:
                new[name] = each
            else:
                moved[each.place.relative] = name, each
    changes: list[FileChange] = []
    for name, kind in root.list(relative):
        if kind is not EntryKind.FILE:
            continue
        path = f"{relative}/{name}" if relative else name
        made = new.pop(name, None)
        if made is not None and path not in moved:
            changes += _replaced(root, path, name, made)
        else:
            changes += _changes_of(root, path, name, moved.get(path))
            if made is not None:
                new[name] = made
    changes += (FileChange(name, ChangeKind.CREATED, None, each.size) for name, each in new.items())
    return sorted(changes, key=lambda change: (change.name, change.change.value))


def _replaced(root: SourceRoot, path: str, name: str, made: OverlayContent) -> Iterator[FileChange]:
    """A file in whose place another one was put, perhaps with the same content."""
    with root.open_fresh(path) as file:
        before = file.size()
        if before != made.size or not _alike(made.read_at, file.read_at, before):
            yield FileChange(name, ChangeKind.REWRITTEN, before, made.size)


def _changes_of(
    root: SourceRoot, path: str, name: str, now: tuple[str, OverlayContent | None] | None
) -> Iterator[FileChange]:
    if now is None:
        yield FileChange(name, ChangeKind.DELETED, root.stat(path).st_size)
        return
    new_name, content = now
    before = content.place.size if content is not None and content.place is not None else None
    after = None if content is None else content.size
    if new_name != name:
        size = root.stat(path).st_size if before is None else before
        doomed = new_name.endswith(_DELETED)
        after = size if after is None else after
        yield FileChange(name, ChangeKind.RENAMED, size, after, new_name, doomed)
    elif content is not None and before is not None and after is not None:
        change = _content_change(name, content, before, after)
        if change is not None:
            yield FileChange(name, change, before, after)


def _content_change(
    name: str, content: OverlayContent, before: int, after: int
) -> ChangeKind | None:
    if not content.is_own:
        return ChangeKind.TRUNCATED if after < before else None
    if not _starts_alike(content, min(before, after)):
        return ChangeKind.REWRITTEN
    if after < before:
        return ChangeKind.TRUNCATED
    if after == before:
        return None
    return ChangeKind.PREALLOCATED if name.endswith(_INDEXES) else ChangeKind.REWRITTEN


def _starts_alike(content: OverlayContent, size: int) -> bool:
    """Whether our copy begins with the bytes that the source has."""
    return _alike(content.read_at, content.source_at, size)


def _alike(first: Read, second: Read, size: int) -> bool:
    position = 0
    while position < size:
        mine = first(position, min(_CHUNK, size - position))
        if mine != second(position, min(_CHUNK, size - position)):
            return False
        if not mine:
            break
        position += len(mine)
    return True
