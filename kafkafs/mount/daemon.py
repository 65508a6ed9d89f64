"""The daemon, from paths and options to a served mount and its end.

Order of a start: checks, background, source and tree, libfuse's mount, request loop. The source's folders are
opened before the mount exists, so that none is accessed through the mount: a daemon that accesses its own mount
waits for itself and cannot be killed.
"""

from __future__ import annotations

import ctypes
import faulthandler
import functools
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeAlias

from engine.errors import KafkaStorageError, SourceError
from kafkafs.exit_codes import EXIT_CANNOT_READ, EXIT_CRASHED, EXIT_USAGE
from kafkafs.fuse import daemon_log
from kafkafs.masking.policy import MaskPolicyError
from kafkafs.mount import background, child_process, mounting
from kafkafs.mount.mounting import MountError, MountOptions
from kafkafs.mount.status import DaemonStatus

if TYPE_CHECKING:
    from kafkafs.mount.log_tree import LogTree

OPEN_FILES = 65_536
M_ARENA_MAX = -8
"""glibc's number of the mallopt parameter."""
SWITCH_SECONDS = 0.0005
"""How long another thread may keep the GIL from the request loop. With Python's default of 5 ms every `ls` is slow."""

Opener: TypeAlias = "Callable[[Sequence[str], MountOptions, DaemonStatus], LogTree]"


def run(
    source_paths: Sequence[str],
    mountpoint: str,
    options: MountOptions,
    *,
    opener: Opener | None = None,
) -> int:
    """Mount and serve: until the end if in the foreground, else in a daemon; then return when the mount answers.

    Returns:
        Exit status 0: mounted (in the foreground: ended normally), 1: the daemon crashed, 2: usage, 3: cannot mount. Each
        error prints one line to standard error with the reason and a way out.
    """
    paths = [os.path.abspath(path) for path in source_paths]
    report = background.StartReport()
    try:
        if not paths:
            raise MountError("no source given", usage=True)
        mounting.check_machine(options)
        for path in paths:
            if not os.path.lexists(path):
                raise MountError(f"source {path} does not exist")
        mounting.check_mask(options)
        path = mounting.check_mountpoint(mountpoint, paths, options)
    except MountError as error:
        report.failed(str(error), EXIT_USAGE if error.usage else EXIT_CANNOT_READ)
        return EXIT_USAGE if error.usage else EXIT_CANNOT_READ
    if options.mask is not None:
        options = replace(options, mask=os.path.abspath(options.mask))
    if options.dry_run:
        return 0
    if options.log_file is not None:
        options = replace(options, log_file=os.path.abspath(options.log_file))
    serve = functools.partial(_serve, paths, path, options, opener or open_log_tree)
    if options.foreground:
        return serve(report)
    keep = [int(path.removeprefix("/dev/fd/"))] if path.startswith("/dev/fd/") else []
    return background.start(serve, functools.partial(check_answers, path), keep=keep)


def check_answers(path: str) -> None:
    """Raise OSError (or its subclass TimeoutError) unless the mount's root can be listed."""

    def question() -> bytes:
        with os.scandir(path) as entries:
            next(entries, None)
        return b""

    if not path.startswith("/dev/fd/"):
        child_process.ask_in_child(question, seconds=60.0)


def open_log_tree(paths: Sequence[str], options: MountOptions, status: DaemonStatus) -> LogTree:
    """Open the tree over log dirs. Raises SourceError."""
    from kafkafs.mount.log_tree import LogTree

    return LogTree(paths, options, status)


def _serve(
    paths: Sequence[str],
    mountpoint: str,
    options: MountOptions,
    opener: Opener,
    report: background.StartReport,
) -> int:
    """Open the source, mount, serve until the end; return the exit status."""
    try:
        ring = daemon_log.set_up(
            path=options.log_file,
            to_terminal=options.foreground,
            debug=options.debug,
            quiet=options.quiet,
        )
    except OSError as error:
        report.failed(f"log file {options.log_file}: {error.strerror}", EXIT_CANNOT_READ)
        return EXIT_CANNOT_READ
    status = DaemonStatus(paths, mountpoint, options, log_text=ring.text, clock=time.monotonic)
    prepare_process(stack_file(options))
    try:
        served = opener(paths, options, status)
    except SourceError as error:
        hint = f" ({error.hint})" if error.hint else ""
        report.failed(f"{error.reason}{hint}", EXIT_CANNOT_READ)
        return EXIT_CANNOT_READ
    except MaskPolicyError as error:
        report.failed(str(error), EXIT_USAGE)
        return EXIT_USAGE
    except (KafkaStorageError, OSError) as error:
        report.failed(f"cannot read the source: {error}", EXIT_CANNOT_READ)
        return EXIT_CANNOT_READ
    except Exception as error:  # noqa: BLE001  the caller waits for a line, not for a traceback
        daemon_log.logger.debug("opening the source", exc_info=error)
        sentence = (
            f"cannot open the source: {type(error).__name__}: {error} (-f --debug shows more)"
        )
        report.failed(sentence, EXIT_CRASHED)
        return EXIT_CRASHED
    # Imported here because it needs pyfuse3, which check_machine has found by now.
    from kafkafs.mount.session import Session

    start_pulse()
    try:
        return Session(paths, mountpoint, options, served, status, report).run()
    finally:
        # The interpreter resets signal handlers on exit; SIGALRM would then kill it.
        signal.setitimer(signal.ITIMER_REAL, 0)
        served.close()


def prepare_process(stacks: IO[Any]) -> None:
    """Set limits and the thread switch interval, and print stacks on SIGUSR1."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    with suppress(OSError, AttributeError):
        # Otherwise each thread's heap keeps freed chunks of text.
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)
    sys.setswitchinterval(SWITCH_SECONDS)
    print_stacks_on_sigusr1(stacks)


def print_stacks_on_sigusr1(stacks: IO[Any]) -> None:
    """Let a thread wait for SIGUSR1 and print the stacks of all threads, also while the main thread is stuck.

    The thread holds the GIL while it prints. The handler of faulthandler.register does not: other threads then free
    the frames that it reads, and the process dies of SIGSEGV.
    """
    numbers = {signal.SIGUSR1}

    def print_stacks() -> None:
        while True:
            signal.sigwait(numbers)
            with suppress(OSError, ValueError):  # a full disk, a closed terminal
                faulthandler.dump_traceback(stacks, all_threads=True)

    # A thread inherits the mask of the thread that starts it: SIGUSR1 then reaches sigwait alone.
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    threading.Thread(target=print_stacks, name="stacks", daemon=True).start()


def start_pulse() -> None:
    """Send a signal each second, for a request loop that may be stuck.

    A request can be withdrawn (its process was killed) between poll and libfuse's read, which then blocks with the GIL
    until the next request. A signal makes the read return.
    """
    signal.signal(signal.SIGALRM, _do_nothing)
    signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)


def _do_nothing(_number: int, _frame: object) -> None:
    """Do nothing. A handler is needed, because an ignored signal interrupts nothing."""


class LogPlace(Protocol):
    """Where a daemon's log goes."""

    @property
    def log_file(self) -> str | None:
        """Path of the log file; None without one."""

    @property
    def foreground(self) -> bool:
        """Whether the log is on the terminal."""


def stack_file(options: LogPlace) -> IO[Any]:
    """Return the file that SIGUSR1 writes to: the log file, the terminal, or a file in memory (/proc/PID/fd/N)."""
    if options.log_file is not None:
        return open(options.log_file, "ab", buffering=0)
    if options.foreground:
        return sys.stderr
    return os.fdopen(os.memfd_create("kafkafs-stacks"), "wb", buffering=0)
