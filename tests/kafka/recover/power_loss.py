"""What a power failure leaves: tails of records files that were not flushed are gone, on each disk others."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path

from engine.log.log_directory import open_source
from engine.replay.cluster import ClusterReplay
from engine.units import TopicPartition


def last_leaders(log_dir: Path) -> dict[TopicPartition, int]:
    """Return the leader of each partition, by the metadata log of a log dir."""
    source = open_source(str(log_dir))
    try:
        image = ClusterReplay(source).image()
        return {
            TopicPartition(name, number): item.facts["leader"]
            for name, topic in image.topics.items()
            for number, item in image.partitions_of(topic.facts["topicId"]).items()
        }
    finally:
        source.close()


def cut_tails(
    log_dirs: Mapping[int, Path], chooser: random.Random, *, leaders_only: bool, most: float = 0.5
) -> int:
    """Cut the records files of a cluster above their recovery points; return the bytes that are gone.

    Args:
        log_dirs: log dir of each node.
        chooser: chooses where each file ends.
        leaders_only: cut only the leader's file of each partition; else all but one of each.
        most: largest part of a file that is cut.
    """
    leaders = last_leaders(next(iter(log_dirs.values())))
    gone = 0
    for partition, leader in leaders.items():
        spared = chooser.choice([node for node in log_dirs if node != leader])
        for node, log_dir in log_dirs.items():
            if node == spared or (leaders_only and node != leader):
                continue
            gone += _cut(log_dir, partition, chooser.uniform(0.1, most))
    return gone


def _cut(log_dir: Path, partition: TopicPartition, part: float) -> int:
    source = open_source(str(log_dir))
    try:
        log = source.partitions().get(str(partition))
        if log is None:
            return 0
        view = log.view()
        segment = view.active_segment
        if segment is None:
            return 0
        point = log.checkpoints.recovery_point(partition) or 0
        place = view.locate(point) if point < view.log_end_offset else None
        lowest = place[1].position if place is not None and place[0] is segment else 0
        if point >= view.log_end_offset:
            lowest = segment.end
        path, end = log_dir / segment.path, segment.end
    finally:
        source.close()
    kept = max(lowest, int(end * (1 - part)))
    os.truncate(path, kept)
    return end - kept
