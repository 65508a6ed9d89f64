"""Options of a dump, those of DumpLogSegments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.topics.topic_names import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    REMOTE_LOG_METADATA,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from engine.units import MAX_INT32

if TYPE_CHECKING:
    from kafkafs.masking.policy import MaskPolicy
    from kafkafs.schemas.sources.known_schemas import KnownSchemas

DEFAULT_MESSAGE_SIZE = 5 * 1024 * 1024
DECODERS = {
    "offsets-decoder": CONSUMER_OFFSETS,
    "transaction-log-decoder": TRANSACTION_STATE,
    "cluster-metadata-decoder": CLUSTER_METADATA,
    "remote-log-metadata-decoder": REMOTE_LOG_METADATA,
    "share-group-state-decoder": SHARE_GROUP_STATE,
}
"""Decoder options, and the internal topic of each; the first one that is given wins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOptions:
    """Options of a dump.

    Attributes:
        print_data_log: show keys and payloads; `decoder` implies it.
        deep_iteration: show records; `print_data_log` implies it.
        skip_record_metadata: show only key and payload of a record.
        decoder: internal topic to decode records as; None for none.
        schemas: schemas to decode keys and values with, in JSON lines; None for none.
        mask: what records leave out, in JSON lines; None for nothing.
        verify_index_only: check the entries of indexes, and do not print them.
        index_sanity_check: check only the size and the last entry of indexes, as brokers once did at start.
        max_bytes: bytes to read of each log.
        max_message_size: largest batch, in bytes, that an index entry may point to.
        budgets: limits on memory and entries.
    """

    print_data_log: bool = False
    deep_iteration: bool = False
    skip_record_metadata: bool = False
    decoder: str | None = None
    schemas: KnownSchemas | None = None
    mask: MaskPolicy | None = None
    verify_index_only: bool = False
    index_sanity_check: bool = False
    max_bytes: int = MAX_INT32
    max_message_size: int = DEFAULT_MESSAGE_SIZE
    budgets: Budgets = DEFAULT_BUDGETS

    @property
    def prints_contents(self) -> bool:
        """Whether keys and payloads are shown."""
        return self.print_data_log or self.decoder is not None

    @property
    def is_deep(self) -> bool:
        """Whether records are shown."""
        return self.deep_iteration or self.prints_contents

    @property
    def is_partial(self) -> bool:
        """Whether `max_bytes` is set; bytes after that limit are then not reported."""
        return self.max_bytes != MAX_INT32
