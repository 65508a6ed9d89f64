"""Batches whose compressed frames kafkafs reads and Kafka's consumers refuse."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.check.rules.breach import Breach
from engine.coding.refused_frames import HEADER_BYTES, SUSPECT, refusal
from engine.log.segment.scan import BatchRun
from engine.record.attributes import COMPRESSION_MASK
from engine.record.batch_frame import HEADER

_LEAST = HEADER.size + 8
"""Bytes of a batch with the start of a frame."""


def refused_breaches(run: BatchRun) -> Iterator[Breach]:
    """Yield a breach for each batch of magic 2 that Kafka's consumers cannot decompress."""
    table = run.table
    codecs = table["attributes"] & COMPRESSION_MASK
    is_compressed = (codecs != 0) & (table["magic"] == 2) & (table["size"] > _LEAST)
    if not is_compressed.any():
        return
    data = np.frombuffer(run.buffer, np.uint8)
    for codec, (place, mask, value) in SUSPECT.items():
        rows = (is_compressed & (codecs == codec)).nonzero()[0]
        starts = table["position"][rows] - run.start_position + HEADER.size
        for number in (data[starts + place] & mask == value).nonzero()[0]:
            batch, start = table[rows[number]], int(starts[number])
            end = start + min(int(batch["size"]) - HEADER.size, HEADER_BYTES)
            reason = refusal(codec, run.buffer[start:end])
            if reason:
                sentence = f"Kafka refuses the batch at byte {batch['position']}: {reason}"
                yield Breach.of("records-refused", batch, sentence)
