"""`/groups/`, `/transactions/`, `/cluster/` and `/schemas/`: present if the source holds the topics that they are replayed
from.

`/time/<period>/` has the same four as of the period's end. They can be looked up but are not listed, because the
listing of a period is a log dir.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.cut.moment import Moment
from engine.topics.topic_names import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from engine.units import Timestamp
from kafkafs.tree.errors import REPLAYED

if TYPE_CHECKING:
    from kafkafs.tree.context import Context
    from kafkafs.tree.node import Directory
    from kafkafs.tree.path_names import Period

_TOPICS = {
    "groups": (CONSUMER_OFFSETS, SHARE_GROUP_STATE),
    "transactions": (TRANSACTION_STATE,),
    "cluster": (CLUSTER_METADATA,),
    "schemas": ("_schemas",),
}
_REGISTRY = "_schemas-0"
"""The one partition of a registry's topic; here, so that a source without it imports nothing for it."""
NAMES = tuple(_TOPICS)


def has_state(context: Context, name: str) -> bool:
    """Return whether the source has a partition of a topic that the folder is replayed from."""
    return _exists(context, name) and _masked(context, name) is None


def _masked(context: Context, name: str) -> str | None:
    """Return a masked topic that the folder is replayed from; None without one."""
    return next((topic for topic in _TOPICS[name] if context.mask_of(topic) is not None), None)


def _exists(context: Context, name: str) -> bool:
    if name == "schemas":
        return _REGISTRY in context.source.partitions()
    return any(context.internal_logs.of(topic) for topic in _TOPICS[name])


def state_folder(
    path: str, context: Context, name: str, until: Timestamp | None = None
) -> Directory | None:
    """Return one of the folders, now or as of a time; None if the name is another or the source has no such topic.

    Raises NotFound.
    """
    if name not in _TOPICS or not _exists(context, name):
        return None
    masked = _masked(context, name)
    if masked is not None:
        raise context.mask.refused(path, REPLAYED.format(masked))
    if until is not None:
        context = context.then(Moment(time=until))
        if not _exists(context, name):
            return None
    # Imported here because the replays are large, and most commands need none.
    from kafkafs.tree.root.cluster_folder import cluster_folder, transactions_folder
    from kafkafs.tree.root.groups_folder import groups_folder
    from kafkafs.tree.root.schemas_folder import schemas_folder

    folders = {
        "groups": groups_folder,
        "transactions": transactions_folder,
        "cluster": cluster_folder,
        "schemas": schemas_folder,
    }
    return folders[name](path, context)


def as_of(period: Period) -> Timestamp | None:
    """Return the last millisecond of a period; None for an open end."""
    return None if period.end_ms is None else period.end_ms - 1
