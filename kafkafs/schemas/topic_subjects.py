"""Which subjects the keys or values of a topic may have: the naming strategies of serializers, and what a user says.

Any bytes can look like a frame: every int64 from 16,777,216 to 140,737,488,355,327 begins with 00 and the id of some
schema. So an id in front of a payload counts only if its schema may be the topic's:

- `TOPIC-key`, `TOPIC-value`: TopicNameStrategy, and the subjects that the registry associates with the topic;
- `TOPIC-RECORD`, the full name of a record behind the topic: TopicRecordNameStrategy;
- `RECORD` alone: RecordNameStrategy, unless the topic has a subject of the first kind;
- the subjects that a mapping gives the topic;
- any schema of a file: the user who gave it gave its id.

A file or a folder whose name tells no topic may have any schema.

GUIDs, fingerprints and headers do not come about by chance: the schemas that they name count, whatever their subject.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from engine.log.partition_choice import NamePattern
from kafkafs.schemas.framing import Form, Framing
from kafkafs.schemas.schema import Schema, split_subject
from kafkafs.schemas.topic_type import TopicType

NEWEST_VERSION = -1
"""Version of a reference to the newest version of a subject."""

BY_CHANCE = frozenset({Form.CONFLUENT, Form.APICURIO})
"""Forms that bytes without a schema may have, too."""

_RECORD_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)


class Mapped(NamedTuple):
    """What a user says about the keys or values of some topics.

    Attributes:
        topic: name or pattern of the topics.
        is_key: whether it is about keys.
        subject, version: the schema of bare ones; a subject of None for those that name their schema.
        message: name of their Protobuf message; None for the first one of the file. Of those that name their schema, which
            may be of several messages, it is the one that columns have.
        subjects: names or patterns of subjects whose schemas those may have that name their schema.
        type: their type, or what wraps them.
    """

    topic: NamePattern
    is_key: bool
    subject: str | None
    version: int = NEWEST_VERSION
    message: str | None = None
    subjects: tuple[NamePattern, ...] = ()
    type: TopicType | None = None


class TopicSubjects(NamedTuple):
    """The subjects of a topic's keys or values.

    Attributes:
        topic, is_key: the topic, and whether they are of its keys; of an unknown topic, "", they may be any.
        likely: those of TopicNameStrategy in all contexts, and the associated ones.
        is_named: whether the registry has one of these.
        mapped: those that a user gives the topic.
    """

    topic: str
    is_key: bool
    likely: Sequence[str]
    is_named: bool
    mapped: Sequence[NamePattern]

    def has(self, schema: Schema) -> bool:
        """Return whether a schema may be one of the topic's."""
        subject = schema.subject
        if (
            not self.topic
            or subject is None
            or schema.origin.offset is None
            or subject in self.likely
        ):
            return True
        name = split_subject(subject)[1]
        if any(pattern.matches(each) for pattern in self.mapped for each in (subject, name)):
            return True
        record = name.removeprefix(f"{self.topic}-")
        if _RECORD_NAME.fullmatch(record) is None:
            return False
        return not self.is_named if record == name else record not in ("key", "value")


def missing_note(framing: Framing, *, is_foreign: bool) -> str:
    """Return the note on a value whose schema is not known, or is of other subjects than the topic's."""
    if is_foreign:
        return (
            f"the schema id {framing.id} is not of a subject of this topic; a mapping can name more"
        )
    if framing.guid is not None:
        return f"the schema {framing.guid} is not known"
    if framing.fingerprint is not None:
        return f"the schema with the fingerprint {framing.fingerprint:016x} is not known"
    if framing.artifact is not None:
        return f"the schema {'/'.join(framing.artifact)[:200]} is not known"
    return f"the schema id {framing.id} is not known"
