"""One sentence out of what Spark says when a query fails: a Java trace around a Python one."""

from __future__ import annotations

import re
from collections.abc import Iterator

_PYTHON = re.compile(
    r"^(?:[\w.]*\.)?(?P<name>[A-Za-z_]\w*(?:Error|Exception)): (?P<said>.+)$",
    re.MULTILINE,
)
_REFUSALS = frozenset({"OptionError"})
_CONDITION = re.compile(r"SQLSTATE: \w+")


def sentence_of(error: BaseException) -> tuple[str, bool]:
    """What went wrong, on one line, and whether it was refused before anything was read.

    Args:
        error: of PySpark, raised by a query or while one was planned.
    """
    text = str(error)
    found = list(_raised(text))
    if found:
        name, said = found[-1]
        return said, name in _REFUSALS
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return _CONDITION.sub("", first).strip().rstrip(";"), False


def _raised(text: str) -> Iterator[tuple[str, str]]:
    """Exceptions at the ends of Python traces inside a text."""
    for trace in text.split("Traceback (most recent call last):")[1:]:
        for match in _PYTHON.finditer(trace):
            yield match["name"], match["said"].strip()
            break
