"""quorum-state of the metadata partition: a KRaft node's view of the controllers' election, in JSON.

See QuorumStateData and FileQuorumStateStore in Kafka; data versions 0 and 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from engine.checkpoint.base64_uuid import canonical_uuid
from engine.checkpoint.checkpoint_file import text_lines
from engine.checkpoint.json_object import int_field, parse_json_object, text_field
from engine.errors import CorruptCheckpointError

HIGHEST_VERSION = 1
_ELECTION = ("leaderId", "leaderEpoch", "votedId")
_MANDATORY = (
    ("clusterId", *_ELECTION, "appliedOffset", "currentVoters"),
    (*_ELECTION, "votedDirectoryId"),
)
"""Fields of each version without which Kafka refuses the file."""


class QuorumState(NamedTuple):
    """State of the election; as in the file, -1 means no leader, no vote or no epoch.

    Attributes:
        version: the file's data version.
        cluster_id, applied_offset, current_voters: only in version 0.
        voted_directory_id: only in version 1.
    """

    version: int
    leader_id: int = -1
    leader_epoch: int = -1
    voted_id: int = -1
    voted_directory_id: str | None = None
    cluster_id: str | None = None
    applied_offset: int | None = None
    current_voters: tuple[int, ...] = ()


def parse_quorum_state(
    data: bytes, *, path: str | None = None, is_strict: bool = False
) -> QuorumState:
    """Return the state in the first line of the file; `is_strict` as Kafka, which refuses a missing field.

    Raises CorruptCheckpointError.
    """
    line = next(text_lines(data, path=path), None)
    if line is None:
        raise CorruptCheckpointError("the file is empty", path=path)
    fields = parse_json_object(line.encode(), path=path)
    version = int_field(fields, "data_version", path=path)
    if version is None or not 0 <= version <= HIGHEST_VERSION:
        raise CorruptCheckpointError(
            "the version is unknown", path=path, expected=f"0 to {HIGHEST_VERSION}", found=version
        )

    missing = [name for name in _MANDATORY[version] if name not in fields]
    if missing and is_strict:
        raise CorruptCheckpointError(f"there is no {missing[0]}", path=path)

    def number(name: str) -> int:
        value = int_field(fields, name, path=path)
        return -1 if value is None else value

    state = QuorumState(version, number("leaderId"), number("leaderEpoch"), number("votedId"))
    if version == 0:
        return state._replace(
            cluster_id=text_field(fields, "clusterId", path=path),
            applied_offset=int_field(fields, "appliedOffset", path=path),
            current_voters=_voters(fields.get("currentVoters"), path),
        )
    return state._replace(voted_directory_id=_uuid(fields, "votedDirectoryId", path))


def _voters(value: object, path: str | None) -> tuple[int, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(voter, dict) for voter in value):
        raise CorruptCheckpointError("currentVoters is not a list of objects", path=path)
    ids = [int_field(voter, "voterId", path=path) for voter in value]
    return tuple(voter for voter in ids if voter is not None)


def _uuid(fields: dict[str, Any], name: str, path: str | None) -> str | None:
    text = text_field(fields, name, path=path)
    try:
        return None if text is None else canonical_uuid(text)
    except ValueError as error:
        raise CorruptCheckpointError(f"{name} is {error}", path=path) from None
