"""Reports of partitions as JSON, for the manifest and for tables."""

from __future__ import annotations

from typing import Any, TypeAlias

from engine.json_facts import facts_of
from engine.log.view.log_bound import LogBound
from engine.rebuild.assembly.pieces import Dropped, Piece, coalesced
from engine.rebuild.broker_mode import BrokerLoaded
from engine.rebuild.options import RebuildOptions
from engine.rebuild.planning import PlannedLog
from engine.rebuild.selection import Chosen
from engine.rebuild.writing import Loaded
from engine.verdict.totals import LossTotals

Json: TypeAlias = dict[str, Any]

MOST_LISTED = 10_000
"""Most entries of a list in a report; the total is stated too."""


def log_report(planned: PlannedLog, loaded: Loaded) -> Json:
    """Return the report of a salvaged partition; `loaded` is the real or expected result of its loading."""
    log, pieces = planned.log, coalesced(planned.pieces, across_gaps=True)
    report: Json = {
        "partition": str(log.partition),
        "sources": [each.root.display(each.folder) for each in planned.chosen.copies],
        **facts_of(log, "topic_id log_start_offset log_end_offset"),
        "bytes": sum(piece.size for piece in pieces),
        "batches": sum(piece.batches for piece in pieces),
        "records": sum(piece.records for piece in pieces),
        "lostSomething": planned.lost_something,
        "kept": [_kept(piece) for piece in pieces[:MOST_LISTED]],
        "keptCount": len(pieces),
        "dropped": [_left(each) for each in planned.dropped[:MOST_LISTED]],
        "droppedCount": len(planned.dropped),
        "losses": [each.to_json() for each in planned.missing[:MOST_LISTED]],
        "lossCount": len(planned.missing),
        "lossTotals": LossTotals.of(planned.missing).to_json(),
        "notes": planned.notes,
    }
    report["lastStableOffset"] = loaded.last_stable_offset
    report["openTransactions"] = [
        facts_of(each, "producer_id producer_epoch first_offset")
        for each in loaded.open_transactions
    ]
    if loaded.open_transactions:
        note = (
            "transactions without an end hold up read_committed readers at offset"
            f" {loaded.last_stable_offset}: end them with kafka-transactions.sh abort"
        )
        report["notes"] = [*planned.notes, note]
    return report


def holds_records(report: Json) -> bool:
    """Return whether a partition of the result has records; for one loaded as a broker, whether it has offsets."""
    if "records" in report:
        return bool(report["records"])
    return bool(report["logStartOffset"] < report["logEndOffset"])


def broker_report(chosen: Chosen, loaded: BrokerLoaded, clean: bool) -> Json:
    """Return the report of a partition that was loaded as a broker does."""
    log, cut = chosen.copies[0], max(loaded.end_before - loaded.log_end_offset, 0)
    return {
        "partition": str(chosen.partition),
        "sources": [log.root.display(log.folder)],
        "clean": clean,
        **facts_of(loaded, "log_start_offset log_end_offset logEndOffsetBefore=end_before"),
        "lostSomething": cut > 0,
        "lossTotals": LossTotals(cut, int(cut > 0)).to_json(),
        "removed": loaded.removed,
        "changed": [
            {"file": name, "size": before, "sizeAfter": after}
            for name, before, after in loaded.changed
        ],
        "notes": [],
    }


def describe_options(options: RebuildOptions) -> Json:
    """Return the options as JSON."""
    return {
        "mode": options.mode.value,
        "topics": list(options.topics),
        "partitions": list(options.partitions),
        "renames": dict(options.renames),
        "topicIds": dict(options.topic_ids),
        "from": _bound(options.start),
        "to": _bound(options.stop),
        **facts_of(options, "whole_batches deleted below_log_start meta_properties"),
    }


def _bound(bound: LogBound | None) -> Json | None:
    if bound is None:
        return None
    named = facts_of(bound, "offset timestamp before_end")
    return {name: value for name, value in named.items() if value is not None}


def _kept(piece: Piece) -> Json:
    kept: Json = facts_of(
        piece, "firstOffset=base_offset next_offset file=origin.path position size"
    )
    if piece.origin is None:
        kept["madeAnew"] = True
    return kept


def _left(dropped: Dropped) -> Json:
    return facts_of(dropped, "file=path position size kind reason first_offset last_offset is_loss")
