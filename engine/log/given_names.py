"""Topic and partition of a source whose folder does not name them: a records file or a folder under any name.

A name such as `orders-0` is that partition's. Any other name is a topic, with the records as its partition 0; a
character that no topic may have becomes "_". A file with the name of a segment, or of a copy of one, tells nothing:
its folder gives the name.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress

from engine.errors import InvalidNameError
from engine.files.file_names import (
    MAX_TOPIC_LENGTH,
    parse_file_name,
    parse_folder_name,
    parse_tiered_file_name,
)
from engine.units import TopicPartition

_NOT_OF_A_TOPIC = re.compile(r"[^a-zA-Z0-9._-]")
_NO_NAME = "records"


def partition_called(name: str) -> TopicPartition:
    """Return the partition that the records in a folder of any name are shown as.

    >>> [str(partition_called(name)) for name in ("orders-3", "backup", "my copy", "..")]
    ['orders-3', 'backup-0', 'my_copy-0', 'records-0']
    """
    topic, number = name, 0
    with suppress(InvalidNameError):
        topic, number = parse_folder_name(name).topic_partition
    topic = _NOT_OF_A_TOPIC.sub("_", topic)[:MAX_TOPIC_LENGTH]
    return TopicPartition(topic if topic.strip(".") else _NO_NAME, number)


def partition_of_file(folder: str, name: str) -> TopicPartition:
    """Return the partition that the records in a file are shown as.

    Args:
        folder: absolute path of its folder.
        name: name of the file.

    >>> str(partition_of_file("/home/ann", "payments.log")), str(partition_of_file("/mail", f"{0:020}.log"))
    ('payments-0', 'mail-0')
    """
    if parse_file_name(name) is not None or parse_tiered_file_name(name) is not None:
        return partition_called(os.path.basename(folder))
    stem = name.partition(".log")[0]
    return partition_called(stem or name)
