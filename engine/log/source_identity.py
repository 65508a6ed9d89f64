"""Identify a path of an operator as a log dir, a partition's folder, a records file or a tiered copy."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from engine.budgets import DEFAULT_BUDGETS
from engine.errors import InvalidNameError, SourceError
from engine.files.file_names import (
    FileKind,
    parse_file_name,
    parse_folder_name,
)
from engine.files.folder_entries import EntryKind, SourceEntry
from engine.files.source_files import SourceRoot
from engine.files.stores import STORES
from engine.files.tries import tried
from engine.log.log_dirs_below import (
    LOG_DIR_FILES,
    PARTITION_FILES,
    holds_partitions,
    is_partition_name,
    kind_of,
    log_dirs_below,
)
from engine.log.partition_log import Placed
from engine.log.segment.resync import Resync
from engine.log.tiered.folders import TieredFolder
from engine.log.tiered.paths import may_be_tiered, tiered_file_root, tiered_root
from engine.log.tiered.root import TieredRoot

HINT = (
    "name a broker's log dir (the folder that holds meta.properties and folders like orders-0),"
    " one partition's folder, one .log file, or a copy of tiered storage"
)
_MOST_NAMED = 6


class Identified(NamedTuple):
    """An identified path.

    Attributes:
        root: the source.
        log_dir: the log dir: the source, or the folder above the partition's; None where that is not one.
        fixed: the one partition, when the path is not a log dir.
    """

    root: SourceRoot
    log_dir: SourceRoot | None
    fixed: Placed | None

    def close(self) -> None:
        """Close the folders."""
        self.root.close()
        if self.log_dir is not None:
            self.log_dir.close()


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Turn an OSError into a SourceError with one sentence and a hint; name URLs, not their mirrors."""
    path = STORES.shown(path)
    try:
        yield
    except SourceError as error:
        if STORES.mirrors:
            raise SourceError(STORES.shown(error.reason), hint=STORES.shown(error.hint)) from None
        raise
    except FileNotFoundError:
        raise SourceError(f"{path} is not there", hint=HINT) from None
    except PermissionError:
        raise SourceError(
            f"{path} may not be read by this user",
            hint="run as the user that owns the log dir, or as one of its group",
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise SourceError(f"{path} cannot be read: {reason}") from error


def identify(path: str, *, open_files: int, cross_device: bool) -> Identified:
    """Open and identify a path. Raises OSError, and SourceError for a path without Kafka's files."""

    def opened(folder: str) -> SourceRoot:
        return SourceRoot(folder, open_files=max(open_files, 1), cross_device=cross_device)

    mode = tried(lambda: os.stat(path), path).st_mode
    if stat.S_ISREG(mode):
        copy = tiered_file_root(path, open_files=max(open_files, 1), cross_device=cross_device)
        if copy is not None:
            return Identified(copy[0], None, _placed_copies(*copy[1:]))
        return _one_file(path, opened)
    if stat.S_ISBLK(mode):
        from engine.log.foreign_sources import MOUNT_FIRST

        raise SourceError(f"{path} is a block device", hint=MOUNT_FIRST)
    if not stat.S_ISDIR(mode):
        raise SourceError(f"{path} is neither a folder nor a file", hint=HINT)
    root = opened(path)
    files, others = root.list_apart()
    entries = [*others, *(SourceEntry(name, EntryKind.FILE) for name in files)]
    if not entries:
        raise SourceError(f"{path} is empty", hint=HINT)
    if may_be_tiered(path, files, others) and not _has_files_of_a_broker(entries):
        copies = tiered_root(
            root, files, others, open_files=max(open_files, 1), cross_device=cross_device
        )
        if copies is not None:
            root.close()
            return Identified(copies[0], None, copies[1] and _placed_copies(copies[1]))
    if _has_files_of_a_broker(entries) or holds_partitions(root, "", entries):
        return Identified(root, root, None)
    name = os.path.basename(os.path.abspath(path))
    if _is_partition(entries):
        return Identified(root, _log_dir_above(path, opened), _placed(name))
    refusal = _refusal(path, root, entries)
    if refusal is None:
        return Identified(root, root, None)
    root.close()
    raise refusal


def _refusal(path: str, root: SourceRoot, entries: Sequence[SourceEntry]) -> SourceError | None:
    """Return the error for a folder in which no partition has a file; None if a log dir may look so."""
    # Imported here, as in other places: most sources are log dirs.
    from engine.log.foreign_sources import owner_of

    owner = owner_of(root, entries)
    if owner is not None:
        return SourceError(f"{path} holds {owner}: it is no log dir of Kafka", hint=HINT)
    below = log_dirs_below(root)
    if below.paths:
        shown = ", ".join(root.display(each) for each in below.paths[:_MOST_NAMED])
        more = len(below.paths) - _MOST_NAMED
        return SourceError(
            f"{path} is not a log dir; log dirs below it: {shown}"
            + (f" and {more} more" if more > 0 else ""),
            hint="name them, separated by commas, or take all with --below",
        )
    names = (name for name, kind in entries if kind is EntryKind.DIRECTORY)
    if any(map(is_partition_name, names)):
        return None
    logs = sorted(name for name, kind in entries if kind is EntryKind.FILE and ".log" in name)
    if logs:
        return SourceError(
            f"{path} has no file with the name of a segment",
            hint=f"name one of its files, such as {root.display(logs[0])}",
        )
    return SourceError(f"{path} is not a log dir", hint=HINT)


def paths_below(path: str) -> list[str]:
    """Return the paths of the log dirs below a folder; the path itself if it is a source.

    Raises:
        SourceError: it cannot be opened, and has no log dirs below it.
    """
    path = STORES.local(path)
    with readable(path):
        try:
            found = identify(path, open_files=1, cross_device=False)
        except SourceError:
            if not os.path.isdir(path):
                raise
            with SourceRoot(path) as root:
                below = log_dirs_below(root).paths
                if not below:
                    raise
                return [root.display(each) for each in below]
    found.close()
    return [path]


def refuse_tiered(path: str) -> None:
    """Raise SourceError for a copy of tiered storage: a broker does not start on one."""
    with SourceRoot(path) as root:
        files, others = root.list_apart()
        if not may_be_tiered(path, files, others):
            return
    found = identify(path, open_files=1, cross_device=False)
    found.root.close()
    if isinstance(found.root, TieredRoot):
        raise SourceError(
            f"{path} is a copy of tiered storage, and no broker starts on that",
            hint="kafkafs rebuild makes a log dir of it",
        )


def _placed_copies(folder: TieredFolder, only: str | None = None) -> Placed:
    is_named = folder.topic_id is not None
    return Placed("", folder.name, folder.partition, only=only, is_named=is_named)


def _one_file(path: str, opened: Callable[[str], SourceRoot]) -> Identified:
    from engine.files.linked_file import LinkedFileRoot, resolved, target_of
    from engine.log.given_names import partition_of_file

    real = resolved(path) if os.path.islink(path) else os.path.abspath(path)
    folder, name = os.path.split(target_of(path) if real is None else real)
    root = LinkedFileRoot(path, name) if real is None else opened(folder)
    try:
        if not name.partition(".log")[1] and not _begins_with_batch(root, name):
            from engine.log.foreign_sources import MOUNT_FIRST, image_in

            with root.open_fresh(name) as file:
                image = image_in(file)
            if image is not None:
                raise SourceError(f"{path} is {image}", hint=MOUNT_FIRST)
            raise SourceError(
                f"{path} is not a .log file, and does not begin with a batch of records", hint=HINT
            )
    except BaseException:
        root.close()
        raise
    placed = _placed(os.path.basename(folder))
    if not placed.is_named or real is None:
        given = placed.topic_partition if placed.is_named else partition_of_file(folder, name)
        placed = placed._replace(name=str(given), topic_partition=given, is_named=False)
    log_dir = None if real is None else _log_dir_above(folder, opened)
    return Identified(root, log_dir, placed._replace(only=name))


def _begins_with_batch(root: SourceRoot, name: str) -> bool:
    parsed = parse_file_name(name)
    if parsed is not None and parsed.kind is not FileKind.LOG:
        return False
    with root.open_fresh(name) as file:
        return Resync(file, file.size(), DEFAULT_BUDGETS).frame(0).kind is None


def _placed(folder: str) -> Placed:
    """Return the one partition of a source, by the name of its folder."""
    try:
        return Placed("", folder, parse_folder_name(folder).topic_partition)
    except InvalidNameError:
        from engine.log.given_names import partition_called

        given = partition_called(folder)
        return Placed("", str(given), given, is_named=False)


def _is_partition(entries: Sequence[SourceEntry]) -> bool:
    """Return whether there is any file of a partition's folder; its records files may be gone."""
    return any(
        entry.kind is EntryKind.FILE and kind_of(entry.name) in PARTITION_FILES for entry in entries
    )


def _log_dir_above(path: str, opened: Callable[[str], SourceRoot]) -> SourceRoot | None:
    """Return the folder above a partition's folder, if it is a log dir that can be read."""
    try:
        root = opened(os.path.dirname(os.path.realpath(path)))
        entries = root.list()
    except OSError:
        return None
    if _has_files_of_a_broker(entries):
        return root
    root.close()
    return None


def _has_files_of_a_broker(entries: Sequence[SourceEntry]) -> bool:
    return any(
        entry.kind is EntryKind.FILE and kind_of(entry.name) in LOG_DIR_FILES for entry in entries
    )
