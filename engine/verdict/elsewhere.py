"""Where lost records may still be, as far as names show that: leftovers, other copies, tiered storage, other replicas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

from engine.errors import KafkaStorageError
from engine.files.file_names import FileKind, FileState, FolderState, parse_file_name
from engine.log.folder_listing import sort_entries
from engine.log.leftover_logs import sizes_in, state_of
from engine.log.partition_log import PartitionLog
from engine.log.segment.damage import Elsewhere, ElsewhereKind
from engine.log.tiered.root import TieredRoot
from engine.log.view import stable_offset
from engine.log.view.log_view import LogView
from engine.units import MAX_INT64, Offset
from engine.verdict.source_evidence import SourceEvidence, evidence_of, source_of

MOST_NAMED = 20
"""Places that are named for one loss."""


class Holding(NamedTuple):
    """A place with records of a partition, and bounds [first, next) of their offsets."""

    first: Offset
    next: Offset
    place: Elsewhere


def holdings_of(view: LogView) -> list[Holding]:
    """Return the places beside a log that have records of its partition."""
    if view.log.only is not None:
        return []
    found, source = list(_files_beside(view)), source_of(view)
    if source is None:
        return found
    evidence = evidence_of(source)
    for log in evidence.logs_of(view.partition):
        if log.name != view.name and _is_same_topic(log, view):
            try:
                found += _of_log(log)
            except (KafkaStorageError, OSError):
                continue  # a problem of that log
    found += [Holding(0, MAX_INT64, place) for place in _far(view, evidence)]
    return found


def elsewhere(
    holdings: Iterable[Holding], first: Offset, following: Offset
) -> tuple[Elsewhere, ...]:
    """Return the places that may hold some of the offsets [first, next)."""
    found = [each.place for each in holdings if each.first < following and first < each.next]
    return tuple(dict.fromkeys(found))[:MOST_NAMED]


def replicas(nodes: Iterable[int]) -> tuple[Elsewhere, ...]:
    """Return other nodes as places."""
    return tuple(Elsewhere(ElsewhereKind.REPLICA, str(node)) for node in nodes)


def _files_beside(view: LogView) -> Iterator[Holding]:
    """Yield the records files in the log's own folder that are not part of it."""
    by_state: dict[FileState, list[tuple[Offset, str]]] = {}
    for name, _ in view.listing.leftovers:
        parsed = parse_file_name(name)
        if parsed is not None and parsed.kind is FileKind.LOG and parsed.base_offset is not None:
            by_state.setdefault(parsed.state, []).append((parsed.base_offset, name))
    for state, files in by_state.items():
        sized: set[str] = set()
        with suppress(OSError):
            names = [name for _, name in files]
            sized.update(name for name, _ in sizes_in(view.log.root, view.log.folder, names))
        bases = {base for base, _ in files}
        if state is FileState.DELETED:  # it was one of the segments, before others replaced it
            bases.update(view.base_offsets)
        ends = dict(pairwise([*sorted(bases), MAX_INT64]))
        for base, name in files:
            if name in sized:
                place = Elsewhere(ElsewhereKind.LEFTOVER, f"{view.name}/{name}")
                yield Holding(base, ends[base], place)


def _is_same_topic(log: PartitionLog, view: LogView) -> bool:
    """Return whether a folder is not known to be of another topic of the same name."""
    ids = {stable_offset.topic_id(log.context), view.topic_id} - {None}
    return len(ids) < 2


def _of_log(log: PartitionLog) -> Iterator[Holding]:
    """Yield the segments of another folder of the partition, as one place. Raises OSError."""
    bases = sort_entries(*log.root.list_apart(log.folder)).base_offsets
    if not bases:
        return
    if isinstance(log.root, TieredRoot):
        place = Elsewhere(ElsewhereKind.TIERED, log.root.display(log.folder))
    elif state_of(log) is FolderState.LOG:
        place = Elsewhere(ElsewhereKind.COPY, log.root.display(log.folder))
    else:
        place = Elsewhere(ElsewhereKind.LEFTOVER, log.name)
    yield Holding(bases[0], MAX_INT64, place)


def _far(view: LogView, evidence: SourceEvidence) -> Iterator[Elsewhere]:
    """Yield what the source names, and does not have: tiered storage, and other nodes by the metadata."""
    if evidence.has_tiered_storage and evidence.is_tiered(view.partition.topic) is not False:
        yield Elsewhere(ElsewhereKind.TIERED, "tiered storage")
    yield from replicas(evidence.other_replicas(view.partition))


def set_aside(folders: Iterable[str]) -> tuple[Elsewhere, ...]:
    """Return folders that a broker set aside as places, by their names."""
    return tuple(Elsewhere(ElsewhereKind.LEFTOVER, name) for name in folders)
