"""Schemas and configurations as the registry's REST API writes them; source: Confluent's client/rest/entities."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.schema import JsonValue, Schema, SchemaKind, in_context
from kafkafs.schemas.store import SchemaStore
from kafkafs.serve.registry.errors import RegistryError

CONFIG_FIELDS = (
    "alias", "aliasForDeks", "normalize", "validateFields", "validateNewSchemas", "validateRules",
    "compatibilityLevel", "compatibilityPolicy", "compatibilityGroup", "defaultMetadata",
    "overrideMetadata", "defaultRuleSet", "overrideRuleSet",
)  # fmt: skip
INHERITED_FIELDS = (
    "normalize", "validateFields", "validateNewSchemas", "validateRules", "compatibilityPolicy",
    "compatibilityGroup",
)  # fmt: skip
"""What a subject's configuration has from the one of all subjects, if it says nothing itself."""
DEFAULT_CONFIG = {"compatibilityLevel": "BACKWARD"}
DEFAULT_MODE = "READWRITE"


def entity(
    schema: Schema, text: str, *, is_qualified: bool = False, has_all: bool = False
) -> dict[str, Any]:
    """Return a version of a subject; empty fields are left out.

    Args:
        schema: the schema.
        text: its text in the format that was asked for.
        is_qualified: name the context of the schema in its references.
        has_all: with the fields that old clients do not know, and refuse.
    """
    references = [
        {
            "name": each.name,
            "subject": in_context(schema.context, each.subject) if is_qualified else each.subject,
            "version": each.version,
        }
        for each in schema.references
    ]
    is_avro = schema.kind is SchemaKind.AVRO
    found = {
        "subject": schema.subject,
        "version": schema.version,
        "id": schema.id,
        "guid": schema.guid if has_all else None,
        "schemaType": None if is_avro and not has_all else schema.kind.schema_type,
        "references": references or None,
        "metadata": schema.metadata,
        "ruleSet": schema.rule_set,
        "schema": text,
        "ts": schema.origin.timestamp if has_all else None,
        "deleted": schema.is_deleted if has_all else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def text_of(store: SchemaStore, schema: Schema, text_format: str) -> str:
    """Return the text of a schema in a format.

    Raises:
        RegistryError: there is no such format, or the schema does not compile.
    """
    if text_format in ("", "default") or (text_format == "resolved" and not schema.references):
        return schema.text
    if schema.kind is not SchemaKind.PROTOBUF or text_format != "serialized":
        raise RegistryError(422, f"The format {text_format!r} of {schema.name} is not made here")
    # Imported here: it needs the extra "schemas", as nothing else here does.
    from kafkafs.schemas.decoders.protobuf_files import link

    try:
        needed = [(name, each.text) for name, each in store.resolved(schema)]
        return b64encode(link(schema.text, needed).file.serialized_pb).decode()
    except UndecodableError as error:
        raise RegistryError(50001, f"{schema.name}: {error.reason}") from None


def config(value: JsonValue, of_all: JsonValue = None) -> dict[str, Any]:
    """Return a configuration, with what it has from the one of all subjects."""
    inherited = {name: (of_all or {}).get(name) for name in INHERITED_FIELDS}
    given = {name: value.get(name) for name in CONFIG_FIELDS}
    found = {name: inherited.get(name) if given[name] is None else given[name] for name in given}
    return {**DEFAULT_CONFIG, **{name: each for name, each in found.items() if each is not None}}
