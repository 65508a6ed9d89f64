"""The nodes of the recovered cluster: as a TOML file names them, or as the log dirs of the sources state them."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from engine.checkpoint.base64_uuid import RESERVED_DIRECTORY_IDS, random_uuid
from engine.checkpoint.meta_properties import MetaProperties
from engine.files.source_files import SourceRoot
from engine.log.log_directory import LogSource
from engine.recover.errors import RecoverRefusedError
from engine.recover.metadata.cluster_metadata import ClusterMetadata, newest_metadata
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import MAX_INT32

BROKER, CONTROLLER = "broker", "controller"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Security protocols by Kafka's number."""
_LARGEST_FILE = 1 << 20
_KEYS = frozenset(
    {
        "id",
        "roles",
        "listeners",
        "advertised",
        "protocols",
        "controller_listener",
        "log_dirs",
        "rack",
    }
)
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]*):([0-9]{1,5})")
_LISTENER = re.compile(r"[A-Za-z0-9_.-]+")
_DIR_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_WAY_OUT = "kafkafs recover --help shows a file of nodes"


@dataclass(frozen=True)
class ClusterNode:
    """A node of the recovered cluster.

    Attributes:
        id: its node.id.
        roles: "broker", "controller" or both.
        listeners: host:port by the name of the listener.
        advertised: host:port that clients get, by the name of the listener; without an entry that of the listener.
        log_dirs: names of its log dirs below node-N/; the first one has the metadata log.
        directory_ids: directory.id of each log dir, in the same order.
        protocols: security protocol by the name of the listener.
        controller_listener: name of the listener between controllers; None if there is none.
        rack: its broker.rack; None for none.
    """

    id: int
    roles: frozenset[str] = frozenset({BROKER, CONTROLLER})
    listeners: Mapping[str, str] = field(default_factory=dict)
    advertised: Mapping[str, str] = field(default_factory=dict)
    log_dirs: tuple[str, ...] = ("data",)
    directory_ids: tuple[str, ...] = ()
    protocols: Mapping[str, str] = field(default_factory=dict)
    controller_listener: str | None = None
    rack: str | None = None

    def __post_init__(self) -> None:
        if not self.directory_ids:
            made = tuple(random_uuid() for _ in self.log_dirs)
            object.__setattr__(self, "directory_ids", made)

    @property
    def is_broker(self) -> bool:
        """Whether it is a broker."""
        return BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        """Whether it is a controller."""
        return CONTROLLER in self.roles

    @property
    def controller_address(self) -> str | None:
        """host:port at which other nodes find the controller; None if it is not known."""
        name = self.controller_listener
        if not self.is_controller or name is None:
            return None
        return self.advertised.get(name) or self.listeners.get(name)


def controller_listeners(nodes: Iterable[ClusterNode]) -> frozenset[str]:
    """Return the names of the listeners between controllers, which no broker may use for clients."""
    return frozenset(
        node.controller_listener
        for node in nodes
        if node.is_controller and node.controller_listener is not None
    )


def read_nodes(path: str) -> list[ClusterNode]:
    """Return the nodes that a TOML file names, each in a table [[node]].

    Raises:
        RecoverRefusedError: the file is no TOML, or an entry is not as expected.
        LimitExceededError: it is larger than a MiB.
        OSError: the file cannot be read.
    """
    real = os.path.realpath(path)
    with SourceRoot(os.path.dirname(real)) as folder:
        data = folder.read(os.path.basename(real), limit=_LARGEST_FILE)
    try:
        return nodes_of(tomllib.loads(data.decode()), path)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecoverRefusedError(f"{path} is no TOML: {error}", _WAY_OUT) from None


def nodes_of(content: Mapping[str, Any], path: str) -> list[ClusterNode]:
    """Return the nodes in a parsed file. Raises RecoverRefusedError."""
    unknown = sorted(set(content) - {"node"})
    if unknown:
        raise RecoverRefusedError(
            f"{path} has the key {unknown[0]!r}: only [[node]] is known", _WAY_OUT
        )
    tables = content.get("node", [])
    if not isinstance(tables, list) or not tables:
        raise RecoverRefusedError(f"{path} names no node: expected [[node]] tables", _WAY_OUT)
    nodes = [_Table(path, at, table).node() for at, table in enumerate(tables, 1)]
    seen: set[int] = set()
    for node in nodes:
        if node.id in seen:
            raise RecoverRefusedError(f"{path} names node {node.id} twice", _WAY_OUT)
        seen.add(node.id)
    _need(path, nodes, BROKER)
    _need(path, nodes, CONTROLLER)
    return nodes


def _need(path: str, nodes: Sequence[ClusterNode], role: str) -> None:
    if not any(role in node.roles for node in nodes):
        raise RecoverRefusedError(
            f"{path} names no {role}", f'give one of the nodes the role: roles = ["{role}"]'
        )


class _Table:
    """A [[node]] table under inspection."""

    def __init__(self, path: str, number: int, values: object) -> None:
        self._where = f"{path}: node {number}"
        if not isinstance(values, dict):
            raise self._wrong("", "a table", values)
        self._values = values
        unknown = sorted(set(values) - _KEYS)
        if unknown:
            known = ", ".join(sorted(_KEYS))
            raise RecoverRefusedError(
                f"{self._where} has the key {unknown[0]!r}: known are {known}", _WAY_OUT
            )

    def node(self) -> ClusterNode:
        """Return the node."""
        number = self._values.get("id")
        if type(number) is not int or not 0 <= number <= MAX_INT32:
            raise self._wrong("id", "a number from 0 on", number)
        self._where = f"{self._where} (id {number})"
        roles = self._texts("roles", (BROKER, CONTROLLER), (BROKER, CONTROLLER))
        listeners = self._addresses("listeners")
        advertised = self._addresses("advertised")
        self._known("advertised", advertised, listeners)
        protocols = self._protocols(listeners)
        controller = self._controller_listener(roles, listeners)
        if controller is not None:
            protocols.setdefault(controller, PROTOCOLS[0])
        self._check_listeners(roles, listeners, protocols, controller)
        log_dirs = self._texts("log_dirs", ("data",))
        for name in log_dirs:
            if not _DIR_NAME.fullmatch(name) or name in (".", ".."):
                raise self._wrong("log_dirs", "names of folders, without a slash", name)
        rack = self._values.get("rack")
        if rack is not None and (not isinstance(rack, str) or not rack.isprintable()):
            raise self._wrong("rack", "a text", rack)
        return ClusterNode(
            number,
            frozenset(roles),
            listeners,
            advertised,
            log_dirs,
            protocols=protocols,
            controller_listener=controller,
            rack=rack,
        )

    def _wrong(self, key: str, expected: str, found: object) -> RecoverRefusedError:
        shown = "nothing" if found is None else repr(found)[:80]
        place = f"{self._where}: {key}" if key else self._where
        return RecoverRefusedError(f"{place} must be {expected}, not {shown}", _WAY_OUT)

    def _texts(
        self, key: str, default: tuple[str, ...], allowed: Collection[str] | None = None
    ) -> tuple[str, ...]:
        found = self._values.get(key, list(default))
        expected = "a list of texts" if allowed is None else f"a list of {' and '.join(allowed)}"
        if not isinstance(found, list) or not found or len(set(map(str, found))) < len(found):
            raise self._wrong(key, f"{expected}, each once", found)
        for each in found:
            if not isinstance(each, str) or (allowed is not None and each not in allowed):
                raise self._wrong(key, expected, each)
        return tuple(found)

    def _addresses(self, key: str) -> dict[str, str]:
        expected = 'a table of host:port, such as PLAINTEXT = "kafka-1.example:9092"'
        found = self._values.get(key, {})
        if not isinstance(found, dict):
            raise self._wrong(key, expected, found)
        for name, address in found.items():
            match = _HOST_PORT.fullmatch(address) if isinstance(address, str) else None
            if match is None or not 0 < int(match[2]) < 1 << 16 or not _LISTENER.fullmatch(name):
                raise self._wrong(f"{key}.{name}", "host:port", address)
        return dict(found)

    def _known(self, key: str, names: Iterable[str], listeners: Mapping[str, str]) -> None:
        for name in names:
            if name not in listeners:
                raise self._wrong(f"{key}.{name}", "of a listener that listeners names", name)

    def _protocols(self, listeners: Mapping[str, str]) -> dict[str, str]:
        found = self._values.get("protocols", {})
        if not isinstance(found, dict):
            raise self._wrong("protocols", 'a table, such as INTERNAL = "SASL_SSL"', found)
        self._known("protocols", found, listeners)
        for name, protocol in found.items():
            if protocol not in PROTOCOLS:
                raise self._wrong(f"protocols.{name}", f"one of {', '.join(PROTOCOLS)}", protocol)
        return {name: name for name in listeners if name in PROTOCOLS} | found

    def _controller_listener(
        self, roles: Collection[str], listeners: Mapping[str, str]
    ) -> str | None:
        found = self._values.get("controller_listener")
        if CONTROLLER not in roles:
            return None
        if found is None and "CONTROLLER" in listeners:
            return "CONTROLLER"
        if found is None and BROKER not in roles and len(listeners) == 1:
            return next(iter(listeners))
        if not isinstance(found, str) or found not in listeners:
            raise self._wrong("controller_listener", "the name of one of its listeners", found)
        return found

    def _check_listeners(
        self,
        roles: Collection[str],
        listeners: Mapping[str, str],
        protocols: Mapping[str, str],
        controller: str | None,
    ) -> None:
        if BROKER in roles and not set(listeners) - {controller}:
            raise self._wrong("listeners", "a table with a listener for clients", listeners)
        for name in listeners:
            if name not in protocols:
                raise self._wrong(
                    f"protocols.{name}", f"one of {', '.join(PROTOCOLS)}", protocols.get(name)
                )


class _FoundDir(NamedTuple):
    name: str
    directory_id: str | None
    has_metadata: bool
    has_partitions: bool


def found_nodes(
    sources: Sequence[LogSource], metadata: ClusterMetadata | None = None
) -> list[ClusterNode]:
    """Return the nodes that the log dirs of the sources are of, by number.

    Roles and listeners are those that the metadata states; a node that it does not know is a broker if it has
    partitions. If none of the nodes was a controller, the first one, or the first three, become controllers, too.

    Args:
        metadata: of these sources; found if not given.

    Raises:
        RecoverRefusedError: no log dir states its node.
    """
    metadata = metadata or newest_metadata(sources)
    found: dict[int, dict[str, _FoundDir]] = {}
    for source in sources:
        for at, root in enumerate(source.log_dirs):
            stated = source.meta_properties[at]
            if root is None or stated is None or stated.node_id is None:
                continue
            folders = {name for name in source.partitions() if _is_in(source, name, root.path)}
            each = _found_dir(root.path, stated, folders)
            dirs = found.setdefault(stated.node_id, {})
            dirs.setdefault(each.directory_id or each.name, each)
    if not found:
        raise RecoverRefusedError(
            "no log dir of the sources has a meta.properties that states its node",
            "name the nodes with --nodes FILE",
        )
    nodes = [
        _found_node(number, list(found[number].values()), metadata) for number in sorted(found)
    ]
    return _with_controllers(nodes)


def _is_in(source: LogSource, name: str, path: str) -> bool:
    return source.partitions()[name].root.path == path


def _found_dir(path: str, stated: MetaProperties, folders: Collection[str]) -> _FoundDir:
    name = os.path.basename(os.path.abspath(path))
    is_metadata = {each.partition("@")[0] == f"{CLUSTER_METADATA}-0" for each in folders}
    return _FoundDir(
        name if _DIR_NAME.fullmatch(name) else "data",
        stated.directory_id,
        True in is_metadata,
        False in is_metadata,
    )


def _found_node(number: int, dirs: list[_FoundDir], metadata: ClusterMetadata) -> ClusterNode:
    dirs = sorted(dirs, key=lambda each: not each.has_metadata)
    names: list[str] = []
    for each in dirs:
        name, again = each.name, 2
        while name in names:
            name, again = f"{each.name}-{again}", again + 1
        names.append(name)
    stated = [each.directory_id for each in dirs]
    ids = tuple(each if _is_usable(each, stated) and each else random_uuid() for each in stated)
    roles: set[str] = set()
    listeners: dict[str, str] = {}
    protocols: dict[str, str] = {}
    controller = None
    broker = metadata.registered_broker(number)
    if broker is not None or any(each.has_partitions for each in dirs):
        roles.add(BROKER)
    for end in () if broker is None else broker["endPoints"]:
        listeners[end["name"]] = f"{_host(end['host'])}:{end['port']}"
        protocols[end["name"]] = _protocol(end["securityProtocol"])
    stated_controller = metadata.registered_controller(number)
    if stated_controller is not None:
        roles.add(CONTROLLER)
        for end in stated_controller:
            controller = controller or end["name"]
            listeners[end["name"]] = f"{_host(end['host'])}:{end['port']}"
            protocols[end["name"]] = _protocol(end.get("securityProtocol", 0))
    return ClusterNode(
        number,
        frozenset(roles or {BROKER}),
        listeners,
        {},
        tuple(names),
        ids,
        protocols,
        controller,
        None if broker is None else broker.get("rack"),
    )


def _is_usable(directory_id: str | None, stated: Sequence[str | None]) -> bool:
    return (
        directory_id is not None
        and directory_id not in RESERVED_DIRECTORY_IDS
        and stated.count(directory_id) == 1
    )


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _protocol(number: int) -> str:
    return PROTOCOLS[number] if 0 <= number < len(PROTOCOLS) else PROTOCOLS[0]


def _with_controllers(nodes: list[ClusterNode]) -> list[ClusterNode]:
    """Make the first node, or the first three, controllers if none is one."""
    if any(node.is_controller for node in nodes):
        return nodes
    count = 3 if len(nodes) > 2 else 1
    return [
        replace(node, roles=node.roles | {CONTROLLER}) if at < count else node
        for at, node in enumerate(nodes)
    ]
