"""The record line: one record as one JSON object on one line.

Reference for the kernel's `lines`, which must agree byte for byte. Keys come in this order, those
in brackets only when they apply:

    topic partition offset timestamp time timestampType key [keyEncoding] [keySchema] [keyNote] value
    [valueEncoding] [schema] [valueNote] headers leaderEpoch [sequence] [transaction] [control] [belowLogStart]

Keys and values of Kafka's internal topics are decoded to JSON, with the Encoding "kafka", if
`values` is auto or json; a Note says why one could not be decoded. Other topics may have a decoder,
too, with its own Encodings. A header is {"key",
["keyEncoding"], "value", ["valueEncoding"]}. Header keys are text for all `values`, base64 if they
are not UTF-8. With `values="none"` there are keySize and valueSize (-1: null) in place of key and
value, and headers have only their keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, partial

from engine.arrays import np, npt
from engine.columns.batch_table import Table
from engine.lines.json_text import Values, bytes_json, hide, string_json, time_json
from engine.lines.line_decoder import HIDDEN, LineDecoder, LineMasking, decoded_json
from engine.record.control_records import describe_control
from engine.record.fate import Fate, Fates
from engine.record.record import Header, Record
from engine.units import MAX_INT64, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Offset

_FATE_JSON = {fate: b',"state":"%s"' % fate.name.lower().encode() for fate in Fate}
_FATE_JSON[Fate.NONE] = b""


@dataclass(frozen=True, slots=True)
class LineOptions:
    """Options of the record lines of a partition.

    Attributes:
        topic, partition: as shown; bytes of a topic that are not UTF-8 (surrogateescape) are shown as U+FFFD.
        values: how keys, values and headers' values are shown: auto, text, json, base64, hex or none.
        committed: leave out control records, aborted transactions and open ones.
        log_start_offset: records below it are marked belowLogStart.
        from_offset, to_offset: only records with from_offset <= offset < to_offset.
        decode_with: decoder for the keys and values of a topic that is not internal.
        mask: what the lines leave out; None for nothing.
        mode: `values` as a number.
        decoder: decoder of keys and values, of an internal topic or `decode_with`; None if `values` asks for bytes. With
            a mask one that shows nothing: `bare` has the other.
        prefix: the line's bytes up to the offset.

    Raises:
        ValueError: `values` is unknown.
    """

    topic: str
    partition: int
    values: str = field(default="auto", kw_only=True)
    committed: bool = field(default=False, kw_only=True)
    log_start_offset: Offset = field(default=0, kw_only=True)
    from_offset: Offset = field(default=0, kw_only=True)
    to_offset: Offset = field(default=MAX_INT64, kw_only=True)
    decode_with: LineDecoder | None = field(default=None, kw_only=True, repr=False)
    mask: LineMasking | None = field(default=None, kw_only=True, repr=False)
    mode: Values = field(init=False, repr=False, compare=False)
    decoder: LineDecoder | None = field(init=False, repr=False, compare=False)
    prefix: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        mode, decoder, prefix = _looks(self.topic, self.partition, self.values)
        if decoder is None and mode in (Values.AUTO, Values.JSON):
            decoder = self.decode_with
        if self.mask is not None:
            decoder = HIDDEN
        object.__setattr__(self, "mode", mode)
        object.__setattr__(self, "decoder", decoder)
        object.__setattr__(self, "prefix", prefix)

    def leaves_out(self, rows: Table, fates: Fates | int) -> npt.NDArray[np.bool_]:
        """Return which batches have no lines; arguments as of `left_out`."""
        from engine.columns.left_out import left_out  # here: the kernel has its own

        start, stop, committed = self.from_offset, self.to_offset, self.committed
        return left_out(rows, fates, start, stop, committed=committed, control=not committed)

    def __reduce__(self) -> tuple[partial[LineOptions], tuple[()]]:
        """Another process makes the decoder of an internal topic itself."""
        given = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        return partial(LineOptions, **given), ()

    @property
    def shows_bytes(self) -> bool:
        """Whether keys and values are shown as the JSON or the text that their bytes are."""
        is_bare = self.decoder is None and self.mask is None
        return is_bare and self.mode in (Values.AUTO, Values.JSON)

    @property
    def bare(self) -> LineOptions:
        """The options without the mask."""
        return self if self.mask is None else replace(self, mask=None)


@lru_cache(maxsize=1024)
def _looks(topic: str, partition: int, values: str) -> tuple[Values, LineDecoder | None, bytes]:
    """Return `LineOptions`' mode, decoder and prefix for a partition."""
    names = [mode.name.lower() for mode in Values]
    if values not in names:
        raise ValueError(f"values must be one of {', '.join(names)}, not {values!r}")
    shown = topic.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    prefix = f'{{"topic":{string_json(shown)},"partition":{partition},"offset":'
    mode = Values(names.index(values))
    decoder = internal_decoder(topic) if mode in (Values.AUTO, Values.JSON) else None
    return mode, decoder, prefix.encode()


def internal_decoder(topic: str) -> LineDecoder | None:
    """Return the decoder of an internal topic's records; None for any other topic."""
    if not topic.startswith("__"):
        return None
    # Imported here: only internal topics need the schemas, and importing them is slow.
    from engine.lines.internal_fields import internal_decoder_of

    return internal_decoder_of(topic)


def record_line(
    record: Record,
    options: LineOptions,
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    is_transactional: bool = False,
    is_control: bool = False,
    fate: int = Fate.NONE,
    texts: tuple[bytes | None, bytes | None] | None = None,
) -> bytes:
    """Return the line of one record, with its newline.

    The keyword arguments are facts of the record's batch. Ignores `options.committed` and the
    offsets: the caller chooses the records. For a transactional batch with fate NONE the
    transaction is shown without a state. With `texts`, those of a decoder, the decoder is not asked.
    """
    return b"".join(
        [
            line_start(record, options),
            *_fields(record, options.mode, None if is_control else options.decoder, texts),
            line_end(
                record,
                options,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                is_transactional=is_transactional,
                is_control=is_control,
                fate=fate,
            ),
        ]
    )


def line_start(record: Record, options: LineOptions) -> bytes:
    """Return a record's line up to its key."""
    return b'%s%d,"timestamp":%d,"time":%s,"timestampType":"%s"' % (
        options.prefix,
        record.offset,
        record.timestamp,
        time_json(record.timestamp),
        record.timestamp_type.label.encode(),
    )


def line_end(
    record: Record,
    options: LineOptions,
    *,
    producer_id: int,
    producer_epoch: int,
    is_transactional: bool,
    is_control: bool,
    fate: int,
) -> bytes:
    """Return a record's line from the end of its headers on."""
    parts = [b',"leaderEpoch":%d' % record.leader_epoch]
    if is_control:
        parts.append(b',"control":' + control_json(record, producer_id, producer_epoch))
    else:
        if producer_id >= 0 and record.sequence >= 0:
            parts.append(b',"sequence":%d' % record.sequence)
        if is_transactional:
            parts.append(transaction_json(producer_id, producer_epoch, fate))
    if record.offset < options.log_start_offset:
        parts.append(b',"belowLogStart":true')
    parts.append(b"}\n")
    return b"".join(parts)


def transaction_json(producer_id: int, producer_epoch: int, fate: int) -> bytes:
    """Return the transaction of a record, with a leading comma."""
    facts = (producer_id, producer_epoch, _FATE_JSON[Fate(fate)])
    return b',"transaction":{"producerId":%d,"producerEpoch":%d%s}' % facts


def control_json(record: Record, producer_id: int, producer_epoch: int) -> bytes:
    """Return the JSON of a control record; an end marker includes the producer of its transaction."""
    facts = describe_control(record)
    if facts["type"] in ("COMMIT", "ABORT"):
        facts |= {"producerId": producer_id, "producerEpoch": producer_epoch}
    text = json.dumps(facts, ensure_ascii=False, separators=(",", ":"))
    return hide(text).encode("utf-8", "replace")


def _fields(
    record: Record,
    mode: Values,
    decoder: LineDecoder | None,
    texts: tuple[bytes | None, bytes | None] | None,
) -> Iterable[bytes]:
    """Yield key, value and headers, each with a leading comma."""
    if decoder is not None and texts is not None:
        for name, data, text in zip(
            (b"key", b"value"), (record.key, record.value), texts, strict=True
        ):
            yield b"," + (
                named_field(name, data, mode) if text is None else b'"%s":%s' % (name, text)
            )
    elif decoder is not None:
        key, value, headers = record.key, record.value, record.headers
        yield b"," + decoded_json(decoder, key, value, headers, record.timestamp, mode)
    elif mode is Values.NONE:
        for name, data in ((b"key", record.key), (b"value", record.value)):
            yield b',"%sSize":%d' % (name, -1 if data is None else len(data))
    else:
        yield b"," + named_field(b"key", record.key, mode)
        yield b"," + named_field(b"value", record.value, mode)
    yield b',"headers":['
    yield b",".join(_header(header, mode) for header in record.headers)
    yield b"]"


def _header(header: Header, mode: Values) -> bytes:
    key = named_field(b"key", header.key, Values.TEXT)
    if mode is Values.NONE:
        return b"{%s}" % key
    return b"{%s,%s}" % (key, named_field(b"value", header.value, mode))


def named_field(name: bytes, data: bytes | None, mode: Values) -> bytes:
    """Return a field and, if its text is not plain, its Encoding field."""
    if data is None:
        return b'"%s":null' % name
    text, encoding = bytes_json(data, mode)
    if encoding is None:
        return b'"%s":%s' % (name, text)
    return b'"%s":%s,"%sEncoding":"%s"' % (name, text, name, encoding.encode())
