"""What differs between two states of a cluster: two moments of one source, or two sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from engine.log.log_directory import LogSource
from engine.replay.source_state import SourceState
from engine.topics.topic_names import KAFKA_TOPICS

_TABLES = ("configs", "acls", "users", "quotas", "features")


class Changed(NamedTuple):
    """Something that differs.

    Attributes:
        kind: records, topic, group, schemas, or a table of the cluster: configs, acls, users, quotas, features.
        name: what differs, such as orders-0, or a group and a partition.
        before, after: the values; None if it is not there.
    """

    kind: str
    name: str
    before: Any
    after: Any

    def facts(self) -> dict[str, Any]:
        """Return the change as a JSON object."""
        return self._asdict()


def differences(
    before: LogSource, after: LogSource, schemas: Callable[[LogSource], Mapping[str, Any]]
) -> Iterator[Changed]:
    """Yield what differs, by kind and name. Secrets of users are left out.

    Args:
        before, after: the sources.
        schemas: returns the schemas of a source by name.

    Raises LimitExceededError, OSError, UnsupportedCodecError.
    """
    one, other = (_facts(each) | {"schemas": schemas(each)} for each in (before, after))
    for kind, values in one.items():
        for name in sorted(values.keys() | other[kind].keys()):
            old, new = values.get(name), other[kind].get(name)
            if old != new:
                yield Changed(kind, name, old, new)


def _facts(source: LogSource) -> dict[str, Mapping[str, Any]]:
    state = SourceState(source)
    records = {
        name: [view.log_start_offset, view.log_end_offset]
        for name, log in source.partitions().items()
        if log.topic_partition.topic not in KAFKA_TOPICS
        and name == str(log.topic_partition)
        and (view := log.view_or_none()) is not None
    }
    topics: dict[str, Any] = {}
    found: dict[str, Mapping[str, Any]] = {"topic": topics, "records": records}
    image = state.cluster.image() if state.cluster.exists else None
    for name, item in () if image is None else image.topics.items():
        topics[name] = {
            "topicId": item.facts["topicId"],
            "partitions": len(image.partitions_of(item.facts["topicId"])) if image else 0,
        }
    for table in _TABLES:
        rows = {} if image is None else image.table(table)
        found[table] = {_name(key): item.facts for key, item in rows.items()}
    groups: dict[str, Any] = {}
    if state.has_groups:
        known = state.known_groups()
        for name in known.names:
            group = known.group(name)
            for place, offset in () if group is None else group.offsets.items():
                groups[f"{name} {place[0]}-{place[1]}"] = offset.offset
    found["group"] = groups
    return found


def _name(key: Any) -> str:  # noqa: ANN401 - the key of a table
    return " ".join(map(str, key)) if isinstance(key, tuple) else str(key)
