"""Answers GET requests of the registry's REST API; all others would write, and are refused.

Source: Confluent's rest/resources of the registry 8.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qs

from kafkafs.schemas.errors import printable
from kafkafs.schemas.schema import DEFAULT_CONTEXT, Schema, SchemaKind
from kafkafs.schemas.store import SchemaStore
from kafkafs.serve.network.http import HttpAnswer, HttpRequest
from kafkafs.serve.registry.entities import entity, text_of
from kafkafs.serve.registry.errors import RegistryError, invalid_version, no_schema, no_subject
from kafkafs.serve.registry.look_ups import ALL_CONTEXTS, LATEST, LookUps, normal

logger = logging.getLogger(__name__)

READ_ONLY = "This registry is read-only: it answers from the topic of a registry and writes nothing"
_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_ACCEPTS_ALL = "confluent-accept-unknown-properties"
_MOST_NUMBER = 2**31 - 1

Item = TypeVar("Item")


class RestApi:
    """The API.

    Args:
        store: returns the schemas as of now; may read the source.
        cluster_id: id of the cluster; None if it is not known.
        version: version to name.
    """

    def __init__(
        self, store: Callable[[], SchemaStore], cluster_id: str | None, version: str
    ) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._version = version

    def answer(self, request: HttpRequest) -> HttpAnswer:
        """Return the answer to a request; it may read the source."""
        try:
            if request.method not in ("GET", "HEAD"):
                raise RegistryError(42205, READ_ONLY)
            found = self._found(request)
        except RegistryError as error:
            logger.debug("%s %s: %s", request.method, request.path, error)
            found = {"error_code": error.code, "message": str(error)}
            return HttpAnswer(_json(found), _CONTENT_TYPE, error.status)
        body = printable(found).encode() if isinstance(found, str) else _json(found)
        return HttpAnswer(body, _CONTENT_TYPE)

    def _found(self, request: HttpRequest) -> Any:  # noqa: ANN401
        parts, query = request.parts, parse_qs(request.query, keep_blank_values=True)
        match parts:
            case []:
                return {}
            case ["v1", "metadata", "id"]:
                ids = {"kafka-cluster": self._cluster_id, "schema-registry-cluster": "kafkafs"}
                return {"id": "", "scope": {"path": [], "clusters": ids}}
            case ["v1", "metadata", "version"]:
                return {"version": self._version, "commitId": ""}
            case ["schemas", "types"]:
                return [kind.schema_type for kind in SchemaKind]
        context = ""
        if len(parts) > 2 and parts[0] == "contexts":
            context, parts = f":.{parts[1].strip(':').removeprefix('.')}:", parts[2:]
            context = "" if context == f":{DEFAULT_CONTEXT}:" else context
        asked = _Asked(LookUps(self._store()), query, context, _ACCEPTS_ALL in request.headers)
        return asked.found(parts)


class _Asked(NamedTuple):
    """A request: look-ups, the query, the context of its path, and whether the client takes all fields."""

    look: LookUps
    query: dict[str, list[str]]
    context: str
    has_all: bool

    def found(self, parts: Sequence[str]) -> Any:  # noqa: ANN401
        """Return what the path names.

        Raises:
            RegistryError: it is not there.
        """
        match parts:
            case ["schemas"]:
                return self._schemas()
            case ["schemas", "ids", text, *rest]:
                return self._of_id(_number(text), rest)
            case ["schemas", "guids", guid, *rest]:
                return self._of_guid(guid, rest)
            case ["subjects"]:
                return self._subjects()
            case ["subjects", subject, "metadata"]:
                return self._with_metadata(self._full(subject))
            case ["subjects", subject, "versions"]:
                return self._versions(self._full(subject))
            case ["subjects", subject, "versions", text, *rest]:
                return self._version(self._full(subject), text, rest)
            case ["contexts"]:
                prefix = self._text("contextPrefix")
                return self._page([c for c in self.look.contexts() if c.startswith(prefix)])
            case ["config", *subject] if len(subject) < 2:
                scope = self._full(subject[0]) if subject else self.context
                return self.look.config(scope or None, in_scope=self._flag("defaultToGlobal"))
            case ["mode", *subject] if len(subject) < 2:
                scope = self._full(subject[0]) if subject else self.context
                return {"mode": self.look.mode(scope or None, in_scope=self._flag("defaultToGlobal"))}  # fmt: skip
        raise RegistryError(404, "HTTP 404 Not Found")

    def _schemas(self) -> list[dict[str, Any]]:
        found = self.look.schemas(
            self.context + self._text("subjectPrefix"), deleted=self._flag("deleted")
        )
        if self._flag("latestOnly"):
            found = list({each.subject: each for each in found}.values())
        return [self._entity(each) for each in self._page(found)]

    def _subjects(self) -> list[str]:
        only_deleted = self._flag("deletedOnly")
        prefix = self._text("subjectPrefix", "" if self.context else ALL_CONTEXTS)
        found = self.look.subjects(
            self.context + prefix,
            live=not only_deleted,
            deleted=only_deleted or self._flag("deleted"),
        )
        return self._page(found)

    def _of_id(self, id_: int, rest: Sequence[str]) -> Any:  # noqa: ANN401
        subject = self._text("subject") or None
        within = self._full(subject or "")
        match rest:
            case []:
                found = self._entity(self.look.by_id(id_, within))
                hidden = {"id"} if subject else {"id", "subject", "version"}
                return {name: value for name, value in found.items() if name not in hidden}
            case ["schema"]:
                return text_of(self.look.store, self.look.by_id(id_, within), self._text("format"))
            case ["subjects"]:
                found_ = self.look.with_id(id_, within, deleted=self._flag("deleted"))
                return self._page(list(dict.fromkeys(each.subject for each in found_)))
            case ["versions"]:
                found_ = self.look.with_id(id_, within, deleted=self._flag("deleted"))
                return self._page([{"subject": s.subject, "version": s.version} for s in found_])
        raise RegistryError(404, "HTTP 404 Not Found")

    def _of_guid(self, guid: str, rest: Sequence[str]) -> Any:  # noqa: ANN401
        found = [each.schema for each in self.look.store.by_guid(guid.lower())]
        if rest == ["ids"]:
            pairs = sorted({(each.context, each.id or 0) for each in found})
            return [{"context": context, "id": id_} for context, id_ in pairs]
        if rest:
            raise RegistryError(404, "HTTP 404 Not Found")
        if not found:
            raise no_schema(guid)
        shown = self._entity(min(found, key=lambda each: each.is_gone))
        return {name: shown[name] for name in shown if name not in ("id", "subject", "version")}

    def _versions(self, subject: str) -> list[int]:
        only_deleted, as_negative = self._flag("deletedOnly"), self._flag("deletedAsNegative")
        with_deleted = self._flag("deleted") or only_deleted
        found = self.look.versions(subject)
        if not with_deleted and all(each.is_deleted for each in found):
            raise no_subject(subject)
        numbers = [
            -(each.version or 0) if each.is_deleted and as_negative else each.version or 0
            for each in found
            if as_negative or (with_deleted if each.is_deleted else not only_deleted)
        ]
        return self._page(numbers)

    def _version(self, subject: str, text: str, rest: Sequence[str]) -> Any:  # noqa: ANN401
        version = _version(text)
        deleted = self._flag("deleted")
        match rest:
            case []:
                return self._entity(self.look.version(subject, version, deleted=deleted))
            case ["schema"]:
                found = self.look.version(subject, version, deleted=deleted)
                return text_of(self.look.store, found, self._text("format"))
            case ["referencedby"]:
                target = self.look.version(subject, version, deleted=True)
                return self._page(self.look.referring(target, deleted=deleted))
        raise RegistryError(404, "HTTP 404 Not Found")

    def _with_metadata(self, subject: str) -> dict[str, Any]:
        """Return the newest version with some properties in its metadata."""
        wanted = dict(zip(self.query.get("key", ()), self.query.get("value", ()), strict=False))
        for schema in reversed(self.look.versions(subject)):
            properties = (schema.metadata or {}).get("properties")
            if (
                isinstance(properties, dict)
                and wanted.items() <= properties.items()
                and (self._flag("deleted") or not schema.is_deleted)
            ):
                return self._entity(schema)
        raise RegistryError(40403, "Schema not found")

    def _entity(self, schema: Schema) -> dict[str, Any]:
        return entity(
            schema,
            text_of(self.look.store, schema, self._text("format")),
            is_qualified="qualified" in (self._text("referenceFormat"), self._text("reference_format")),
            has_all=self.has_all,
        )  # fmt: skip

    def _full(self, subject: str) -> str:
        """Return a subject in the context of the path, if it names none of its own."""
        return normal(subject if subject.startswith(":.") else self.context + subject)

    def _text(self, name: str, default: str = "") -> str:
        return self.query.get(name, [default])[0]

    def _flag(self, name: str) -> bool:
        return self._text(name).lower() == "true"

    def _page(self, items: Sequence[Item]) -> list[Item]:
        start, most = _number(self._text("offset", "0")), self._text("limit", "-1")
        end = len(items) if most.startswith("-") else start + _number(most)
        return list(items[start:end])


def _number(text: str) -> int:
    """Return a number of a path or a query.

    Raises:
        RegistryError: it is none.
    """
    if text.isascii() and text.isdigit() and len(text) < 11 and int(text) <= _MOST_NUMBER:
        return int(text)
    raise RegistryError(404, "HTTP 404 Not Found")


def _version(text: str) -> int:
    if text.strip().lower() in ("latest", "-1"):
        return LATEST
    try:
        found = _number(text.strip())
    except RegistryError:
        found = 0
    if found == 0:
        raise invalid_version(text)
    return found


def _json(found: object) -> bytes:
    return json.dumps(found, separators=(",", ":"), ensure_ascii=True).encode()
