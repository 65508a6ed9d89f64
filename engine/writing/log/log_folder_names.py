"""The folder of a log by its partition, and back."""

from __future__ import annotations

import os
import uuid

from engine.files.file_names import FolderState, folder_name, parse_folder_name
from engine.units import TopicPartition
from engine.writing.disk import StrPath


def parse_topic_partition_name(folder: StrPath) -> TopicPartition:
    """The partition whose log a folder holds, or held. InvalidNameError for what is no such folder."""
    return parse_folder_name(os.path.basename(folder)).topic_partition


def log_dir_name(topic_partition: TopicPartition) -> str:
    """The name of a partition's folder."""
    return folder_name(topic_partition)


def log_delete_dir_name(topic_partition: TopicPartition) -> str:
    """A new name for the folder of a log that is to be deleted, of 255 characters at most."""
    return _marked(topic_partition, FolderState.DELETE)


def log_stray_dir_name(topic_partition: TopicPartition) -> str:
    """A new name for the folder of a log that does not belong here, of 255 characters at most."""
    return _marked(topic_partition, FolderState.STRAY)


def log_future_dir_name(topic_partition: TopicPartition) -> str:
    """A new name for the folder of a log that will replace the one in another log dir."""
    return _marked(topic_partition, FolderState.FUTURE)


def _marked(topic_partition: TopicPartition, state: FolderState) -> str:
    return folder_name(topic_partition, state, uuid.uuid4().hex)
