"""Read small files of one JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from engine.errors import CorruptCheckpointError
from engine.units import MAX_INT64

_LIMIT = 1024 * 1024


def parse_json_object(data: bytes, *, path: str | None = None) -> dict[str, Any]:
    """Return the JSON object. Raises CorruptCheckpointError for other bytes or more than 1 MiB."""
    if len(data) > _LIMIT:
        raise CorruptCheckpointError(
            "the file is too large", path=path, expected=f"at most {_LIMIT} bytes", found=len(data)
        )
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptCheckpointError(
            f"the file is not JSON: {str(error)[:80]}", path=path
        ) from None
    if not isinstance(value, dict):
        raise CorruptCheckpointError("the file is not a JSON object", path=path)
    return value


def int_field(fields: Mapping[str, Any], name: str, *, path: str | None = None) -> int | None:
    """Return a 64-bit number field, None if it is missing. Raises CorruptCheckpointError."""
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > MAX_INT64:
        raise CorruptCheckpointError(f"{name} is not a 64-bit number", path=path)
    return value


def text_field(fields: Mapping[str, Any], name: str, *, path: str | None = None) -> str | None:
    """Return a string field, None if it is missing. Raises CorruptCheckpointError."""
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise CorruptCheckpointError(f"{name} is not a string", path=path)
    return value
