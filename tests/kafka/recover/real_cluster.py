"""Real clusters of several nodes on loopback, and what Kafka's own admin client says of them."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from engine.checkpoint.base64_uuid import random_uuid
from tests.kafka import jars
from tests.kafka.broker import SETTINGS, BrokerError, free_ports
from tests.kafka.recover.cluster_state import cluster_state

CLUSTER = "EjRWeJCrze8SNFZ4kKvN7w"
START_SECONDS = 120.0
SMALL = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
Facts = dict[str, list[list[str]]]


class RealCluster:
    """Nodes of Kafka, each in a process; a context manager that starts and kills them.

    Args:
        home: folder of settings and output.
        version: Kafka's.
        settings: server.properties of each node, by its number.
    """

    def __init__(
        self, home: Path, version: str, settings: Mapping[int, Mapping[str, object]]
    ) -> None:
        self.home = home
        self.version = version
        self.settings = {node: dict(each) for node, each in settings.items()}
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self.start(self.settings)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end(signal.SIGKILL)

    @property
    def bootstrap(self) -> str:
        """Where clients find the cluster."""
        found = []
        for each in self.settings.values():
            for listener in str(each["advertised.listeners"]).split(","):
                name, _, address = listener.partition("://")
                if name == "PLAINTEXT":
                    found.append(address)
        return ",".join(found)

    def start(self, order: Iterable[int]) -> None:
        """Starts nodes in an order, and waits until all of them listen."""
        self.home.mkdir(parents=True, exist_ok=True)
        ports = []
        for node in order:
            file = self.home / f"node-{node}.properties"
            lines = [f"{name}={value}" for name, value in self.settings[node].items()]
            file.write_text("\n".join(lines) + "\n", encoding="utf-8")
            command = jars.java_command(self.version, "kafka.Kafka", options=SMALL)
            with open(self.home / f"node-{node}.log", "ab") as output:
                self._running.append(
                    subprocess.Popen(
                        [*command, str(file)],
                        stdout=output,
                        stderr=output,
                        start_new_session=True,
                    )
                )
            listeners = str(self.settings[node]["listeners"]).split(",")
            ports += [int(each.rpartition(":")[2]) for each in listeners]
        end = time.monotonic() + START_SECONDS
        while ports:
            for process in self._running:
                if process.poll() is not None:
                    raise BrokerError(f"a node ended with {process.returncode}: {self.output()}")
            if time.monotonic() > end:
                raise BrokerError(f"no answer on the ports {ports}: {self.output()}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", ports[0]), 1):
                ports.pop(0)
                continue
            time.sleep(0.2)

    def end(self, how: signal.Signals) -> None:
        """Sends all nodes a signal, and waits for their ends."""
        running, self._running = self._running, []
        for process in running:
            process.send_signal(how)
        for process in running:
            try:
                process.wait(90)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def output(self, lines: int = 15) -> str:
        """The last lines of each node."""
        texts = []
        for path in sorted(self.home.glob("node-*.log")):
            tail = path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
            texts.append("\n".join([path.name, *tail]))
        return "\n".join(texts)

    def ask(self, command: str, *arguments: object, bootstrap: str | None = None) -> str:
        """What a command of ClusterState prints."""
        try:
            return cluster_state(self.version).ask(command, bootstrap or self.bootstrap, *arguments)
        except BrokerError as error:
            raise BrokerError(f"{error}\n{self.output()}") from None

    def describe(self) -> Facts:
        """The facts of the cluster by their kind."""
        found: Facts = defaultdict(list)
        for line in self.ask("describe").splitlines():
            kind, *rest = line.split("\t")
            found[kind].append(rest)
        return dict(found)

    def describe_when_led(self, seconds: float = 60) -> Facts:
        """The facts once every partition has a leader; the last ones if that does not come."""
        end = time.monotonic() + seconds
        while True:
            found = self.describe()
            if not leaderless(found) or time.monotonic() > end:
                return found


def leaderless(facts: Facts) -> list[str]:
    """The partitions without a leader."""
    return [name for name, leader, *_ in facts["leader"] if leader == "-1"]


def new_cluster(
    home: Path, version: str, roles: Mapping[int, str], log_dirs: Sequence[str] = ("data",)
) -> RealCluster:
    """Formats the log dirs of a cluster with a static quorum, in `home`/node-N/."""
    ports = {node: free_ports(2) for node in roles}
    voters = ",".join(
        f"{node}@127.0.0.1:{ports[node][1]}" for node in roles if "controller" in roles[node]
    )
    brokers = sum("broker" in each for each in roles.values())
    settings = {}
    for node, each in roles.items():
        paths = [home / f"node-{node}" / name for name in log_dirs]
        names = {"broker": ("PLAINTEXT", 0), "controller": ("CONTROLLER", 1)}
        listeners = [
            f"{names[role][0]}://127.0.0.1:{ports[node][names[role][1]]}"
            for role in each.split(",")
        ]
        settings[node] = {
            **TEST_SETTINGS,
            **{name: min(3, brokers) for name in REPLICATED},
            "node.id": node,
            "process.roles": each,
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(listeners),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": ",".join(map(str, paths)),
        }
    cluster = RealCluster(home, version, settings)
    first = next(iter(settings))
    for node, each in settings.items():
        for number, path in enumerate(map(Path, str(each["log.dirs"]).split(","))):
            path.mkdir(parents=True)
            if node != first:
                _format_like(home / f"node-{first}" / log_dirs[number], path, node)
        if node == first:
            file = home / f"format-{node}.properties"
            file.write_text("".join(f"{name}={value}\n" for name, value in each.items()))
            jars.run_java(version, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", file)
    return cluster


def _format_like(formatted: Path, path: Path, node: int) -> None:
    """Formats a log dir as Kafka's tool has formatted the same one of another node."""
    shutil.copytree(formatted, path, dirs_exist_ok=True)
    file = path / "meta.properties"
    lines = [
        line
        for line in file.read_text().splitlines()
        if not line.startswith(("node.id=", "directory.id="))
    ]
    lines += [f"node.id={node}", f"directory.id={random_uuid()}"]
    file.write_text("\n".join(lines) + "\n")


def recovered_cluster(
    home: Path,
    version: str,
    target: Path,
    nodes: Iterable[int],
    more: Mapping[str, object] | None = None,
) -> RealCluster:
    """The cluster whose settings are those in a recovered target, those of the tests, and `more`."""
    settings = {}
    for node in nodes:
        text = (target / f"node-{node}" / "server.properties").read_text(encoding="utf-8")
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        own = dict(line.split("=", 1) for line in lines)
        settings[node] = {**TEST_SETTINGS, **dict.fromkeys(REPLICATED, 1), **(more or {}), **own}
    return RealCluster(home, version, settings)


REPLICATED = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")
TEST_SETTINGS = {
    **SETTINGS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "initial.broker.registration.timeout.ms": 60000,
    "log.retention.check.interval.ms": 300000,
    "log.initial.task.delay.ms": 1000,
}
