"""The text files beside the log dirs of a recovered cluster: settings of each node, and how to start it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from engine.log.folder_listing import KRaftSnapshot
from engine.recover.metadata.records import HELD, HELD_TIERED, TIERED
from engine.recover.nodes import ClusterNode, controller_listeners
from engine.topics.topic_names import (
    CONSUMER_OFFSETS,
    REMOTE_LOG_METADATA,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)

START_TEXT = "START.txt"
_COUNTS = {
    CONSUMER_OFFSETS: "offsets.topic.num.partitions",
    TRANSACTION_STATE: "transaction.state.log.num.partitions",
    SHARE_GROUP_STATE: "share.coordinator.state.topic.num.partitions",
    REMOTE_LOG_METADATA: "rlmm.config.remote.log.metadata.topic.num.partitions",
}
_HELD_PROPERTIES = {
    "offsets.retention.minutes": "2147483647",
    "transactional.id.expiration.ms": "2147483647",
    "producer.id.expiration.ms": "2147483647",
}
"""Expiry of group offsets, transactional ids and producers, at its longest."""


class ClusterSettings(NamedTuple):
    """The recovered cluster, as its text files state it.

    Attributes:
        cluster_id, snapshot, nodes: what was written.
        is_dynamic: whether the quorum is dynamic.
        is_held: whether retention and expiry are stopped.
        target: path of the folder of all nodes.
        counts: numbers of partitions by topic.
        unknown: what of the old cluster is not known.
        held: configurations of held topics as they were, by topic.
        has_tokens: whether there are delegation tokens.
    """

    cluster_id: str
    snapshot: KRaftSnapshot
    nodes: tuple[ClusterNode, ...]
    is_dynamic: bool
    is_held: bool
    target: str
    counts: Mapping[str, int]
    unknown: tuple[str, ...] = ()
    held: Mapping[str, Mapping[str, str]] = {}
    has_tokens: bool = False


def server_properties(node: ClusterNode, plan: ClusterSettings) -> str:
    """Return the part of a node's server.properties that this recovery decides."""
    folder = f"{plan.target}/node-{node.id}"
    roles = [role for role in ("broker", "controller") if role in node.roles]
    settings = {
        "process.roles": ",".join(roles),
        "node.id": str(node.id),
        **_quorum(plan),
        **_listeners(node, plan),
        "log.dirs": ",".join(f"{folder}/{name}" for name in node.log_dirs),
        "metadata.log.dir": f"{folder}/{node.log_dirs[0]}",
    }
    if node.is_broker and node.rack is not None:
        settings["broker.rack"] = node.rack
    if node.is_broker:
        settings |= {
            key: str(plan.counts[topic]) for topic, key in _COUNTS.items() if topic in plan.counts
        }
    lines = [
        f"# Node {node.id} of the recovered cluster {plan.cluster_id}.",
        "# Take these settings into its server.properties; keep the others, such as ssl.* and sasl.*, as they were.",
        *(f"{name}={value}" for name, value in settings.items()),
    ]
    if plan.is_held and node.is_broker:
        lines += [
            "# Nothing expires until these lines are removed and the node is started again:",
            *(f"{name}={value}" for name, value in _HELD_PROPERTIES.items()),
        ]
    return "\n".join(lines) + "\n"


def _quorum(plan: ClusterSettings) -> dict[str, str]:
    controllers = [node for node in plan.nodes if node.is_controller]
    if plan.is_dynamic:
        addresses = ",".join(str(node.controller_address) for node in controllers)
        return {"controller.quorum.bootstrap.servers": addresses}
    voters = ",".join(f"{node.id}@{node.controller_address}" for node in controllers)
    return {"controller.quorum.voters": voters}


def _listeners(node: ClusterNode, plan: ClusterSettings) -> dict[str, str]:
    controllers = {
        name: each.protocols.get(name, "PLAINTEXT")
        for each in plan.nodes
        for name in controller_listeners([each])
    }
    own = {
        name: address
        for name, address in node.listeners.items()
        if (name in controller_listeners([node]) if name in controllers else node.is_broker)
    }
    clients = [name for name in own if name not in controllers]
    found = {"listeners": _joined(own)}
    advertised = {name: node.advertised.get(name, own[name]) for name in own}
    if advertised:
        found["advertised.listeners"] = _joined(advertised)
    names = sorted(controllers, key=lambda name: (name != node.controller_listener, name))
    found["controller.listener.names"] = ",".join(names)
    if clients:
        found["inter.broker.listener.name"] = clients[0]
    protocols = controllers | {name: node.protocols.get(name, "PLAINTEXT") for name in own}
    pairs = (f"{name}:{protocol}" for name, protocol in protocols.items())
    return {**found, "listener.security.protocol.map": ",".join(pairs)}


def _joined(addresses: Mapping[str, str]) -> str:
    return ",".join(f"{name}://{address}" for name, address in addresses.items())


def start_text(plan: ClusterSettings) -> str:
    """Return the instructions for the operator."""
    controllers = ", ".join(str(node.id) for node in plan.nodes if node.is_controller)
    quorum = "dynamic" if plan.is_dynamic else "static"
    lines = [
        f"The recovered cluster {plan.cluster_id}",
        "",
        "1. Keep the old nodes stopped, and their disks as they are.",
        "2. Put each folder node-N onto the host of node N, owned by the user that runs Kafka. It holds secrets:",
        "   copy it with its permissions, and over a channel that you trust.",
        "3. Take the settings in node-N/server.properties into that node's server.properties; correct log.dirs and",
        "   metadata.log.dir if the folder is elsewhere there. Add ssl.* and sasl.* as they were: no log dir has them.",
        "4. Do not run kafka-storage format: the log dirs are formatted.",
        f"5. Start the controllers (nodes {controllers}; {quorum} quorum), then the brokers.",
        "",
        "Do not delete, move or add a __cluster_metadata-0 folder: with the folder of the old cluster a node takes up",
        "the old history, and renames its partitions.",
        "",
    ]
    if plan.is_held:
        lines += [
            "Retention is stopped: every topic has retention.ms=-1 and retention.bytes=-1. To lift this for a topic:",
            "  kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type topics --entity-name TOPIC \\",
            f"    --delete-config {','.join(HELD)}",
            *_own_values(plan),
            "Then remove the last lines of each server.properties.",
            "",
        ]
    if plan.has_tokens:
        lines += [
            "Delegation tokens are valid if delegation.token.secret.key is as it was on all nodes: no log dir has it.",
            "",
        ]
    if plan.unknown:
        lines += ["Not known of the old cluster:", *(f"- {each}" for each in plan.unknown), ""]
    return "\n".join(lines)


def _own_values(plan: ClusterSettings) -> list[str]:
    """Return how to lift what is held of topics with more to undo than others."""
    lines = []
    for topic, configs in sorted(plan.held.items()):
        names = [*HELD, *(HELD_TIERED if configs.get(TIERED) == "true" else ())]
        own = [f"{name}={configs[name]}" for name in names if name in configs]
        unset = [name for name in names if name not in configs]
        if not own and unset == [*HELD]:
            continue
        acts = [f"--add-config {','.join(own)}"] if own else []
        acts += [f"--delete-config {','.join(unset)}"] if unset else []
        lines.append(f"    --entity-name {topic} {' '.join(acts)}")
    return ["With these topics take instead:", *lines] if lines else []
