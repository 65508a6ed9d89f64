"""`state/` of a partition: offsets, epochs, producers, transactions, indexes and leftovers as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from engine.errors import KafkaStorageError
from engine.files.file_names import producer_snapshot_name
from engine.index.abstract_index import AbstractIndex
from engine.index.offset_index import OffsetIndex
from engine.json_facts import camel_case, facts_of
from engine.log.view.log_view import LogView
from engine.state.producer_snapshot import ProducerSnapshot
from engine.state.producer_state_entry import ProducerStateEntry
from kafkafs.decode.error_line import exception_facts, shown_facts
from kafkafs.decode.shown_text import pretty_json
from kafkafs.tree.errors import Cancelled, NotFound
from kafkafs.tree.listing import fixed_entries
from kafkafs.tree.node import Cancel, Entry, Kind, Node
from kafkafs.tree.partition.link_targets import first_offset, last_offset
from kafkafs.tree.partition.partition import Partition, PartitionNode
from kafkafs.tree.plain_files import MadeFile

MOST_TRANSACTIONS = 100_000
MOST_PRODUCERS = 100_000
"""For all snapshots of a partition together."""


class StateFolder(PartitionNode):
    """`state/` of a partition."""

    __slots__ = ()

    def lookup(self, name: str) -> Node:
        make = _FILES.get(name)
        if make is None:
            raise NotFound(self.child(name))
        partition = self.partition
        view = partition.view()
        return MadeFile(
            self.child(name),
            lambda cancel: pretty_json(make(partition, view, cancel)),
            partition.owner(view),
            ttl=partition.ttl(view),
            memo=partition.context.memo,
            version=view.generation,
        )

    def entries(self, after: int = 0) -> Iterator[Entry]:
        return fixed_entries(self, [(name, Kind.FILE) for name in _FILES], after)


def view_xattrs(partition: Partition) -> dict[str, bytes]:
    """Return the partition's offsets as extended attributes of its folder."""
    view = partition.view()
    facts = {name: value for name, value in offsets(partition, view).items() if value is not None}
    return {f"user.kafka.{_snake(name)}": _xattr(value) for name, value in facts.items()}


def offsets(partition: Partition, view: LogView, cancel: Cancel | None = None) -> dict[str, Any]:
    """Return the offsets that a broker would report, and the log's size."""
    topic, number = partition.log.topic_partition
    newest = view.max_timestamp
    return {
        "topic": topic,
        "partition": number,
        "topicId": view.topic_id,
        "logStartOffset": view.log_start_offset,
        "firstRecordOffset": first_offset(partition, view),
        "lastRecordOffset": last_offset(partition, view),
        **facts_of(view, "last_stable_offset high_watermark log_end_offset"),
        "maxTimestamp": None if newest is None else newest.timestamp,
        "maxTimestampOffset": None if newest is None else newest.offset,
        "segments": len(view),
        "size": view.size,
        "live": view.live,
        **_replicas(partition, view),
    }


def _replicas(partition: Partition, view: LogView) -> dict[str, Any]:
    if not view.copy_folders:
        return {}
    # Imported here: most logs are of one node.
    from engine.log.joined_logs import JoinedLog
    from engine.replay.chosen_copies import metadata_of

    log = partition.log
    if not isinstance(log, JoinedLog):
        return {}
    facts = metadata_of(log.topic_partition, partition.context.state.cluster)
    return {"replicas": {**log.described(), **facts}}


def epochs(partition: Partition, view: LogView, cancel: Cancel | None) -> list[dict[str, Any]]:
    """Return the leader epochs, oldest first."""
    entries = view.leader_epochs.entries
    found: list[dict[str, Any]] = []
    end = view.log_end_offset
    for entry in reversed(entries):
        found.append({"epoch": entry.epoch, "startOffset": entry.start_offset, "endOffset": end})
        end = entry.start_offset
    return found[::-1]


def producers(partition: Partition, view: LogView, cancel: Cancel | None) -> list[dict[str, Any]]:
    """Return the content of every producer snapshot, or the error of one that cannot be used.

    Producers beyond MOST_PRODUCERS are only counted.
    """
    found = []
    room = MOST_PRODUCERS
    for offset in view.listing.producer_snapshots:
        _stop_if(cancel)
        name = producer_snapshot_name(offset)
        facts: dict[str, Any] = {"file": name, "offset": offset}
        try:
            entries = ProducerSnapshot.iterate(view.read_side_file(name), name)
            listed = [_producer(entry) for entry in islice(entries, room)]
            room -= len(listed)
            facts["producers"] = listed
            if not_listed := sum(1 for _ in entries):
                facts["notListed"] = not_listed
        except (KafkaStorageError, OSError) as error:
            facts["error"] = exception_facts(error)
        found.append(facts)
    return found


def _producer(entry: ProducerStateEntry) -> dict[str, Any]:
    last = entry.last_batch
    return {
        **facts_of(
            entry,
            "producer_id producer_epoch coordinator_epoch last_timestamp current_txn_first_offset",
        ),
        "lastSequence": None if last is None else last.last_sequence,
        "lastOffset": None if last is None else last.last_offset,
        "offsetDelta": None if last is None else last.offset_delta,
    }


def transactions(partition: Partition, view: LogView, cancel: Cancel | None) -> dict[str, Any]:
    """Return the open transactions from the log, and the aborted ones from the transaction indexes."""
    aborted: list[dict[str, Any]] = []
    not_listed = 0
    errors = []
    for segment in view.segments_from(0):
        _stop_if(cancel)
        try:
            for txn in segment.transaction_index():
                if len(aborted) < MOST_TRANSACTIONS:
                    aborted.append(
                        facts_of(txn, "producer_id first_offset last_offset last_stable_offset")
                    )
                else:
                    not_listed += 1
        except FileNotFoundError:
            continue
        except (KafkaStorageError, OSError) as error:
            facts = exception_facts(error)
            errors.append(shown_facts(facts, partition.mask))
    return {
        "lastStableOffset": view.last_stable_offset,
        "open": [
            facts_of(txn, "producer_id producer_epoch first_offset")
            for txn in view.open_transactions
        ],
        "aborted": aborted,
        **({"abortedNotListed": not_listed} if not_listed else {}),
        **({"errors": errors} if errors else {}),
    }


def indexes(partition: Partition, view: LogView, cancel: Cancel | None) -> list[dict[str, Any]]:
    """Return the indexes of each segment: the number of entries, the last entry, and errors of a quick check."""
    names = set(view.listing.files)
    found = []
    for segment in view.segments_from(0):
        _stop_if(cancel)
        stem, real = f"{segment.base_offset:020}", view.listing.real
        offset_path = partition.source_path(real(f"{stem}.index"))
        offset_index = OffsetIndex(
            lambda path=offset_path: partition.root.open(path),  # type: ignore[misc]
            segment.base_offset,
            path=offset_path,
        )
        by_suffix: dict[str, AbstractIndex[Any]] = {
            ".index": offset_index,
            ".timeindex": segment.time_index(),
            ".txnindex": segment.transaction_index(),
        }
        found.append(
            {
                "segment": segment.base_offset,
                "size": segment.size,
                "indexes": {
                    real(f"{stem}{suffix}"): _index(index)
                    for suffix, index in by_suffix.items()
                    if real(f"{stem}{suffix}") in names
                },
            }
        )
    return found


def _index(index: AbstractIndex[Any]) -> dict[str, Any]:
    try:
        count = len(index)
        facts: dict[str, Any] = {"bytes": index.byte_size, "entries": count}
        if count:
            facts["lastEntry"] = _camel(index.entry_at(count - 1)._asdict())
        index.check()
    except (KafkaStorageError, OSError, IndexError) as error:
        return {"error": exception_facts(error)}
    return facts


def leftovers(partition: Partition, view: LogView, cancel: Cancel | None) -> list[dict[str, Any]]:
    """Return the files in the folder that are not part of the log: temporary or deleted, foreign, links."""
    found = []
    for name, reason in view.leftovers:
        _stop_if(cancel)
        facts: dict[str, Any] = {"file": name, "reason": reason}
        try:
            status = partition.root.stat(partition.source_path(name))
            facts |= {"bytes": status.st_size, "modified": status.st_mtime_ns // 1_000_000}
        except (KafkaStorageError, OSError):
            pass
        found.append(facts)
    return found


_Make = Callable[[Partition, LogView, Cancel | None], Any]
_FILES: dict[str, _Make] = {
    "offsets.json": offsets,
    "epochs.json": epochs,
    "producers.json": producers,
    "transactions.json": transactions,
    "indexes.json": indexes,
    "leftovers.json": leftovers,
}


def _stop_if(cancel: Cancel | None) -> None:
    if cancel is not None and cancel():
        raise Cancelled


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


def _camel(facts: dict[str, Any]) -> dict[str, Any]:
    return {camel_case(name): value for name, value in facts.items()}


def _xattr(value: object) -> bytes:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.encode("utf-8", "surrogateescape")
