"""Load and close all logs of several log dirs, in a few threads for each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from engine.broker.log_dirs.log_dir import LogDir, read_offsets
from engine.errors import LogDirFailureError
from engine.units import Offset, TopicPartition
from engine.writing.log_dir_failures import LogDirFailureChannel

logger = logging.getLogger(__name__)

T = TypeVar("T")


class FolderToLoad(NamedTuple):
    """A log's folder, with its offsets in the log dir's checkpoints."""

    path: str
    log_dir: LogDir
    recovery_points: Mapping[TopicPartition, Offset]
    log_start_offsets: Mapping[TopicPartition, Offset]
    high_watermarks: Mapping[TopicPartition, Offset]


def load_folders(
    log_dirs: Iterable[LogDir],
    load: Callable[[FolderToLoad], object],
    threads: int,
    channel: LogDirFailureChannel,
) -> None:
    """Load each log of each log dir; a log dir with an I/O error goes offline, and the others go on.

    Args:
        log_dirs: usable log dirs.
        load: called for each folder, in threads.
        threads: for each log dir.
        channel: receives the I/O errors.

    Raises:
        InvalidNameError: a folder has a name that no broker gives; nothing was loaded or changed.
        Exception: another error of the first failed `load`, raised after all others were done.
    """
    found: list[tuple[LogDir, list[str]]] = []
    for log_dir in log_dirs:
        try:
            found.append((log_dir, log_dir.log_folders()))
        except OSError as error:
            report(channel, log_dir.path, "cannot list its logs", error)
    jobs = {}
    pools = []
    try:
        for log_dir, folders in found:
            pool = ThreadPoolExecutor(threads, thread_name_prefix=f"log-recovery-{log_dir.path}")
            pools.append(pool)
            try:
                to_load = _prepare(log_dir, folders)
            except OSError as error:
                report(channel, log_dir.path, "cannot begin to load its logs", error)
                continue
            jobs[log_dir] = [pool.submit(load, each) for each in to_load]
        failures = []
        for log_dir, futures in jobs.items():
            errors = _errors(futures)
            log_dir.is_loaded = not errors
            failures += [each for each in errors if not _is_reported(each, log_dir, channel)]
    finally:
        for pool in pools:
            pool.shutdown()
    if failures:
        raise failures[0]


def run_for_each(
    log_dirs: Mapping[LogDir, Iterable[T]], action: Callable[[T], object], threads: int
) -> dict[LogDir, list[BaseException]]:
    """Run an action for each log of each log dir, in threads; return the errors of each log dir."""
    pools: list[ThreadPoolExecutor] = []
    jobs: dict[LogDir, list[Future[object]]] = {}
    try:
        for log_dir, logs in log_dirs.items():
            pools.append(ThreadPoolExecutor(threads, thread_name_prefix=f"logs-{log_dir.path}"))
            jobs[log_dir] = [pools[-1].submit(action, each) for each in logs]
        return {log_dir: _errors(futures) for log_dir, futures in jobs.items()}
    finally:
        for pool in pools:
            pool.shutdown()


def report(channel: LogDirFailureChannel, log_dir: str, what: str, error: OSError) -> None:
    """Take a log dir offline after an I/O error; `what` says what failed."""
    channel.maybe_add_offline_log_dir(log_dir, f"the log dir {log_dir} {what}: {error}", error)


def _errors(futures: Iterable[Future[object]]) -> list[BaseException]:
    return [error for future in futures if (error := future.exception()) is not None]


def _prepare(log_dir: LogDir, folders: list[str]) -> list[FolderToLoad]:
    log_dir.begin_loading()
    if folders:
        state = "was closed properly" if log_dir.had_clean_shutdown else "needs recovery"
        logger.info("%s with %d logs %s", log_dir.path, len(folders), state)
    checkpoints = (log_dir.recovery_points, log_dir.log_start_offsets, log_dir.high_watermarks)
    offsets = [read_offsets(each) for each in checkpoints]
    return [FolderToLoad(path, log_dir, *offsets) for path in folders]


def _is_reported(error: BaseException, log_dir: LogDir, channel: LogDirFailureChannel) -> bool:
    """Return whether an error is an I/O error; it takes the log dir offline."""
    if not isinstance(error, OSError):
        return False
    if not isinstance(error, LogDirFailureError):
        report(channel, log_dir.path, "cannot load a log", error)
    return True
