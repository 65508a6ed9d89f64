"""A real single-node Kafka broker on loopback: started, stopped and killed by tests.

Releases from 3.3 on run in KRaft mode, older ones beside a ZooKeeper of their own.
"""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kafka import jars

START_SECONDS = 120.0
STOP_SECONDS = 60.0
# A broker writes these when it stops; without them the next start recovers from the logs themselves.
CHECKPOINTS = (
    ".kafka_cleanshutdown",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
SETTINGS: dict[str, object] = {
    "num.partitions": 1,
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 2,
    "group.initial.rebalance.delay.ms": 0,
    "message.max.bytes": 8_000_000,
    "log.index.size.max.bytes": 65536,  # preallocated at each roll; the default costs 20 MB a segment
    "log.retention.hours": -1,
    "log.retention.check.interval.ms": 1000,
    "log.cleaner.backoff.ms": 500,
}


class BrokerError(Exception):
    """The broker did not start, or ended; the text ends with the last lines it logged."""


class Broker:
    """One broker with its log dir in `home`/data; a context manager that starts and stops it."""

    def __init__(
        self,
        home: Path,
        version: str = jars.CURRENT,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.home = home
        self.version = version
        self.log_dir = home / "data"
        self.kraft = jars.release(version) >= (3, 3)
        self._own_settings = dict(settings or {})
        self._ports = free_ports(3)
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def bootstrap(self) -> str:
        """What clients connect to."""
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def pid(self) -> int:
        """The broker's own process; raises BrokerError when it is not running."""
        if not self._processes:
            raise BrokerError("the broker is not running")
        return self._processes[-1].pid

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill() if kind else self.stop()

    def start(self) -> None:
        """Starts it, formatting the log dir the first time; returns when its port answers."""
        self.home.mkdir(parents=True, exist_ok=True)
        settings = self.home / "server.properties"
        settings.write_text(_properties(self._settings()), encoding="utf-8")
        try:
            if self.kraft:
                self._format(settings)
            else:
                self._start_zookeeper()
            process = self._spawn("kafka.Kafka", settings, "broker.log")
            self._wait_for(self._ports[0], process, "broker.log")
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """SIGTERM, and waits: a clean stop."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: a crash."""
        self._end(signal.SIGKILL)

    def forget_checkpoints(self) -> None:
        """Removes what the stopped broker knew about its logs, so that the next start reads them."""
        for name in CHECKPOINTS:
            (self.log_dir / name).unlink(missing_ok=True)

    def _settings(self) -> dict[str, object]:
        port, controller, zookeeper = self._ports
        settings = SETTINGS | {"log.dirs": self.log_dir}
        if self.kraft:
            settings |= {
                "process.roles": "broker,controller",
                "node.id": 1,
                "controller.quorum.voters": f"1@127.0.0.1:{controller}",
                "controller.listener.names": "CONTROLLER",
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            }
        else:
            settings |= {
                "broker.id": 1,
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "zookeeper.connect": f"127.0.0.1:{zookeeper}",
            }
        return settings | self._own_settings

    def _format(self, settings: Path) -> None:
        if not (self.log_dir / "meta.properties").exists():
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            if cluster.startswith("-"):  # the tool would take it for an option
                cluster = "k" + cluster[1:]
            tool = "kafka.tools.StorageTool"
            jars.run_java(self.version, tool, "format", "-t", cluster, "-c", settings)

    def _start_zookeeper(self) -> None:
        port = self._ports[2]
        settings = self.home / "zookeeper.properties"
        lines = {
            "dataDir": self.home / "zookeeper",
            "clientPort": port,
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
        }
        settings.write_text(_properties(lines), encoding="utf-8")
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self._wait_for(port, self._spawn(main, settings, "zookeeper.log"), "zookeeper.log")

    def _spawn(self, main: str, settings: Path, log: str) -> subprocess.Popen[bytes]:
        command = [*jars.java_command(self.version, main), str(settings)]
        with open(self.home / log, "ab") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=output, start_new_session=True
            )
        self._processes.append(process)
        return process

    def _wait_for(self, port: int, process: subprocess.Popen[bytes], log: str) -> None:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            if process.poll() is not None:
                raise BrokerError(f"ended with {process.returncode}\n{self._tail(log)}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.5):
                return
            time.sleep(0.2)
        raise BrokerError(f"no answer on port {port} within {START_SECONDS} s\n{self._tail(log)}")

    def _tail(self, log: str, lines: int = 20) -> str:
        text = (self.home / log).read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def _end(self, how: signal.Signals) -> None:
        while self._processes:  # the broker first, then its ZooKeeper
            process = self._processes.pop()
            if process.poll() is None:
                process.send_signal(how)
                try:
                    process.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that were free a moment ago."""
    with contextlib.ExitStack() as held:
        found = []
        for _ in range(count):
            probe = held.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            found.append(probe.getsockname()[1])
        return found


def log_files(folder: Path) -> Iterator[os.DirEntry[str]]:
    """The files of a partition's folder that make up its log, without leftovers."""
    with os.scandir(folder) as entries:
        yield from sorted((e for e in entries if e.name.endswith(".log")), key=lambda e: e.name)


def _properties(settings: Mapping[str, object]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())
