"""The fate of a transaction, as record lines show it."""

from __future__ import annotations

from enum import IntEnum


class Fate(IntEnum):
    """End of a batch's transaction; the compiled kernel uses these numbers."""

    NONE = 0
    """The batch belongs to no transaction, or its fate was not looked up."""
    COMMITTED = 1
    ABORTED = 2
    OPEN = 3
