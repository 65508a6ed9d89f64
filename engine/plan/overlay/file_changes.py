"""Compare a folder on an overlay with the source's: the changes that a loading made to its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple, TypeAlias

from engine.files.file_names import FileKind, FileState
from engine.files.folder_entries import EntryKind
from engine.files.source_files import SourceRoot
from engine.plan.overlay.overlay_content import OverlayContent
from engine.plan.overlay.overlay_disk import OverlayDisk
from engine.plan.overlay.overlay_tree import OverlayFolder, SourceName

_DELETED = FileState.DELETED.value
_INDEXES = (FileKind.OFFSET_INDEX.value, FileKind.TIME_INDEX.value)
_CHUNK = 1 << 20

Read: TypeAlias = Callable[[int, int], bytes]


class ChangeKind(Enum):
    """Kind of a file's change.

    PREALLOCATED: an index of the active segment grows to segment.index.bytes, as in any start.
    """

    CREATED = "created"
    DELETED = "deleted"
    RENAMED = "renamed"
    TRUNCATED = "truncated"
    REWRITTEN = "rewritten"
    PREALLOCATED = "preallocated"


class FileChange(NamedTuple):
    """Change of one file.

    Attributes:
        name: name in the source, or of the new file.
        change: kind of the change.
        size_before, size_after: bytes; None if there is no file.
        new_name: new name of a renamed file.
        deleted_later: whether the file is removed file.delete.delay.ms after the start.
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
    """Return the changes to the files of a folder, by name.

    Args:
        disk: overlay after the loading.
        folder: path of the folder on the overlay.
        root, relative: source, and path of the folder in it.
    """
    entry = disk.entry(folder)
    entries = entry.entries if isinstance(entry, OverlayFolder) else {}
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
    """Yield the change of a file that was replaced, unless the new content is the same."""
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
    """Return whether a copy and its source have the same first bytes."""
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
