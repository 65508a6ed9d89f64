""".kafka_cleanshutdown of a log dir: written last by a broker that stops, removed by the next start.

Empty before Kafka 3.7, since then JSON with the broker's epoch. That the file is there says nothing about
the logs beside it: data can be torn all the same.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from engine.checkpoint.json_object import int_field, parse_json_object
from engine.errors import CorruptCheckpointError, LimitExceededError
from engine.files.file_names import CLEAN_SHUTDOWN
from engine.files.source_files import SourceRoot

CURRENT_VERSION = 0
_LIMIT = 64 * 1024


class CleanShutdown(NamedTuple):
    """What a broker left when it stopped; both None in files of old versions."""

    version: int | None = None
    broker_epoch: int | None = None


def parse_clean_shutdown(data: bytes, *, path: str | None = None) -> CleanShutdown:
    """Return the content of the file; fields that are not known are ignored. Raises CorruptCheckpointError."""
    if not data.strip():
        return CleanShutdown()
    fields = parse_json_object(data, path=path)
    return CleanShutdown(
        int_field(fields, "version", path=path), int_field(fields, "brokerEpoch", path=path)
    )


def render_clean_shutdown(shutdown: CleanShutdown) -> bytes:
    """Return the file that says so.

    >>> render_clean_shutdown(CleanShutdown(0, 10))
    b'{"version":0,"brokerEpoch":10}'
    """
    fields = {"version": shutdown.version, "brokerEpoch": shutdown.broker_epoch}
    return json.dumps(fields, separators=(",", ":")).encode()


def read_clean_shutdown(root: SourceRoot) -> CleanShutdown | None:
    """What the file of a log dir says, None when there is no file; one that is broken says nothing."""
    try:
        data = root.read(CLEAN_SHUTDOWN, limit=_LIMIT)
        return parse_clean_shutdown(data, path=root.display(CLEAN_SHUTDOWN))
    except FileNotFoundError:
        return None
    except (CorruptCheckpointError, LimitExceededError):
        return CleanShutdown()
