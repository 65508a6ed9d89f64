"""One sentence from the error of a failed query, in which Spark wraps a Python trace into a Java trace."""

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
    """Return the cause of a failure in one line, and whether the query was refused before it read anything.

    Args:
        error: error of PySpark, raised while a query was planned or run.
    """
    text = str(error)
    found = list(_raised(text))
    if found:
        name, said = found[-1]
        return said, name in _REFUSALS
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return _CONDITION.sub("", first).strip().rstrip(";"), False


def _raised(text: str) -> Iterator[tuple[str, str]]:
    """Yield the exceptions at the ends of Python traces in a text."""
    for trace in text.split("Traceback (most recent call last):")[1:]:
        for match in _PYTHON.finditer(trace):
            yield match["name"], match["said"].strip()
            break
