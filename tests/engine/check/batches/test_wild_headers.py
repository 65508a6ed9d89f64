"""Batches whose checksums are right and whose headers say anything: findings, never an error or a warning of numpy."""

from __future__ import annotations

import json
import os
import random
import struct
from pathlib import Path

import pytest

from engine.coding.compression import CompressionType
from tests.builders import Producer, any_batch, batch, end_marker, patched, resealed
from tests.engine.check.logs import keyed, look, numbered, plain

ROUNDS = int(os.environ.get("KAFKAFS_WILD_HEADERS") or 40)
FIELDS = (
    (">q", 0), (">i", 8), (">i", 12), (">b", 16), (">h", 21), (">i", 23), (">q", 27), (">q", 35), (">q", 43),
    (">h", 51), (">i", 53), (">i", 57),
)  # fmt: skip
VALUES = (
    *(0, 1, -1, 2, 5, -5, 7, 127, 255, 2**15 - 1, -(2**15), 2**31 - 2, 2**31 - 1, -(2**31)),
    *(2**40, 2**62, 2**63 - 2, 2**63 - 1, -(2**63)),
)


def wild(chosen: random.Random, base: int) -> bytes:
    """A batch of any kind with up to three fields of any value, and its checksum made right."""
    producer = Producer(id=7, epoch=0, sequence=base)
    made = chosen.choice(
        [
            lambda: numbered(base, base),
            lambda: plain(base),
            lambda: end_marker(base, producer, commit=True),
            lambda: batch(
                keyed(base), base, CompressionType.ZSTD, producer=producer, transactional=True
            ),
            lambda: any_batch(keyed(base, base + 1), base, CompressionType.GZIP, magic=1),
        ]
    )()
    for _ in range(chosen.randrange(4)):
        form, at = chosen.choice(FIELDS)
        size = struct.calcsize(form)
        value = chosen.choice(VALUES) % 2 ** (8 * size)
        if at + size <= len(made):
            made = patched(made, at, value.to_bytes(size, "big"))
    return resealed(made) if made[16] <= 2 else made


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_whatever_headers_say_is_a_finding_in_json(seed: int, tmp_path: Path) -> None:
    chosen = random.Random(seed)
    folder = tmp_path / "t-0"
    folder.mkdir()
    batches = [wild(chosen, base) for base in range(0, 5 * chosen.randrange(2, 8), 5)]
    cut = chosen.randrange(len(batches) + 1)
    (folder / f"{0:020}.log").write_bytes(b"".join(batches[:cut]))
    (folder / f"{cut * 5:020}.log").write_bytes(b"".join(batches[cut:]))
    findings, (summary,) = look(folder)
    for finding in findings:
        assert json.loads(json.dumps(finding.to_json()))["rule"] == finding.rule
    for hole in summary.holes:
        assert hole.length > 0
        json.dumps(hole.to_json())
