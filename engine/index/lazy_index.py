"""Open an index at its first use: most segments of a log are never searched."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from engine.index.abstract_index import AbstractIndex

Index = TypeVar("Index", bound=AbstractIndex[Any])


class LazyIndex(Generic[Index]):
    """Opens the index once, also with several threads; a failed open is tried again."""

    __slots__ = ("_index", "_is_closed", "_load", "_lock")

    def __init__(self, load: Callable[[], Index]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._index: Index | None = None
        self._is_closed = False

    @property
    def is_loaded(self) -> bool:
        """Whether the index is open."""
        return self._index is not None

    @property
    def index(self) -> Index:
        """The index, opened if needed. Raises ValueError when closed, and the errors of opening."""
        index = self._index
        if index is not None and not self._is_closed:
            return index
        with self._lock:
            if self._is_closed:
                raise ValueError("the index is closed")
            if self._index is None:
                self._index = self._load()
            return self._index

    def close(self) -> None:
        """Close the index if it was opened; it cannot be opened again."""
        with self._lock:
            self._is_closed = True
            if self._index is not None:
                self._index.close()
