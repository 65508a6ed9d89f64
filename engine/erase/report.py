"""The report of an erase, which is also the manifest of its target; it has no content of a chosen record."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

from engine.clock import SYSTEM_CLOCK
from engine.erase.choice import Unknown
from engine.erase.records_file import FileResult
from engine.erase.state import EraseState
from engine.rebuild.target.manifest import COMPLETE, FORMAT, FileHash
from engine.version import __version__

Json: TypeAlias = dict[str, Any]


def erase_report(
    state: EraseState, facts: Json, files: Sequence[FileHash], target: str | None
) -> Json:
    """Return the report.

    Args:
        state: what the erase knows.
        facts: further facts.
        files: the files of the target, with their hashes.
        target: path of the target; None for a plan.
    """
    removed = state.removed
    traces = state.traces
    assert traces is not None
    unknown = [each._asdict() for result in state.results for each in result.unknown]
    unknown += [each._asdict() for each in traces.unknown]
    unknown += [Unknown(each.path, 0, 0, each.reason)._asdict() for each in state.unread]
    found = traces.facts()
    places = [_place(each) for each in state.results if each.span.records]
    copies = sum(1 for each in found if each["isCopy"])
    is_clean = not (unknown or copies or state.unreached or state.undecided)
    return {
        "format": FORMAT,
        "state": COMPLETE,
        "kind": "erase",
        "target": target,
        "created": SYSTEM_CLOCK.now_ms(),
        "version": __version__,
        **facts,
        "sources": {
            name: os.path.abspath(source.roots[0].path) for name, source in state.sources.items()
        },
        "isClean": is_clean,
        "done": target is not None and is_clean,
        "totals": {
            "records": sum(map(len, removed.offsets.values())),
            "copies": sum(each["records"] for each in places),
            "partitions": len(removed.offsets),
            "files": len(places),
            "batches": sum(each["batches"] for each in places),
            "comparedRecords": state.equal,
            "traces": copies,
            "undecided": state.undecided,
        },
        "partitions": {
            str(partition): len(offsets) for partition, offsets in sorted(removed.offsets.items())
        },
        "places": places,
        "traces": found,
        "unreached": [each._asdict() for each in state.unreached],
        "unknown": unknown,
        "dropped": [each._asdict() for result in state.results for each in result.dropped],
        "leftOut": [each._asdict() for each in state.left_out],
        "salt": removed.salt.hex(),
        "removed": sorted(each.hex() for each in removed.hashes),
        "isScanCut": removed.is_cut,
        "before": [each._asdict() for each in state.before],
        "files": [each._asdict() for each in files],
    }


def _place(result: FileResult) -> Json:
    file = result.file
    assert file.log is not None
    batches = [each for each in result.touched if len(each.kept)]
    kept = Counter(bool(each.kept.any()) for each in batches)
    return {
        "partition": str(file.log.topic_partition),
        "source": file.target,
        "path": file.path,
        "aside": file.aside,
        "batches": len(batches),
        "emptyBatches": kept[False],
        **result.span.facts(),
    }
