"""A small cluster that ran and was stopped or killed, to damage copies of: one node, or a controller beside a broker."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kafka.broker import SETTINGS, free_ports
from tests.kafka.node_judge import NodeJudge

CLUSTER = "EjRWeJCrze8SNFZ4kKvN7w"
TOPICS = (
    {"name": "orders", "partitions": 3, "records": 90},
    {"name": "pairs", "partitions": 2, "records": 40, "config": {"retention.ms": "-1"}},
    {"name": "keys", "partitions": 1, "records": 30, "config": {"cleanup.policy": "compact"}},
    {"name": "empty", "partitions": 1, "records": 0},
)
Answer = dict[str, Any]


@dataclass(frozen=True)
class Role:
    """One node: its number, its `process.roles`, and the names of its log dirs."""

    node: int
    roles: str
    log_dirs: tuple[str, ...]


COMBINED = (Role(1, "broker,controller", ("data0", "data1")),)
SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": 3000}
SPLIT = (Role(2, "controller", ("control",)), Role(1, "broker", ("data0", "data1")))
KINDS = {"combined": COMBINED, "split": SPLIT}


class Cluster:
    """A cluster whose log dirs are in one folder.

    Args:
        top: the folder.
        roles: the nodes, controllers first.
        more: properties of each, besides.
    """

    def __init__(
        self, top: Path, roles: tuple[Role, ...], more: Mapping[str, object] | None = None
    ) -> None:
        self.top = top
        self.roles = roles
        self.more = dict(more or {})
        self._ports = free_ports(2)

    def paths(self, role: Role) -> list[Path]:
        """The log dirs of a node."""
        return [self.top / each for each in role.log_dirs]

    def properties(self, role: Role) -> dict[str, object]:
        """The configuration of a node."""
        port, controller = self._ports
        voter = next(each for each in self.roles if "controller" in each.roles)
        listeners = []
        if "broker" in role.roles:
            listeners.append(f"PLAINTEXT://127.0.0.1:{port}")
        if "controller" in role.roles:
            listeners.append(f"CONTROLLER://127.0.0.1:{controller}")
        made: dict[str, object] = {
            **SETTINGS,
            "node.id": role.node,
            "process.roles": role.roles,
            "controller.quorum.voters": f"{voter.node}@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(listeners),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": ",".join(map(str, self.paths(role))),
            "metadata.log.dir": self.paths(role)[0],
            "initial.broker.registration.timeout.ms": 20000,
            **self.more,
        }
        return made

    def run(self, judge: NodeJudge, role: Role, **more: Any) -> Answer:
        """Start a node, and the others before it."""
        others = [each for each in self.roles if each is not role and "broker" not in each.roles]
        nodes = [self.properties(each) for each in (*others, role)]
        return judge.start(nodes, **more)

    def fill(self, judge: NodeJudge, crashed: Path, topics: Sequence[Answer] = TOPICS) -> Answer:
        """Format the log dirs, write records, copy them to `crashed`, and stop."""
        self.top.mkdir(parents=True)
        for role in self.roles:
            for path in self.paths(role):
                path.mkdir()
            file = self.top / f"node-{role.node}.properties"
            lines = (f"{name}={value}" for name, value in self.properties(role).items())
            file.write_text("\n".join(lines) + "\n")
            judge.format(file, CLUSTER)
        return self.run(
            judge,
            self.roles[-1],
            fill=topics,
            bootstrap=f"127.0.0.1:{self._ports[0]}",
            copies=[(self.top, crashed)],
            wait_ms=8000,
        )

    def copy(self, top: Path) -> Cluster:
        """A copy, with ports of its own."""
        shutil.copytree(self.top, top, symlinks=True)
        return Cluster(top, self.roles, self.more)
