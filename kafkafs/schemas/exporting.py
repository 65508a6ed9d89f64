"""An export of schemas: their texts as files, a catalog of them, and the requests that import them into a new registry.

    schemas.jsonl             the catalog: all schemas with their ids, as `--schemas DIR` reads them
    import.json               requests to a registry, in order: a list of {"method", "path", "body"}
    <subject>/<version>.avsc  the texts: .avsc, .proto or .json; .desc for a Protobuf file that is kept as a descriptor,
                              .encrypted for a text that only the old registry can decrypt

The requests keep ids and versions, which a registry takes in the mode IMPORT; see Confluent's ModeResource and
KafkaSchemaRegistry.register.
"""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from kafkafs.escaped_names import escaped
from kafkafs.schemas.catalog import CATALOG, facts, state_of
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.files.proto_files import descriptor_set, is_descriptor
from kafkafs.schemas.schema import DEFAULT_CONTEXT, Schema, SchemaKind
from kafkafs.schemas.store import SchemaStore

REQUESTS = "import.json"
_SUFFIXES = {
    SchemaKind.AVRO: ".avsc",
    SchemaKind.PROTOBUF: ".proto",
    SchemaKind.JSON_SCHEMA: ".json",
}
_RENAMED = {"compatibilityLevel": "compatibility"}
"""Fields of a configuration that have another name in requests than in records."""


class NotImported(NamedTuple):
    """A schema without a request, and the reason."""

    schema: Schema
    reason: str


class Import(NamedTuple):
    """The requests that import schemas, and the schemas that a registry cannot take."""

    requests: list[dict[str, Any]]
    left_out: list[NotImported]


def exported_files(store: SchemaStore, requests: Import) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an export: the path in its directory, and the bytes."""
    lines = (json.dumps(facts(schema)) for schema in store.schemas)
    yield CATALOG, "".join(f"{line}\n" for line in lines).encode()
    rows = ",\n".join(map(json.dumps, requests.requests))
    yield REQUESTS, f"[\n{rows}\n]\n".encode()
    taken: set[str] = set()
    for schema in store.schemas:
        suffix, data = text_file(schema)
        folder = f"{escaped(schema.subject or '')}/{schema.version or 0}"
        path = f"{folder}{suffix}"
        if path in taken:
            path = f"{folder}@{schema.origin.offset}{suffix}"
        if path not in taken:
            taken.add(path)
            yield path, data


def text_file(schema: Schema) -> tuple[str, bytes]:
    """Return the suffix and the bytes of the file that holds a schema's text."""
    if schema.is_encrypted:
        return ".encrypted", schema.text.encode()
    descriptor = _descriptor(schema)
    if descriptor is not None:
        return ".desc", descriptor_set([descriptor])
    return _SUFFIXES[schema.kind], schema.text.encode()


def _descriptor(schema: Schema) -> bytes | None:
    """Return the FileDescriptorProto that stands in for a Protobuf text; None for a text."""
    if schema.kind is not SchemaKind.PROTOBUF:
        return None
    try:
        data = b64decode(schema.text, validate=True)
    except (ValueError, Base64Error):
        return None
    return data if is_descriptor(data) else None


def import_requests(store: SchemaStore) -> Import:
    """Return the requests that give a new registry the schemas of a store, with their ids and versions.

    A version that is deleted for good is imported if its number and its id are free, and deleted again softly: its
    records need it.
    """
    chosen, left_out = _chosen(store)
    ordered, unresolved = _ordered(store, chosen)
    contexts = sorted({schema.context for schema in ordered} - {DEFAULT_CONTEXT})
    requests = [_request("PUT", _scoped("/mode", None), {"mode": "IMPORT"})]
    requests += [
        _request("PUT", _scoped("/mode", f":{each}:"), {"mode": "IMPORT"}) for each in contexts
    ]
    requests += map(_registration, ordered)
    requests += [_deletion(schema) for schema in reversed(ordered) if schema.is_deleted]
    requests += _settings(store, contexts)
    return Import(requests, [*left_out, *unresolved])


def _chosen(store: SchemaStore) -> tuple[list[Schema], list[NotImported]]:
    """Return the schemas to import, and those that the registry cannot take beside them."""
    chosen: list[Schema] = []
    left_out: list[NotImported] = []
    versions: dict[tuple[str, int], Schema] = {}
    ids: dict[tuple[str, int], Schema] = {}
    for schema in sorted(store.schemas, key=lambda each: (each.is_gone, each.is_deleted)):
        subject, version, id_ = schema.subject, schema.version, schema.id
        if subject is None or version is None or id_ is None:
            left_out.append(NotImported(schema, "it has no id"))
            continue
        if schema.is_encrypted:
            left_out.append(NotImported(schema, "its text is encrypted"))
            continue
        same_version, same_id = versions.get((subject, version)), ids.get((schema.context, id_))
        if same_id is not None and same_id.text != schema.text:
            left_out.append(NotImported(schema, f"its id is that of {same_id.name}"))
        elif same_version is not None:
            left_out.append(NotImported(schema, f"its version is that of {same_version.name}"))
        else:
            versions[subject, version] = schema
            ids.setdefault((schema.context, id_), schema)
            chosen.append(schema)
    return chosen, left_out


def _ordered(
    store: SchemaStore, chosen: Sequence[Schema]
) -> tuple[list[Schema], list[NotImported]]:
    """Return the schemas with each after those that it refers to, and those with a reference that is missing."""
    left_out: list[NotImported] = []
    found: dict[Schema, None] = {}
    known = set(chosen)
    for schema in chosen:
        try:
            needed = [each for _, each in store.resolved(schema)]
        except UndecodableError as error:
            left_out.append(NotImported(schema, error.reason))
            continue
        absent = [each for each in needed if each not in known]
        if absent:
            left_out.append(
                NotImported(schema, f"it refers to {absent[0].name}, which is not in it")
            )
        else:
            found.update(dict.fromkeys([*needed, schema]))
    return list(found), left_out


def _registration(schema: Schema) -> dict[str, Any]:
    body: dict[str, Any] = {"schemaType": schema.kind.schema_type, "schema": schema.text}
    if schema.references:
        body["references"] = [reference._asdict() for reference in schema.references]
    if schema.metadata is not None:
        body["metadata"] = schema.metadata
    if schema.rule_set is not None:
        body["ruleSet"] = schema.rule_set
    body |= {"version": schema.version, "id": schema.id}
    return _request("POST", f"/subjects/{quote(schema.subject or '', safe='')}/versions", body)


def _deletion(schema: Schema) -> dict[str, Any]:
    subject = quote(schema.subject or "", safe="")
    return _request("DELETE", f"/subjects/{subject}/versions/{schema.version}", None)


def _settings(store: SchemaStore, contexts: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the configurations and, last, the modes."""
    settings = store.settings
    for (keytype, subject), value in settings.items():
        if keytype == "CONFIG":
            body = {_RENAMED.get(name, name): each for name, each in value.items()}
            body.pop("subject", None)
            yield _request("PUT", _scoped("/config", subject), body)
    modes: dict[str | None, str]
    modes = {None: "READWRITE", **{f":{context}:": "READWRITE" for context in contexts}}
    modes |= {
        subject: value.get("mode", "READWRITE")
        for (keytype, subject), value in settings.items()
        if keytype == "MODE"
    }
    for subject, mode in modes.items():
        yield _request("PUT", _scoped("/mode", subject), {"mode": mode})


def _scoped(path: str, subject: str | None) -> str:
    return path if subject is None else f"{path}/{quote(subject, safe='')}"


def _request(method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
    return {"method": method, "path": path, "body": body}


def left_out_sentences(found: Import) -> list[str]:
    """Return a sentence for each schema that a registry cannot take."""
    return [
        f"{each.schema.name}, {state_of(each.schema)}, is not in {REQUESTS}: {each.reason}"
        for each in found.left_out
    ]
