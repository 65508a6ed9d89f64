"""The fate of a transaction, as record lines show it."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias

from engine.arrays import np, npt

Fates: TypeAlias = "npt.NDArray[np.uint8] | None"
"""Fate of the transaction of each batch of a table; None if none is transactional."""


class Fate(IntEnum):
    """End of a batch's transaction; the compiled kernel uses these numbers."""

    NONE = 0
    """The batch belongs to no transaction, or its fate was not looked up."""
    COMMITTED = 1
    ABORTED = 2
    OPEN = 3


STATES = (None, *(fate.name.lower() for fate in list(Fate)[1:]))
"""Names of the fates by their numbers; None for no transaction."""
