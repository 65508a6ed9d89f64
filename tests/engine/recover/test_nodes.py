"""The new nodes: from a file that a person wrote, and from the log dirs of dead nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.checkpoint.base64_uuid import RESERVED_DIRECTORY_IDS
from engine.errors import KafkaStorageError
from engine.log.log_directory import open_source
from engine.recover.errors import RecoverRefusedError
from engine.recover.nodes import ClusterNode, controller_listeners, found_nodes, read_nodes
from tests.builders import Rec
from tests.replayed_bytes import TOPIC_ID, in_batches, metadata_record, write_partition

CLUSTER = "EjRWeJCrze8SNFZ4kKvN7w"
GOOD = """
[[node]]
id = 1
rack = "r1"
log_dirs = ["fast", "slow"]
controller_listener = "QUORUM"
listeners = { CLIENTS = "0.0.0.0:9092", QUORUM = "[::1]:9093" }
advertised = { CLIENTS = "kafka-1.example:9092" }
protocols = { CLIENTS = "SASL_SSL", QUORUM = "SSL" }
[[node]]
id = 2
roles = ["broker"]
listeners = { PLAINTEXT = "kafka-2:9092" }
"""


def nodes_in(folder: Path, text: str) -> list[ClusterNode]:
    path = folder / "nodes.toml"
    path.write_text(text, encoding="utf-8")
    return read_nodes(str(path))


def test_a_file_names_nodes_with_roles_listeners_and_log_dirs(tmp_path: Path) -> None:
    first, second = nodes_in(tmp_path, GOOD)
    assert (first.id, sorted(first.roles)) == (1, ["broker", "controller"])
    assert first.log_dirs == ("fast", "slow")
    assert (first.rack, second.rack) == ("r1", None)
    assert first.controller_address == "[::1]:9093"
    assert first.protocols == {"CLIENTS": "SASL_SSL", "QUORUM": "SSL"}
    assert (second.id, second.roles, second.log_dirs) == (2, {"broker"}, ("data",))
    assert second.controller_address is None
    assert controller_listeners([first, second]) == {"QUORUM"}
    ids = [*first.directory_ids, *second.directory_ids]
    assert len(set(ids)) == 3
    assert not set(ids) & RESERVED_DIRECTORY_IDS


def test_a_link_to_a_file_of_nodes_is_followed(tmp_path: Path) -> None:
    nodes_in(tmp_path, GOOD)
    (tmp_path / "link").symlink_to(tmp_path / "nodes.toml")
    assert [node.id for node in read_nodes(str(tmp_path / "link"))] == [1, 2]


CLIENTS = 'listeners = { PLAINTEXT = "a:1", CONTROLLER = "a:2" }'
WRONG = {
    "no TOML": ("id = [", "is no TOML"),
    "not UTF-8": ("[[node]]\nid = 1 # \udcff", "is no TOML"),
    "empty": ("", "names no node"),
    "another key": ("nodes = 1", "has the key 'nodes'"),
    "a table": ("[node]\nid = 1", "names no node"),
    "no table": ("node = [1]", "must be a table, not 1"),
    "a key of a node": (f"[[node]]\nid = 1\nrole = 'x'\n{CLIENTS}", "has the key 'role'"),
    "no id": (f"[[node]]\n{CLIENTS}", "id must be a number from 0 on, not nothing"),
    "a negative id": (f"[[node]]\nid = -1\n{CLIENTS}", "id must be a number from 0 on, not -1"),
    "a bool as id": (f"[[node]]\nid = true\n{CLIENTS}", "id must be a number from 0 on, not True"),
    "twice": (f"[[node]]\nid = 1\n{CLIENTS}\n[[node]]\nid = 1\n{CLIENTS}", "names node 1 twice"),
    "a role": (
        f'[[node]]\nid = 1\nroles = ["leader"]\n{CLIENTS}',
        "roles must be a list of broker",
    ),
    "no role": (f"[[node]]\nid = 1\nroles = []\n{CLIENTS}", "roles must be"),
    "no port": ('[[node]]\nid = 1\nlisteners = { A = "host" }', "listeners.A must be host:port"),
    "a large port": ('[[node]]\nid = 1\nlisteners = { A = "h:70000" }', "must be host:port"),
    "a slash": (f'[[node]]\nid = 1\nlog_dirs = ["a/b"]\n{CLIENTS}', "log_dirs must be names"),
    "above": (f'[[node]]\nid = 1\nlog_dirs = [".."]\n{CLIENTS}', "log_dirs must be names"),
    "a dir twice": (f'[[node]]\nid = 1\nlog_dirs = ["a", "a"]\n{CLIENTS}', "each once"),
    "no controller listener": (
        '[[node]]\nid = 1\nlisteners = { PLAINTEXT = "a:1" }',
        "controller_listener must be the name of one of its listeners",
    ),
    "no listener for clients": (
        '[[node]]\nid = 1\nlisteners = { CONTROLLER = "a:1" }',
        "listeners must be a table with a listener for clients",
    ),
    "no protocol": (
        '[[node]]\nid = 1\nlisteners = { OWN = "a:1", CONTROLLER = "a:2" }',
        "protocols.OWN must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not nothing",
    ),
    "another protocol": (
        f'[[node]]\nid = 1\nprotocols = {{ PLAINTEXT = "TLS" }}\n{CLIENTS}',
        "protocols.PLAINTEXT must be one of",
    ),
    "advertised what is none": (
        f'[[node]]\nid = 1\nadvertised = {{ OTHER = "a:1" }}\n{CLIENTS}',
        "advertised.OTHER must be of a listener that listeners names",
    ),
    "a rack": (f"[[node]]\nid = 1\nrack = 1\n{CLIENTS}", "rack must be a text, not 1"),
    "no broker": (
        '[[node]]\nid = 1\nroles = ["controller"]\nlisteners = { CONTROLLER = "a:1" }',
        "names no broker",
    ),
    "no controller": (
        '[[node]]\nid = 1\nroles = ["broker"]\nlisteners = { PLAINTEXT = "a:1" }',
        "names no controller",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_refused_with_what_is_expected_and_a_way_out(
    tmp_path: Path, name: str
) -> None:
    text, says = WRONG[name]
    (tmp_path / "nodes.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(RecoverRefusedError) as caught:
        read_nodes(str(tmp_path / "nodes.toml"))
    assert says in str(caught.value)
    assert caught.value.hint


def test_a_file_of_any_size_does_not_fill_the_memory(tmp_path: Path) -> None:
    with pytest.raises(KafkaStorageError):
        nodes_in(tmp_path, "#" * (1 << 21))


def register(number: int, port: int) -> Rec:
    end = {"name": "CLIENTS", "host": f"kafka-{number}", "port": port, "securityProtocol": 3}
    return metadata_record(
        "REGISTER_BROKER_RECORD", version=3, brokerId=number, brokerEpoch=5,
        incarnationId=TOPIC_ID, endPoints=[end], features=[], rack=f"rack-{number}",
    )  # fmt: skip


def register_controller(number: int) -> Rec:
    end = {"name": "QUORUM", "host": f"ctl-{number}", "port": 9093, "securityProtocol": 1}
    return metadata_record(
        "REGISTER_CONTROLLER_RECORD", controllerId=number, incarnationId=TOPIC_ID,
        zkMigrationReady=False, endPoints=[end], features=[],
    )  # fmt: skip


def log_dir(path: Path, node: int, directory: str | None, partitions: tuple[str, ...] = ()) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    own = f"directory.id={directory}\n" if directory else ""
    (path / "meta.properties").write_text(
        f"version=1\ncluster.id={CLUSTER}\nnode.id={node}\n{own}", encoding="utf-8"
    )
    for name in partitions:
        (path / name).mkdir()
    return path


def test_found_nodes_have_the_roles_and_listeners_of_the_metadata(tmp_path: Path) -> None:
    records = [register(1, 9092), register(2, 9092), register_controller(1), register_controller(9)]
    write_partition(
        log_dir(tmp_path / "a/one", 1, TOPIC_ID), "__cluster_metadata-0", in_batches(records)
    )
    log_dir(tmp_path / "b/one", 1, "AAECAwQFBgcICQoLDA0ODw", ("t-0",))
    log_dir(tmp_path / "c", 2, "EBESExQVFhcYGRobHB0eHw", ("t-0",))
    log_dir(tmp_path / "d", 9, "ICEiIyQlJicoKSorLC0uLw")
    log_dir(tmp_path / "e", 4, None, ("t-1",))
    log_dir(tmp_path / "copy-of-c", 2, "EBESExQVFhcYGRobHB0eHw", ("t-0",))
    names = ["a/one", "b/one", "c", "d", "e", "copy-of-c"]
    sources = [open_source(str(tmp_path / name)) for name in names]
    found = {node.id: node for node in found_nodes(sources)}
    assert sorted(found) == [1, 2, 4, 9]
    assert found[1].log_dirs == ("one", "one-2")
    assert found[1].directory_ids == (TOPIC_ID, "AAECAwQFBgcICQoLDA0ODw")
    assert found[1].listeners == {"CLIENTS": "kafka-1:9092", "QUORUM": "ctl-1:9093"}
    assert found[1].protocols == {"CLIENTS": "SASL_SSL", "QUORUM": "SSL"}
    assert (sorted(found[2].roles), found[2].log_dirs) == (["broker"], ("c",))
    assert sorted(found[9].roles) == ["controller"]
    assert (sorted(found[4].roles), found[4].listeners) == (["broker"], {})
    assert [found[number].rack for number in (1, 4)] == ["rack-1", None]
    assert found[4].directory_ids[0] not in RESERVED_DIRECTORY_IDS


def test_where_no_controller_is_left_the_first_brokers_become_controllers(tmp_path: Path) -> None:
    dirs = [log_dir(tmp_path / f"{number}", number, None, ("t-0",)) for number in range(1, 6)]
    sources = [open_source(str(path)) for path in dirs]
    for count, controllers in ((1, [1]), (2, [1]), (3, [1, 2, 3]), (5, [1, 2, 3])):
        found = found_nodes(sources[:count])
        assert [node.id for node in found if node.is_controller] == controllers


def test_log_dirs_without_meta_properties_are_of_no_node(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0/00000000000000000000.log").write_bytes(b"")
    with pytest.raises(RecoverRefusedError, match="name the nodes with --nodes FILE"):
        found_nodes([open_source(str(tmp_path))])
