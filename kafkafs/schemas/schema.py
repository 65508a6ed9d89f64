"""A schema as a registry or a file has it: its text, its references, and the place that it is known from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from engine.units import Offset, Timestamp

DEFAULT_CONTEXT = "."
"""Context of a subject without one; schema ids are unique within a context."""

_CONTEXT_START = ":."
_CONTEXT_END = ":"

JsonValue: TypeAlias = Any
"""A value that `json.loads` returns."""


class SchemaKind(StrEnum):
    """Kind of a schema; a value is the `valueEncoding` of record lines."""

    AVRO = "avro"
    PROTOBUF = "protobuf"
    JSON_SCHEMA = "json-schema"

    @property
    def schema_type(self) -> str:
        """The registry's name of the kind, `schemaType`."""
        return _TYPES[self]

    @classmethod
    def of_type(cls, schema_type: str) -> SchemaKind | None:
        """Return the kind of a registry's `schemaType`; None for an unknown one."""
        return _KINDS.get(schema_type)


_TYPES = {
    SchemaKind.AVRO: "AVRO",
    SchemaKind.PROTOBUF: "PROTOBUF",
    SchemaKind.JSON_SCHEMA: "JSON",
}
_KINDS = {name: kind for kind, name in _TYPES.items()}


class Reference(NamedTuple):
    """A reference of a schema to another schema.

    Attributes:
        name: name in the text: an Avro full name, the path of an `import`, the URI of a `$ref`.
        subject, version: the other schema; a version of -1 is the newest one.
    """

    name: str
    subject: str
    version: int


class Origin(NamedTuple):
    """Place that a schema is known from.

    Attributes:
        path: file, as shown to people.
        offset, timestamp: of its first record in the topic of a registry; None for a file of schemas.
        is_first: whether that record registered the schema; compaction may have left only its deletion.
    """

    path: str
    offset: Offset | None = None
    timestamp: Timestamp | None = None
    is_first: bool = True


NO_ORIGIN = Origin("")


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """A schema; equal only to itself.

    Attributes:
        kind: Avro, Protobuf or JSON Schema.
        text: the text; for Protobuf a `.proto` text, or a FileDescriptorProto in base64.
        references: schemas that the text needs.
        origin: where the schema is known from.
        subject: subject with its context, `:.ctx:orders-value`; None for a schema without one.
        version: version in the subject, from 1.
        id: schema id in the context; None without one.
        guid: the registry's GUID: a UUID in lower case.
        is_deleted: whether the version is deleted, softly or for good; its records decode all the same.
        is_gone: whether the version is deleted for good: a registry that reads the log does not have it.
        deleted_since: timestamp of the record that deleted the version softly; None without one.
        until: timestamp of the record that deleted the version for good, or gave it another text.
        metadata, rule_set: as the registry has them; None without.
        is_encrypted: whether the text is encrypted with a key of the registry.
    """

    kind: SchemaKind
    text: str
    references: tuple[Reference, ...] = ()
    origin: Origin = NO_ORIGIN
    subject: str | None = None
    version: int | None = None
    id: int | None = None
    guid: str | None = None
    is_deleted: bool = False
    is_gone: bool = False
    deleted_since: Timestamp | None = None
    until: Timestamp | None = None
    metadata: dict[str, JsonValue] | None = None
    rule_set: dict[str, JsonValue] | None = None
    is_encrypted: bool = False

    @property
    def context(self) -> str:
        """Context of the subject; DEFAULT_CONTEXT without one."""
        return DEFAULT_CONTEXT if self.subject is None else split_subject(self.subject)[0]

    @property
    def content(self) -> tuple[SchemaKind, str, tuple[Reference, ...], str]:
        """What two versions with the same meaning have in common.

        A reference names a subject of the schema's own context, if it names none.
        """
        return self.kind, self.text, self.references, self.context if self.references else ""

    @property
    def name(self) -> str:
        """Name for messages: `orders-value version 2 (id 7)`."""
        parts = [self.subject or self.origin.path]
        if self.version is not None:
            parts.append(f"version {self.version}")
        if self.id is not None:
            parts.append(f"(id {self.id})")
        return " ".join(parts)


def as_of(schema: Schema, at: Timestamp) -> Schema | None:
    """Return a schema with its state at a time; None if it came later."""
    since = schema.origin.timestamp
    if since is not None and schema.origin.is_first and since > at:
        return None
    is_gone = schema.is_gone and (schema.until is None or schema.until <= at)
    is_deleted = schema.is_deleted and (schema.deleted_since is None or schema.deleted_since <= at)
    if (is_gone, is_deleted) == (schema.is_gone, schema.is_deleted):
        return schema
    return replace(schema, is_gone=is_gone, is_deleted=is_deleted or is_gone)


class Candidate(NamedTuple):
    """A schema that a record may ask for.

    Attributes:
        schema: the schema.
        is_of_time: whether the registry had the schema at the record's time, as far as its log shows.
    """

    schema: Schema
    is_of_time: bool


def split_subject(subject: str) -> tuple[str, str]:
    """Return the context and the subject's own name, as Confluent's QualifiedSubject does.

    Example:
        >>> split_subject(":.eu:orders-value"), split_subject("orders-value")
        (('.eu', 'orders-value'), ('.', 'orders-value'))
    """
    if not subject.startswith(_CONTEXT_START):
        return DEFAULT_CONTEXT, subject
    context, _, name = subject[1:].partition(_CONTEXT_END)
    return context, name


def in_context(context: str, subject: str) -> str:
    """Return a subject in a context; a subject that has a context of its own keeps it.

    Example:
        >>> in_context(".eu", "orders-value"), in_context(".", "orders-value")
        (':.eu:orders-value', 'orders-value')
    """
    if context == DEFAULT_CONTEXT or subject.startswith(_CONTEXT_START):
        return subject
    return f":{context}:{subject}"
