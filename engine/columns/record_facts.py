"""Facts about the records of one batch, for an append."""

from __future__ import annotations

from engine.arrays import np
from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.coding.layout import Buffer
from engine.coding.varint import to_int64
from engine.columns.batch_summary import AppendFacts, summary_of
from engine.columns.batch_table import BATCH_ROW
from engine.columns.decoding import Decoder
from engine.record.attributes import COMPRESSION_MASK
from engine.record.batch_frame import CURRENT_MAGIC, HEADER, LOG_OVERHEAD


def record_facts(batch: Buffer, *, budgets: Budgets = DEFAULT_BUDGETS) -> AppendFacts | None:
    """Return facts about the records of a batch of magic 2.

    None for a batch without records, of another magic or size, or that does not decode. The
    checksum is not compared.
    """
    if not HEADER.size <= len(batch) <= budgets.batch_bytes:
        return None
    header = HEADER.unpack(batch)
    is_whole = header.length + LOG_OVERHEAD == len(batch)
    if header.magic != CURRENT_MAGIC or not is_whole or header.record_count <= 0:
        return None
    table = np.zeros(1, BATCH_ROW.dtype)
    same = ("base_offset", "base_timestamp", "max_timestamp", "base_sequence", "record_count")
    for name in (*same, "attributes", "magic"):
        table[name] = getattr(header, name)
    table["last_offset"] = to_int64(header.base_offset + header.last_offset_delta)
    table["size"] = len(batch)
    decoder = Decoder(batch, table, 0, budgets, copy=False)
    decoder.decode(0)
    if decoder.problems:
        return None
    first, last, low, high, _, count, without_key, descents, _ = summary_of(
        decoder.records, len(decoder.arena)
    )
    is_packed = header.attributes & COMPRESSION_MASK
    size = len(decoder.arena) if is_packed else len(batch) - HEADER.size
    return AppendFacts(count, first, last, low, high, without_key, descents, size)
