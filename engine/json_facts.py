"""JSON objects of what an object states: attributes by name, so that a fact is named once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce
from operator import attrgetter
from typing import Any, TypeAlias

Get: TypeAlias = Callable[[object], Any]


def facts_of(stating: object, names: str) -> dict[str, Any]:
    """Return attributes of an object for JSON, in the order of their names.

    Args:
        stating: the object.
        names: attributes, separated by spaces: `log_end` is there as `logEnd`, `size=log.byte_size` is the attribute of
            an attribute as `size`. An attribute of None is None.

    Raises:
        AttributeError: the object has no such attribute.
    """
    return {key: get(stating) for key, get in _getters(names)}


def camel_case(name: str) -> str:
    """Return a name as JSON has it: `log_end` is `logEnd`."""
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)


@cache
def _getters(names: str) -> list[tuple[str, Get]]:
    found: list[tuple[str, Get]] = []
    for each in names.split():
        key, _, path = each.rpartition("=")
        found.append((key or camel_case(path), _getter(path)))
    return found


def _getter(path: str) -> Get:
    if "." not in path:
        return attrgetter(path)
    parts = path.split(".")
    return lambda stating: reduce(
        lambda value, part: None if value is None else getattr(value, part), parts, stating
    )
