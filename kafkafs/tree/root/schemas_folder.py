"""`/schemas/`: all schemas in the registry's topic of the source, by subject and by id.

    <subject>/<version>          the text of a version; <version>.json has all that is known of it
    <subject>/<version>@<offset> an older text of the same version
    ids/<id>                     the schema of an id; in another context than the default one ids/:<context>:<id>
    ids/<id>@<offset>            another schema with the same id

The offset is that of the schema's first record. A subject with the name `ids` is in `ids@1`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kafkafs.escaped_names import escaped, name_of
from kafkafs.schemas.catalog import facts
from kafkafs.schemas.schema import DEFAULT_CONTEXT, Schema
from kafkafs.schemas.store import SchemaStore
from kafkafs.tree.errors import NotFound
from kafkafs.tree.listing import entry
from kafkafs.tree.node import Directory, Entry, Kind, Node, mtime_of
from kafkafs.tree.plain_files import BytesFile
from kafkafs.tree.root.documents import Document, StateDirectory, damage_xattrs

if TYPE_CHECKING:
    from kafkafs.tree.context import Context

_IDS = "ids"
_SUFFIX = "@1"
_JSON = ".json"


def schemas_folder(path: str, context: Context) -> Directory:
    """Return `/schemas/`."""
    return SchemasFolder(path, context, context.schemas.source_store)


class SchemasFolder(StateDirectory):
    """`/schemas/`: a folder for each subject, and one of all ids."""

    __slots__ = ("_store",)

    def __init__(self, path: str, context: Context, store: Callable[[], SchemaStore]) -> None:
        super().__init__(path, context)
        self._store = store

    def xattrs(self) -> dict[str, bytes]:
        return damage_xattrs([problem.facts() for problem in self._store().problems])

    def lookup(self, name: str) -> Node:
        store = self._store()
        if name == _IDS:
            return SchemaFiles(self.child(name), self.context, lambda: by_id(self._store()))
        shown = name.removesuffix(_SUFFIX) if name == _IDS + _SUFFIX else name
        subject = name_of(shown, store.subjects())
        if subject is None or not store.versions(subject):
            raise NotFound(self.child(name), "no such subject")
        return SchemaFiles(
            self.child(name), self.context, lambda: by_version(self._store().versions(subject))
        )

    def entries(self, after: int = 0) -> Iterator[Entry]:
        subjects = map(escaped, self._store().subjects())
        names = [_IDS, *(name + _SUFFIX if name == _IDS else name for name in subjects)]
        for cookie, name in self.context.slots.of(self.path).number(names).behind(after):
            yield entry(self, name, Kind.DIRECTORY, cookie)


class SchemaFiles(StateDirectory):
    """A folder with two files for each of some schemas.

    Args:
        schemas: returns the schemas by name, in listing order.
    """

    __slots__ = ("_schemas",)

    def __init__(
        self, path: str, context: Context, schemas: Callable[[], Mapping[str, Schema]]
    ) -> None:
        super().__init__(path, context)
        self._schemas = schemas

    def lookup(self, name: str) -> Node:
        schemas = self._schemas()
        schema = schemas.get(name.removesuffix(_JSON))
        if schema is None:
            raise NotFound(self.child(name), "no such schema")
        timestamp = schema.origin.timestamp
        if name.endswith(_JSON):
            return self.file(name, Document(facts(schema), -1 if timestamp is None else timestamp))
        owner = self.context.root_owner()
        return BytesFile(
            self.child(name),
            text_bytes(schema),
            owner,
            mtime_ns=owner.mtime_ns if timestamp is None else mtime_of(timestamp),
            ttl=self.context.ttl(self.context.is_live),
        )

    def entries(self, after: int = 0) -> Iterator[Entry]:
        names = [name + suffix for name in self._schemas() for suffix in ("", _JSON)]
        for cookie, name in self.context.slots.of(self.path).number(names).behind(after):
            yield entry(self, name, Kind.FILE, cookie)


def text_bytes(schema: Schema) -> bytes:
    """Return the text of a schema, with a newline at its end."""
    return (schema.text if schema.text.endswith("\n") else f"{schema.text}\n").encode()


def by_version(schemas: Sequence[Schema]) -> dict[str, Schema]:
    """Return the schemas of a subject by their names in its folder."""
    found: dict[str, Schema] = {}
    for schema in sorted(schemas, key=lambda each: (each.version or 0, each.is_gone)):
        _add(found, str(schema.version or 0), schema)
    return found


def by_id(store: SchemaStore) -> dict[str, Schema]:
    """Return the schemas by their names in `ids/`."""
    found: dict[str, Schema] = {}
    for context, id_ in store.ids():
        prefix = "" if context == DEFAULT_CONTEXT else f":{context}:"
        for candidate in store.by_id(context, id_):
            _add(found, escaped(f"{prefix}{id_}"), candidate.schema)
    return found


def _add(found: dict[str, Schema], name: str, schema: Schema) -> None:
    """Add a schema by its name; a later one of the same name has its offset behind it."""
    found.setdefault(name if name not in found else f"{name}@{schema.origin.offset}", schema)
