"""A source's disk: its bytes, what retention and compaction take next, its growth, and its file systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.errors import KafkaStorageError
from engine.files.read_failures import reason_of
from engine.log.leftover_logs import is_set_aside
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.log.tiered.root import TieredRoot
from engine.replay.cluster import ClusterReplay
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import MAX_INT64, Timestamp
from engine.usage.advice import Advice, advice
from engine.usage.aged_log import AgedLog
from engine.usage.disk_usage import Bytes, BytesOnDisk, FolderUsage, summed
from engine.usage.file_kinds import UsageKind
from engine.usage.growth import LogGrowth, growth
from engine.usage.predictions import Prediction, predict
from engine.usage.topic_configs import TopicConfigs


class FileSystem(NamedTuple):
    """The file system of folders of a source.

    Attributes:
        paths: the folders on it.
        device: number of its device.
        size, free: its bytes, and those that a user who is not root can still write.
        is_live: whether a broker has one of the folders open, so that it is the broker's volume and not a copy's.
    """

    paths: list[str]
    device: int
    size: int
    free: int
    is_live: bool


@dataclass
class UsedDisk:
    """All that `kafkafs du` says.

    Attributes:
        usage: bytes by folder, of the whole source.
        folders: the counted folders among these.
        advice: what may go, and what must stay.
        predictions: by log, in the order of the source; no logs that a broker set aside.
        grown: how fast the logs grow; None if their records have no timestamps.
        file_systems: those of the folders of the source.
        has_metadata: whether the topics' configurations are from a metadata log.
        notes: sentences about logs without a prediction, and about configurations that could not be read.
    """

    usage: BytesOnDisk
    folders: list[FolderUsage] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)
    predictions: list[Prediction] = field(default_factory=list)
    grown: LogGrowth | None = None
    file_systems: list[FileSystem] = field(default_factory=list)
    has_metadata: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def total(self) -> Bytes:
        """Bytes of the counted folders."""
        return summed(each.total for each in self.folders)

    def by_kind(self) -> list[tuple[UsageKind, Bytes]]:
        """Return the bytes of each kind of files, the largest first."""
        found: dict[UsageKind, Bytes] = {}
        for folder in self.folders:
            for kind, total in folder.kinds.items():
                found.setdefault(kind, Bytes()).add(total)
        return sorted(found.items(), key=lambda item: -item[1].allocated)

    def next_to_go(self) -> list[Prediction]:
        """Return the logs that retention takes something of, those with the most bytes now first."""
        bounded = [
            each
            for each in self.predictions
            if each.departures or each.bytes_until_next is not None
        ]
        return sorted(
            bounded,
            key=lambda each: (
                -each.due_bytes,
                each.later[0].at if each.later else MAX_INT64,
                each.log.name,
            ),
        )


def source_usage(
    source: LogSource,
    now: Timestamp,
    settings: Mapping[str, str],
    *,
    takes: Callable[[PartitionLog], bool] | None = None,
    advance: Callable[[int], object] = lambda _: None,
) -> UsedDisk:
    """Return the bytes of a source, and what a broker deletes next.

    Args:
        source: the source.
        now: time of the predictions.
        settings: settings of the broker's server.properties.
        takes: the partitions to count; None for all, and all that is beside them.
        advance: called with the bytes of files that were counted since the call before.

    Raises:
        OSError: a folder that was named cannot be read.
        ValueError: `settings` has an unknown name, or a value that a broker refuses.
    """
    notes: list[str] = []
    configs = _configs(source, settings, notes)
    found = UsedDisk(BytesOnDisk(source, advance), notes=notes)
    logs = source.partitions()
    found.folders = [
        each
        for each in found.usage.folders
        if takes is None or (each.name in logs and takes(logs[each.name]))
    ]
    kept = {log.topic_partition for log in logs.values() if not is_set_aside(log)}
    found.advice = advice(found.folders, kept)
    found.has_metadata = configs.has_metadata
    for log in logs.values():
        if (takes is None or takes(log)) and not is_set_aside(log):
            _predict(found, log, configs.of_log(log), now)
    found.grown = growth([each.log for each in found.predictions])
    found.file_systems = _file_systems(source)
    return found


class _Configs(NamedTuple):
    """Configurations by the broker of a log."""

    by_root: dict[str, TopicConfigs]
    has_metadata: bool

    def of_log(self, log: PartitionLog) -> TopicConfigs:
        return self.by_root[log.root.path]


def _configs(source: LogSource, settings: Mapping[str, str], notes: list[str]) -> _Configs:
    replay = ClusterReplay(source)
    image = None
    try:
        image = replay.image() if replay.exists else None
    except (OSError, KafkaStorageError) as error:
        notes.append(f"the topics' own configurations are unknown: {reason_of(error)}")
    by_root = {
        root.path: TopicConfigs(image, None if meta is None else meta.node_id, settings)
        for root, meta in zip(source.roots, source.meta_properties, strict=True)
    }
    return _Configs(by_root, image is not None)


def _predict(found: UsedDisk, log: PartitionLog, configs: TopicConfigs, now: Timestamp) -> None:
    topic = log.topic_partition.topic
    if topic == CLUSTER_METADATA:  # goes with its snapshots, by metadata.max.retention
        return
    if isinstance(log.root, TieredRoot):  # goes by the rules of the remote tier
        return
    try:
        rules = configs.of(topic)
        aged = AgedLog.of(log)
        if aged is not None and aged.segments:
            found.predictions.append(predict(aged, rules, now))
    except ValueError as error:
        found.notes.append(
            f"{log.name} is not predicted: no broker takes its configuration: {error}"
        )
    except (OSError, KafkaStorageError) as error:
        found.notes.append(f"{log.name} is not predicted: {reason_of(error)}")


def _file_systems(source: LogSource) -> list[FileSystem]:
    found: dict[int, FileSystem] = {}
    for root, log_dir in zip(source.roots, source.log_dirs, strict=True):
        device = root.stat().st_dev
        numbers = root.statvfs()
        known = found.get(device)
        paths = [] if known is None else known.paths
        is_live = log_dir is not None and log_dir.broker_pid() is not None
        found[device] = FileSystem(
            [*paths, root.path],
            device,
            numbers.f_blocks * numbers.f_frsize,
            numbers.f_bavail * numbers.f_frsize,
            is_live or (known is not None and known.is_live),
        )
    return list(found.values())
