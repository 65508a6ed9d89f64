"""The file that maps topics, ids and GUIDs to schemas, in TOML.

    [topics.orders]                                  # a name, a pattern or /REGEX/
    key = "key.avsc"                                 # a file of schemas, or a subject of the registry
    value = { file = "shop/order.proto", message = "shop.Order" }

    [topics."payments-*"]
    value = { subject = "payments-value", version = 3 }

    [topics.events]
    value = { message = "shop.Paid" }                # of several messages, that of typed columns

    [topics."dlq-*"]
    value = { subjects = ["orders-value", "/pay.*/"] }   # whose schemas values may have that name one

    [topics.clicks]
    key = { type = "int64" }                         # a type without a schema (`topic_type`)
    value = { type = "gzip", file = "click.avsc" }   # what wraps a value, and the schema of what it wraps

    [[ids]]                                          # an id or a GUID without a registry's topic
    id = 7
    file = "shop/order.proto"

    [[ids]]
    guid = "89791762-2336-41cf-8093-1d48a5b4e3d7"
    file = "payment.avsc"

A path is relative to the mapping's directory, and leads to a file in it or below. A key or value without any prefix or
header has the schema of its topic's entry, if that names one. With `files = [...]` at the top, more files are read, for types that others
need.
"""

from __future__ import annotations

import tomllib
from typing import NamedTuple
from uuid import UUID

from engine.log.partition_choice import NamePattern
from engine.units import MAX_INT32
from kafkafs.schemas.errors import SchemaFileError
from kafkafs.schemas.schema import JsonValue
from kafkafs.schemas.topic_type import TopicType

MAPPING_SUFFIX = ".toml"
_PARTS = {"key": True, "value": False}


class Target(NamedTuple):
    """A schema that the mapping names.

    Attributes:
        file: path of a file, relative to the mapping's directory; None for a subject, or a message alone.
        subject, version: subject of another source, and its version, None for the newest.
        message: name of a Protobuf message; None for the first one of the file.
        subjects: names or patterns of the subjects whose schemas those may have that name one.
        type: type of the keys or values, or what wraps them.
    """

    file: str | None
    subject: str | None
    version: int | None
    message: str | None
    subjects: tuple[NamePattern, ...] = ()
    type: TopicType | None = None

    @property
    def is_framed(self) -> bool:
        """Whether it names no schema itself."""
        return self.file is None and self.subject is None


class TopicEntry(NamedTuple):
    """The schema of the bare keys or values of some topics, or facts of those that name their schema."""

    topic: NamePattern
    is_key: bool
    target: Target


class IdEntry(NamedTuple):
    """The file of the schema of an id or GUID; one of the two is None."""

    id: int | None
    guid: str | None
    file: str


class TopicMapping(NamedTuple):
    """A file of mappings; `files` are those to read besides the targets'."""

    topics: tuple[TopicEntry, ...]
    ids: tuple[IdEntry, ...]
    files: tuple[str, ...]

    def all_files(self) -> list[str]:
        """Return the paths of all files that the mapping names, each once."""
        named = [entry.target.file for entry in self.topics if entry.target.file is not None]
        return list(dict.fromkeys([*self.files, *named, *(entry.file for entry in self.ids)]))


def parse_mapping(data: bytes, path: str) -> TopicMapping:
    """Parse a file of mappings.

    Raises:
        SchemaFileError: the file is not TOML, or has other fields.
    """
    try:
        found = tomllib.loads(data.decode())
        _only(found, "topics", "ids", "files")
        return TopicMapping(
            tuple(
                TopicEntry(NamePattern.parse(topic), _PARTS[part], _target(parts[part]))
                for topic, parts in found.get("topics", {}).items()
                for part in _only(parts, *_PARTS)
            ),
            tuple(map(_id_entry, found.get("ids", ()))),
            tuple(_path(file) for file in found.get("files", ())),
        )
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise SchemaFileError(f"not a mapping of topics: {error}", path) from error


def _target(found: JsonValue) -> Target:
    if isinstance(found, str):
        return Target(found, None, None, None)
    _only(found, "file", "subject", "version", "message", "subjects", "type", "charset")
    file, subject, kind = _text(found, "file"), _text(found, "subject"), _type(found)
    is_framed = bool(found) and found.keys() <= {"message", "subjects", "type", "charset"}
    if not is_framed and ((file is None) == (subject is None) or "subjects" in found):
        raise ValueError(
            f"{found} must name either a file or a subject, or a message, subjects or a type alone"
        )
    version = found.get("version")
    if version is not None and (type(version) is not int or not 0 < version <= MAX_INT32):
        raise ValueError(f"{version!r} is not a version")
    return Target(file, subject, version, _text(found, "message"), _patterns(found), kind)


def _type(found: dict[str, JsonValue]) -> TopicType | None:
    name, charset = _text(found, "type"), _text(found, "charset")
    if name is None:
        if charset is not None:
            raise ValueError("a charset is for the type string")
        return None
    kind = TopicType.parse(name, charset)
    if kind.name is not None and found.keys() - {"type", "charset"}:
        raise ValueError(f"the type {name!r} has no schema")
    return kind


def _patterns(found: dict[str, JsonValue]) -> tuple[NamePattern, ...]:
    given = found.get("subjects", [])
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise ValueError(f"subjects = {given!r} is not a list of names")
    return tuple(map(NamePattern.parse, names))


def _id_entry(found: JsonValue) -> IdEntry:
    _only(found, "id", "guid", "file")
    number, guid = found.get("id"), _text(found, "guid")
    if (number is None) == (guid is None):
        raise ValueError(f"{found} must have either an id or a guid")
    if number is not None and (type(number) is not int or number < 0):
        raise ValueError(f"{number!r} is not an id")
    return IdEntry(number, None if guid is None else str(UUID(guid)), _path(found.get("file")))


def _path(found: JsonValue) -> str:
    if not isinstance(found, str) or not found:
        raise ValueError(f"{found!r} is not the path of a file")
    return found


def _only(found: JsonValue, *allowed: str) -> list[str]:
    """Return the fields of a table. Raises ValueError for one that is not allowed."""
    if not isinstance(found, dict):
        raise ValueError(f"{found!r} is not a table")
    for field in found:
        if field not in allowed:
            raise ValueError(f"the unknown field {field!r}; known are {', '.join(allowed)}")
    return list(found)


def _text(found: dict[str, JsonValue], field: str) -> str | None:
    value = found.get(field)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{field} = {value!r} is not a text")
    return value
