"""All known schemas, with look-ups by id, GUID, subject and topic. Immutable; safe from several threads."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

from engine.json_facts import facts_of
from engine.replay.bounded_cache import BoundedCache
from engine.units import Offset, Position, Timestamp
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.framing import Form, Framing
from kafkafs.schemas.registry.collected import Associations, Change, Settings
from kafkafs.schemas.schema import (
    DEFAULT_CONTEXT,
    Candidate,
    JsonValue,
    Reference,
    Schema,
    SchemaKind,
    as_of,
    in_context,
    split_subject,
)
from kafkafs.schemas.topic_subjects import BY_CHANCE, NEWEST_VERSION, Mapped, TopicSubjects
from kafkafs.schemas.topic_type import TopicType, type_by_name

Key = TypeVar("Key")

MOST_REFERENCES = 1000
"""Most schemas that one schema may need, directly or through others."""

_MOST_LIKELY = 10_000
"""Most topics whose subjects are kept."""
_MOST_TIMES = 4
"""Most times whose schemas are kept."""


class SchemaProblem(NamedTuple):
    """A record or file that has no schema, or a contradiction between schemas.

    Attributes:
        file: file, as shown to people.
        reason: one sentence.
        offset: offset of a record; None without one.
        position: position in the file; None without one.
    """

    file: str
    reason: str
    offset: Offset | None = None
    position: Position | None = None

    def facts(self) -> dict[str, Any]:
        """Return the facts for JSON."""
        return facts_of(self, "file offset position reason")

    def __str__(self) -> str:
        place = "" if self.offset is None else f", offset {self.offset}"
        return f"{self.file}{place}: {self.reason}"


class SchemaStore:
    """All known schemas.

    Args:
        schemas: the schemas, in any order.
        problems: records and files without a schema.
        settings, associations: all changes of them that are known.
        mapped: what a user says about topics; the first that fits a topic counts.
    """

    def __init__(
        self,
        schemas: Iterable[Schema] = (),
        *,
        problems: Iterable[SchemaProblem] = (),
        settings: Settings | None = None,
        associations: Associations | None = None,
        mapped: Iterable[Mapped] = (),
    ) -> None:
        self.schemas: Sequence[Schema] = tuple(sorted(schemas, key=_place))
        self._setting_changes: Settings = settings or {}
        self._association_changes: Associations = associations or {}
        self.mapped: Sequence[Mapped] = tuple(mapped)
        self._problems = tuple(problems)
        self._topics: dict[tuple[str, bool], TopicSubjects] = {}
        self._at_times = BoundedCache(_MOST_TIMES, self._made_at)

    def __len__(self) -> int:
        return len(self.schemas)

    def __repr__(self) -> str:
        return f"<SchemaStore: {len(self)} schemas>"

    def __reduce__(self) -> tuple[Any, ...]:
        made = partial(
            SchemaStore,
            self.schemas,
            problems=self._problems,
            settings=self._setting_changes,
            associations=self._association_changes,
            mapped=self.mapped,
        )
        return made, ()

    @classmethod
    def union(cls, stores: Sequence[SchemaStore]) -> SchemaStore:
        """Return a store with the schemas of several; the first one's settings and mappings win."""
        if len(stores) == 1:
            return stores[0]
        return cls(
            (schema for store in stores for schema in store.schemas),
            problems=(problem for store in stores for problem in store._problems),
            settings=dict(ChainMap(*(dict(store._setting_changes) for store in stores))),
            associations=dict(ChainMap(*(dict(store._association_changes) for store in stores))),
            mapped=(each for store in stores for each in store.mapped),
        )

    def as_of(self, at: Timestamp) -> SchemaStore:
        """Return the schemas and settings that there were at a time, with their states."""
        return self._at_times.get(at)

    def _made_at(self, at: Timestamp) -> SchemaStore:
        return SchemaStore(
            filter(None, (as_of(schema, at) for schema in self.schemas)),
            problems=self._problems,
            settings=_until(self._setting_changes, at),
            associations=_until(self._association_changes, at),
            mapped=self.mapped,
        )

    @cached_property
    def settings(self) -> Mapping[tuple[str, str | None], dict[str, JsonValue]]:
        """The configurations and modes by key type, CONFIG or MODE, and subject, None for all subjects."""
        newest = {key: changes[-1].value for key, changes in self._setting_changes.items()}
        return {key: value for key, value in newest.items() if value is not None}

    @cached_property
    def associations(self) -> Mapping[tuple[str, bool], tuple[str, ...]]:
        """The subjects that topics are associated with, by topic and by whether they are for its keys."""
        found: dict[tuple[str, bool], tuple[str, ...]] = {}
        for (topic, is_key, subject), changes in sorted(self._association_changes.items()):
            if changes[-1].value:
                found[topic, is_key] = (*found.get((topic, is_key), ()), subject)
        return found

    @cached_property
    def problems(self) -> Sequence[SchemaProblem]:
        """Records and files without a schema, and ids with several schemas."""
        return (*self._problems, *self._given_twice())

    # Look-ups

    def subjects(self) -> list[str]:
        """Return all subjects, sorted."""
        return list(self._by_subject)

    def versions(self, subject: str) -> list[Schema]:
        """Return the schemas of a subject, by version; a version that had several schemas has the oldest first."""
        return list(self._by_subject.get(subject, ()))

    def version(self, subject: str, version: int, at: Timestamp | None = None) -> Schema | None:
        """Return a version of a subject, NEWEST_VERSION for the newest one, as of a time; None if there is none."""
        found = self._by_subject.get(subject, [])
        if version == NEWEST_VERSION:
            newest = [schema for schema in found if not schema.is_deleted] or found
            version = newest[-1].version or 0 if newest else 0
        lives = [schema for schema in found if schema.version == version]
        ranked = sorted(lives, key=lambda schema: (not _is_of_time(schema, at), schema.is_gone))
        return ranked[0] if ranked else None

    def ids(self) -> list[tuple[str, int]]:
        """Return all contexts and schema ids, sorted."""
        return sorted(self._by_id)

    def by_id(
        self,
        context: str | None,
        id_: int,
        at: Timestamp | None = None,
        *,
        subjects: Sequence[str] = (),
    ) -> list[Candidate]:
        """Return the schemas that have an id, the likeliest first; each text once.

        Args:
            context: context of the id; None for all contexts, the default one first.
            id_: schema id.
            at: time of the record that asks; None for now.
            subjects: subjects that the record is likely to have; theirs come first, whatever the time.
        """
        if context is not None:
            return _ranked(self._by_id.get((context, id_), []), at, subjects)
        return _ranked(self._in_contexts.get(id_, []), at, subjects)

    def by_guid(
        self, guid: str, at: Timestamp | None = None, *, subjects: Sequence[str] = ()
    ) -> list[Candidate]:
        """Return the schemas that have a GUID, as for `by_id`."""
        return _ranked(self._by_guid.get(guid, []), at, subjects)

    def by_fingerprint(self, fingerprint: int) -> list[Candidate]:
        """Return the Avro schemas that have a CRC-64-AVRO fingerprint."""
        return _ranked(self._by_fingerprint.get(fingerprint, []), None, ())

    def asked_for(
        self, framing: Framing, topic: str, *, is_key: bool = False, at: Timestamp | None = None
    ) -> list[Candidate]:
        """Return the schemas that a key or value may ask for, the likeliest first.

        Args:
            framing: wire form of the key or value.
            topic: topic of the record.
            is_key: whether it is a key.
            at: time of the record.
        """
        subjects = self.topic_subjects(topic, is_key=is_key)
        if framing.guid is not None:
            return self.by_guid(framing.guid, at, subjects=subjects.likely)
        if framing.id is not None:
            return _ranked(self._with_id(framing, subjects), at, subjects.likely)
        if framing.fingerprint is not None:
            return self.by_fingerprint(framing.fingerprint)
        if framing.artifact is not None:
            _, artifact, version = framing.artifact
            number = int(version) if version.isascii() and version.isdigit() else NEWEST_VERSION
            found = self.version(artifact, number, at)
            return [] if found is None else [Candidate(found, True)]
        return []

    def asked_for_at_any_time(
        self, framing: Framing, topic: str, *, is_key: bool = False
    ) -> Schema | None:
        """Return the one schema that `asked_for` returns for records of all times; None if there is no such one."""
        if framing.fingerprint is not None:
            found = self.by_fingerprint(framing.fingerprint)
            return found[0].schema if len(found) == 1 else None
        if framing.guid is not None:
            schemas = self._by_guid.get(framing.guid, [])
        else:
            subjects = self.topic_subjects(topic, is_key=is_key)
            schemas = [] if framing.id is None else self._with_id(framing, subjects)
        if len(schemas) > 1 and len({schema.content for schema in schemas}) == 1:
            likely = self.subjects_of(topic, is_key=is_key)
            schemas = [schema for schema in schemas if schema.subject in likely]
        return schemas[0] if len(schemas) == 1 else None

    def is_only_version(self, schema: Schema) -> bool:
        """Return whether the version of a schema always had this schema."""
        versions = self.versions(schema.subject or "")
        return sum(each.version == schema.version for each in versions) == 1

    def bare(
        self, topic: str, *, is_key: bool = False, at: Timestamp | None = None
    ) -> tuple[Framing, Candidate] | None:
        """Return the framing and schema that a user gave for bare keys or values of a topic; None without."""
        for mapped in self._mapped_to(topic, is_key=is_key):
            if mapped.subject is not None:
                schema = self.version(mapped.subject, mapped.version, at)
                if schema is not None:
                    return Framing(Form.BARE, message=mapped.message), Candidate(schema, True)
        return None

    def may_be_bare(self, topic: str) -> bool:
        """Return whether a user gave a schema for bare keys or values of a topic."""
        return any(each.subject is not None and each.topic.matches(topic) for each in self.mapped)

    def _mapped_to(self, topic: str, *, is_key: bool) -> Iterator[Mapped]:
        for mapped in self.mapped:
            if mapped.is_key is is_key and mapped.topic.matches(topic):
                yield mapped

    def type_of(self, topic: str, *, is_key: bool) -> TopicType | None:
        """Return the type of a topic's keys or values that a user gave, or that its name tells; None without one."""
        for mapped in self._mapped_to(topic, is_key=is_key):
            if mapped.type is not None or mapped.subject is not None:
                return mapped.type
        return type_by_name(topic)

    def types(self, topic: str) -> tuple[TopicType | None, TopicType | None]:
        """Return the types of a topic's keys and of its values."""
        return self.type_of(topic, is_key=True), self.type_of(topic, is_key=False)

    def message_of_columns(self, topic: str, *, is_key: bool = False) -> str | None:
        """Return the Protobuf message that a user chose for the columns of a topic's keys or values; None without."""
        named = (
            each.message
            for each in self._mapped_to(topic, is_key=is_key)
            if each.message is not None and each.subject is None
        )
        return next(named, None)

    def subjects_of(self, topic: str, *, is_key: bool = False) -> list[str]:
        """Return the subjects that the keys or values of a topic are likely to have, in all contexts."""
        return list(self.topic_subjects(topic, is_key=is_key).likely)

    def topic_subjects(self, topic: str, *, is_key: bool = False) -> TopicSubjects:
        """Return the subjects that the keys or values of a topic may have."""
        known = self._topics.get((topic, is_key))
        if known is None:
            name = f"{topic}-{'key' if is_key else 'value'}"
            named = [in_context(context, name) for context in self.contexts]
            likely = [*self.associations.get((topic, is_key), ()), *named]
            mapped = self._mapped_to(topic, is_key=is_key)
            patterns = [some for each in mapped for some in each.subjects]
            is_named = any(each in self._by_subject for each in likely)
            known = TopicSubjects(topic, is_key, likely, is_named, patterns)
            if len(self._topics) < _MOST_LIKELY:
                self._topics[topic, is_key] = known
        return known

    def _with_id(self, framing: Framing, subjects: TopicSubjects) -> list[Schema]:
        """Return the schemas with the id of a form that may be a topic's."""
        found = self._in_contexts.get(framing.id or 0, [])
        is_chance = framing.form in BY_CHANCE
        return [schema for schema in found if subjects.has(schema)] if is_chance else found

    def is_foreign(self, framing: Framing) -> bool:
        """Return whether a form that no schema of a topic has asks for one of other subjects."""
        return framing.form in BY_CHANCE and framing.id in self._in_contexts

    def newest(self, topic: str, *, is_key: bool = False) -> Schema | None:
        """Return the newest schema of a topic's keys or values, by its mapping or its subject; None without one."""
        given = self.bare(topic, is_key=is_key)
        if given is not None:
            return given[1].schema
        found = (
            self.version(subject, NEWEST_VERSION)
            for subject in self.subjects_of(topic, is_key=is_key)
        )
        return next((schema for schema in found if schema is not None), None)

    def resolved(self, schema: Schema) -> tuple[tuple[str, Schema], ...]:
        """Return the schemas that a schema refers to, with their names, each after those that it needs.

        As in the registry, the first of several references of one name counts.

        Raises:
            UndecodableError: a reference is not known, or there are too many.
        """
        found: dict[str, Schema] = {}
        visited: set[str] = set()
        # Not recursive: references may be as deep as they are many.
        waiting: list[tuple[str | None, Schema, list[Reference]]]
        waiting = [(None, schema, list(schema.references))]
        while waiting:
            name, referrer, left = waiting[-1]
            if not left:
                waiting.pop()
                if name is not None:
                    found[name] = referrer
                continue
            reference = left.pop(0)
            if reference.name in visited:
                continue
            if len(visited) == MOST_REFERENCES:
                raise UndecodableError(f"{schema.name} needs more than {MOST_REFERENCES} schemas")
            visited.add(reference.name)
            target = self._referred(referrer, reference)
            waiting.append((reference.name, target, list(target.references)))
        return tuple(found.items())

    def _referred(self, referrer: Schema, reference: Reference) -> Schema:
        subject = in_context(referrer.context, reference.subject)
        found = self.version(subject, reference.version, referrer.origin.timestamp)
        if found is None:
            version = "" if reference.version == NEWEST_VERSION else f" version {reference.version}"
            raise UndecodableError(
                f"{referrer.name} refers to {subject}{version}, which is not known"
            )
        return found

    # Indexes, built at the first use

    @cached_property
    def _by_subject(self) -> dict[str, list[Schema]]:
        found: dict[str, list[Schema]] = {}
        for schema in self.schemas:
            if schema.subject is not None:
                found.setdefault(schema.subject, []).append(schema)
        return found

    @cached_property
    def _by_id(self) -> dict[tuple[str, int], list[Schema]]:
        found: dict[tuple[str, int], list[Schema]] = {}
        for schema in self.schemas:
            if schema.id is not None:
                found.setdefault((schema.context, schema.id), []).append(schema)
        return found

    @cached_property
    def _in_contexts(self) -> dict[int, list[Schema]]:
        found: dict[int, list[Schema]] = {}
        for schema in self.schemas:
            if schema.id is not None:
                found.setdefault(schema.id, []).append(schema)
        return found

    @cached_property
    def _by_guid(self) -> dict[str, list[Schema]]:
        found: dict[str, list[Schema]] = {}
        for schema in self.schemas:
            if schema.guid is not None:
                found.setdefault(schema.guid, []).append(schema)
        return found

    @cached_property
    def _by_fingerprint(self) -> dict[int, list[Schema]]:
        from kafkafs.schemas.fingerprint import fingerprint_of

        found: dict[int, list[Schema]] = {}
        for schema in self.schemas:
            fingerprint = fingerprint_of(schema) if schema.kind is SchemaKind.AVRO else None
            if fingerprint is not None:
                found.setdefault(fingerprint, []).append(schema)
        return found

    @cached_property
    def contexts(self) -> list[str]:
        """All contexts, the default one first."""
        found = {schema.context for schema in self.schemas} - {DEFAULT_CONTEXT}
        return [DEFAULT_CONTEXT, *sorted(found)]

    def _given_twice(self) -> list[SchemaProblem]:
        found = []
        for (context, id_), schemas in sorted(self._by_id.items()):
            texts = {schema.content: schema for schema in schemas}
            if len(texts) > 1:
                names = ", ".join(schema.name for schema in texts.values())
                where = "" if context == DEFAULT_CONTEXT else f" of the context {context}"
                reason = f"the id {id_}{where} has {len(texts)} schemas: {names}"
                newest = schemas[-1].origin
                found.append(SchemaProblem(newest.path, reason, newest.offset))
        return found


def _place(schema: Schema) -> tuple[str, str, int, int, str]:
    """Return a key that sorts by context, subject, version, and then the oldest first."""
    context, name = split_subject(schema.subject or "")
    offset = -1 if schema.origin.offset is None else schema.origin.offset
    return context, name, schema.version or 0, offset, schema.origin.path


def _until(changes: Mapping[Key, Sequence[Change]], at: Timestamp) -> dict[Key, Sequence[Change]]:
    """Return the changes up to a time; keys without one are left out."""
    found = {key: [each for each in some if each.timestamp <= at] for key, some in changes.items()}
    return {key: some for key, some in found.items() if some}


def _is_of_time(schema: Schema, at: Timestamp | None) -> bool:
    """Return whether the registry had a schema at a time, as far as its log shows."""
    if at is None:
        return not schema.is_gone
    since = schema.origin.timestamp
    has_begun = since is None or not schema.origin.is_first or since <= at
    return has_begun and (schema.until is None or at < schema.until)


def _distance(schema: Schema, at: Timestamp | None) -> int:
    """Return the milliseconds between a time and the life of a schema; now is after all lives."""
    since, until = schema.origin.timestamp or 0, schema.until
    if at is None:
        return -(until or since)
    if at < since:
        return since - at
    return 0 if until is None else max(at - until, 0)


def _ranked(
    schemas: Sequence[Schema], at: Timestamp | None, subjects: Sequence[str]
) -> list[Candidate]:
    """Return schemas by likelihood, one of each content."""
    if len(schemas) < 2:
        return [Candidate(schema, _is_of_time(schema, at)) for schema in schemas]

    def likelihood(schema: Schema) -> tuple[bool, bool, bool, int, bool, int]:
        is_other_time = not _is_of_time(schema, at)
        return (
            schema.subject not in subjects,
            schema.context != DEFAULT_CONTEXT,
            is_other_time,
            _distance(schema, at) if is_other_time else 0,
            schema.is_deleted,
            schema.origin.offset or 0,
        )

    ranked = sorted(schemas, key=likelihood)
    chosen = {schema.content: schema for schema in reversed(ranked)}
    of_time = {schema.content for schema in schemas if _is_of_time(schema, at)}
    return [
        Candidate(schema, schema.content in of_time)
        for schema in ranked
        if chosen[schema.content] is schema
    ]
