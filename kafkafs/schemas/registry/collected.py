"""All schemas that the records of a registry's topic ever had, whichever order the records are read in.

A registry that loads the topic keeps the newest record of every version. Here a version is a row of lives: a new text or
a new id under the same number begins another life, a null value ends one for good. Records of old segments and of other
replicas fill in lives that compaction has removed from the newest log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple, TypeAlias, TypeVar

from engine.errors import LimitExceededError
from engine.units import Offset, Timestamp
from kafkafs.schemas.registry.registry_records import (
    Association,
    Definition,
    RegistryRecord,
    Setting,
    SubjectClearing,
    SubjectDeletion,
    Version,
)
from kafkafs.schemas.schema import JsonValue, Origin, Schema

_EVENT_COST = 300
"""Memory in bytes for a record, besides the text of a new schema."""


Key = TypeVar("Key")


class _Event(NamedTuple):
    """A record about a version; one without a definition ends its life."""

    offset: Offset
    timestamp: Timestamp
    file: str
    id: int | None
    definition: Definition | None
    is_deleted: bool


class _OfSubject(NamedTuple):
    """A record about all versions of a subject: a deletion up to a version, or a clearing without one."""

    offset: Offset
    timestamp: Timestamp
    version: int | None


class Change(NamedTuple):
    """A value that a setting was given; None for its deletion."""

    timestamp: Timestamp
    value: JsonValue


Settings: TypeAlias = Mapping[tuple[str, str | None], Sequence[Change]]
"""Changes, oldest first, by key type, CONFIG or MODE, and subject, None for all subjects."""
Associations: TypeAlias = Mapping[tuple[str, bool, str], Sequence[Change]]
"""Changes, oldest first, by topic, by whether they are about its keys, and by subject; True associates the subject."""


class Collected:
    """The records of a registry's topic.

    Args:
        limit: most bytes of memory.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._cost = 0
        self._definitions: dict[Definition, Definition] = {}
        self._versions: dict[tuple[str, int], dict[tuple[object, ...], _Event]] = {}
        self._subjects: dict[str, dict[Offset, _OfSubject]] = {}
        self._settings: dict[tuple[str, str | None], dict[Offset, Change]] = {}
        self._associations: dict[tuple[str, bool, str], dict[Offset, Change]] = {}

    def add(self, record: RegistryRecord, offset: Offset, timestamp: Timestamp, file: str) -> None:
        """Add a record of a file; a record that was added before, from another file, counts once.

        Raises:
            LimitExceededError: the records take more memory than the limit; this one is not added.
        """
        match record:
            case Version():
                self._add_version(record, offset, timestamp, file)
            case SubjectDeletion(subject, version):
                self._charge(0)
                self._of(subject)[offset] = _OfSubject(offset, timestamp, version)
            case SubjectClearing(subject):
                self._charge(0)
                self._of(subject)[offset] = _OfSubject(offset, timestamp, None)
            case Setting(keytype, subject, value):
                change = Change(timestamp, value)
                self._put(self._settings, (keytype, subject), offset, change)
            case Association(topic, is_key, subject, is_gone):
                change = Change(timestamp, None if is_gone else True)
                self._put(self._associations, (topic, is_key, subject), offset, change)
            case None:
                pass

    def _add_version(
        self, record: Version, offset: Offset, timestamp: Timestamp, file: str
    ) -> None:
        definition = record.definition
        if definition is not None:
            known = self._definitions.get(definition)
            self._charge(len(definition.text) if known is None else 0)
            definition = self._definitions.setdefault(definition, definition)
        else:
            self._charge(0)
        events = self._versions.setdefault((record.subject, record.version), {})
        # Copies of one offset differ where replicas do, after an unclean election.
        event = _Event(offset, timestamp, file, record.id, definition, record.is_deleted)
        events.setdefault((offset, record.id, id(definition), record.is_deleted), event)

    def _of(self, subject: str) -> dict[Offset, _OfSubject]:
        return self._subjects.setdefault(subject, {})

    def _put(
        self, known: dict[Key, dict[Offset, Change]], key: Key, offset: Offset, change: Change
    ) -> None:
        self._charge(len(json.dumps(change.value)))
        known.setdefault(key, {})[offset] = change

    def _charge(self, size: int) -> None:
        if self._cost + size + _EVENT_COST > self._limit:
            raise LimitExceededError(
                f"the schemas take more than {self._limit} bytes of memory; the rest is not read",
                limit="replayed_bytes",
            )
        self._cost += size + _EVENT_COST

    def schemas(self) -> Iterator[Schema]:
        """Yield all schemas, each with its state at the end of the topic."""
        for (subject, version), events in self._versions.items():
            for life in self._lives(subject, version, list(events.values())):
                yield life.schema(subject, version)

    @property
    def settings(self) -> Settings:
        """The changes of configurations and modes."""
        return _in_order(self._settings)

    @property
    def associations(self) -> Associations:
        """The changes of the subjects that topics are associated with."""
        return _in_order(self._associations)

    def _lives(self, subject: str, version: int, events: list[_Event]) -> Iterator[_Life]:
        """Yield the lives of a version, oldest first."""
        steps: list[_Event | _OfSubject] = list(events)
        steps += self._subjects.get(subject, {}).values()
        life: _Life | None = None
        for step in sorted(steps, key=attrgetter("offset")):
            if isinstance(step, _Event) and step.definition is not None:
                if life is not None and not life.has(step):
                    yield life.ended(step.timestamp)
                    life = None
                life = life or _Life(step)
                life.mark(step.timestamp, is_deleted=step.is_deleted)
            elif life is None:
                continue
            elif isinstance(step, _Event) or (step.version is None and life.is_deleted):
                yield life.ended(step.timestamp)
                life = None
            elif step.version is not None and version <= step.version:
                life.mark(step.timestamp, is_deleted=True)
        if life is not None:
            yield life


class _Life:
    """A version with one text and one id."""

    def __init__(self, first: _Event) -> None:
        self._first = first
        self._until: Timestamp | None = None
        self._is_gone = False
        self._deleted_since: Timestamp | None = None
        self.is_deleted = False

    def has(self, event: _Event) -> bool:
        """Return whether a record says the same as the first one."""
        return event.id == self._first.id and event.definition == self._first.definition

    def mark(self, timestamp: Timestamp, *, is_deleted: bool) -> None:
        """Delete the version softly, or restore it."""
        if is_deleted != self.is_deleted:
            self.is_deleted = is_deleted
            self._deleted_since = timestamp if is_deleted else None

    def ended(self, timestamp: Timestamp) -> _Life:
        """End the life for good."""
        self.mark(timestamp, is_deleted=True)
        self._until, self._is_gone = timestamp, True
        return self

    def schema(self, subject: str, version: int) -> Schema:
        """Return the schema."""
        first, definition = self._first, self._first.definition
        assert definition is not None
        return Schema(
            definition.kind,
            definition.text,
            definition.references,
            Origin(first.file, first.offset, first.timestamp, is_first=not first.is_deleted),
            subject=subject,
            version=version,
            id=first.id,
            guid=definition.guid,
            is_deleted=self.is_deleted,
            is_gone=self._is_gone,
            deleted_since=self._deleted_since,
            until=self._until,
            metadata=_loaded(definition.metadata),
            rule_set=_loaded(definition.rule_set),
            is_encrypted=definition.is_encrypted,
        )


def _in_order(changes: Mapping[Key, Mapping[Offset, Change]]) -> dict[Key, Sequence[Change]]:
    return {key: [found[offset] for offset in sorted(found)] for key, found in changes.items()}


def _loaded(text: str | None) -> dict[str, JsonValue] | None:
    if text is None:
        return None
    found: dict[str, JsonValue] = json.loads(text)
    return found
