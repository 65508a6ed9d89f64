"""MessagePack as JSON: binary data, and strings that are not UTF-8, in base64; timestamps as RFC 3339 writes them.

Other extensions are `{"type":N,"data":BASE64}`.
"""

from __future__ import annotations

from kafkafs.schemas.decoders.avro_logical import timestamp_text
from kafkafs.schemas.decoders.value_decoder import json_bytes
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.types.binary_json import BinaryJson

_CONSTANTS = {0xC0: b"null", 0xC2: b"false", 0xC3: b"true"}
_TIMESTAMP = -1
_NANOS = 10**9


class MessagePackReader(BinaryJson):
    """Reader of one item of MessagePack."""

    def item(self, depth: int) -> None:
        code = self.take(1)[0]
        if code < 0x80 or code >= 0xE0:
            self._out += b"%d" % (code if code < 0x80 else code - 0x100)
        elif code < 0xA0:
            self.containers(b"{}" if code < 0x90 else b"[]", code & 15, depth)
        elif code < 0xC0:
            self._string(code & 31)
        elif code in _CONSTANTS:
            self._out += _CONSTANTS[code]
        elif code == 0xC1:
            raise UndecodableError("the code C1 is never used", self._at - 1)
        else:
            self._sized(code, depth)

    def _sized(self, code: int, depth: int) -> None:
        if code <= 0xC6:
            self.write_bytes(self.take(self.number(1 << (code - 0xC4))))
        elif code <= 0xC9:
            self._extension(self.number(1 << (code - 0xC7)))
        elif code <= 0xCB:
            self.write_float("float" if code == 0xCA else "double")
        elif code <= 0xD3:
            number = self.number(1 << (code & 3), signed=code >= 0xD0)
            self._out += b"%d" % number
        elif code <= 0xD8:
            self._extension(1 << (code - 0xD4))
        elif code <= 0xDB:
            self._string(self.number(1 << (code - 0xD9)))
        else:
            count = self.number(2 if code in (0xDC, 0xDE) else 4)
            self.containers(b"{}" if code >= 0xDE else b"[]", count, depth)

    def _string(self, size: int) -> None:
        data = self.take(size)
        try:
            self.write_text(data)
        except UndecodableError:
            self.write_bytes(data)

    def _extension(self, size: int) -> None:
        kind = self.number(1, signed=True)
        data = self.take(size)
        time = _time(data) if kind == _TIMESTAMP else None
        if time is not None:
            self._out += json_bytes(time)
            return
        self._out += b'{"type":%d,"data":' % kind
        self.write_bytes(data)
        self._out += b"}"


def _time(data: bytes) -> str | int | None:
    """Return a timestamp; None for bytes that are none."""
    if len(data) == 4:
        return timestamp_text(9, "Z", int.from_bytes(data, "big") * _NANOS)
    if len(data) == 8:
        both = int.from_bytes(data, "big")
        nanos, seconds = both >> 34, both & (1 << 34) - 1
    elif len(data) == 12:
        nanos = int.from_bytes(data[:4], "big")
        seconds = int.from_bytes(data[4:], "big", signed=True)
    else:
        return None
    return timestamp_text(9, "Z", seconds * _NANOS + nanos) if nanos < _NANOS else None
