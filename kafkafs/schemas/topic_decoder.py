"""Decoders of topics for record lines: keys and values that ask for a schema, by their bytes or by their headers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from engine.arrays import np, npt
from engine.columns.columns import Columns
from engine.lines.json_text import Values, hide
from engine.lines.line_decoder import (
    DecodedField,
    FieldTexts,
    LineDecoder,
    Marks,
    Pair,
    details_json,
    shown_text,
)
from engine.record.record import Header
from engine.units import Timestamp
from kafkafs.schemas.decoders.cache import DecoderCache
from kafkafs.schemas.decoders.limits import MOST_BYTES, check_size
from kafkafs.schemas.decoders.value_decoder import Payloads, PayloadTexts, ValueDecoder
from kafkafs.schemas.errors import UndecodableError, printable, undecodable
from kafkafs.schemas.framing import (
    KEY_HEADERS,
    PREFIXES,
    VALUE_HEADERS,
    Form,
    Framing,
    Message,
    framings,
    header_framings,
    message_indexes,
    payload,
)
from kafkafs.schemas.growing_texts import GrowingTexts
from kafkafs.schemas.programs import extension
from kafkafs.schemas.schema import Candidate, Schema, SchemaKind
from kafkafs.schemas.store import SchemaStore
from kafkafs.schemas.topic_subjects import missing_note
from kafkafs.schemas.topic_type import TopicType
from kafkafs.schemas.types.typed_field import typed_field, typed_texts

MARKS = Marks(b"\x00\x01\x03\xc3O", (b"__key_schema_id", b"__value_schema_id", b"apicurio."))
"""First bytes and header keys of all wire forms."""

_PREFIXED = frozenset({Form.CONFLUENT, Form.CONFLUENT_GUID})
_CONFLUENT_FORMS = _PREFIXED | {Form.CONFLUENT_HEADER}
_MOST_REMEMBERED = 10_000
_MOST_GROUPS = 16
"""Schemas whose keys or values are decoded together, of the records that are decoded at once."""
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
        notes: why parts of it are not shown as their type says.
        candidate: the schema.
        made_by: as of DecodedField.
    """

    text: bytes
    left: int
    notes: Sequence[str]
    candidate: Candidate
    made_by: object


class SameFrame(NamedTuple):
    """Keys or values that begin alike, or have the same headers: they have one form and one schema.

    Attributes:
        rows: which of them.
        framing: the form; of Protobuf, it is Confluent's, that of Apicurio's headers, or that of bare payloads.
        schema, decoder: the schema and its decoder.
    """

    rows: npt.NDArray[np.intp]
    framing: Framing
    schema: Schema
    decoder: ValueDecoder

    def payloads(self, fields: Payloads) -> Payloads:
        """Return their payloads, among all fields that were asked for; those that are too large are left out."""
        arena, starts, sizes = fields
        start = self.framing.start
        lengths = np.where(sizes[self.rows] > MOST_BYTES, -1, sizes[self.rows] - start)
        return Payloads(arena, starts[self.rows] + start, lengths)

    def texts(self, fields: Payloads, suffix: bytes, enough: int) -> PayloadTexts | None:
        """Return their JSON, as `ValueDecoder.texts`; None if each is to be decoded alone."""
        payloads = self.payloads(fields)
        if self.framing.form in _PREFIXED or self.schema.kind is not SchemaKind.PROTOBUF:
            return self.decoder.texts(payloads, suffix, enough)
        from kafkafs.schemas.decoders.protobuf import ProtobufDecoder

        if self.framing.form is Form.APICURIO_HEADER:  # some may have a Ref
            return None
        assert isinstance(self.decoder, ProtobufDecoder)
        try:
            return self.decoder.bare_texts(payloads, self.message(), suffix, enough)
        except UndecodableError:
            return None

    def message(self) -> Message:
        """Return the Protobuf message that the form names, and not each payload. Raises UndecodableError."""
        header = self.framing.header
        return self.framing.message if header is None else message_indexes(header, 0)[0]


class TopicSchemas(LineDecoder):
    """Decoder of the keys and values of one topic.

    A schema that was not known when a record asked for it stays unknown, and one that was known keeps its text: the
    lines of a record never change.

    Args:
        topic: the topic.
        store: returns the schemas as of now.
        decoders: cache, perhaps shared with other topics.
        is_mapped: whether the schemas of bare keys or values of the topic are given: any record may have them.
        is_named: whether the name is a topic's, and not that of a folder which tells no topic.
        types: types of its keys and of its values; None for those that carry a schema or are shown as in any topic.
    """

    def __init__(
        self,
        topic: str,
        store: Callable[[], SchemaStore],
        decoders: DecoderCache,
        *,
        is_mapped: bool = False,
        is_named: bool = True,
        types: tuple[TopicType | None, TopicType | None] = (None, None),
    ) -> None:
        self.marks = MARKS if not is_mapped and types == (None, None) else None
        self._types = types
        self._topic = topic
        self._asks_as = topic if is_named else ""
        self._store = store
        self._decoders = decoders
        self._is_mapped = is_mapped
        self._known: dict[tuple[bool, int | str | None, int | None], SchemaStore] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy has the schemas as of now."""
        is_named = self._asks_as != ""
        how = {"is_mapped": self._is_mapped, "is_named": is_named, "types": self._types}
        return _copied, (self._topic, self._store(), how)

    def fields(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        timestamp: Timestamp,
    ) -> Pair:
        return (
            None if key is None else self.field(key, headers, timestamp, is_key=True),
            None if value is None else self.field(value, headers, timestamp, is_key=False),
        )

    def texts(
        self, columns: Columns, mode: Values, enough: int, *, is_bare: bool = False
    ) -> FieldTexts:
        """Return keys and values as `LineDecoder.texts`; the values of a schema are decoded together where it has a program."""
        if extension is None:
            return super().texts(columns, mode, enough, is_bare=is_bare)
        found = GrowingTexts(len(columns))
        for field in range(2):
            self._decode_together(found, field, columns, enough, is_bare=is_bare)
        is_plain = self.marks is not None and not found.size and not found.alone.any()
        self._decode_alone(found, columns, mode, enough, is_bare=is_bare)
        return FieldTexts(found.text, found.places[: found.count], is_plain)

    def _decode_together(
        self, found: GrowingTexts, field: int, columns: Columns, enough: int, *, is_bare: bool
    ) -> None:
        """Decode keys (field 0) or values (field 1) by schema; those that have to be decoded alone are marked so."""
        fields, groups, alone = self.same_frames(columns, slice(None), is_key=field == 0)
        kind, rows = self._types[field], np.flatnonzero(alone)
        if kind is not None and kind.is_alone:
            some = Payloads(fields.arena, fields.starts[rows], fields.sizes[rows])
            typed = typed_texts(some, kind, enough, is_key=field == 0, is_bare=is_bare)
            found.add(field, rows, typed)
            return
        found.alone[:, field] = alone
        for group in groups:
            try:
                suffix = b"" if is_bare else _suffix(group.schema, is_key=field == 0)
                made = group.texts(fields, suffix, enough)
            except Exception:  # noqa: BLE001 - each says why it does not decode
                made = None
            if made is None:
                found.alone[group.rows, field] = True
            else:
                found.add(field, group.rows, made)

    def same_frames(
        self, columns: Columns, indices: npt.NDArray[np.int64] | slice, *, is_key: bool
    ) -> tuple[Payloads, list[SameFrame], npt.NDArray[np.bool_]]:
        """Return the keys or values of some records, those that begin alike, and which have to be decoded one by one.

        What is in neither asks for no schema. The extension must be there.
        """
        assert extension is not None
        sides = (columns.key_start, columns.key_size), (columns.value_start, columns.value_size)
        starts, sizes = (column[indices] for column in sides[not is_key])
        fields = Payloads(columns.arena, starts, sizes)
        alone = np.zeros(len(sizes), np.bool_)
        found: list[SameFrame] = []
        try:
            for rows, group in self._groups(fields, columns, indices, is_key=is_key):
                if group is None:
                    alone[rows] = True
                else:
                    found.append(SameFrame(rows, *group))
        except OSError:  # the schemas cannot be read, which each field says
            return fields, [], sizes >= 0
        return fields, found, alone

    def _groups(
        self,
        fields: Payloads,
        columns: Columns,
        indices: npt.NDArray[np.int64] | slice,
        *,
        is_key: bool,
    ) -> Iterator[tuple[npt.NDArray[np.intp], tuple[Framing, Schema, ValueDecoder] | None]]:
        """Yield the fields that are framed alike, with what they have in common; None for those to be decoded alone."""
        assert extension is not None
        arena, starts, sizes = fields
        if self._types[not is_key] is not None:
            yield np.flatnonzero(sizes >= 0), None
            return
        store = self._store() if self._is_mapped else None
        given = None if store is None else store.bare(self._topic, is_key=is_key)
        if store is not None and given is not None:
            rows = np.flatnonzero(sizes >= 0)
            if len(rows):
                yield rows, self._bare_group(*given, store)
            return
        named, firsts = extension.header_groups(
            columns.arena,
            columns.headers_start[indices],
            np.where(sizes < 0, -1, columns.headers_size[indices]),
            KEY_HEADERS if is_key else VALUE_HEADERS,
            _MOST_GROUPS,
        )
        yield np.flatnonzero(named < -1), None
        places = np.arange(len(columns))[indices]
        for group, first in enumerate(firsts):
            rows = np.flatnonzero(named == group)
            headers = columns.headers(int(places[first]))
            framing = next(header_framings(headers, is_key=is_key), None)
            if framing is None:
                named[rows] = -1
            else:
                yield rows, self._group(framing, is_key=is_key)
        sizes = np.where(named == -1, sizes, -1)
        groups, firsts = extension.prefix_groups(arena, starts, sizes, PREFIXES, _MOST_GROUPS)
        yield np.flatnonzero(groups < -1), None
        for group, first in enumerate(firsts):
            at = int(starts[first])
            data = bytes(arena[at : at + int(sizes[first])])
            yield np.flatnonzero(groups == group), self._group(next(framings(data)), is_key=is_key)

    def _bare_group(
        self, framing: Framing, candidate: Candidate, store: SchemaStore
    ) -> tuple[Framing, Schema, ValueDecoder] | None:
        """Return what all bare payloads have in common; None if their schema depends on their time."""
        schema = candidate.schema
        return self._group_of(framing, schema, store) if store.is_only_version(schema) else None

    def _group(
        self, framing: Framing, *, is_key: bool
    ) -> tuple[Framing, Schema, ValueDecoder] | None:
        """Return what all payloads of a form have in common; None if their schema depends on their time, or for other reasons."""
        if framing.form is Form.AVRO_FILE or framing.is_compressed:
            return None
        store = self._store_of(framing, is_key=is_key)
        schema = store.asked_for_at_any_time(framing, self._asks_as, is_key=is_key)
        return None if schema is None else self._group_of(framing, schema, store)

    def _group_of(
        self, framing: Framing, schema: Schema, store: SchemaStore
    ) -> tuple[Framing, Schema, ValueDecoder] | None:
        forms = _CONFLUENT_FORMS | {Form.APICURIO_HEADER, Form.BARE}
        if schema.kind is SchemaKind.PROTOBUF and framing.form not in forms:
            return None
        try:
            decoder = self._decoders.decoder(schema, store)
        except UndecodableError:
            return None
        if schema.kind is SchemaKind.AVRO and framing.form in _CONFLUENT_FORMS:
            from kafkafs.schemas.decoders.avro import AvroDecoder

            if isinstance(decoder, AvroDecoder) and decoder.is_bytes:
                return None
        return framing, schema, decoder

    def _decode_alone(
        self, found: GrowingTexts, columns: Columns, mode: Values, enough: int, *, is_bare: bool
    ) -> None:
        """Decode the keys and values that were not decoded together."""
        before = found.size
        for row in np.flatnonzero(found.alone.any(axis=1)).tolist():
            if row >= found.count:
                break
            headers, timestamp = columns.headers(row), int(columns.timestamp[row])
            for field, data in enumerate((columns.key(row), columns.value(row))):
                if data is None or not found.alone[row, field]:
                    continue
                shown = self.field(data, headers, timestamp, is_key=not field)
                name = b"value" if field else b"key"
                text = shown_text(name, data, shown, mode, is_bare=is_bare)
                if text is not None:
                    found.add_one(field, row, text)
            if found.size - before >= enough:
                found.count = min(found.count, row + 1)

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
        at, kind = timestamp if timestamp >= 0 else None, self._types[not is_key]
        try:
            if kind is not None:
                return self._typed(data, headers, at, kind, is_key=is_key)
            return self._field(data, headers, at, is_key=is_key)
        except OSError as error:
            return DecodedField(None, note=f"the schemas cannot be read: {error}")
        except Exception as error:  # noqa: BLE001 - the net around what finds a schema
            return DecodedField(None, note=undecodable(error, "the value").reason)

    def _typed(
        self,
        data: bytes,
        headers: Sequence[Header],
        at: Timestamp | None,
        kind: TopicType,
        *,
        is_key: bool,
    ) -> DecodedField | None:
        def plain(content: bytes) -> DecodedField | None:
            return self._field(content, headers, at, is_key=is_key)

        found = typed_field(data, kind, plain, is_key=is_key)
        return plain(data) if found.text is None and kind.is_guess else found

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
        if missed is None:
            return None
        store = self._store_of(missed, is_key=is_key)
        return DecodedField(None, note=missing_note(missed, is_foreign=store.is_foreign(missed)))

    def _candidates(
        self, framing: Framing, at: Timestamp | None, *, is_key: bool
    ) -> tuple[SchemaStore, list[Candidate]]:
        """Return the schemas that a form may ask for, and the store that they are in."""
        store = self._store_of(framing, is_key=is_key)
        return store, store.asked_for(framing, self._asks_as, is_key=is_key, at=at)

    def _store_of(self, framing: Framing, *, is_key: bool) -> SchemaStore:
        """Return the schemas of the time when a record asked first for what a form asks for."""
        asked = (is_key, framing.guid or framing.id, framing.fingerprint)
        store = self._known.get(asked)
        if store is None:
            store = self._store()
            if len(self._known) < _MOST_REMEMBERED:
                self._known.setdefault(asked, store)
                store = self._known[asked]
        return store

    def _one(
        self, data: bytes, framing: Framing, candidates: list[Candidate], store: SchemaStore
    ) -> DecodedField:
        """Return the field as the likeliest schema that decodes all bytes has it, else one that leaves some."""
        found: list[_Found] = []
        failure: tuple[Schema, UndecodableError] | None = None
        for candidate in candidates:
            try:
                found.append(self._decoded(data, framing, candidate, store))
            except Exception as error:  # noqa: BLE001 - the one net around the decoders of values
                failure = failure or (candidate.schema, undecodable(error, "the value"))
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
            best.text,
            schema.kind.value.encode(),
            printable("; ".join(notes)) or None,
            _schema_json(schema),
            best.made_by,
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
                return _Found(*decoder.json_of_bytes(body.data), candidate, decoder)
        made_by = decoder.made_of(body.data, body.message)
        return _Found(*decoder.json(body.data, body.message), candidate, made_by)


def _notes(best: _Found, candidates: list[Candidate]) -> Iterator[str]:
    """Yield what is odd about a decoded value."""
    if best.left:
        yield f"{best.left} bytes follow the value"
    yield from best.notes
    others = [each for each in candidates if each is not best.candidate]
    if others and not best.candidate.is_of_time:
        names = ", ".join(each.schema.name for each in others[:3])
        yield f"the schema may be another one of this id: {names}"


def _avro_file(data: bytes) -> DecodedField:
    from kafkafs.schemas.decoders.avro_file import decode_avro_file
    from kafkafs.schemas.decoders.value_decoder import json_bytes

    try:
        return DecodedField(json_bytes(decode_avro_file(data)), b"avro")
    except Exception as error:  # noqa: BLE001 - the net around values with their own schema
        return DecodedField(None, note=str(undecodable(error, "the Avro file")))


def _suffix(schema: Schema, *, is_key: bool) -> bytes:
    """Return what follows the JSON of a key or value in a line."""
    name = b"key" if is_key else b"value"
    details = details_json(name, DecodedField(None, schema=_schema_json(schema)))
    return b',"%sEncoding":"%s"%s' % (name, schema.kind.value.encode(), details)


def _schema_json(schema: Schema) -> bytes:
    """Return what names a schema: its id, subject and version, as far as it has them."""
    facts = {"id": schema.id, "subject": schema.subject, "version": schema.version}
    if schema.id is None and schema.guid is not None:
        facts = {"guid": schema.guid, **facts}
    known = {name: fact for name, fact in facts.items() if fact is not None}
    text = json.dumps(known, ensure_ascii=False, separators=(",", ":"))
    return hide(text).encode("utf-8", "replace")


def _copied(topic: str, store: SchemaStore, how: Mapping[str, Any]) -> TopicSchemas:
    return TopicSchemas(topic, lambda: store, DecoderCache(), **how)
