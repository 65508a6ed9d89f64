"""What a dump shows, as DumpLogSegments' options have it."""

from __future__ import annotations

from dataclasses import dataclass

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.topics.topic_names import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    REMOTE_LOG_METADATA,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from engine.units import MAX_INT32

DEFAULT_MESSAGE_SIZE = 5 * 1024 * 1024
DECODERS = {
    "offsets-decoder": CONSUMER_OFFSETS,
    "transaction-log-decoder": TRANSACTION_STATE,
    "cluster-metadata-decoder": CLUSTER_METADATA,
    "remote-log-metadata-decoder": REMOTE_LOG_METADATA,
    "share-group-state-decoder": SHARE_GROUP_STATE,
}
"""The options that decode an internal topic, the first that is given wins; and that topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOptions:
    """What to show.

    Attributes:
        print_data_log: keys and payloads; `decoder` implies it.
        deep_iteration: records; `print_data_log` implies it.
        skip_record_metadata: of a record only its key and payload.
        decoder: the internal topic to decode records as, None for none.
        verify_index_only: check the entries of indexes, do not print them.
        index_sanity_check: check indexes as a broker's start once did, look at no entry.
        max_bytes: how much of each log is read.
        max_message_size: how large a batch may be that an index entry leads to.
        budgets: for what is read.
    """

    print_data_log: bool = False
    deep_iteration: bool = False
    skip_record_metadata: bool = False
    decoder: str | None = None
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
        """Whether `max_bytes` was set: what follows is then nothing to speak of."""
        return self.max_bytes != MAX_INT32
