"""`/cluster/`: state of the controllers; `/transactions/`: state of the transaction coordinators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.checkpoint.meta_properties import MetaProperties
from engine.errors import OffsetOutOfRangeError
from engine.replay.cluster import ClusterImage
from engine.replay.cluster_tables import Item
from kafkafs.tree.errors import NotFound
from kafkafs.tree.node import Directory
from kafkafs.tree.root.documents import Document, Documents, Folders, with_times
from kafkafs.tree.root.groups_folder import MOST_SHOWN, damaged

if TYPE_CHECKING:
    from kafkafs.tree.context import Context

ABOUT = "cluster.json"


def transactions_folder(path: str, context: Context) -> Directory:
    """Return `/transactions/`: a file for each transactional id."""
    replay = context.state.transactions

    def find(name: str) -> Document | None:
        image = replay.image()
        found = image.transaction(name)
        if found is None:
            return None
        place = f"__transaction_state-{found.coordinator}"
        damage = [each.facts() for each in image.unreadable if each.partition == place]
        return Document(with_times(found.facts()) | damaged(damage), found.record_timestamp)

    return Documents(
        path,
        context,
        lambda: replay.image().names,
        find,
        lambda: [each.facts() for each in replay.image().unreadable],
    )


def cluster_folder(path: str, context: Context) -> Directory:
    """Return `/cluster/`. Raises NotFound for a time before all snapshots and the log."""
    image = _image(path, context)
    fetch = partial(_image, path, context)
    tables: dict[str, Callable[[ClusterImage], Mapping[str, Item]]] = {
        "brokers": partial(_by_number, table="brokers"),
        "controllers": partial(_by_number, table="controllers"),
        "acls": partial(_by_number, table="acls"),
        "features": partial(_by_number, table="features"),
        "tokens": partial(_by_number, table="tokens"),
        "quotas": _quotas,
        "users": _users,
        "other": partial(_by_number, table="other"),
    }
    folders: dict[str, Callable[[str], Directory]] = {
        "topics": lambda at: _topics(at, context, fetch),
        "configs": lambda at: _configs(at, context, fetch),
    }
    for name, find in tables.items():
        if find(image) or name in ("brokers", "acls", "features"):
            folders[name] = partial(_table, context=context, fetch=fetch, find=find)
    return Folders(path, context, folders, {ABOUT: lambda: _about(context, fetch())})


def _image(path: str, context: Context) -> ClusterImage:
    try:
        return context.state.cluster.image()
    except OffsetOutOfRangeError as error:
        raise NotFound(path, str(error)) from None


def _about(context: Context, image: ClusterImage) -> Document:
    quorum = image.table("quorum")
    facts: dict[str, Any] = {
        "clusterId": cluster_id(context.source.meta_properties),
        "metadataOffset": image.newest_offset,
        "timestamp": image.timestamp,
        "snapshot": None if image.snapshot is None else image.snapshot._asdict(),
        **{name: item.facts for name, item in quorum.items()},
        "topics": len(image.topics),
        "partitions": sum(len(rows) for rows in image.partitions.values()),
        "brokers": sorted(image.table("brokers")),
        "controllers": sorted(image.table("controllers")),
        "openMetadataTransaction": image.waiting is not None,
        "missingBefore": image.missing,
        "notes": list(image.notes[:MOST_SHOWN]),
    }
    damage = [each.facts() for each in image.unreadable]
    return Document(with_times(facts) | damaged(damage), image.timestamp)


def cluster_id(log_dirs: tuple[MetaProperties | None, ...]) -> str | None:
    """Return the cluster's id from the log dirs' meta.properties; None if none has it."""
    return next((each.cluster_id for each in log_dirs if each is not None), None)


def _topics(path: str, context: Context, fetch: Callable[[], ClusterImage]) -> Directory:
    def find(name: str) -> Document | None:
        image = fetch()
        facts = image.topic_facts(name)
        return None if facts is None else Document(facts, image.topic_timestamp(name))

    return Documents(path, context, lambda: tuple(fetch().topics), find)


def _configs(path: str, context: Context, fetch: Callable[[], ClusterImage]) -> Directory:
    """Return a folder with a folder for each resource type."""
    kinds = dict.fromkeys(kind for kind, _ in fetch().table("configs"))

    def of_kind(image: ClusterImage, kind: str) -> Mapping[str, Item]:
        items = image.table("configs").items()
        return {key[1]: item for key, item in items if key[0] == kind}

    folders = {
        kind: partial(_table, context=context, fetch=fetch, find=partial(of_kind, kind=kind))
        for kind in sorted(kinds)
    }
    return Folders(path, context, folders, {})


def _table(
    path: str,
    context: Context,
    fetch: Callable[[], ClusterImage],
    find: Callable[[ClusterImage], Mapping[str, Item]],
) -> Directory:
    """Return a folder with a file for each row of a table."""

    def document(name: str) -> Document | None:
        item = find(fetch()).get(name)
        return None if item is None else Document(with_times(item.facts), item.timestamp)

    return Documents(path, context, lambda: sorted(find(fetch())), document)


def _by_number(image: ClusterImage, table: str) -> Mapping[str, Item]:
    return {str(key): item for key, item in image.table(table).items()}


def _quotas(image: ClusterImage) -> Mapping[str, Item]:
    """Return the quotas by entity, as comma-separated type=name; the name of a default entity is empty."""
    return {
        ",".join(f"{kind}={name or ''}" for kind, name in key): item
        for key, item in image.table("quotas").items()
    }


def _users(image: ClusterImage) -> Mapping[str, Item]:
    return {f"{name}.{mechanism}": item for (name, mechanism), item in image.table("users").items()}
