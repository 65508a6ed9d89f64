"""The faces of kafkafs that show records: which of them differ from a bulk read of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kafkafs
from engine.record.record import Record
from tests.damage.split_soak import read
from tests.damage.survey import survey
from tests.kafkafs.serve.consumed import Consumer, consume


def differences_of_faces(folder: Path, name: str, records: dict[int, bytes]) -> Iterator[str]:
    """What faces show otherwise than the engine in bulk.

    Args:
        folder: a log dir.
        name: its partition.
        records: values by offset.
    """
    found = survey(str(folder), suspects=())
    for line in found.wrong:
        yield f"tree: {line}"
    yield from _differs("records/", found.offsets(name), records)
    topic, _, number = name.rpartition("-")
    opened = kafkafs.open(str(folder))
    partition = opened[topic][int(number)]
    rows = [(each.offset, each.value) for each in partition.records(on_corrupt="skip")]
    yield from _differs("Python", [offset for offset, _ in rows], records)
    if any(records.get(offset) != value for offset, value in rows):
        yield "Python: other values"
    source: Any = SimpleNamespace(log_dir=folder, name=name)
    for size in ("1k", "20k"):
        seen = read(source, size, onCorrupt="skip", failOnDataLoss="false").records
        yield from _differs(f"splits of {size}", [each.offset for each in seen], records)
        if any(records.get(each.offset) != each.value for each in seen):
            yield f"splits of {size}: other values"
    yield from _differs("serve", list(_fetched(folder, name, sorted(records))), records)


def _differs(face: str, offsets: list[int], records: dict[int, bytes]) -> Iterator[str]:
    if offsets != sorted(records):
        lost = sorted(records.keys() - set(offsets))
        more = [each for each in offsets if each not in records]
        yield f"{face}: {len(offsets)} records, lost {lost[:9]}, more {more[:9]}"


def _fetched(folder: Path, name: str, offsets: list[int]) -> Iterator[int]:
    """What a consumer gets that seeks to the next record wherever a fetch gives nothing."""
    consumer = Consumer(folder)
    end = consumer.log(name).view().log_end_offset
    following = 0
    for offset in offsets:
        if offset < following:
            continue
        answer = consumer.fetch(name, offset)
        records: list[Record] = []
        consume(answer.pieces, (), offset, end, records)
        yield from (each.offset for each in records)
        following = max([offset, *(each.offset for each in records)]) + 1
