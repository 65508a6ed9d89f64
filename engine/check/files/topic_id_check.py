"""Compare the topic ids of a log dir's partitions with each other and with the cluster's metadata.

If a broker finds another topic's id in a folder, it moves the folder away as stray.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from engine.check.rules.finding import Finding, failed_read, found
from engine.check.rules.rules import Severity
from engine.checkpoint.meta_properties import MetaProperties
from engine.checkpoint.partition_metadata import parse_partition_metadata
from engine.errors import (
    CorruptCheckpointError,
    DamagedFileError,
    InvalidNameError,
    KafkaStorageError,
    SourceRefusedError,
)
from engine.files.file_names import (
    META_PROPERTIES,
    PARTITION_METADATA,
    FolderState,
    parse_folder_name,
)
from engine.files.source_files import SourceRoot
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.replay.cluster import ClusterImage, ClusterReplay
from engine.topics.topic_names import CLUSTER_METADATA

METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
"""Topic id of `__cluster_metadata`, also in its partition.metadata. See Uuid.METADATA_TOPIC_ID in Kafka."""


class _Folder(NamedTuple):
    """A partition's folder and its topic id; None without one."""

    log: PartitionLog
    path: str
    topic_id: str | None

    @property
    def topic(self) -> str:
        return self.log.topic_partition.topic


def check_topic_ids(source: LogSource, log_dir: SourceRoot) -> Iterator[Finding]:
    """Yield findings about the topic ids of a log dir's partitions."""
    image = _cluster(source)
    folders: list[_Folder] = []
    for log in source.partitions().values():
        if log.root is log_dir and _is_log(log):
            folder, problem = _read(log)
            if problem is not None:
                yield problem
            elif folder is not None:
                folders.append(folder)
    yield from _missing(folders)
    by_topic = {folder.topic: folder for folder in folders if folder.topic_id}
    wanted = _wanted(folders, image)
    for folder in folders:
        yield from _against(folder, wanted, image, log_dir)
    if image is None:
        yield from _shared(list(by_topic.values()))
    else:
        yield from _registration(source, log_dir, image)


def _is_log(log: PartitionLog) -> bool:
    try:
        return parse_folder_name(log.folder).state is FolderState.LOG
    except InvalidNameError:
        return False


def _read(log: PartitionLog) -> tuple[_Folder | None, Finding | None]:
    """Read the topic id of a folder; return it, or a finding about the file."""
    path = log.root.display(f"{log.folder}/{PARTITION_METADATA}")
    try:
        data = log.context.read_side_file(PARTITION_METADATA)
        return _Folder(log, path, parse_partition_metadata(data).topic_id), None
    except FileNotFoundError:
        return _Folder(log, path, None), None
    except DamagedFileError as error:
        return None, found(
            "topic-id-unreadable",
            path,
            error.reason,
            partition=log.name,
            position=error.position,
            line=error.line if isinstance(error, CorruptCheckpointError) else None,
            found=error.found,
        )
    except SourceRefusedError:
        return None, None
    except OSError as error:
        return None, found("file-unreadable", path, partition=log.name, **failed_read(error))


def _cluster(source: LogSource) -> ClusterImage | None:
    """Replay the source's own metadata log, as far as it can be read."""
    try:
        replay = ClusterReplay(source)
        return replay.image() if replay.exists else None
    except (KafkaStorageError, OSError):
        return None


def _wanted(folders: list[_Folder], image: ClusterImage | None) -> Mapping[str, str]:
    """Return the id of each topic: the metadata's, else that of most of its partitions."""
    counts: dict[str, Counter[str]] = {}
    for folder in folders:
        if folder.topic_id is not None:
            counts.setdefault(folder.topic, Counter())[folder.topic_id] += 1
    wanted = {topic: ids.most_common(1)[0][0] for topic, ids in counts.items()}
    if image is not None:
        known = {name: str(item.facts["topicId"]) for name, item in image.topics.items()}
        wanted |= {topic: known[topic] for topic in wanted if topic in known}
    wanted[CLUSTER_METADATA] = METADATA_TOPIC_ID
    return wanted


def _against(
    folder: _Folder, wanted: Mapping[str, str], image: ClusterImage | None, log_dir: SourceRoot
) -> Iterator[Finding]:
    if folder.topic_id is None:
        return
    expected = wanted[folder.topic]
    if folder.topic_id != expected:
        other = None if image is None else image.topic_name(folder.topic_id)
        verb = (
            "the cluster metadata says"
            if image is not None
            else "the topic's other partitions have"
        )
        of = "" if other is None else f", that of topic {other}"
        yield found(
            "topic-id-differs",
            folder.path,
            f"the topic id is {folder.topic_id}{of}; {verb} {expected}",
            partition=folder.log.name,
            expected=expected,
            found=folder.topic_id,
        )
    elif (
        image is not None
        and image.missing is None
        and folder.topic not in image.topics
        and folder.topic != CLUSTER_METADATA
    ):
        yield found(
            "topic-unknown",
            folder.path,
            f"the cluster metadata has no topic {folder.topic}",
            partition=folder.log.name,
            found=folder.topic_id,
        )


def _missing(folders: list[_Folder]) -> Iterator[Finding]:
    """Report missing topic ids. Brokers before 2.8 wrote none; if one partition has an id, all should."""
    without = [folder for folder in folders if folder.topic_id is None]
    if len(without) == len(folders):
        return
    for folder in without:
        yield found(
            "topic-id-missing", folder.path, "the file is missing", partition=folder.log.name
        )


def _shared(folders: list[_Folder]) -> Iterator[Finding]:
    owners: dict[str, _Folder] = {}
    for folder in folders:
        assert folder.topic_id is not None
        first = owners.setdefault(folder.topic_id, folder)
        if first.topic != folder.topic:
            yield found(
                "topic-id-shared",
                folder.path,
                f"the topic id {folder.topic_id} is also that of {first.topic}",
                partition=folder.log.name,
                found=folder.topic_id,
            )


def _registration(source: LogSource, log_dir: SourceRoot, image: ClusterImage) -> Iterator[Finding]:
    """Check that the log dir's broker is registered, with this log dir."""
    mine: MetaProperties | None = dict(zip(source.log_dirs, source.meta_properties, strict=True))[
        log_dir
    ]
    brokers = image.table("brokers")
    if mine is None or mine.node_id is None or not brokers or image.missing is not None:
        return
    broker = brokers.get(mine.node_id)
    path = log_dir.display(META_PROPERTIES)
    if broker is None:
        sentence = f"the cluster metadata has no broker {mine.node_id}"
        yield found(
            "meta-properties", path, sentence, severity=Severity.WARNING, found=mine.node_id
        )
        return
    registered = broker.facts.get("logDirs") or []
    if registered and mine.directory_id not in registered:
        states = (
            f"directory.id {mine.directory_id}" if mine.directory_id else "missing directory.id"
        )
        yield found(
            "meta-properties",
            path,
            f"broker {mine.node_id} is not registered with a {states}",
            severity=Severity.WARNING,
            expected=", ".join(map(str, registered)),
            found=mine.directory_id,
        )
