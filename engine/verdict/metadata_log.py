"""Whether a node's log dirs lack the metadata log: then nothing there tells which topics the cluster has."""

from __future__ import annotations

from engine.checkpoint.meta_properties import MetaPropertiesVersion
from engine.files.file_names import FolderState
from engine.log.leftover_logs import state_of
from engine.log.log_directory import LogSource
from engine.topics.topic_names import CLUSTER_METADATA


def forgets_topics(source: LogSource) -> bool:
    """Return whether log dirs of KRaft have logs, and no metadata log: a controller that starts there knows no topic.

    It is no loss: metadata.log.dir may be elsewhere, and other controllers may have the log. A source with a log dir
    that a broker has open, or without a meta.properties of KRaft, is not judged; nor is one that ends at a time.
    """
    if source.cut is not None or source.broker_pid is not None:
        return False
    if any(
        root is not log_dir for root, log_dir in zip(source.roots, source.log_dirs, strict=True)
    ):
        return False
    versions = {each.version for each in source.meta_properties if each is not None}
    if versions != {MetaPropertiesVersion.V1}:
        return False
    logs = [each for each in source.partitions().values() if state_of(each) is FolderState.LOG]
    return bool(logs) and not any(each.topic_partition.topic == CLUSTER_METADATA for each in logs)
