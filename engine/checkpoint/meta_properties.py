"""meta.properties of a log dir: ids of its cluster, node and directory.

Version 0 (also if no version is stated) names the node broker.id and requires nothing; version 1,
of KRaft, requires node.id and cluster.id. See MetaProperties in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from engine.checkpoint.base64_uuid import canonical_uuid
from engine.checkpoint.decimal_text import parse_int32
from engine.checkpoint.properties_file import parse_properties, required_int
from engine.errors import CorruptCheckpointError

_VERSION = "version"
_CLUSTER_ID = "cluster.id"
_BROKER_ID = "broker.id"
_NODE_ID = "node.id"
_DIRECTORY_ID = "directory.id"


KNOWN_KEYS = frozenset({_VERSION, _CLUSTER_ID, _BROKER_ID, _NODE_ID, _DIRECTORY_ID})
"""Keys that a broker reads; it ignores all others."""


class MetaPropertiesVersion(IntEnum):
    """Versions of meta.properties."""

    V0 = 0
    V1 = 1

    @classmethod
    def from_number(cls, number: int) -> MetaPropertiesVersion:
        """Return the version with a number. Raises CorruptCheckpointError for an unknown number."""
        if number not in (cls.V0, cls.V1):
            raise CorruptCheckpointError(f"there is no meta.properties version {number}")
        return cls(number)

    @classmethod
    def from_text(cls, text: str) -> MetaPropertiesVersion:
        """Return the version in a property's text. Raises CorruptCheckpointError."""
        try:
            number = parse_int32(text.strip())
        except ValueError:
            raise CorruptCheckpointError(
                f"a meta.properties version is a number, not {text[:40]!a}"
            ) from None
        return cls.from_number(number)

    @property
    def has_broker_id(self) -> bool:
        """Whether the node's key is broker.id instead of node.id."""
        return self is MetaPropertiesVersion.V0

    @property
    def always_has_node_id(self) -> bool:
        """Whether the node id is required."""
        return self is not MetaPropertiesVersion.V0

    @property
    def always_has_cluster_id(self) -> bool:
        """Whether the cluster id is required."""
        return self is not MetaPropertiesVersion.V0


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """Content of a log dir's meta.properties; None for a missing property.

    The directory id is a UUID in base64, the cluster id usually is. Raises CorruptCheckpointError
    if a property that the version requires is missing.
    """

    version: MetaPropertiesVersion = MetaPropertiesVersion.V0
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: str | None = None

    def __post_init__(self) -> None:
        if self.cluster_id is None and self.version.always_has_cluster_id:
            raise CorruptCheckpointError("there is no cluster.id")
        if self.node_id is None and self.version.always_has_node_id:
            raise CorruptCheckpointError("there is no node.id")

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], *, path: str | None = None
    ) -> MetaProperties:
        """Return the content of a file's properties. Raises CorruptCheckpointError."""
        version = MetaPropertiesVersion.from_text(properties.get(_VERSION, "0"))
        name = _BROKER_ID if version.has_broker_id else _NODE_ID
        node_id = None
        if version.always_has_node_id or name in properties:
            node_id = required_int(properties, name, path=path)
        directory_id = properties.get(_DIRECTORY_ID)
        if directory_id is not None:
            try:
                directory_id = canonical_uuid(directory_id)
            except ValueError as error:
                raise CorruptCheckpointError(f"{_DIRECTORY_ID} is {error}", path=path) from None
        return cls(
            version=version,
            cluster_id=properties.get(_CLUSTER_ID),
            node_id=node_id,
            directory_id=directory_id,
        )

    def to_properties(self) -> dict[str, str]:
        """Return the properties of this content."""
        properties = {_VERSION: str(int(self.version))}
        if self.cluster_id is not None:
            properties[_CLUSTER_ID] = self.cluster_id
        if self.node_id is not None:
            properties[_BROKER_ID if self.version.has_broker_id else _NODE_ID] = str(self.node_id)
        if self.directory_id is not None:
            properties[_DIRECTORY_ID] = self.directory_id
        return properties


def parse_meta_properties(data: bytes, *, path: str | None = None) -> MetaProperties:
    """Return the content of a meta.properties file. Raises CorruptCheckpointError."""
    properties = parse_properties(data, path=path)
    try:
        return MetaProperties.from_properties(properties, path=path)
    except CorruptCheckpointError as error:
        error.path = path
        raise
