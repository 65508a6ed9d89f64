"""Which batches a reader does not see: the one rule of record lines, tables, objects, files and searches."""

from __future__ import annotations

from engine.arrays import np, npt
from engine.columns.batch_table import Table, holds_control
from engine.record.fate import Fate, Fates
from engine.units import Offset


def left_out(
    rows: Table,
    fates: Fates | int,
    start: Offset,
    stop: Offset,
    *,
    committed: bool,
    control: bool,
) -> npt.NDArray[np.bool_]:
    """Return which batches have no record that a reader sees.

    A header of magic 0 or 1 does not state its first offset, and of a header that contradicts itself the records decide.

    Args:
        rows: rows of BATCH_ROW, or a single one.
        fates: fates of the batches; of a single row its fate.
        start, stop: only records at offsets [start, stop) are seen.
        committed: whether records of aborted and of open transactions are not seen.
        control: whether control records are seen.
    """
    base, last = rows["base_offset"], rows["last_offset"]
    found: npt.NDArray[np.bool_] = (last < start) | ((rows["magic"] >= 2) & (base >= stop))
    found &= last >= base
    if not control:
        found |= holds_control(rows)
    if committed and fates is not None:
        found |= (fates == Fate.ABORTED) | (fates == Fate.OPEN)
    return found
