"""`override` of Python 3.12 for 3.11: the method implements one of a base class, and inherits its docstring."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

__all__ = ["override"]

if TYPE_CHECKING:
    from typing_extensions import override
else:
    Method = TypeVar("Method")

    def override(method: Method) -> Method:
        """Return the method unchanged; type checkers compare it with the base class's."""
        return method
