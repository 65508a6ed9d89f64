"""Recognize paths of an operator that are copies of tiered storage."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice

from engine.files.file_names import log_file_name, parse_tiered_file_name
from engine.files.folder_entries import SourceEntry
from engine.files.source_files import SourceRoot
from engine.log.tiered.copies import LOG
from engine.log.tiered.folders import (
    MOST_PEEKS,
    TieredFolder,
    candidates,
    folder_called,
    folders_of_copies,
    is_copy,
    stated_topic,
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
    """
    path = root.path
    only = _named(root, folder_called(path)) if any(map(is_copy, files[:MOST_PEEKS])) else None
    below = (
        [""] if only is not None else folders_of_copies(root, candidates(path, others)[:MOST_PEEKS])
    )
    for _ in islice(below, 1):
        made = TieredRoot(path, only=only, open_files=open_files, cross_device=cross_device)
        return made, only
    return None


def _named(root: SourceRoot, folder: TieredFolder) -> TieredFolder:
    """Return a folder of copies with the topic that they state."""
    topic = stated_topic(root, "", folder.partition.topic)
    return folder._replace(partition=folder.partition._replace(topic=topic))


def tiered_file_root(
    path: str, *, open_files: int, cross_device: bool
) -> tuple[TieredRoot, TieredFolder, str] | None:
    """Return the source of one copy's records file, its partition and its name there; None for other files.

    Raises OSError.
    """
    folder, name = os.path.split(os.path.abspath(path))
    parsed = parse_tiered_file_name(name)
    if parsed is None or parsed.suffix != LOG:
        return None
    only = folder_called(folder)
    if only.topic_id is None:
        return None
    root = TieredRoot(
        folder,
        only=only,
        segment_id=parsed.segment_id,
        open_files=open_files,
        cross_device=cross_device,
    )
    return root, only, log_file_name(parsed.base_offset)
