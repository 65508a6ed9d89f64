"""Check the meta.properties of log dirs as a broker does before it loads a log: which broker owns them.

See KafkaRaftServer.initializeLogDirs and LogManager.createAndValidateLogDirs in Kafka.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.checkpoint.meta_properties import MetaProperties, MetaPropertiesVersion
from engine.checkpoint.meta_properties_ensemble import MetaPropertiesEnsemble
from engine.errors import CorruptCheckpointError
from engine.files.file_names import META_PROPERTIES
from engine.files.folder_entries import EntryKind
from engine.files.source_files import SourceRoot
from engine.plan.loading.broker_failure import BrokerFailure, Outcome, offline, stops
from engine.plan.log_dir_plan import METADATA_LOG
from engine.plan.raft_files import check_bootstrap


@dataclass(frozen=True, slots=True)
class Owners:
    """The broker that owns log dirs, as their meta.properties state it.

    Attributes:
        metadata_dir: log dir of the metadata log.
        node_id: node id of the broker; None if no log dir states it.
        directory_ids: stated directory ids by the paths of the log dirs.
        new_directory_ids: log dirs that get a directory.id at the start.
        offline: failures of the log dirs that go offline, by path.
        has_zookeeper: whether the broker runs with ZooKeeper, and has no metadata log.
        failure: failure that ends the start; None if it continues.
    """

    metadata_dir: str
    node_id: int | None = None
    directory_ids: Mapping[str, str] = field(default_factory=dict)
    new_directory_ids: frozenset[str] = frozenset()
    offline: Mapping[str, BrokerFailure] = field(default_factory=dict)
    has_zookeeper: bool = False
    failure: BrokerFailure | None = None


def check_owners(roots: Sequence[SourceRoot], *, may_have_zookeeper: bool = False) -> Owners:
    """Return the owner of log dirs, and the log dirs that a broker does not use.

    The log dir with the metadata log counts as `metadata.log.dir`; without a metadata log the first log dir does,
    as by default.

    Args:
        roots: all log dirs of one broker, in the order of `log.dirs`.
        may_have_zookeeper: whether the broker's version may run with ZooKeeper, and then needs no meta.properties.
    """
    entries = {root.path: {entry.name: entry.kind for entry in root.list()} for root in roots}
    with_metadata = [path for path, names in entries.items() if METADATA_LOG in names]
    metadata_dir = (with_metadata or [roots[0].path])[0]
    found = MetaPropertiesEnsemble.load({root.path: root for root in roots})
    with_zookeeper = may_have_zookeeper and _is_of_zookeeper(found)
    failed = {
        path: _unreadable(path, entries[path].get(META_PROPERTIES), reason)
        for path, reason in found.error_log_dirs.items()
    }
    try:
        _verify(found, metadata_dir, failed, with_zookeeper=with_zookeeper)
        if not with_zookeeper:
            _check_metadata_logs(found, metadata_dir, with_metadata)
            _check_stated(found)
            check_bootstrap({root.path: root for root in roots}[metadata_dir])
    except BrokerFailure as failure:
        return Owners(metadata_dir, found.node_id, failure=failure)
    stated = found.properties.items()
    return Owners(
        metadata_dir,
        found.node_id,
        {path: each.directory_id for path, each in stated if each.directory_id is not None},
        frozenset(path for path, each in stated if each.directory_id is None),
        failed,
        with_zookeeper,
    )


def _is_of_zookeeper(found: MetaPropertiesEnsemble) -> bool:
    return not any(each.version is MetaPropertiesVersion.V1 for each in found.properties.values())


def _unreadable(path: str, kind: EntryKind | None, reason: str) -> BrokerFailure:
    name = os.path.join(path, META_PROPERTIES)
    if kind is EntryKind.SYMLINK:
        return BrokerFailure(
            Outcome.UNKNOWN, "", f"{name} is a symbolic link, which is not followed here"
        )
    return offline("IOException", f"{name} cannot be read: {reason}")


def _verify(
    found: MetaPropertiesEnsemble,
    metadata_dir: str,
    failed: Mapping[str, BrokerFailure],
    *,
    with_zookeeper: bool,
) -> None:
    """Raise BrokerFailure if the log dirs cannot be of one broker."""
    unknown = next((each for each in failed.values() if each.outcome is Outcome.UNKNOWN), None)
    if unknown is not None:
        raise unknown
    if not with_zookeeper and not found.properties:
        reasons = [failure.reason for failure in failed.values()]
        reasons += [_missing_file(path) for path in sorted(found.empty_log_dirs)]
        raise stops("RuntimeException", f"no log dir has a meta.properties: {reasons[0]}")
    try:
        found.verify()
    except CorruptCheckpointError as error:
        raise stops("RuntimeException", f"{META_PROPERTIES}: {error}") from error
    node_id = found.node_id
    if node_id is not None and node_id < 0:
        raise stops(
            "RuntimeException",
            f"{META_PROPERTIES} states node {node_id}: a node id is not negative",
        )
    if not with_zookeeper and metadata_dir in failed:
        raise stops("RuntimeException", failed[metadata_dir].reason)


def _check_metadata_logs(
    found: MetaPropertiesEnsemble, metadata_dir: str, with_metadata: Sequence[str]
) -> None:
    """Raise BrokerFailure if another log dir has a metadata log, too."""
    for path in with_metadata:
        if path != metadata_dir and path in found.properties:
            raise stops(
                "KafkaException",
                f"{os.path.join(path, METADATA_LOG)} is a second metadata log, beside that in"
                f" {metadata_dir}",
            )


def _check_stated(found: MetaPropertiesEnsemble) -> None:
    """Raise BrokerFailure for a log dir that states no node id or no cluster id."""
    for path, each in found.non_failed():
        if each is None:
            raise stops("RuntimeException", f"{_missing_file(path)}: format the log dir")
        missing = _missing(each)
        if missing is not None:
            name = os.path.join(path, META_PROPERTIES)
            raise stops("RuntimeException", f"{name} states no {missing}")


def _missing(stated: MetaProperties) -> str | None:
    if stated.node_id is None:
        return "version=1 and node.id" if stated.version.has_broker_id else "node.id"
    return "cluster.id" if stated.cluster_id is None else None


def _missing_file(path: str) -> str:
    return f"{os.path.join(path, META_PROPERTIES)} is missing"
