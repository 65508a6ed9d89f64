"""CBOR (RFC 8949) as JSON: byte strings in base64, numbers of tags 2 and 3 with all digits, UUIDs of tag 37 as text.

Of other tags the content is shown, as the RFC advises (6.1). What is not well-formed is refused.
"""

from __future__ import annotations

from uuid import UUID

from kafkafs.schemas.decoders.limits import MOST_DEPTH
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.types.binary_json import BinaryJson

_INT, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _TAG = range(7)
_INDEFINITE = 31
_BREAK = 0xFF
_SIMPLE = {20: b"false", 21: b"true", 22: b"null", 23: b"null"}
_FLOATS = {25: "half", 26: "float", 27: "double"}
_BIG, _BIG_NEGATIVE, _UUID = 2, 3, 37


class CborReader(BinaryJson):
    """Reader of one item of CBOR."""

    def item(self, depth: int) -> None:
        major, info = self._head()
        if major == 7:
            self._simple(info)
        elif info == _INDEFINITE and major not in (_BYTES, _TEXT, _ARRAY, _MAP):
            raise UndecodableError("an item has no length", self._at)
        elif major == _TAG:
            self._tagged(self._argument(info), depth)
        elif major in (_ARRAY, _MAP):
            count = None if info == _INDEFINITE else self._argument(info)
            self.containers(b"{}" if major == _MAP else b"[]", count, depth)
        elif major == _TEXT:
            self.write_text(self._string(major, info))
        elif major == _BYTES:
            self.write_bytes(self._string(major, info))
        else:
            number = self._argument(info)
            self._out += b"%d" % (-1 - number if major == _NEGATIVE else number)

    def is_end(self) -> bool:
        if self._data[self._at : self._at + 1] != bytes([_BREAK]):
            return False
        self._at += 1
        return True

    def _head(self) -> tuple[int, int]:
        first = self.take(1)[0]
        return first >> 5, first & 31

    def _argument(self, info: int) -> int:
        if info < 24:
            return info
        if info > 27:
            raise UndecodableError(f"the length {info} is reserved", self._at)
        return self.number(1 << (info - 24))

    def _string(self, major: int, info: int) -> bytes:
        if info != _INDEFINITE:
            return self.take(self._argument(info))
        parts = []
        while not self.is_end():
            chunk = self._head()
            if chunk[0] != major or chunk[1] == _INDEFINITE:
                raise UndecodableError("a chunk of a string is of another type", self._at)
            parts.append(self.take(self._argument(chunk[1])))
            if major == _TEXT:
                parts[-1].decode()
        return b"".join(parts)

    def _simple(self, info: int) -> None:
        if info in _FLOATS:
            self.write_float(_FLOATS[info])
        elif info in _SIMPLE:
            self._out += _SIMPLE[info]
        elif info <= 24:
            number = self.number(1) if info == 24 else info
            if info == 24 and number < 32:
                raise UndecodableError(f"the simple value {number} has two bytes", self._at)
            self._out += b'"simple(%d)"' % number
        else:
            raise UndecodableError("a break is outside of a container", self._at)

    def _tagged(self, tag: int, depth: int) -> None:
        if depth >= MOST_DEPTH:
            raise UndecodableError(f"the value is nested deeper than {MOST_DEPTH}", self._at)
        start = self._at
        if tag not in (_BIG, _BIG_NEGATIVE, _UUID):
            self.item(depth + 1)
            return
        major, info = self._head()
        if major != _BYTES:
            self._at = start
            self.item(depth + 1)
            return
        data = self._string(major, info)
        if tag == _UUID:
            if len(data) == 16:
                self.write_text(str(UUID(bytes=data)).encode())
            else:
                self.write_bytes(data)
            return
        number = int.from_bytes(data, "big")
        self.write_number(-1 - number if tag == _BIG_NEGATIVE else number)
