"""Read the topic id of a log's folder as a broker does."""

from __future__ import annotations

import os

from engine.disk.disk import Disk
from engine.files.file_names import PARTITION_METADATA
from engine.plan.loading.java_text import TEXT_LIMIT, parse_topic_id


def read_topic_id(disk: Disk, folder: str) -> str | None:
    """Return the topic id in a folder's partition.metadata; None without that file.

    Raises:
        BrokerFailure: a broker cannot read the file.
        OSError: the file cannot be read here.
    """
    path = os.path.join(folder, PARTITION_METADATA)
    if not disk.exists(path):
        return None
    with disk.open(path, writable=False) as file:
        return parse_topic_id(file.read_at(0, TEXT_LIMIT), path, file.size())
