"""Attributes that are made when they are first asked for, by one thread."""

from __future__ import annotations

from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any

_making = RLock()

if TYPE_CHECKING:
    made_once = cached_property
else:

    class made_once(cached_property):  # noqa: N801  a decorator, as its base class
        """A cached_property that is thread-safe, also with newer Pythons; a lock is taken only until it is made."""

        def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:  # noqa: ANN401
            """Return the attribute's value."""
            with _making:
                return super().__get__(instance, owner)
