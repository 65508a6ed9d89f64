"""The server while it runs: listen, serve until a signal, tell problems and who asks for them."""

from __future__ import annotations

import errno
import logging
import os
import signal
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Timer
from typing import Any, NamedTuple

import trio

from engine.cut.moment import Moment
from engine.errors import KafkaStorageError
from engine.log.log_directory import LogSource
from engine.log.partition_choice import PartitionChoice
from engine.verdict.source_losses import source_problems
from kafkafs.amounts import counted
from kafkafs.api.source_logs import SourceLogs
from kafkafs.mount.problem_log import ProblemLog
from kafkafs.mount.service_manager import notify
from kafkafs.serve.broker import Broker
from kafkafs.serve.budgets import DEFAULT_SERVE_BUDGETS, ServeBudgets
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.connections import Connections
from kafkafs.serve.control.control_server import ControlServer, control_listener
from kafkafs.serve.control.metrics import Metrics
from kafkafs.serve.control.status import ServerStatus
from kafkafs.serve.coordinator.commits.commit_file import CommitFile
from kafkafs.serve.coordinator.groups import Coordinator
from kafkafs.serve.coordinator.limits import DEFAULT_GROUP_LIMITS
from kafkafs.serve.network.accepting import accept_all
from kafkafs.serve.network.http import HttpServer
from kafkafs.serve.records.partition_fetch import DEFAULT_RULES, FetchRules
from kafkafs.serve.registry.listening import registry_server
from kafkafs.serve.security.audit import Audit
from kafkafs.serve.security.login import Logins

logger = logging.getLogger(__name__)

STOP_SECONDS = 5.0
"""Time for threads that answer requests when the server ends."""


class ReloadError(Exception):
    """Files of passwords or certificates cannot be used; those that were read before are."""


class ListenError(Exception):
    """The address cannot be listened on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """What the operator chose.

    Attributes:
        host, port: address to listen on; port 0 for a free one.
        advertised: host and port that clients are told; None for the address that each one used.
        also: a second address to listen on, and what its clients are told.
        metrics: host and port for monitors; None for none.
        choice: partitions to serve.
        renames: new names of topics and partitions by their old ones.
        snapshot: show the files as they are at the start.
        at: show the source as it was at this moment; None for now.
        shows_nodes: show the brokers of the cluster's metadata in place of one.
        only_present: tell clients nothing of partitions that the source lacks.
        rules: treatment of damage and of old formats.
        budgets: limits.
        schema_registry: address of the registry's REST API; None without it.
        commit_to: absolute path of a file for commits of groups; None to keep them in memory alone.
        audit_log: absolute path of a file of who read what; None without.
        tls: settings of TLS; None without.
        logins: how clients log in; None if they need not.
        reload: reads the files of TLS and logins again; may raise ReloadError.
        foreground: stay with the terminal, which gets the log.
        log_file: path of a file for the log.
        debug: log also connections that end.
        quiet: only warnings of the log on the terminal.
    """

    host: str = "127.0.0.1"
    port: int = 9092
    advertised: tuple[str, int] | None = None
    also: tuple[tuple[str, int], tuple[str, int] | None] | None = None
    metrics: tuple[str, int] | None = None
    choice: PartitionChoice | None = None
    renames: Mapping[str, str] = field(default_factory=dict)
    snapshot: bool = False
    at: Moment | None = None
    shows_nodes: bool = False
    only_present: bool = False
    rules: FetchRules = DEFAULT_RULES
    budgets: ServeBudgets = DEFAULT_SERVE_BUDGETS
    schema_registry: tuple[str, int] | None = None
    commit_to: str | None = None
    audit_log: str | None = None
    tls: ssl.SSLContext | None = None
    logins: Logins | None = None
    reload: Callable[[], tuple[ssl.SSLContext | None, Logins | None]] = lambda: (None, None)
    foreground: bool = True
    log_file: str | None = None
    debug: bool = False
    quiet: bool = False


class Listening(NamedTuple):
    """Addresses that clients can connect to: the broker's, and the registry's, None without one."""

    host: str
    port: int
    schema_registry: tuple[str, int] | None


Ready = Callable[[Listening, str], None]
"""Called with the addresses and a sentence once clients can connect."""


class _ListenerClients(NamedTuple):
    """The clients of one listener.

    Attributes:
        connections: serves them.
        advertised: host and port that they are told; None for the address that each one used.
    """

    connections: Connections
    advertised: tuple[str, int] | None

    def admit(self, peer: tuple[object, ...]) -> bool:
        """Return whether to serve a new connection of an address."""
        return self.connections.admit(peer)

    async def serve(self, stream: trio.SocketStream, peer: tuple[object, ...]) -> None:
        """Serve a connection that was admitted, until it ends."""
        await self.connections.serve(stream, peer, self.advertised)


async def serve(
    logs: SourceLogs, options: ServeOptions, ready: Ready, log_text: Callable[[], str]
) -> None:
    """Serve log dirs until SIGTERM or SIGINT.

    Args:
        logs: the open source.
        options: what the operator chose.
        ready: called once clients can connect.
        log_text: returns the last lines of the log.

    Raises:
        ListenError: the address is in use or not one of this machine.
        CommitFileError: the file for commits cannot be used.
        AuditError: the file of who read what cannot be used.
        SourceError: nodes are to be shown, and the source has no metadata of the cluster.
    """
    cluster = ClusterView(
        logs,
        options.choice,
        shows_nodes=options.shows_nodes,
        only_present=options.only_present,
        renames=options.renames,
    )
    with _commit_file(options, cluster) as commit_file:
        # Whoever waits for others keeps most of the room for requests free.
        waiting = min(DEFAULT_GROUP_LIMITS.waiting_bytes, options.budgets.pending_bytes // 4)
        limits = replace(
            DEFAULT_GROUP_LIMITS,
            groups=options.budgets.groups,
            waiting_bytes=waiting,
            first_rebalance_seconds=options.budgets.first_rebalance_milliseconds / 1000,
        )
        coordinator = Coordinator(limits, commit_file)
        audit = None if options.audit_log is None else Audit(options.audit_log, logs.paths)
        broker = Broker(cluster, options.rules, options.budgets, coordinator, audit)
        connections = Connections(broker, options.budgets, options.tls, options.logins, audit)
        await _serve(cluster, options, broker, connections, ready, log_text)


@contextmanager
def _commit_file(options: ServeOptions, cluster: ClusterView) -> Iterator[CommitFile | None]:
    """Return the open file for commits, if there is one."""
    if options.commit_to is None:
        yield None
        return
    file = CommitFile(options.commit_to, cluster.cluster_id, cluster.logs.paths)
    try:
        for problem in file.problems:
            logger.warning("%s", problem)
        yield file
    finally:
        file.close()


async def _serve(
    cluster: ClusterView,
    options: ServeOptions,
    broker: Broker,
    connections: Connections,
    ready: Ready,
    log_text: Callable[[], str],
) -> None:
    logs = cluster.logs
    listeners = await _listeners((options.host, options.port), "--listen")
    host, port = _address(listeners)
    clients = [(each, _ListenerClients(connections, options.advertised)) for each in listeners]
    if options.also is not None:
        also = await _listeners(options.also[0], "--also-listen")
        clients += [(each, _ListenerClients(connections, options.also[1])) for each in also]
        logger.info("clients are also served on %s", place_of(*_address(also)))
    monitors = [] if options.metrics is None else await _listeners(options.metrics, "--metrics")
    registry = options.schema_registry
    registry_listeners = [] if registry is None else await _listeners(registry, "--schema-registry")
    if registry_listeners:
        registry = _address(registry_listeners)
    facts = _facts(options, Listening(host, port, registry))
    status = ServerStatus(
        logs, connections.counters, broker.fetches, facts, log_text, connections.busiest
    )
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async with trio.open_nursery() as nursery:
            for pair in clients:
                nursery.start_soon(accept_all, *pair)
            if monitors:
                metrics = _metrics(logs, connections, broker)
                nursery.start_soon(trio.serve_listeners, HttpServer(metrics.answer).serve, monitors)
            nursery.start_soon(connections.gone.watch)
            if registry is not None:
                schemas = registry_server(logs, cluster.cluster_id)
                nursery.start_soon(trio.serve_listeners, schemas.serve, registry_listeners)
                logger.info("schemas: served on http://%s", place_of(*registry))
            nursery.start_soon(ProblemLog(logger, lambda: source_problems(logs.source)).follow)
            logs.source.watch_silence(logger.warning)
            nursery.start_soon(broker.coordinator.run)
            await nursery.start(_tell_operator, host, port, status)
            topics = cluster.topics().values()
            amount = counted(sum(len(topic.logs) for topic in topics), "partition")
            sentence = f"{', '.join(logs.paths)}: {amount} served on {place_of(host, port)}"
            logger.info("%s (process %d)", sentence, os.getpid())
            ready(Listening(host, port, registry), sentence)
            notify(READY=1, MAINPID=os.getpid(), STATUS=sentence)
            async for number in signals:
                if number == signal.SIGHUP:
                    await _reload(connections, options, logs.source)
                    continue
                logger.info("%s: ending", signal.Signals(number).name)
                notify(STOPPING=1)
                _end_later()
                nursery.cancel_scope.cancel()
                break
    connections.close()


def _metrics(logs: SourceLogs, connections: Connections, broker: Broker) -> Metrics:
    return Metrics(
        logs,
        connections.counters,
        lambda: broker.fetches.damage_answers,
        lambda: len(broker.coordinator.table.all()),
    )


async def _reload(connections: Connections, options: ServeOptions, source: LogSource) -> None:
    """List the source again, and read the files of TLS and logins, for clients that connect from now on."""
    try:
        await trio.to_thread.run_sync(source.partitions, 0.0, abandon_on_cancel=True)
    except (KafkaStorageError, OSError) as error:
        logger.warning("SIGHUP: looking at the source again: %s", error)
    try:
        tls, logins = await trio.to_thread.run_sync(options.reload)
    except ReloadError as error:
        logger.error("SIGHUP: %s; the files that were read before are used", error)
        return
    connections.renew(tls, logins)
    logger.info("SIGHUP: the source, passwords and certificates are read again")


def _end_later() -> None:
    """End the process after STOP_SECONDS, even if threads still answer requests."""

    def end() -> None:
        logger.warning("requests are still being answered: ending without them")
        logging.shutdown()
        os._exit(0)

    timer = Timer(STOP_SECONDS, end)
    timer.daemon = True
    timer.start()


def _facts(options: ServeOptions, listening: Listening) -> dict[str, Any]:
    advertised, also = options.advertised, options.also
    registry = listening.schema_registry
    budgets = options.budgets
    return {
        "address": f"{listening.host}:{listening.port}",
        "advertised": None if advertised is None else f"{advertised[0]}:{advertised[1]}",
        "alsoListens": None if also is None else place_of(*also[0]),
        "schemaRegistry": None if registry is None else place_of(*registry),
        "snapshot": options.snapshot,
        "at": options.at,
        "tls": options.tls is not None,
        "mechanisms": [] if options.logins is None else list(options.logins.mechanisms),
        "options": {name: getattr(budgets, name) for name in budgets.__slots__},
    }


async def _tell_operator(
    host: str,
    port: int,
    status: ServerStatus,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer `kafkafs top` and `kafkafs serve --stop`, from the start of the task on."""
    try:
        listener = control_listener(host, port)
    except OSError as error:
        logger.warning("kafkafs top and kafkafs serve --stop cannot find this server: %s", error)
        return
    finally:
        task_status.started()
    await trio.serve_listeners(ControlServer(status.makers()).serve, [listener])


async def _listeners(address: tuple[str, int], option: str) -> list[trio.SocketListener]:
    """Return listeners on an address; raises ListenError, which names the option for another one."""
    host, port = address
    try:
        return await trio.open_tcp_listeners(port, host=host)
    except OSError as error:
        place = place_of(host, port)
        if error.errno != errno.EADDRINUSE:
            why = f"cannot listen on {place}: {error.strerror or error}"
        else:
            why = f"{place} is in use: choose another port with {option}, or 0 for a free one"
        raise ListenError(why) from None


def _address(listeners: list[trio.SocketListener]) -> tuple[str, int]:
    host, port = listeners[0].socket.getsockname()[:2]
    return host, port


def place_of(host: str, port: int) -> str:
    """Return an address as clients take it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
