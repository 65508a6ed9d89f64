"""Choose, among the good batches of a file, those that are in their place.

A block of another place of the log, or of another log, holds whole batches with right checksums; a bit in a base
offset, which no checksum covers, moves a batch. In both cases offsets go back somewhere in the file. In their place
are the batches of the chain: ascending offsets that do not overlap, in file order, with the most records. Of chains
with equally many, the one counts with the most batches that continue a neighbour in the file. A batch that continues
none, and would, or would be continued, if one bit of its base offset were another, was hit there: its records do not
count.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from engine.arrays import np, npt
from engine.columns.batch_table import Table
from engine.log.segment.scan import BatchRun
from engine.record.attributes import COMPRESSION_MASK
from engine.units import MAX_INT64, Offset

MOST_GROUPS = 1 << 16
"""Groups of batches that are compared with each other; of more, the first ones are decided without the last."""
_KEPT_BACK = 8
"""The last eighth of the groups that are compared is not decided before those after it are known."""


class Ranges(NamedTuple):
    """Batches in file order, as columns of 64-bit numbers.

    Attributes:
        base, last: first and last offsets.
        records: numbers of records.
        starts, ends: their places in the file.
    """

    base: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]
    records: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @classmethod
    def of(cls, table: Table) -> Ranges:
        """Return the columns of a batch table."""
        names = ("base_offset", "last_offset", "record_count", "position", "size")
        base, last, records, starts, sizes = (table[name].astype(np.int64) for name in names)
        # A message of magic 0 or 1 states no count: it is one record.
        return cls(base, last, np.where(records < 0, 1, records), starts, starts + sizes)

    def part(self, rows: npt.NDArray[np.intp] | slice) -> Ranges:
        """Return some of the batches."""
        return Ranges(*(column[rows] for column in self))


def in_chain(batches: Ranges, expected: Offset) -> npt.NDArray[np.bool_]:
    """Return which batches are in their place; time and memory are about linear in their number.

    Args:
        batches: the batches.
        expected: the smallest offset that belongs at their start.
    """
    base, last = batches.base, batches.last
    chosen = base >= expected
    before = np.maximum.accumulate(np.concatenate(([expected - 1], last)))[:-1]
    after = np.minimum.accumulate(np.concatenate((base, [MAX_INT64]))[::-1])[::-1][1:]
    contested = np.flatnonzero(chosen & ((base <= before) | (last >= after)))
    if not len(contested):
        return chosen
    fits, is_hit = (found[contested] for found in _neighbours(batches, expected))
    batches = batches.part(contested)
    firsts = _firsts_of_groups(batches)
    stops = np.append(firsts[1:], len(contested))
    groups = batches.part(firsts)._replace(last=batches.last[stops - 1])
    # Of chains with as many records, the one with more batches that fit, then the one with more batches.
    more = 2 * len(contested) + 1
    records = np.add.reduceat(np.where(is_hit, 0, batches.records), firsts).tolist()
    fitting = np.add.reduceat(1 + fits, firsts).tolist()
    weights = [one * more + other for one, other in zip(records, fitting, strict=True)]
    chosen[contested] = False
    first, is_chosen = 0, np.zeros(len(firsts), np.bool_)
    while first < len(firsts):
        stop = min(first + MOST_GROUPS, len(firsts))
        rows = np.arange(first, stop)
        rows = rows[groups.base[rows] >= expected]
        chain = rows[heaviest_chain(groups.part(rows), [weights[row] for row in rows.tolist()])]
        first = stop if stop == len(firsts) else stop - MOST_GROUPS // _KEPT_BACK
        chain = chain[chain < first]
        is_chosen[chain] = True
        if len(chain):
            expected = int(groups.last[chain[-1]]) + 1
    chosen[contested[np.repeat(is_chosen, stops - firsts)]] = True
    return chosen


def _firsts_of_groups(batches: Ranges) -> npt.NDArray[np.intp]:
    """Return the first batch of each group: batches in a row between whose offsets no other batch begins or ends."""
    base, last = batches.base, batches.last
    rows = np.arange(len(base))
    goes_back = np.concatenate(([True], base[1:] <= last[:-1]))
    own = rows - np.maximum.accumulate(np.where(goes_back, rows, 0))
    edges = np.sort(np.concatenate((base, last + 1)))
    others = np.searchsorted(edges, base, "right") - (2 * own + 1)
    is_first = goes_back | np.concatenate(([True], others[1:] != others[:-1]))
    return np.flatnonzero(is_first)


def _neighbours(
    batches: Ranges, expected: Offset
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which batches continue a neighbour in the file or are continued by one, and which were hit by a bit."""
    base, last, _, starts, ends = batches
    touches = starts == np.concatenate(([0], ends[:-1]))
    before = np.concatenate(([expected], last[:-1] + 1))
    links = touches & (base == before)
    fits = links | np.append(links[1:], False)
    # Where damage hides what a batch continues, the one behind it, which it reaches, tells.
    after = np.append(base[1:], MAX_INT64)
    reaches = ~touches & np.append(touches[1:], False) & (last >= after)
    is_hit = touches & _differ_in_a_bit(base, before)
    is_hit |= reaches & _differ_in_a_bit(base, after - (last - base + 1))
    return fits, ~fits & is_hit


def _differ_in_a_bit(
    one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    bits = one ^ other
    is_one: npt.NDArray[np.bool_] = bits & (bits - 1) == 0
    return is_one


def heaviest_chain(batches: Ranges, weights: Sequence[int]) -> list[int]:
    """Return the rows with ascending offsets that do not overlap and have the largest sum of weights."""
    ends: list[Offset] = []  # ascending, as are the sums
    sums: list[int] = []
    tips: list[int] = []
    before = [-1] * len(weights)
    columns = (batches.base.tolist(), batches.last.tolist(), weights)
    for row, (base, last, own) in enumerate(zip(*columns, strict=True)):
        at = bisect_left(ends, base) - 1
        weight = own + (sums[at] if at >= 0 else 0)
        before[row] = tips[at] if at >= 0 else -1
        place = bisect_right(ends, last)
        if place and sums[place - 1] >= weight:
            continue
        stop = place
        while stop < len(ends) and sums[stop] <= weight:
            stop += 1
        if place and ends[place - 1] == last:
            place -= 1
        ends[place:stop] = [last]
        sums[place:stop] = [weight]
        tips[place:stop] = [row]
    chain: list[int] = []
    row = tips[-1] if tips else -1
    while row >= 0:
        chain.append(row)
        row = before[row]
    return chain[::-1]


def with_wrappers_opened(run: BatchRun) -> BatchRun:
    """Return the run with the base offset and record count of each wrapper (compressed message of magic 0 or 1).

    A wrapper's header has only the offset of its last record.
    """
    table = run.table
    wrappers = np.flatnonzero((table["magic"] < 2) & (table["attributes"] & COMPRESSION_MASK != 0))
    if not len(wrappers):
        return run
    table = table.copy()
    for columns in run.columns(table[wrappers]):
        rows = columns.table["row"]
        if not len(rows):
            continue
        firsts = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
        counts = np.diff(np.append(firsts, len(rows)))
        base, rows = columns.offset[firsts], rows[firsts]
        places = wrappers[rows]
        good = ~np.isin(rows, [problem.row for problem in columns.problems])
        good &= (base >= 0) & (base <= table["base_offset"][places])
        table["base_offset"][places[good]] = base[good]
        table["record_count"][places[good]] = counts[good]
        del columns  # free its bytes before more are decoded
    return run.with_table(table)
