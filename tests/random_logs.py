"""Random logs that hold batches of every kind."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from engine.coding.compression import CompressionType
from tests import builders
from tests.builders import Rec

PRODUCER = builders.Producer(id=7, epoch=1, sequence=4)


def random_log(chance: Random, records: Callable[[int], list[Rec]]) -> bytes:
    """Batches of every kind: old and new, compressed, transactional, control records, records left over.

    Args:
        chance: what is drawn from.
        records: returns so many records for a batch.
    """
    batches, offset = [], 0
    for _ in range(chance.randint(1, 12)):
        made = records(chance.choice((1, 1, 3, 20)))
        kind = chance.randrange(6)
        if kind == 0:
            made = made[:1]
            batches.append(builders.end_marker(offset, PRODUCER, commit=chance.random() < 0.5))
        elif kind == 1:
            batches += [
                builders.message(offset + place, each.key, each.value, timestamp=each.timestamp)
                for place, each in enumerate(made)
            ]
        else:
            codec = chance.choice((CompressionType.NONE, CompressionType.GZIP))
            count = len(made) + (chance.random() < 0.1)
            owner = PRODUCER if kind < 4 else builders.NO_PRODUCER
            batches.append(
                builders.batch(
                    made, offset, codec, producer=owner, transactional=kind == 2,
                    leader_epoch=chance.randrange(5), record_count=count,
                )
            )  # fmt: skip
        offset += len(made)
    return b"".join(batches)
