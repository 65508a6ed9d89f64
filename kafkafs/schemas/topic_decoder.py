"""Decoders of topics for record lines: keys and values that ask for a schema, by their bytes or by their headers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from engine.lines.json_text import hide
from engine.lines.line_decoder import DecodedField, LineDecoder, Marks
from engine.record.record import Header
from engine.units import Timestamp
from kafkafs.schemas.decoders.cache import DecoderCache
from kafkafs.schemas.decoders.limits import MOST_BYTES, check_size
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.framing import Form, Framing, framings, payload
from kafkafs.schemas.schema import Candidate, Schema, SchemaKind
from kafkafs.schemas.store import SchemaStore

MARKS = Marks(b"\x00\x01\x03\xc3O", (b"__key_schema_id", b"__value_schema_id", b"apicurio."))
"""First bytes and header keys of all wire forms."""

_CONFLUENT_FORMS = frozenset({Form.CONFLUENT, Form.CONFLUENT_GUID, Form.CONFLUENT_HEADER})
_MOST_REMEMBERED = 10_000
_SURE_FORMS = frozenset(
    {
        Form.CONFLUENT,
        Form.CONFLUENT_HEADER,
        Form.APICURIO_HEADER,
        Form.GLUE,
        Form.AVRO_SINGLE_OBJECT,
    }
)
"""Forms whose schema is missed if it is not known; other bytes only may be of their form."""


class _Found(NamedTuple):
    """A value that a schema decodes.

    Attributes:
        text: its JSON.
        left: bytes behind it.
        candidate, framing: the schema and the form.
    """

    text: bytes
    left: int
    candidate: Candidate
    framing: Framing


class TopicSchemas(LineDecoder):
    """Decoder of the keys and values of one topic.

    A schema that was not known when a record asked for it stays unknown, and one that was known keeps its text: the
    lines of a record never change.

    Args:
        topic: the topic.
        store: returns the schemas as of now.
        decoders: cache, perhaps shared with other topics.
        is_mapped: whether the schemas of bare keys or values of the topic are given: any record may have them.
    """

    def __init__(
        self,
        topic: str,
        store: Callable[[], SchemaStore],
        decoders: DecoderCache,
        *,
        is_mapped: bool = False,
    ) -> None:
        self.marks = None if is_mapped else MARKS
        self._topic = topic
        self._store = store
        self._decoders = decoders
        self._is_mapped = is_mapped
        self._known: dict[tuple[bool, int | str | None, int | None], SchemaStore] = {}

    def fields(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        timestamp: Timestamp,
    ) -> tuple[DecodedField | None, DecodedField | None]:
        return (
            None if key is None else self.field(key, headers, timestamp, is_key=True),
            None if value is None else self.field(value, headers, timestamp, is_key=False),
        )

    def field(
        self, data: bytes, headers: Sequence[Header], timestamp: Timestamp, *, is_key: bool
    ) -> DecodedField | None:
        """Return a key or value as JSON text or with a note; None if it asks for no schema.

        Args:
            data: the key or value.
            headers: headers of the record.
            timestamp: timestamp of the record; the schema of that time is taken.
            is_key: whether the data is the key.
        """
        try:
            return self._field(data, headers, timestamp if timestamp >= 0 else None, is_key=is_key)
        except OSError as error:
            return DecodedField(None, note=f"the schemas cannot be read: {error}")

    def _field(
        self, data: bytes, headers: Sequence[Header], at: Timestamp | None, *, is_key: bool
    ) -> DecodedField | None:
        if self._is_mapped:
            store = self._store()
            given = store.bare(self._topic, is_key=is_key, at=at)
            if given is not None:
                return self._one(data, given[0], [given[1]], store)
        missed: Framing | None = None
        for framing in framings(data, headers, is_key=is_key):
            if framing.form is Form.AVRO_FILE:
                return _avro_file(data)
            store, candidates = self._candidates(framing, at, is_key=is_key)
            if candidates:
                return self._one(data, framing, candidates, store)
            if missed is None and framing.form in _SURE_FORMS:
                missed = framing
        return None if missed is None else DecodedField(None, note=_unknown(missed))

    def _candidates(
        self, framing: Framing, at: Timestamp | None, *, is_key: bool
    ) -> tuple[SchemaStore, list[Candidate]]:
        """Return the schemas that a form may ask for, and the store that they are in."""
        asked = (is_key, framing.guid or framing.id, framing.fingerprint)
        store = self._known.get(asked)
        if store is None:
            store = self._store()
            if len(self._known) < _MOST_REMEMBERED:
                self._known.setdefault(asked, store)
                store = self._known[asked]
        return store, store.asked_for(framing, self._topic, is_key=is_key, at=at)

    def _one(
        self, data: bytes, framing: Framing, candidates: list[Candidate], store: SchemaStore
    ) -> DecodedField:
        """Return the field as the likeliest schema that decodes all bytes has it, else one that leaves some."""
        found: list[_Found] = []
        failure: tuple[Schema, UndecodableError] | None = None
        for candidate in candidates:
            try:
                found.append(self._decoded(data, framing, candidate, store))
            except UndecodableError as error:
                failure = failure or (candidate.schema, error)
                continue
            if not found[-1].left and (candidate.is_of_time or len(candidates) == 1):
                break
        if not found:
            assert failure is not None
            return DecodedField(None, note=str(failure[1]), schema=_schema_json(failure[0]))
        best = min(found, key=lambda each: (each.left > 0, not each.candidate.is_of_time))
        schema = best.candidate.schema
        notes = list(_notes(best, candidates))
        return DecodedField(
            best.text, schema.kind.value.encode(), "; ".join(notes) or None, _schema_json(schema)
        )

    def _decoded(
        self, data: bytes, framing: Framing, candidate: Candidate, store: SchemaStore
    ) -> _Found:
        schema = candidate.schema
        decoder = self._decoders.decoder(schema, store)
        check_size(len(data))
        body = payload(data, framing, schema.kind, limit=MOST_BYTES)
        if schema.kind is SchemaKind.AVRO and framing.form in _CONFLUENT_FORMS:
            from kafkafs.schemas.decoders.avro import AvroDecoder

            if isinstance(decoder, AvroDecoder) and decoder.is_bytes:
                text, left = decoder.json_of_bytes(body.data)
                return _Found(text, left, candidate, framing)
        text, left = decoder.json(body.data, body.message)
        return _Found(text, left, candidate, framing)


def _notes(best: _Found, candidates: list[Candidate]) -> Iterator[str]:
    """Yield what is odd about a decoded value."""
    if best.left:
        yield f"{best.left} bytes follow the value"
    others = [each for each in candidates if each is not best.candidate]
    if others and not best.candidate.is_of_time:
        names = ", ".join(each.schema.name for each in others[:3])
        yield f"the schema may be another one of this id: {names}"


def _avro_file(data: bytes) -> DecodedField:
    from kafkafs.schemas.decoders.avro_file import decode_avro_file
    from kafkafs.schemas.decoders.value_decoder import json_bytes

    try:
        return DecodedField(json_bytes(decode_avro_file(data)), b"avro")
    except UndecodableError as error:
        return DecodedField(None, note=str(error))


def _unknown(framing: Framing) -> str:
    """Return the note on a value whose schema is not known."""
    if framing.guid is not None:
        return f"the schema {framing.guid} is not known"
    if framing.fingerprint is not None:
        return f"the schema with the fingerprint {framing.fingerprint:016x} is not known"
    if framing.artifact is not None:
        return f"the schema {'/'.join(framing.artifact)[:200]} is not known"
    return f"the schema id {framing.id} is not known"


def _schema_json(schema: Schema) -> bytes:
    """Return what names a schema: its id, subject and version, as far as it has them."""
    facts = {"id": schema.id, "subject": schema.subject, "version": schema.version}
    if schema.id is None and schema.guid is not None:
        facts = {"guid": schema.guid, **facts}
    known = {name: fact for name, fact in facts.items() if fact is not None}
    text = json.dumps(known, ensure_ascii=False, separators=(",", ":"))
    return hide(text).encode("utf-8", "replace")
