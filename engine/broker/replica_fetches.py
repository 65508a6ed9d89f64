"""Answer the fetch of a follower: batches, or the epoch after which its log differs from the leader's."""

from __future__ import annotations

from typing import NamedTuple

from engine.broker.log.unified_log import UnifiedLog
from engine.errors import OffsetOutOfRangeError
from engine.log.segment.fetch import FetchDataInfo, FetchIsolation
from engine.units import Offset


class LogReadInfo(NamedTuple):
    """Answer to a fetch, with the offsets of the log from before the read.

    They are taken first: batches that are appended meanwhile must not make a follower look late.

    Attributes:
        fetched: batches; none where the logs diverge.
        diverging_epoch: the leader's latest epoch up to the follower's, and its end offset, which the
            follower truncates to; None where the logs agree.
        high_watermark: first offset that may not be on all in-sync replicas.
        log_start_offset: first offset that readers may ask for.
        log_end_offset: offset of the next record.
        last_stable_offset: offset below which every transaction has ended.
    """

    fetched: FetchDataInfo
    diverging_epoch: tuple[int, Offset] | None
    high_watermark: Offset
    log_start_offset: Offset
    log_end_offset: Offset
    last_stable_offset: Offset


def fetch_records(
    log: UnifiedLog,
    fetch_offset: Offset,
    max_bytes: int,
    isolation: FetchIsolation = FetchIsolation.LOG_END,
    *,
    min_one_message: bool = True,
    last_fetched_epoch: int | None = None,
) -> LogReadInfo:
    """Read a log as its leader does for a fetch.

    Args:
        log: log of the leader.
        fetch_offset: first offset.
        max_bytes: most bytes.
        isolation: offset where the reader has to stop.
        min_one_message: return the first batch whole, whatever its size.
        last_fetched_epoch: leader epoch of the last batch in the follower's log; None if it does not say.

    Raises:
        OffsetOutOfRangeError: the log starts above or ends below the offset, or does not know the epoch.
        StateError: the log is closed.
    """
    answer = LogReadInfo(
        FetchDataInfo.empty(fetch_offset),
        None,
        log.high_watermark,
        log.log_start_offset,
        log.log_end_offset,
        log.last_stable_offset,
    )
    if last_fetched_epoch is not None:
        epoch_end = log.leader_epoch_cache.end_offset_for(last_fetched_epoch, log.log_end_offset)
        if epoch_end is None:
            raise OffsetOutOfRangeError(
                f"{log.topic_partition} does not know the leader epoch {last_fetched_epoch}"
            )
        if fetch_offset < answer.log_start_offset:
            raise OffsetOutOfRangeError(
                f"{log.topic_partition} has offsets {answer.log_start_offset} to"
                f" {answer.log_end_offset}, not {fetch_offset}"
            )
        epoch, end_offset = epoch_end
        if epoch < last_fetched_epoch or end_offset < fetch_offset:
            return answer._replace(diverging_epoch=epoch_end)
    fetched = log.read(fetch_offset, max_bytes, isolation, min_one_message=min_one_message)
    return answer._replace(fetched=fetched)
