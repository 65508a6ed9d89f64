"""The server's process: open the source, listen, serve until a signal."""

from __future__ import annotations

import errno
import logging
import os
import resource
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import trio

from engine.errors import KafkaStorageError
from engine.log.partition_choice import PartitionChoice
from kafkafs.amounts import counted
from kafkafs.api.source_logs import SourceLogs
from kafkafs.serve.broker import Broker
from kafkafs.serve.budgets import DEFAULT_SERVE_BUDGETS, ServeBudgets
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.connections import Connections
from kafkafs.serve.records.partition_fetch import DEFAULT_RULES, FetchRules
from kafkafs.tree.context import TreeOptions

logger = logging.getLogger(__name__)

PROBLEM_SECONDS = 1.0
OPEN_FILES = 65_536


class ListenError(Exception):
    """The address cannot be listened on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """What the operator chose.

    Attributes:
        host, port: address to listen on; port 0 for a free one.
        advertised: host and port that clients are told; None for the address that each one used.
        choice: partitions to serve.
        snapshot: show the files as they are at the start.
        rules: treatment of damage and of old formats.
        budgets: limits.
    """

    host: str = "127.0.0.1"
    port: int = 9092
    advertised: tuple[str, int] | None = None
    choice: PartitionChoice | None = None
    snapshot: bool = False
    rules: FetchRules = DEFAULT_RULES
    budgets: ServeBudgets = DEFAULT_SERVE_BUDGETS


Ready = Callable[[str, int], None]


def serve(paths: Sequence[str], options: ServeOptions, ready: Ready) -> None:
    """Serve log dirs until SIGTERM or SIGINT.

    Args:
        paths: the sources.
        options: what the operator chose.
        ready: called with host and port once clients can connect.

    Raises:
        SourceError: a source does not exist or cannot be read.
        ListenError: the address is in use or not one of this machine.
    """
    logs = SourceLogs(paths, TreeOptions(snapshot=options.snapshot, schemas=("none",)))
    try:
        _raise_descriptor_limit()
        trio.run(_main, logs, options, ready)
    finally:
        logs.source.close()


async def _main(logs: SourceLogs, options: ServeOptions, ready: Ready) -> None:
    cluster = ClusterView(logs, options.choice)
    broker = Broker(cluster, options.rules, options.budgets)
    connections = Connections(broker, options.budgets, options.advertised)
    try:
        listeners = await trio.open_tcp_listeners(options.port, host=options.host)
    except OSError as error:
        raise ListenError(_why_not(options, error)) from None
    host, port = listeners[0].socket.getsockname()[:2]
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, connections.serve, listeners)
            nursery.start_soon(_tell_problems, logs)
            nursery.start_soon(broker.coordinator.run)
            topics = cluster.topics().values()
            amount = counted(sum(len(topic.logs) for topic in topics), "partition")
            sentence = ", ".join(logs.paths)
            logger.info(
                "%s: %s served on %s:%d (process %d)", sentence, amount, host, port, os.getpid()
            )
            ready(host, port)
            async for number in signals:
                logger.info("%s: ending", signal.Signals(number).name)
                nursery.cancel_scope.cancel()
                break


async def _tell_problems(logs: SourceLogs) -> None:
    """Log each problem of the source once, when a look-up has found it."""
    told = 0
    while True:
        try:
            problems = await trio.to_thread.run_sync(lambda: logs.source.problems)
        except (OSError, KafkaStorageError) as error:
            logger.warning("the source: %s", error)
        else:
            if len(problems) != told:
                for problem in problems[told:]:
                    where = problem.get("file") or problem.get("path") or ""
                    logger.warning("%s: %s: %s", problem.get("kind"), where, problem.get("reason"))
                told = len(problems)
        await trio.sleep(PROBLEM_SECONDS)


def _why_not(options: ServeOptions, error: OSError) -> str:
    place = f"{options.host}:{options.port}"
    if error.errno == errno.EADDRINUSE:
        return f"{place} is in use: choose another port with --listen, or 0 for a free one"
    return f"cannot listen on {place}: {error.strerror or error}"


def _raise_descriptor_limit() -> None:
    """Allow a descriptor for each connection, besides those of the source."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
