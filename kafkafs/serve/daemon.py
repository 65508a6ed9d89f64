"""The server's process: in the foreground until a signal, or in the background.

The source is opened after the forks of a start in the background, since threads do not survive them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import trio

from engine.errors import KafkaStorageError, SourceError
from engine.log.log_directory import LogSource
from kafkafs.api.source_logs import SourceLogs
from kafkafs.exit_codes import EXIT_CANNOT_READ, EXIT_CRASHED
from kafkafs.fuse import daemon_log
from kafkafs.mount import background
from kafkafs.mount.daemon import prepare_process, stack_file
from kafkafs.serve.coordinator.commits.commit_file import CommitFileError
from kafkafs.serve.security.audit import AuditError
from kafkafs.serve.server import ListenError, Listening, ServeOptions, serve
from kafkafs.tree.context import TreeOptions

logger = logging.getLogger(__name__)


class StartError(Exception):
    """The server cannot start; `status` is the exit status."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


def run(
    paths: Sequence[str],
    options: ServeOptions,
    *,
    check: Callable[[LogSource], None],
    ready: Callable[[Listening], None],
) -> int:
    """Serve log dirs: until a signal if in the foreground, else in a daemon; then return when clients can connect.

    Args:
        paths: the sources.
        options: what the operator chose.
        check: called with the open source; may raise StartError.
        ready: called with the addresses once clients can connect.

    Returns:
        Exit status 0: serving (in the foreground: ended by a signal), 1: a bug ended it, 2: usage, 3: cannot serve.
        Each error prints one line to standard error.
    """
    if options.log_file is not None:
        options = replace(options, log_file=os.path.abspath(options.log_file))
    if options.commit_to is not None:
        options = replace(options, commit_to=os.path.abspath(options.commit_to))
    if options.audit_log is not None:
        options = replace(options, audit_log=os.path.abspath(options.audit_log))
    serve_paths = partial(_serve, [os.path.abspath(path) for path in paths], options, check, ready)
    if options.foreground:
        return serve_paths(background.StartReport())
    return background.start(serve_paths, lambda: None)


def _serve(
    paths: Sequence[str],
    options: ServeOptions,
    check: Callable[[LogSource], None],
    ready: Callable[[Listening], None],
    report: background.StartReport,
) -> int:
    """Open the source and serve until the end; return the exit status."""
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
    logging.getLogger("kafkafs.serve").setLevel(logging.DEBUG if options.debug else logging.INFO)
    prepare_process(stack_file(options))

    def told(listening: Listening, sentence: str) -> None:
        ready(listening)
        report.ready(sentence)

    try:
        logs = SourceLogs(
            paths, TreeOptions(snapshot=options.snapshot, at=options.at, schemas=("none",))
        )
        try:
            check(logs.source)
            trio.run(serve, logs, options, told, ring.text)
        finally:
            logs.source.close()
    except StartError as error:
        return _failed(report, str(error), error.status)
    except SourceError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return _failed(report, f"{error.reason}{hint}", EXIT_CANNOT_READ)
    except CommitFileError as error:
        return _failed(report, f"--commit-to: {error}", EXIT_CANNOT_READ)
    except AuditError as error:
        return _failed(report, f"--audit-log: {error}", EXIT_CANNOT_READ)
    except ListenError as error:
        return _failed(report, str(error), EXIT_CANNOT_READ)
    except (KafkaStorageError, OSError) as error:
        return _failed(report, f"cannot read the source: {error}", EXIT_CANNOT_READ)
    except Exception as error:
        logger.critical("the server ends: %s", error, exc_info=error)
        return _failed(report, f"the server failed: {error}", EXIT_CRASHED)
    return 0


def _failed(report: background.StartReport, sentence: str, status: int) -> int:
    report.failed(sentence, status)
    return status
