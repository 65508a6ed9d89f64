"""New names of topics and partitions, as `--rename NAME=NEW` gives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from engine.errors import InvalidNameError
from engine.files.file_names import parse_folder_name, validate_topic
from engine.log.partition_log import PartitionLog
from engine.units import TopicPartition

NO_RENAMES: Mapping[str, str] = MappingProxyType({})


def renamed(log: PartitionLog, renames: Mapping[str, str]) -> TopicPartition:
    """Return topic and number of a log under its new name.

    The name of a partition becomes that of another partition, and a topic another topic. If the source does not name
    the partition, its topic may become a partition, too: `payments=orders-3`.

    Raises:
        InvalidNameError: the new name is not that of a partition, or no topic may have it.
    """
    topic, number = log.topic_partition
    new = renames.get(name_of(log))
    if new is not None:
        place = parse_folder_name(new).topic_partition
    else:
        new = renames.get(topic, topic)
        place = TopicPartition(new, number)
        if not log.is_named and is_partition(new) and topic in renames:
            place = parse_folder_name(new).topic_partition
    if place != log.topic_partition:
        validate_topic(place.topic)
    return place


def unknown_name(renames: Mapping[str, str], logs: Iterable[PartitionLog]) -> str | None:
    """Return the first name to rename that no log has; None if all are known."""
    known = {name for log in logs for name in (name_of(log), log.topic_partition.topic)}
    return next((name for name in renames if name not in known), None)


def name_of(log: PartitionLog) -> str:
    """Return a partition's name, also for its second copy."""
    return log.name.partition("@")[0]


def is_partition(name: str) -> bool:
    """Return whether a name is that of a partition, such as orders-3."""
    try:
        return str(parse_folder_name(name).topic_partition) == name
    except InvalidNameError:
        return False
