"""A decoder of some records, for tests: those with a first byte of 0 or ff, or with a header `__schema…`."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from engine.lines.line_decoder import DecodedField, LineDecoder, Marks
from engine.record.record import Header
from tests.builders import Rec
from tests.random_logs import random_log

PLAIN_VALUES = (None, b"", b"plain", b'{"a": 1}', b"\x01\xfe", b"x" * 2000)
MARKED_VALUES = (b"\0\0\0\0\7abc", b"\xffrest", b"\0")


class Upper(LineDecoder):
    """Shows sizes of marked fields, and a note on some."""

    marks = Marks(b"\0\xff", (b"__schema", b"other"))

    def fields(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp: int
    ) -> tuple[DecodedField | None, DecodedField | None]:
        is_asked = any(header.key.startswith((b"__schema", b"other")) for header in headers)
        return self._field(key, is_asked), self._field(value, is_asked)

    def _field(self, data: bytes | None, is_asked: bool) -> DecodedField | None:
        if not data or not (is_asked or data[0] in b"\0\xff"):
            return None
        if len(data) == 1:
            return DecodedField(None, note='one byte "only"', schema=b'{"id":3}')
        return DecodedField(b'{"size":%d}' % len(data), b"sized", schema=b'{"id":7}')


class All(Upper):
    """The same for a topic of which each record may be decoded."""

    marks = None


def log_of(chance: Random, marked: float) -> bytes:
    """Batches of every kind in which a share of the records is marked."""
    return random_log(chance, lambda count: [_record(chance, marked) for _ in range(count)])


def _record(chance: Random, marked: float) -> Rec:
    value, key = chance.choice(PLAIN_VALUES), chance.choice(PLAIN_VALUES)
    headers = [(b"_", b"v")] if chance.random() < 0.2 else []
    if chance.random() < marked:
        how = chance.randrange(3)
        value = chance.choice(MARKED_VALUES) if how == 0 else value
        key = chance.choice(MARKED_VALUES) if how == 1 else key
        headers = [*headers, (b"__schema_id", None)] if how == 2 else headers
    return Rec(value, key, chance.choice((-1, 0, 1_700_000_000_123)), headers)
