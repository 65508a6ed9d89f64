"""One mount and the process that serves it, from libfuse's mount to the end.

An unmount, SIGTERM or SIGINT end it with exit status 0; the signals also unmount, and a second one does not wait.
After a crash the mount stays, dead, so that the empty folder below is not mistaken for the data.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from importlib import import_module

import pyfuse3
import trio

from engine.errors import KafkaStorageError
from kafkafs.exit_codes import EXIT_CANNOT_READ, EXIT_CRASHED
from kafkafs.fuse.daemon_log import logger
from kafkafs.fuse.forgetting import Forgetting
from kafkafs.fuse.inode_table import InodeRecord
from kafkafs.fuse.open_files import store_bytes
from kafkafs.fuse.operations import Operations
from kafkafs.fuse.pyfuse3_patches import fast_loop
from kafkafs.fuse.slow_work import SlowWork
from kafkafs.mount import mounting
from kafkafs.mount.background import StartReport
from kafkafs.mount.log_tree import LogTree
from kafkafs.mount.mount_table import mount_at
from kafkafs.mount.mounting import MountError, MountOptions
from kafkafs.mount.problem_log import ProblemLog
from kafkafs.mount.service_manager import notify
from kafkafs.mount.status import DaemonStatus

SNAPSHOT_SECONDS = 3600.0
STOP_SECONDS = 2.0
"""Seconds that requests being served may take after a stop."""
TRIM_SECONDS = 0.5
TRIM_AT_ONCE = 20_000
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Session:
    """A tree on a mountpoint; `run` once. libfuse's session is global, so there is one per process."""

    def __init__(
        self,
        paths: Sequence[str],
        mountpoint: str,
        options: MountOptions,
        served: LogTree,
        status: DaemonStatus,
        report: StartReport,
    ) -> None:
        self._paths = paths
        self._mountpoint = mountpoint
        self._options = options
        self._served = served
        self._status = status
        self._report = report
        self._slow = SlowWork(workers=options.workers, read_timeout=options.read_timeout)
        self._operations = Operations(
            served.root(),
            self._slow,
            usage=served.usage,
            ttl=options.attr_timeout,
            negative_ttl=SNAPSHOT_SECONDS if options.snapshot else 0.0,
            plus_entries=options.plus_entries,
            store=store_bytes,
        )
        self._loop: fast_loop.RequestLoop = fast_loop.StockLoop()
        self._stopping = False
        self._ready = False
        self._trimming = False

    def run(self) -> int:
        """Mount and serve until the end; return the exit status."""
        # A signal between the mount and the receiver would end the process and leave the mount behind.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            self._mount()
        except MountError as error:
            self._report.failed(str(error), EXIT_CANNOT_READ)
            return EXIT_CANNOT_READ
        self._loop = choose_loop(self._options.loop)
        reason = getattr(self._loop, "reason", "")
        self._status.attach(self._operations, self._served.facts, self._loop.name, reason)
        gc.collect()
        gc.freeze()
        try:
            trio.run(self._main)
        except BaseException as error:  # noqa: BLE001  on any error the mount must be left in order
            return self._crashed(error)
        return self._end()

    def _mount(self) -> None:
        """Call pyfuse3.init. Messages printed by libfuse and fusermount3 become the error's text."""
        options = mounting.fuse_options(self._paths, self._options)
        error: Exception | None = None
        with tempfile.TemporaryFile() as printed:
            sys.stderr.flush()
            terminal = os.dup(2)
            os.dup2(printed.fileno(), 2)
            try:
                pyfuse3.init(self._operations, self._mountpoint, options)
            except (RuntimeError, OSError, ValueError) as failed:
                error = failed
            finally:
                os.dup2(terminal, 2)
                os.close(terminal)
            printed.seek(0)
            lines = printed.read(4096).decode("utf-8", "replace").splitlines()
        text = "; ".join(line.strip() for line in lines if line.strip())
        if error is not None:
            raise MountError(f"cannot mount on {self._mountpoint}: {text or error}")
        if text:
            logger.info("libfuse: %s", text)

    # -- while it runs ---------------------------------------------------------------------------------

    async def _main(self) -> None:
        async with trio.open_nursery() as nursery:
            self._slow.start(nursery, self._loop)
            with trio.open_signal_receiver(*_SIGNALS) as signals:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
                nursery.start_soon(self._watch_signals, signals, nursery)
                nursery.start_soon(self._announce)
                nursery.start_soon(self._trim)
                nursery.start_soon(ProblemLog(logger, self._served.problems).follow)
                await pyfuse3.main(1, self._options.max_tasks)
                self._slow.cancel_all()
                nursery.cancel_scope.cancel()

    async def _announce(self) -> None:
        await self._operations.initialised.wait()
        device = mount_at(self._mountpoint)
        if device is not None:
            tune_kernel(device.device, self._options.read_ahead_kb)
        sentence = f"{', '.join(self._paths)} mounted on {self._mountpoint}"
        logger.info("%s (process %d, %s loop)", sentence, os.getpid(), self._loop.name)
        self._ready = True
        self._report.ready(sentence)
        notify(READY=1, MAINPID=os.getpid(), STATUS=sentence)
        # A start is quicker without numpy; the first look-ups of many readers should not wait for it.
        await trio.to_thread.run_sync(import_module, "numpy", abandon_on_cancel=True)

    async def _watch_signals(self, signals: AsyncIterator[int], nursery: trio.Nursery) -> None:
        async for number in signals:
            if number == signal.SIGHUP:
                logger.info("SIGHUP: looking at the source again")
                nursery.start_soon(self._rescan)
                continue
            name = signal.Signals(number).name
            if self._stopping:
                logger.warning("%s again: ending at once", name)
                self._end_at_once()
            logger.info("%s: unmounting", name)
            notify(STOPPING=1)
            self._stopping = True
            self._slow.cancel_all()
            self._loop.stop()
            pyfuse3.terminate()
            nursery.start_soon(self._cancel_later, nursery)

    async def _rescan(self) -> None:
        try:
            await trio.to_thread.run_sync(self._served.rescan, abandon_on_cancel=True)
        except (KafkaStorageError, OSError) as error:
            logger.warning("looking at the source again: %s", error)

    async def _cancel_later(self, nursery: trio.Nursery) -> None:
        """Wait for requests in worker threads, then cancel them without an answer."""
        await trio.sleep(STOP_SECONDS)
        nursery.cancel_scope.cancel()

    async def _trim(self) -> None:
        """Keep the kernel's inodes, and so the inode table, below the limit."""
        operations = self._operations
        limit = self._options.max_inodes
        descriptors = fast_loop.device_descriptors()
        fd = descriptors[0] if len(descriptors) == 1 else None
        forgetting = Forgetting(fd, pyfuse3.invalidate_entry)
        while True:
            await trio.sleep(TRIM_SECONDS)
            excess = operations.known_inodes - limit
            if excess > 0:
                count = min(TRIM_AT_ONCE, excess + limit // 10)
                oldest = operations.table.oldest(count, folders=forgetting.by_number)
                operations.gives_way = operations.known_inodes > 2 * limit
                await trio.to_thread.run_sync(
                    self._forget, forgetting, oldest, abandon_on_cancel=True
                )
                operations.gives_way = False

    def _forget(self, forgetting: Forgetting, records: list[InodeRecord]) -> None:
        """Ask the kernel to forget inodes; runs in a thread."""
        self._trimming = True
        try:
            forgetting.ask(records, lambda: self._stopping)
        finally:
            self._trimming = False

    # -- the end ---------------------------------------------------------------------------------------

    def _end(self) -> int:
        """Clean up after an unmount or a stop; return the exit status."""
        logger.info("ended")
        if self._trimming:
            # A notification in the kernel waits for an answer that will not come, on the session that close()
            # would free.
            self._end_at_once(0)
        pyfuse3.close(unmount=True)
        if self._operations.busy_threads:
            # Threads still at work would run into an interpreter that is gone.
            logging.shutdown()
            os._exit(0)
        return 0

    def _end_at_once(self, status: int = EXIT_CRASHED) -> None:
        """Exit without waiting for anything; detach the mount."""
        with suppress(MountError, OSError):
            mounting.detach(self._mountpoint)
        logging.shutdown()
        os._exit(status)

    def _crashed(self, error: BaseException) -> int:
        """Report an unexpected error; leave the mount dead, unless it was never ready."""
        logger.critical("the daemon ends: %s", error, exc_info=error)
        notify(STATUS=f"crashed: {error}")
        pyfuse3.close(unmount=not self._ready)
        if not self._ready:
            self._report.failed(f"the daemon failed while starting: {error}", EXIT_CRASHED)
        return EXIT_CRASHED


def choose_loop(wanted: str) -> fast_loop.RequestLoop:
    """Return the wanted request loop, or pyfuse3's own if it cannot work here."""
    if wanted == "stock":
        return fast_loop.StockLoop("asked for")
    loop = fast_loop.install(pyfuse3)
    if isinstance(loop, fast_loop.StockLoop):
        logger.warning("pyfuse3's own request loop serves, which is slower: %s", loop.reason)
    return loop


def tune_kernel(device: str, read_ahead_kb: int) -> None:
    """Raise the read-ahead: reads of 1 MiB instead of 128 KiB. Needs root; without it nothing changes."""
    minor = device.partition(":")[2]
    for file, value in (
        (f"/sys/class/bdi/{device}/read_ahead_kb", read_ahead_kb),
        (f"/sys/fs/fuse/connections/{minor}/max_background", 64),
        (f"/sys/fs/fuse/connections/{minor}/congestion_threshold", 48),
    ):
        try:
            with open(file, "w", encoding="ascii") as setting:
                setting.write(str(value))
        except OSError as error:
            logger.debug("%s: %s", file, error.strerror)
