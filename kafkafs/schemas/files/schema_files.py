"""Read files of schemas, one by one or a directory of them, as a store.

    .avsc                          an Avro schema
    .proto                         a Protobuf file; imports are relative to the directory
    .json                          a JSON Schema
    .desc .pb .binpb .protoset     a Protobuf descriptor set, of `protoc --descriptor_set_out`
    .jsonl                         what `kafkafs schemas --json` prints
    .toml                          a mapping of topics, ids and GUIDs to schemas

A schema's subject is its path in the directory, without the suffix unless several files need it; its version is 1. A file `orders-value` or
`orders-key` is the schema of bare values or keys of the topic `orders`. Types and imports of other files in the directory
are found by their names. A directory with a `schemas.jsonl` is an export: that file alone
is read.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from engine.errors import KafkaStorageError
from engine.files.folder_entries import EntryKind
from engine.files.source_files import SourceRoot
from engine.log.partition_choice import NamePattern
from engine.topics.decoded_record import LARGEST_VALUE
from kafkafs.schemas.avro_names import avro_names
from kafkafs.schemas.catalog import CATALOG, parse_catalog
from kafkafs.schemas.errors import SchemaFileError
from kafkafs.schemas.files.mapping_file import MAPPING_SUFFIX, Target, TopicMapping, parse_mapping
from kafkafs.schemas.files.proto_files import described_files, imports_of
from kafkafs.schemas.registry.guid import guid_of
from kafkafs.schemas.schema import Origin, Reference, Schema, SchemaKind
from kafkafs.schemas.store import SchemaProblem, SchemaStore
from kafkafs.schemas.topic_subjects import NEWEST_VERSION, Mapped

MOST_FILES = 10_000
"""Most files of schemas in a directory."""
_MOST_DEPTH = 32
_LARGEST_SET = 64 * 1024 * 1024

_KINDS = {
    ".avsc": SchemaKind.AVRO,
    ".proto": SchemaKind.PROTOBUF,
    ".json": SchemaKind.JSON_SCHEMA,
}
_SETS = frozenset({".desc", ".pb", ".binpb", ".protoset"})
_CATALOG_SUFFIX = ".jsonl"
_SUFFIXES = frozenset({*_KINDS, *_SETS, _CATALOG_SUFFIX, MAPPING_SUFFIX})
_WELL_KNOWN = "google/protobuf/"
_PARTS = {"-key": True, "-value": False}


class _Read(NamedTuple):
    """A schema of a file.

    Attributes:
        schema: the schema, without references.
        names: names by which other files refer to it: Avro's types, or the path of a Protobuf file.
        needs: names that it refers to.
        messages: Protobuf messages of a descriptor set's file.
    """

    schema: Schema
    names: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()


def is_schema_file(path: str) -> bool:
    """Return whether a name has one of the suffixes of files of schemas."""
    return _suffix(path) in _SUFFIXES


def read_schema_files(path: str) -> SchemaStore:
    """Return the schemas of a file or of a directory.

    Args:
        path: a file with one of the suffixes above, or a directory that has such files.

    Raises:
        SchemaFileError: the suffix is not one of them, or a mapping breaks its format.
        OSError: the path cannot be read.
    """
    real = os.path.realpath(path)
    folder, only = (real, None) if os.path.isdir(real) else os.path.split(real)
    if only is not None and _suffix(only) not in _SUFFIXES:
        known = " ".join(sorted(_SUFFIXES))
        raise SchemaFileError(f"no file of schemas: its name ends in none of {known}", path)
    with SourceRoot(folder) as root:
        return _Reading(root).store(only)


class _Reading:
    """One read of a directory."""

    def __init__(self, root: SourceRoot) -> None:
        self._root = root
        self._read: list[_Read] = []
        self._whole: list[Schema] = []
        self._mappings: list[tuple[str, TopicMapping]] = []
        self._problems: list[SchemaProblem] = []

    def store(self, only: str | None) -> SchemaStore:
        """Return the schemas of one file, or of all."""
        for name in self._names() if only is None else [only]:
            try:
                self._add(name)
            except SchemaFileError:
                raise
            except (KafkaStorageError, OSError, ValueError) as error:
                if only is not None and isinstance(error, OSError):
                    raise
                self._note(name, str(error))
        self._add_named()
        if only is not None:
            self._add_imported()
        self._tell_apart()
        schemas = [*self._whole, *self._linked()]
        mapped = list(self._mapped(schemas))
        return SchemaStore(schemas, problems=self._problems, mapped=mapped)

    def _add_named(self) -> None:
        """Read the files that mappings name, as far as they were not read."""
        known = {read.schema.origin.path for read in self._read}
        for name, mapping in self._mappings:
            for file in mapping.all_files():
                path = _beside(name, file)
                if self._root.display(path) in known:
                    continue
                try:
                    self._add(path)
                except (KafkaStorageError, OSError, ValueError) as error:
                    reason = f"names {file}: {error}"
                    raise SchemaFileError(reason, self._root.display(name)) from error

    def _add_imported(self) -> None:
        """Read the files that Protobuf files import, as far as they are there."""
        place = 0
        while place < len(self._read) < MOST_FILES:
            read = self._read[place]
            known = {name for each in self._read for name in each.names}
            if read.schema.kind is SchemaKind.PROTOBUF:
                for file in read.needs:
                    # A file that is not here may be one of those that every registry knows.
                    if file not in known:
                        with suppress(KafkaStorageError, OSError, ValueError):
                            self._add(file)
            place += 1

    def _note(self, name: str, reason: str) -> None:
        self._problems.append(SchemaProblem(self._root.display(name), reason))

    def _names(self) -> Iterator[str]:
        """Yield the paths of the files of schemas, sorted within each folder."""
        left = MOST_FILES
        waiting = [("", 0)]
        while waiting:
            folder, depth = waiting.pop()
            entries = sorted(self._root.list(folder), key=lambda entry: entry.name)
            exports = [entry for entry in entries if entry.name == CATALOG]
            for name, kind in exports or entries:
                path = f"{folder}/{name}" if folder else name
                if kind is EntryKind.DIRECTORY and depth < _MOST_DEPTH:
                    waiting.append((path, depth + 1))
                elif kind is EntryKind.FILE and _suffix(name) in _SUFFIXES:
                    left -= 1
                    if left < 0:
                        self._note(folder, f"more than {MOST_FILES} files; the rest is not read")
                        return
                    yield path

    def _add(self, name: str) -> None:
        """Read a file. Raises KafkaStorageError, OSError, ValueError."""
        suffix = _suffix(name)
        if suffix in _SETS:
            self._add_set(name)
        elif suffix == _CATALOG_SUFFIX:
            for found in parse_catalog(self._root.read(name, limit=_LARGEST_SET)):
                if isinstance(found, Schema):
                    self._whole.append(found)
                else:
                    self._note(name, str(found))
        elif suffix == MAPPING_SUFFIX:
            data = self._root.read(name, limit=LARGEST_VALUE)
            self._mappings.append((name, parse_mapping(data, self._root.display(name))))
        else:
            self._add_text(name, _KINDS[suffix])

    def _add_text(self, name: str, kind: SchemaKind) -> None:
        text = self._root.read(name, limit=LARGEST_VALUE).decode("utf-8-sig")
        schema = self._schema(kind, text, name, name)
        if kind is SchemaKind.AVRO:
            defined, needed = avro_names(text)
            self._read.append(_Read(schema, defined, needed))
        elif kind is SchemaKind.PROTOBUF:
            self._read.append(_Read(schema, (name,), imports_of(text)))
        else:
            self._read.append(_Read(schema))

    def _add_set(self, name: str) -> None:
        for file in described_files(self._root.read(name, limit=_LARGEST_SET)):
            if file.name.startswith(_WELL_KNOWN):
                continue
            schema = self._schema(SchemaKind.PROTOBUF, file.text, file.name, name)
            self._read.append(_Read(schema, (file.name,), file.imports, file.messages))

    def _schema(self, kind: SchemaKind, text: str, name: str, file: str) -> Schema:
        subject = os.path.splitext(name)[0]
        origin = Origin(self._root.display(file))
        return Schema(kind, text, (), origin, subject=subject, version=1, guid=guid_of(text))

    def _tell_apart(self) -> None:
        """Name schemas by their whole paths where several have one subject: `order.avsc`, `order.proto`."""
        count = Counter(read.schema.subject for read in self._read)
        for place, read in enumerate(self._read):
            if count[read.schema.subject] > 1:
                path = read.schema.origin.path.removeprefix(self._root.display("") + "/")
                name = f"{path}/{read.names[0]}" if _suffix(path) in _SETS else path
                self._read[place] = read._replace(schema=replace(read.schema, subject=name))

    def _linked(self) -> list[Schema]:
        """Return the schemas with references to those that define what they need."""
        homes = {name: read.schema.subject or "" for read in self._read for name in read.names}
        return [
            replace(
                read.schema,
                references=tuple(
                    Reference(name, homes[name], 1)
                    for name in read.needs
                    if homes.get(name, read.schema.subject) != read.schema.subject
                ),
            )
            for read in self._read
        ]

    def _mapped(self, schemas: list[Schema]) -> Iterator[Mapped]:
        """Yield what the mappings and the names of the files say; add schemas with the mapped ids."""
        for name, mapping in self._mappings:
            for topic, is_key, target in mapping.topics:
                subject = None if target.is_framed else self._subject(target, name)
                version = target.version or NEWEST_VERSION
                yield Mapped(
                    topic, is_key, subject, version, target.message, target.subjects, target.type
                )
            for number, guid, file in mapping.ids:
                subject = self._subject(Target(file, None, None, None), name)
                place, known = next(
                    (place, each) for place, each in enumerate(schemas) if each.subject == subject
                )
                if known.id is None:
                    schemas[place] = replace(known, id=number, guid=guid or known.guid)
                else:
                    schemas.append(replace(known, id=number, guid=guid or known.guid))
        for read in self._read:
            subject = read.schema.subject or ""
            for ending, is_key in _PARTS.items():
                name = subject.rpartition("/")[2].removesuffix(ending)
                if subject.endswith(ending) and name:
                    yield Mapped(NamePattern(name, None), is_key, subject)

    def _subject(self, target: Target, mapping: str) -> str:
        """Return the subject of a mapped schema. Raises SchemaFileError if its file was not read."""
        if target.subject is not None:
            return target.subject
        path = self._root.display(_beside(mapping, target.file or ""))
        found = [read for read in self._read if read.schema.origin.path == path]
        if not found:
            reason = f"names {target.file}, which is not a file of schemas that can be read"
            raise SchemaFileError(reason, self._root.display(mapping))
        for read in found if target.message is not None else ():
            if any(f"{target.message}.".startswith(f"{name}.") for name in read.messages):
                return read.schema.subject or ""
        return found[-1].schema.subject or ""


def _beside(mapping: str, file: str) -> str:
    """Return the path of a file that a mapping names."""
    folder = mapping.rpartition("/")[0]
    return f"{folder}/{file}" if folder else file


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()
