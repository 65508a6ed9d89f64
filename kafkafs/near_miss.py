"""Name what a wrong name was meant to be."""

from __future__ import annotations

from collections.abc import Iterable


def near_miss(name: str, known: Iterable[str]) -> str:
    """Return the end of an error's sentence: the nearest known name as a question, or nothing.

    >>> near_miss("ordres", ["orders", "txn"]), near_miss("x", ["orders"])
    (': did you mean orders?', '')
    """
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), 1)
    return f": did you mean {near[0]}?" if near else ""
