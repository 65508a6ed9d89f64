"""Keeps commits in memory, and in the file of `--commit-to` before clients are told."""

from __future__ import annotations

import logging

import trio

from kafkafs.serve.coordinator.commits.commit_file import CommitFile, CommitFileError
from kafkafs.serve.coordinator.commits.newest import Commits, CommitsOfGroup
from kafkafs.serve.error_codes import ErrorCode

logger = logging.getLogger(__name__)


class _Batch:
    """Commits that are written together, and how that went."""

    def __init__(self) -> None:
        self.items: list[tuple[str, CommitsOfGroup]] = []
        self.error = ErrorCode.NONE


class CommitStore:
    """Takes commits; those that come while others are written are written together.

    Args:
        commits: the commits in memory.
        file: the file; None to keep them in memory alone.

    Raises:
        CommitFileError: the file has more commits than the server may hold.
    """

    def __init__(self, commits: Commits, file: CommitFile | None) -> None:
        self._commits = commits
        self._file = file
        self._batch = _Batch()
        self._writing = trio.Lock()
        if file is not None:
            for group_id, found in file.commits.items():
                if not commits.has_room(group_id, found):
                    raise CommitFileError(f"{file.path} has more commits than the server may hold")
                commits.put(group_id, found)
            file.commits = {}

    async def keep(self, group_id: str, found: CommitsOfGroup) -> ErrorCode:
        """Keep commits of a group; return why they cannot be kept, or NONE."""
        if not self._commits.has_room(group_id, found):
            return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        if self._file is None:
            self._commits.put(group_id, found)
            return ErrorCode.NONE
        batch = self._batch
        batch.items.append((group_id, found))
        async with self._writing:
            if batch is self._batch:
                self._batch = _Batch()
                batch.error = await self._write(self._file, batch)
        return batch.error

    async def _write(self, file: CommitFile, batch: _Batch) -> ErrorCode:
        try:
            await trio.to_thread.run_sync(file.append, batch.items)
        except OSError as error:
            logger.error("%s: commits are refused: %s", file.path, error.strerror or error)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        for group_id, found in batch.items:
            self._commits.put(group_id, found)
        if file.is_outdated:
            try:
                await trio.to_thread.run_sync(file.rewrite, self._commits.all())
            except OSError as error:
                logger.warning(
                    "%s grows: it cannot be rewritten: %s", file.path, error.strerror or error
                )
        return ErrorCode.NONE
