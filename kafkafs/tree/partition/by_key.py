"""`key/` of a partition of a compacted topic: each key is a link to its newest record.

A look-up costs nothing: every name is a link, and the log is searched when the link is followed. The link of a key
without a record leads nowhere. What a search has found is kept, so that the next one reads only later records; and the
keys of a partition where several are looked for, see `kafkafs.decode.searching.key_maps`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import CorruptRecordError, KafkaStorageError
from engine.log.partition_log import PartitionLog
from engine.log.view.log_view import LogView
from engine.topics.topic_names import CLUSTER_METADATA, CONSUMER_OFFSETS, TRANSACTION_STATE
from engine.units import Offset
from kafkafs.escaped_names import name_of
from kafkafs.tree.context import Context
from kafkafs.tree.errors import NotFound
from kafkafs.tree.listing import README, fixed_entries
from kafkafs.tree.node import Attrs, Cancel, Entry, Kind, Link, Node
from kafkafs.tree.partition.link_targets import target_name
from kafkafs.tree.partition.partition import Partition, retried
from kafkafs.tree.partition.readme import readme_file
from kafkafs.tree.partition.record_folder import RecordFolder

if TYPE_CHECKING:
    from kafkafs.records.conditions.wanted_keys import WantedKey

_COMPACTED = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})
_README_KEY = "README%2Etxt"
"""File name of the key README.txt."""
_TO_OFFSETS = "../offset/"
_NONE = b"-"

_KEYS = """\
Newest records of {name} by key. Its topic is compacted: {why}.

Each key is a link to its newest record in this partition, for example

  cat 4711         the newest record of the key 4711, one JSON line

No key is listed. A link is searched for when it is followed, from the log end back: a key with old
records only, or with none, takes as long as it takes to read the log; the link of a key with no
record leads nowhere. Later look-ups of the same key read new records only. When searches have read
as many bytes as the log has, its keys are kept in memory if they fit, and a look-up reads one batch.
A tombstone is a record: its line has "value":null. Transactions count whether committed or not.

In a name, bytes that a file name cannot hold are %XX, the empty key is a lone %, and the key
README.txt is {readme}. The name of a key with a type is what its line shows, such as 4711 for an
int32. A name is at most 255 bytes long: for a longer key, and for one by the JSON of its schema,
use kafkafs get. If damage may hide a newer record, there is an input/output error.
"""


def why_compacted(partition: Partition) -> str | None:
    """Return why the topic of a partition is known to be compacted; None if it is not, or that is unknown."""
    topic = partition.log.topic_partition.topic
    if topic in _COMPACTED:
        return "Kafka compacts it always"
    try:
        policy = _stated_policy(partition.context, topic)
        if policy is not None:
            is_stated = "compact" in policy
            return "the cluster's metadata has cleanup.policy=compact" if is_stated else None
        cleaned = partition.log.checkpoints.cleaner_offset(partition.log.topic_partition)
    except (OSError, KafkaStorageError):
        return None
    return None if cleaned is None else "cleaner-offset-checkpoint has the partition"


def _stated_policy(context: Context, topic: str) -> frozenset[str] | None:
    if not context.internal_logs.of(CLUSTER_METADATA):
        return None
    # Imported here because replays are large, and most sources need none.
    from engine.verdict.gap_causes.cleanup_policies import policy_in

    cluster = context.state.cluster
    return policy_in(cluster.image(), topic) if cluster.exists else None


class _Searched(NamedTuple):
    """What was searched for a key: a log that has had some rewrites, up to an offset."""

    log: PartitionLog
    rewrites: int
    end: Offset


class KeyFolder(RecordFolder):
    """`key/`. Lists only README.txt."""

    __slots__ = ()

    def lookup(self, name: str) -> Node:
        partition, path = self.partition, self.child(name)
        if name == README:
            return readme_file(path, partition, partial(_readme, partition))
        key = README if name == _README_KEY else name_of(name, ())
        if key is None:
            raise NotFound(path, "no key has this name")
        # Imported here: most mounts search for no key.
        from kafkafs.records.conditions.wanted_keys import wanted_key

        topic, known = partition.log.topic_partition.topic, partition.context.schemas
        try:
            return KeyLink(path, partition, wanted_key(key, topic, known))
        except (ValueError, RecursionError) as error:
            raise NotFound(path, f"no key of the topic has this name: {error}") from None

    def entries(self, after: int = 0) -> Iterator[Entry]:
        return fixed_entries(self, [(README, Kind.FILE)], after)


class KeyLink(Link):
    """A link to the newest record of a key. All offsets in targets have 20 digits: so the size is known before.

    Args:
        key: the key.
    """

    __slots__ = ("_key", "partition")

    slow = True

    def __init__(self, path: str, partition: Partition, key: WantedKey) -> None:
        super().__init__(path)
        self.partition = partition
        self._key = key

    def attrs(self) -> Attrs:
        partition = self.partition
        owner = partition.folder_owner()
        ttl = partition.context.ttl(partition.log.is_live())
        return owner.link(self.path, _target(0), owner.mtime_ns, ttl)

    @property
    def target(self) -> str:
        return self.find()

    def find(self, cancel: Cancel | None = None) -> str:
        """Return the target.

        Raises:
            NotFound: the partition has no record of the key.
            CorruptRecordError: damage may hide a newer record.
            Cancelled, OSError.
        """
        offset = self._newest(cancel)
        if offset is None:
            raise NotFound(self.path, "no record has this key")
        return _target(offset)

    @retried
    def _newest(self, cancel: Cancel | None) -> Offset | None:
        view = self.partition.view()
        memo = self.partition.context.memo
        searched, known = view.log_start_offset, None
        kept = memo.get(self.path)
        if kept is not None and isinstance(kept[0], _Searched):
            state = kept[0]
            if state.log is self.partition.log and state.rewrites == view.rewrites:
                searched = max(state.end, searched)
                known = None if kept[1] == _NONE else int(kept[1])
        found = self._search(view, searched, cancel)
        if found is None and known is not None and known >= view.log_start_offset:
            found = known
        end = max(view.log_end_offset, searched)
        version = _Searched(self.partition.log, view.rewrites, end)
        memo.keep(self.path, version, _NONE if found is None else b"%d" % found)
        return found

    def _search(self, view: LogView, start: Offset, cancel: Cancel | None) -> Offset | None:
        """Return the offset of the newest record of the key from an offset on; None without one."""
        if start >= view.log_end_offset:
            return None
        # Imported here: most mounts search for no key.
        from kafkafs.decode.searching.key_search import KeySearch, never

        options = replace(self.partition.options, from_offset=start, to_offset=view.log_end_offset)
        context = self.partition.context
        search = KeySearch(view, self._key, options, context.options.jobs)
        if start > view.log_start_offset:
            findings = search.newest(cancel or never)
        else:
            log = self.partition.log
            findings = context.key_maps.newest(log, search, cancel or never)
        if findings.damage:
            facts = findings.damage[0]
            raise CorruptRecordError(
                f"a newer record of the key may be lost: {facts['reason']}",
                path=facts["file"],
                position=facts["position"],
            )
        return findings.offset


def _target(offset: Offset) -> str:
    return f"{_TO_OFFSETS}{target_name(offset)}"


def _readme(partition: Partition, view: LogView) -> str:
    why = why_compacted(partition) or "it was until a moment ago"
    return _KEYS.format(name=partition.name, why=why, readme=_README_KEY)
