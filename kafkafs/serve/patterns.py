"""Patterns that clients send: RE2 takes linear time for every pattern and text, as in brokers."""

from __future__ import annotations

from typing import Any

import re2

_PATTERN_BYTES = 1 << 20
"""Memory of a compiled pattern."""


class BadPattern(Exception):
    """A pattern that RE2 does not take."""


def compiled(pattern: str) -> Any:  # noqa: ANN401  # re2 has no types
    """Return a compiled pattern, which takes linear time on every name.

    Raises:
        BadPattern: RE2 does not take the pattern.
    """
    options = re2.Options()
    options.max_mem = _PATTERN_BYTES
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        raise BadPattern(reason.decode() if isinstance(reason, bytes) else str(reason)) from None
