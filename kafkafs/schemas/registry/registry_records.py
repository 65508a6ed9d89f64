"""Records of a registry's topic, by default `_schemas`: JSON keys and values, as Confluent's registry, Karapace and
Redpanda write them.

A key names its type in `keytype`. Fields that are not known are left out of account, as the registry does; Redpanda's
keys have a `seq` and a `node` besides.
"""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error as Base64Error
from typing import NamedTuple, TypeAlias
from uuid import UUID

from engine.topics.decoded_record import too_large
from engine.units import MAX_INT32
from kafkafs.schemas.registry.guid import guid_of
from kafkafs.schemas.schema import JsonValue, Reference, SchemaKind

SCHEMAS_TOPIC = "_schemas"
"""Default name of the topic, `kafkastore.topic` of Confluent's registry."""

_ENCRYPTED = "__enc__"
_LARGEST_KEY = 64 * 1024
_OTHERS = frozenset({"NOOP", "CONTEXT"})


class Definition(NamedTuple):
    """What a version says, besides its place.

    Attributes:
        kind, text, references, guid, is_encrypted: as in `Schema`.
        metadata, rule_set: JSON texts with sorted keys; None without.
    """

    kind: SchemaKind
    text: str
    references: tuple[Reference, ...] = ()
    metadata: str | None = None
    rule_set: str | None = None
    guid: str | None = None
    is_encrypted: bool = False


class Version(NamedTuple):
    """A version of a subject; without a definition the version is deleted for good."""

    subject: str
    version: int
    id: int | None = None
    definition: Definition | None = None
    is_deleted: bool = False


class SubjectDeletion(NamedTuple):
    """All versions of a subject up to one are deleted, softly."""

    subject: str
    version: int


class SubjectClearing(NamedTuple):
    """The versions of a subject that are deleted softly are deleted for good."""

    subject: str


class Setting(NamedTuple):
    """A configuration or a mode; `subject` is None for all subjects, `value` None for a deleted one."""

    keytype: str
    subject: str | None
    value: dict[str, JsonValue] | None


class Association(NamedTuple):
    """The subject of a topic's keys or values; `is_gone` once it is deleted."""

    topic: str
    is_key: bool
    subject: str
    is_gone: bool


RegistryRecord: TypeAlias = (
    "Version | SubjectDeletion | SubjectClearing | Setting | Association | None"
)
"""None for a record that says nothing about schemas: NOOP, CONTEXT, an association with another resource than a topic."""


class InvalidRegistryRecordError(ValueError):
    """A record of a registry's topic is not what a registry writes; the message is one sentence."""


def parse_record(key: bytes | None, value: bytes | None) -> RegistryRecord:
    """Return what a record says.

    Raises:
        InvalidRegistryRecordError: key or value is no JSON object, lacks a field, or has a type that is not known.
    """
    try:
        return _parsed(key, value)
    except RecursionError:
        raise InvalidRegistryRecordError("JSON that is nested too deeply") from None


def _parsed(key: bytes | None, value: bytes | None) -> RegistryRecord:
    if key is None:
        raise InvalidRegistryRecordError("a record without a key")
    if len(key) > _LARGEST_KEY:
        raise InvalidRegistryRecordError(f"a key of {len(key)} bytes, at most {_LARGEST_KEY}")
    fields = _Fields(key, "key")
    keytype = fields.text("keytype")
    values = _Fields(value, "value") if value else None
    if keytype == "SCHEMA":
        return _version(fields, values)
    if keytype == "DELETE_SUBJECT":
        return None if values is None else _subject_deletion(fields, values)
    if keytype == "CLEAR_SUBJECT":
        return None if values is None else SubjectClearing(fields.text("subject"))
    if keytype in ("CONFIG", "MODE"):
        subject = fields.optional("subject", str)
        return Setting(keytype, subject, None if values is None else values.fields)
    if keytype == "ASSOC":
        return _association(fields, is_gone=values is None)
    if keytype in _OTHERS:
        return None
    raise InvalidRegistryRecordError(f"a key of the unknown type {keytype[:100]!r}")


def encodable(text: str) -> str:
    """Return a text with U+FFFD for each lone surrogate, which JSON can spell and UTF-8 cannot."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class _Fields:
    """The fields of a JSON object."""

    def __init__(self, data: bytes, name: str) -> None:
        self._name = name
        reason = too_large(data)
        if reason is not None:
            raise InvalidRegistryRecordError(reason)
        try:
            found = json.loads(data)
        except ValueError as error:
            raise InvalidRegistryRecordError(f"the {name} is not JSON: {error}") from error
        if not isinstance(found, dict):
            raise InvalidRegistryRecordError(f"the {name} is not a JSON object")
        self.fields: dict[str, JsonValue] = found

    def optional(self, field: str, kind: type) -> JsonValue:
        """Return a field; None if it is missing or null."""
        found = self.fields.get(field)
        if found is not None and (not isinstance(found, kind) or found is True or found is False):
            raise self._wrong(field, found)
        return found

    def text(self, field: str) -> str:
        """Return a text that must be there."""
        found: str | None = self.optional(field, str)
        if found is None:
            raise self._wrong(field, found)
        return encodable(found)

    def number(self, field: str, least: int) -> int:
        """Return an int32 that must be there."""
        found: int | None = self.optional(field, int)
        if found is None or not least <= found <= MAX_INT32:
            raise self._wrong(field, found)
        return found

    def flag(self, field: str) -> bool:
        """Return a boolean, false if it is missing."""
        found = self.fields.get(field, False)
        if not isinstance(found, bool):
            raise self._wrong(field, found)
        return found

    def _wrong(self, field: str, found: JsonValue) -> InvalidRegistryRecordError:
        shown = "is missing" if found is None else f"is {json.dumps(found)[:100]}"
        return InvalidRegistryRecordError(f"the field {field} of the {self._name} {shown}")


def _subject_deletion(key: _Fields, value: _Fields) -> SubjectDeletion:
    # Redpanda names no version, and deletes all of them.
    has_version = value.fields.get("version") is not None
    version = value.number("version", 1) if has_version else MAX_INT32
    return SubjectDeletion(key.text("subject"), version)


def _version(key: _Fields, value: _Fields | None) -> Version:
    subject, version = key.text("subject"), key.number("version", 1)
    if value is None:
        return Version(subject, version)
    schema_type = value.optional("schemaType", str) or SchemaKind.AVRO.schema_type
    kind = SchemaKind.of_type(schema_type)
    if kind is None:
        raise InvalidRegistryRecordError(f"the unknown schema type {schema_type[:100]!r}")
    text = value.text("schema")
    references = tuple(map(_reference, value.optional("references", list) or ()))
    metadata, rule_set = value.optional("metadata", dict), value.optional("ruleSet", dict)
    stated = value.optional("md5", str)
    definition = Definition(
        kind,
        text,
        references,
        _json_text(metadata),
        _json_text(rule_set),
        _guid(text, references, metadata, rule_set) if stated is None else _stated_guid(stated),
        _is_encrypted(metadata),
    )
    return Version(subject, version, value.number("id", 0), definition, value.flag("deleted"))


def _reference(found: JsonValue) -> Reference:
    name, subject, version = (
        (found.get("name"), found.get("subject"), found.get("version"))
        if isinstance(found, dict)
        else (None, None, None)
    )
    if isinstance(name, str) and isinstance(subject, str) and type(version) is int:
        return Reference(encodable(name), encodable(subject), version)
    raise InvalidRegistryRecordError(f"the invalid reference {json.dumps(found)[:100]}")


def _stated_guid(md5: str) -> str:
    try:
        return str(UUID(bytes=b64decode(md5, validate=True)))
    except (ValueError, Base64Error) as error:
        raise InvalidRegistryRecordError(f"the invalid md5 {md5[:100]!r}") from error


def _guid(
    text: str,
    references: tuple[Reference, ...],
    metadata: dict[str, JsonValue] | None,
    rule_set: dict[str, JsonValue] | None,
) -> str | None:
    """Return the GUID; None if metadata or rules have other fields than the registry's."""
    try:
        return guid_of(text, references, metadata, rule_set)
    except (AttributeError, TypeError, KeyError):
        return None


def _is_encrypted(metadata: dict[str, JsonValue] | None) -> bool:
    properties = (metadata or {}).get("properties")
    return isinstance(properties, dict) and _ENCRYPTED in properties


def _json_text(found: dict[str, JsonValue] | None) -> str | None:
    return None if found is None else json.dumps(found, sort_keys=True, separators=(",", ":"))


def _association(key: _Fields, *, is_gone: bool) -> Association | None:
    if key.optional("resourceType", str) != "topic":
        return None
    part = key.text("associationType")
    if part not in ("key", "value"):
        return None
    return Association(key.text("resourceName"), part == "key", key.text("subject"), is_gone)
