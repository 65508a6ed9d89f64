"""Recognize paths of an operator that are copies of tiered storage."""

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
    """Return whether the first names of a folder are those of tiered copies or of folders of them."""
    return any(map(is_copy, files[:MOST_PEEKS])) or bool(candidates(path, others))


def tiered_root(
    root: SourceRoot,
    files: Sequence[str],
    others: Sequence[SourceEntry],
    *,
    open_files: int,
    cross_device: bool,
) -> tuple[TieredRoot, TieredFolder | None] | None:
    """Return the source of a folder of tiered copies, and the partition if they are of one; None for other folders.

    Args:
        root: the folder, which is not a broker's log dir.
        files, others: entries of the folder.
        open_files, cross_device: see SourceRoot.

    Raises:
        OSError: the folder cannot be read.
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
    """Return the source of one copy's records file, its partition and its name there; None for other files.

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
    """Raise SourceError if the first copy with this ending is encoded. Raises OSError."""
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
