"""JSON in one line, formatted as Jackson does in Kafka's tools."""

from __future__ import annotations

import json
import re
from typing import Any, TypeAlias

Json: TypeAlias = "dict[str, Any] | list[Any] | str | int | float | bool | None"

_ESCAPE = re.compile(r"\\(?:u00[01][0-9a-f]|.)")


def java_json(value: Json) -> str:
    """Return the JSON of plain values.

    >>> java_json({"text": "é\x0b", "rate": 1e7})
    '{"text":"é\\\\u000B","rate":1.0E7}'
    """
    if isinstance(value, dict):
        fields = (f"{_string(key)}:{java_json(each)}" for key, each in value.items())
        return "{" + ",".join(fields) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(java_json, value)) + "]"
    if isinstance(value, str):
        return _string(value)
    return java_double(value) if isinstance(value, float) else json.dumps(value)


def _string(text: str) -> str:
    return _ESCAPE.sub(_upper, json.dumps(text, ensure_ascii=False))


def _upper(match: re.Match[str]) -> str:
    """Return an escape with capital hexadecimal digits, as Jackson writes it."""
    return match[0] if match[0][1] != "u" else "\\u" + match[0][2:].upper()


def java_double(value: float) -> str:
    """Format a finite number as Double.toString does.

    >>> java_double(1000.0), java_double(12345678.9), java_double(0.0001)
    ('1000.0', '1.23456789E7', '1.0E-4')
    """
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{value!r}".partition("e")
    if not exponent:
        digits = mantissa.lstrip("-").replace(".", "")
        whole = mantissa.lstrip("-").partition(".")[0]
        places = len(whole) - 1 if whole != "0" else -(len(digits) - len(digits.lstrip("0")))
        digits = digits.strip("0") or "0"
        sign = "-" if value < 0 else ""
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{places}"
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}E{int(exponent)}"
