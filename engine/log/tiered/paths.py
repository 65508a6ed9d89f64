"""What a path is that an operator named, if it is a copy of tiered storage or a part of one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice

from engine.errors import SourceError
from engine.files.file_names import log_file_name, parse_tiered_file_name
from engine.files.folder_entries import SourceEntry
from engine.files.source_files import SourceRoot
from engine.log.tiered.copies import LOG, encoding_of
from engine.log.tiered.folders import (
    MOST_PEEKS,
    TieredFolder,
    candidates,
    folder_called,
    folders_of_copies,
    is_copy,
)
from engine.log.tiered.root import TieredRoot


def may_be_tiered(path: str, files: Sequence[str], others: Sequence[SourceEntry]) -> bool:
    """Whether names in a folder look like tiered copies or folders of them; costs a glance at a log dir."""
    return any(map(is_copy, files[:MOST_PEEKS])) or bool(candidates(path, others))


def tiered_root(
    root: SourceRoot,
    files: Sequence[str],
    others: Sequence[SourceEntry],
    *,
    open_files: int,
    cross_device: bool,
) -> tuple[TieredRoot, TieredFolder | None] | None:
    """The source that a folder of tiered copies is, and whose copies, if of one partition; None for others.

    Args:
        root: the folder, no log dir of a broker.
        files, others: what is in it.
        open_files, cross_device: see SourceRoot.

    Raises:
        OSError: it cannot be read.
        SourceError: its copies are compressed by chunks, or encrypted.
    """
    path = root.path
    only = folder_called(path) if any(map(is_copy, files[:MOST_PEEKS])) else None
    below = (
        [""] if only is not None else folders_of_copies(root, candidates(path, others)[:MOST_PEEKS])
    )
    for folder in islice(below, 1):
        _refuse_encoded(root, folder, LOG)
        made = TieredRoot(path, only=only, open_files=open_files, cross_device=cross_device)
        return made, only
    return None


def tiered_file_root(
    path: str, *, open_files: int, cross_device: bool
) -> tuple[TieredRoot, TieredFolder, str] | None:
    """The source that shows one copy's records file, whose it is, and its name there; None for other files.

    Raises as `tiered_root`.
    """
    folder, name = os.path.split(os.path.abspath(path))
    parsed = parse_tiered_file_name(name)
    if parsed is None or parsed.suffix != LOG:
        return None
    only = folder_called(folder)
    if only.topic_id is None:
        return None
    with SourceRoot(folder, cross_device=cross_device) as plain:
        _refuse_encoded(plain, "", name)
    root = TieredRoot(
        folder,
        only=only,
        segment_id=parsed.segment_id,
        open_files=open_files,
        cross_device=cross_device,
    )
    return root, only, log_file_name(parsed.base_offset)


def _refuse_encoded(root: SourceRoot, folder: str, ending: str) -> None:
    """Say why copies cannot be read, by the first whose records file ends so. Raises OSError, SourceError."""
    files = root.list_apart(folder)[0]
    log = min((name for name in files if is_copy(name) and name.endswith(ending)), default=None)
    if log is None:
        return
    stem = f"{folder}/{log}".strip("/").removesuffix(LOG)
    copy = log.removesuffix(LOG)
    suffixes = [name.removeprefix(copy) for name in files if name.startswith(f"{copy}.")]
    encoding = encoding_of(root, int(log[:20]), {suffix: stem + suffix for suffix in suffixes})
    if encoding is not None:
        raise SourceError(
            f"{root.display(stem + LOG)}: {encoding}",
            hint="only plain copies of segments can be read; others a broker reads, by the plugin that wrote them",
        )
