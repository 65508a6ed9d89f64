"""A cache of a limited number of values."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class BoundedCache(Generic[Key, Value]):
    """The newest `most` values, each made when it is first asked for. Thread-safe."""

    def __init__(self, most: int, make: Callable[[Key], Value]) -> None:
        self._most = most
        self._make = make
        self._lock = Lock()
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key) -> Value:
        """Return the value of a key."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                found = self._values[key] = self._make(key)
                if len(self._values) > self._most:
                    self._values.popitem(last=False)
            return found
