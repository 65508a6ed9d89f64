"""Rows with a mask: their keys, values and headers are those that the masked record lines have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from engine import kernel
from engine.coding.varint import encode_varint
from engine.columns.columns import Columns
from engine.lines.line_decoder import HIDDEN, DecodedField, LineDecoder
from engine.record.record import Header
from kafkafs.masking.line_mask import LineMask, MaskedField
from kafkafs.masking.policy import MaskPolicy
from kafkafs.records.line_texts import line_texts
from kafkafs.records.rows import Rows, chosen


@dataclass(frozen=True, slots=True)
class RowMask:
    """A policy for rows; picklable.

    Attributes:
        policy: the policy.
        decoder_of: returns the decoder of the fields that paths of the policy name; None for none.
    """

    policy: MaskPolicy
    decoder_of: Callable[[str], LineDecoder | None]

    def of(self, topic: str) -> LineMask | None:
        """Return the mask of a topic."""
        return self.policy.mask(topic)

    def masked(self, rows: Rows) -> Rows:
        """Return rows without what the policy hides; no byte of it is in their columns.

        A key or value that the policy does not name has its exact bytes if they can be read. Any other one is text,
        JSON on one line, or null.
        """
        mask = self.of(rows.partition.topic)
        if mask is None or not len(rows):
            return rows
        columns = chosen(rows.columns, rows.indices)
        decoder = self.decoder_of(rows.partition.topic)
        options = kernel.LineOptions(*rows.partition, decode_with=decoder, mask=mask)
        arena = bytearray()
        table = columns.table.copy()
        fields: tuple[list[DecodedField | None], list[DecodedField | None]] = ([], [])
        texts = line_texts(rows.table, columns, options, bare=True)
        lines = (line for text in texts for line in text.split(b"\n")[:-1])
        for index, record in enumerate(map(mask.record, lines)):
            exact = columns.key(index), columns.value(index)
            sides = zip(("key", "value"), (record.key, record.value), exact, fields, strict=True)
            for name, field, data, shown in sides:
                content = data if field.is_exact else field.content
                table[f"{name}_start"][index] = len(arena)
                table[f"{name}_size"][index] = -1 if content is None else len(content)
                arena += content or b""
                shown.append(_decoded(field))
            headers = b"".join(map(_encoded, record.headers))
            table["headers_start"][index] = len(arena)
            table["headers_size"][index] = len(headers)
            table["headers_count"][index] = len(record.headers)
            arena += headers
        table.flags.writeable = False
        return replace(
            rows,
            columns=Columns(table, memoryview(bytes(arena)), [], columns.next_row),
            indices=np.arange(len(table)),
            decoder=None,
            keeps_bytes=rows.keeps_bytes or rows.decoder is None,
            fields=fields,
        )


def _decoded(field: MaskedField) -> DecodedField | None:
    note = None if field.done is None else f"masked: {field.done}"
    if note is None and field.json is None:
        return None
    made_by = None if field.done is None else HIDDEN
    return DecodedField(field.json, field.encoding, note, field.schema, made_by)


def _encoded(header: Header) -> bytes:
    value = header.value
    size = -1 if value is None else len(value)
    return b"".join((encode_varint(len(header.key)), header.key, encode_varint(size), value or b""))
