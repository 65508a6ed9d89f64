"""What a consumer makes of fetched batches: records in order, without those of aborted transactions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from engine.cut.moment import Moment
from engine.log.partition_log import PartitionLog
from engine.record.control_records import ControlRecordType, parse_control_key
from engine.record.memory_records import MemoryRecords
from engine.record.record import Record
from kafkafs.api.source_logs import SourceLogs
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.file_slice import FileSlice, Piece
from kafkafs.serve.records.aborted_transactions import Aborted
from kafkafs.serve.records.partition_fetch import (
    DEFAULT_RULES,
    FetchedBatches,
    FetchRules,
    PartitionFetch,
    WantedBatches,
)
from kafkafs.tree.context import TreeOptions


class Consumer:
    """Fetches one partition after another without a network."""

    def __init__(
        self,
        *paths: Path | str,
        rules: FetchRules = DEFAULT_RULES,
        snapshot: bool = False,
        before: int | None = None,
    ) -> None:
        at = None if before is None else Moment(time=before - 1)
        options = TreeOptions(snapshot=snapshot, at=at, schemas=("none",))
        logs = SourceLogs(list(map(str, paths)), options)
        self.cluster = ClusterView(logs)
        self.got: list[Record] = []
        self.fetches = PartitionFetch(self.cluster, rules)

    def log(self, name: str) -> PartitionLog:
        """The log of a partition by the name of its folder."""
        topic, _, number = name.rpartition("-")
        found = self.cluster.log(topic, int(number))
        assert found is not None
        return found

    def fetch(
        self,
        name: str,
        offset: int,
        most: int = 1 << 20,
        *,
        epoch: int = -1,
        committed: bool = False,
        min_one_batch: bool = True,
    ) -> FetchedBatches:
        """One fetch of a partition."""
        topic, _, number = name.rpartition("-")
        return self.fetches.fetch(
            (topic, int(number)),
            WantedBatches(offset, most, epoch),
            1 << 30,
            has_id=False,
            committed=committed,
            min_one_batch=min_one_batch,
        )

    def records(
        self, name: str, start: int | None = None, most: int = 1 << 20, *, committed: bool = False
    ) -> list[Record]:
        """All records of a partition from an offset on, by as many fetches as it takes; damage raises."""
        view = self.log(name).view()
        offset = view.log_start_offset if start is None else start
        end = view.last_stable_offset if committed else view.log_end_offset
        found = self.got = []
        while offset < end:
            answer = self.fetch(name, offset, most, committed=committed)
            if answer.error:
                raise FetchError(answer.error, offset)
            following = consume(answer.pieces, answer.aborted or (), offset, end, found)
            if following == offset:
                break
            offset = following
        return found


class FetchError(Exception):
    """A fetch was answered with an error."""

    def __init__(self, code: ErrorCode, offset: int) -> None:
        super().__init__(code, offset)
        self.code, self.offset = code, offset


def bytes_of(pieces: Sequence[Piece]) -> bytes:
    """The bytes of an answer."""
    return b"".join(
        os.pread(each.file.fd, each.size, each.position) if isinstance(each, FileSlice) else each
        for each in pieces
    )


def consume(
    pieces: Sequence[Piece],
    aborted: Sequence[Aborted],
    offset: int,
    end: int,
    found: list[Record],
) -> int:
    """Adds the records at or above an offset as Kafka's consumer does; returns the next offset."""
    waiting = sorted(aborted, key=lambda each: each.first_offset)
    dropped: set[int] = set()
    for batch in MemoryRecords(bytes_of(pieces)).batches():
        batch.ensure_valid()
        while waiting and waiting[0].first_offset <= batch.last_offset:
            dropped.add(waiting.pop(0).producer_id)
        if batch.is_control:
            first = next(iter(batch.records()), None)
            key = None if first is None or first.key is None else parse_control_key(first.key)
            if key is not None and key.type is ControlRecordType.ABORT:
                dropped.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in dropped):
            found += (each for each in batch.records() if offset <= each.offset < end)
        offset = max(offset, batch.next_offset)
    return offset
