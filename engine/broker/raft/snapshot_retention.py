"""Delete old snapshots of a metadata log, and the records before the next snapshot."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise

from engine.broker.log.unified_log import UnifiedLog
from engine.broker.raft.raft_snapshot import SnapshotId
from engine.broker.raft.snapshot_store import SnapshotStore


class SnapshotRetention:
    """Retention of a metadata log: by size and age of its snapshots. Safe from several threads.

    Args:
        log: log with the records.
        snapshots: its snapshots.
        retention_size: most bytes of log and snapshots together; negative for no limit.
        retention_ms: largest age of a snapshot in milliseconds; negative for no limit.
    """

    def __init__(
        self, log: UnifiedLog, snapshots: SnapshotStore, retention_size: int, retention_ms: int
    ) -> None:
        self._log = log
        self._snapshots = snapshots
        self._retention_size = retention_size
        self._retention_ms = retention_ms
        self._lock = threading.RLock()

    def delete_before(self, snapshot_id: SnapshotId, reason: str = "it was asked for") -> bool:
        """Raise the log start to the end of a snapshot; delete older segments and snapshots.

        Returns:
            whether anything was deleted.
        """
        with self._lock:
            latest = self._snapshots.latest
            if (
                latest is None
                or snapshot_id not in self._snapshots
                or not self._log.log_start_offset < snapshot_id.offset <= latest.offset
                or not self._log.maybe_increment_log_start_offset(
                    snapshot_id.offset, "a snapshot was generated"
                )
            ):
                return False
            segments = self._log.delete_old_segments()
            snapshots = self._snapshots.delete_before(snapshot_id, reason)
            return bool(segments or snapshots)

    def maybe_clean(self) -> bool:
        """Delete the oldest snapshots while log and snapshots are too large, or the snapshots too old.

        The newest always stays. Returns whether anything was deleted.
        """
        with self._lock:
            by_size = self._clean_by_size() if self._retention_size >= 0 else False
            by_age = self._clean_by_age() if self._retention_ms >= 0 else False
            return by_size or by_age

    def _clean_by_size(self) -> bool:
        sizes = self._snapshots.sizes()
        total = sum(sizes.values())

        def reason_to_delete(snapshot_id: SnapshotId) -> str | None:
            nonlocal total
            if snapshot_id not in sizes or self._log.size + total <= self._retention_size:
                return None
            reason = f"log ({self._log.size} bytes) and snapshots ({total} bytes) are too large"
            total -= sizes[snapshot_id]
            return reason

        return self._clean(reason_to_delete)

    def _clean_by_age(self) -> bool:
        def reason_to_delete(snapshot_id: SnapshotId) -> str | None:
            timestamp = self._snapshots.last_timestamp(snapshot_id)
            now = self._log.log_folder.clock.now_ms()
            if timestamp is None or now - timestamp <= self._retention_ms:
                return None
            return f"its last record is of {timestamp}, which is too old at {now}"

        return self._clean(reason_to_delete)

    def _clean(self, reason_to_delete: Callable[[SnapshotId], str | None]) -> bool:
        """Delete snapshots from the oldest on, never the newest, up to the first without a reason."""
        cleaned = False
        for oldest, following in pairwise(self._snapshots.ids()):
            reason = reason_to_delete(oldest)
            if reason is None or not self.delete_before(following, reason):
                break
            cleaned = True
        return cleaned
