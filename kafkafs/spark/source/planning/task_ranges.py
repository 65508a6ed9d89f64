"""Division of ranges for minPartitions and maxRecordsPerPartition."""

from __future__ import annotations

import math

from kafkafs.spark.source.options.read_options import ReadOptions
from kafkafs.table.splits.split import QueryRange


def split_ranges(ranges: list[QueryRange], options: ReadOptions) -> list[QueryRange]:
    """Divide ranges for minPartitions and maxRecordsPerPartition, by the connector's arithmetic."""
    minimum, most = options.min_partitions, options.max_records_per_partition
    if most is not None:
        ranges = [piece for each in ranges for piece in _divided(each, math.ceil(each.size / most))]
    if minimum is None or minimum <= len(ranges):
        return ranges
    total = sum(each.size for each in ranges)
    small = [each for each in ranges if _pieces_of(each.size, total, minimum) == 1]
    rest = total - sum(each.size for each in small)
    share = max(minimum - len(small), 1)
    return [
        piece
        for each in ranges
        for piece in _divided(each, 1 if each in small else _pieces_of(each.size, rest, share))
    ]


def _pieces_of(size: int, total: int, minimum: int) -> int:
    return max(math.floor(size / max(total, 1) * minimum + 0.5), 1)


def _divided(whole: QueryRange, pieces: int) -> list[QueryRange]:
    if not whole.size:  # damage at the log end
        return [whole]
    found = []
    start, left = whole.start, whole.size
    for number in range(pieces):
        size = left // (pieces - number)
        left -= size
        stop = min(start + size, whole.stop)
        if stop > start:
            found.append(
                QueryRange(
                    whole.partition,
                    start,
                    stop,
                    is_first=whole.is_first and start == whole.start,
                    is_last=whole.is_last and stop == whole.stop,
                )
            )
        start = stop
    return found
