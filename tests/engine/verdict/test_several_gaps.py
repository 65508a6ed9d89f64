"""Each gap of a log has its own cause."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from engine.log.log_directory import open_source
from engine.log.segment.scan import Damage
from engine.verdict.log_losses import losses_of
from tests.builders import Producer, Rec, batch, write_segment


def numbered(base: int, sequence: int) -> bytes:
    """Two records of a producer."""
    records = [Rec(b"value", b"%d" % (base + index)) for index in range(2)]
    return batch(records, base, producer=Producer(id=7, epoch=0, sequence=sequence))


def test_a_producer_that_numbered_missing_records_proves_one_gap_and_not_those_beside_it(
    tmp_path: Path,
) -> None:
    plain = [batch([Rec(b"value", b"%d" % base)], base) for base in (0, 5, 30, 40)]
    batches = [*plain[:2], numbered(10, 0), numbered(15, 5), *plain[2:]]
    write_segment(tmp_path / "orders-0", batches)
    with closing(open_source([str(tmp_path)])) as source:
        view = source.partitions()["orders-0"].view()
        (segment,) = view.segments
        found = [
            (item.first_offset, item.last_offset)
            for item in losses_of(view).read(segment, segment.scan(0), 0, segment.size, None)
            if isinstance(item, Damage)
        ]
    assert found == [(12, 14)]
