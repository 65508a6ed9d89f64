"""Refuse to merge logs of other topics or clusters: equal names prove nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.log.view.stable_offset import topic_id
from engine.rebuild.errors import RebuildRefusedError
from engine.rebuild.selection import Chosen

_WAY_OUT = (
    "name a replica of the same topics, leave them out with --partition, or pass --merge-strangers"
)


def refuse_strangers(sources: Sequence[LogSource], chosen: Iterable[Chosen]) -> None:
    """Refuse further sources of another cluster, and copies of partitions of another topic.

    An id that a source does not state is taken for the same.

    Raises:
        RebuildRefusedError: the ids differ.
    """
    if len(sources) < 2:
        return
    known: dict[str, str] = {}
    for source in sources:
        for root, properties in zip(source.roots, source.meta_properties, strict=True):
            if properties is not None and properties.cluster_id is not None:
                known.setdefault(properties.cluster_id, root.path)
    if len(known) > 1:
        (mine, path), (other, other_path) = list(known.items())[:2]
        raise RebuildRefusedError(
            f"{other_path} is of the cluster {other}, but {path} of the cluster {mine}", _WAY_OUT
        )
    for each in chosen:
        _refuse_other_topic(each.copies)


def _refuse_other_topic(copies: Sequence[PartitionLog]) -> None:
    known: dict[str, PartitionLog] = {}
    for log in copies if len(copies) > 1 else ():
        found = topic_id(log.context)
        if found is not None:
            known.setdefault(found, log)
    if len(known) > 1:
        (mine, log), (other, other_log) = list(known.items())[:2]
        raise RebuildRefusedError(
            f"{other_log.root.display(other_log.folder)} has the topic id {other}, but"
            f" {log.root.display(log.folder)} has {mine}: they are not of one topic",
            _WAY_OUT,
        )
