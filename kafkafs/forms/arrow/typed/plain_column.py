"""Columns of keys and values whose type a mapping gives, without a schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from engine.lines.line_decoder import DecodedField
from kafkafs.forms.arrow.typed.typed_column import Read, TypedColumn
from kafkafs.schemas.decoders.limits import Purse
from kafkafs.schemas.decoders.value_decoder import Payloads
from kafkafs.schemas.topic_decoder import SameFrame
from kafkafs.schemas.topic_type import TopicType

_TYPES = {
    "boolean": pa.bool_(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "uuid": pa.string(),
    "string": pa.string(),
}
_WINDOWS = {
    "windowed": [("start", pa.int64())],
    "windowed-store": [("start", pa.int64()), ("sequence", pa.int32())],
    "session": [("start", pa.int64()), ("end", pa.int64())],
}


def arrow_type(kind: TopicType) -> pa.DataType | None:
    """Return the Arrow type of a type; None if its values have several."""
    found = _TYPES.get(kind.name or "")
    for wrapper in reversed(kind.wrappers if found is not None else ()):
        if wrapper in _WINDOWS:
            found = pa.struct([("key", found), *_WINDOWS[wrapper]])
    return found


class PlainColumn(TypedColumn):
    """Column of values whose JSON has all that their type has; NaN and infinities are strings there."""

    def reads(self, frame: SameFrame, payloads: Payloads) -> Iterator[Read]:
        yield from ()

    def value(self, field: DecodedField, purse: Purse) -> Any:  # noqa: ANN401
        found = json.loads(field.text or b"null")
        return float(found) if pa.types.is_floating(self.type) else found
