""".kafka_cleanshutdown of a log dir: written last when a broker stops, removed at its next start.

Empty before Kafka 3.7, since then JSON with the broker's epoch. The file does not prove that the
logs are whole: data can still be torn.
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
    """Content of the file; both fields are None in files of old versions."""

    version: int | None = None
    broker_epoch: int | None = None


def parse_clean_shutdown(data: bytes, *, path: str | None = None) -> CleanShutdown:
    """Return the content of the file; unknown fields are ignored. Raises CorruptCheckpointError."""
    if not data.strip():
        return CleanShutdown()
    fields = parse_json_object(data, path=path)
    return CleanShutdown(
        int_field(fields, "version", path=path), int_field(fields, "brokerEpoch", path=path)
    )


def render_clean_shutdown(shutdown: CleanShutdown) -> bytes:
    """Return the file's bytes.

    >>> render_clean_shutdown(CleanShutdown(0, 10))
    b'{"version":0,"brokerEpoch":10}'
    """
    fields = {"version": shutdown.version, "brokerEpoch": shutdown.broker_epoch}
    return json.dumps(fields, separators=(",", ":")).encode()


def read_clean_shutdown(root: SourceRoot) -> CleanShutdown | None:
    """Return the content of a log dir's file, None without a file; a broken file counts as empty."""
    try:
        data = root.read(CLEAN_SHUTDOWN, limit=_LIMIT)
        return parse_clean_shutdown(data, path=root.display(CLEAN_SHUTDOWN))
    except FileNotFoundError:
        return None
    except (CorruptCheckpointError, LimitExceededError):
        return CleanShutdown()
