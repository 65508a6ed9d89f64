"""The log directories in tests/data and what a consumer saw in them; tests/data/README.md says what they are."""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent / "data"
KINDS = ("current", "live", "crashed", "legacy")
WITH_TRUTH = ("current", "live", "legacy")
NO_TIMESTAMP_TYPE, CREATE_TIME, LOG_APPEND_TIME = 0, 1, 2


@dataclass(frozen=True, slots=True)
class TruthRecord:
    """A record as a consumer saw it; `timestamp_type` counts as librdkafka does: 0 none, 1 create, 2 append."""

    offset: int
    timestamp_type: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int


def log_dir(kind: str) -> Path:
    """The log dir of `kind`: one of KINDS, or "sample"."""
    return DATA / "sample" if kind == "sample" else DATA / kind / "data"


def partitions(kind: str) -> list[str]:
    """The folders' names in that log dir, sorted; `-delete` folders included."""
    return sorted(entry.name for entry in log_dir(kind).iterdir() if entry.is_dir())


def truth_partitions(kind: str) -> list[str]:
    """Those partitions of the log dir whose records are known."""
    return [name for name in partitions(kind) if _truth_file(kind, name, ".jsonl").exists()]


@cache
def truth_records(kind: str, partition: str, committed: bool = False) -> tuple[TruthRecord, ...]:
    """What a consumer saw, in order; with `committed` at isolation level read_committed."""
    path = _truth_file(kind, partition, ".jsonl")
    if committed:
        own = _truth_file(kind, partition, ".committed.jsonl")
        path = own if own.exists() else path
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return tuple(_record(json.loads(line)) for line in lines)


@cache
def truth_offsets(kind: str) -> dict[str, dict[str, Any]]:
    """By partition: earliest, latest, latest_committed and, where asked, for_times {ms as text: offset}."""
    text = (_truth_folder(kind) / "offsets.json").read_text(encoding="utf-8")
    offsets: dict[str, dict[str, Any]] = json.loads(text)
    return offsets


def dump_text(kind: str, partition: str, *, indexes: bool = False) -> str | None:
    """What DumpLogSegments printed about the partition's .log files or indexes; None where not kept."""
    path = _truth_file(kind, partition, ".indexes.txt" if indexes else ".dump.txt")
    return gzip.decompress(path.read_bytes()).decode() if path.exists() else None


def copy_of(kind: str, target: Path, only: list[str] | None = None) -> Path:
    """Copies a log dir (or its folders named in `only`, with the files beside them) below `target`: its path."""
    source, copy = log_dir(kind), target / kind
    copy.mkdir(parents=True)
    for entry in source.iterdir():
        if not entry.is_dir():
            shutil.copy2(entry, copy)
        elif only is None or entry.name in only:
            shutil.copytree(entry, copy / entry.name)
    for checkpoint in copy.glob("re*-checkpoint") if only is not None else ():
        _keep_partitions(checkpoint, only)
    return copy


def _keep_partitions(checkpoint: Path, folders: list[str]) -> None:
    """Leave only some partitions in a checkpoint of offsets: it names no folder that is not there."""
    version, _, *lines = checkpoint.read_text().splitlines()
    kept = [line for line in lines if "-".join(line.split(" ")[:2]) in folders]
    checkpoint.write_text("\n".join([version, str(len(kept)), *kept, ""]))


def logs(kind: str, partition: str) -> list[Path]:
    """The .log files of a partition by base offset; `.deleted` files are not among them."""
    folder = log_dir(kind) / partition
    return sorted(folder / name for name in os.listdir(folder) if name.endswith(".log"))


def _truth_folder(kind: str) -> Path:
    # What was copied from a running broker, and the sample, hold the records of "current".
    return DATA / ("current" if kind in ("live", "sample") else kind) / "truth"


def _truth_file(kind: str, partition: str, suffix: str) -> Path:
    name = partition if len(partition) < 200 else partition[:20] + "~" + partition.rsplit("-", 1)[1]
    return _truth_folder(kind) / f"{name}{suffix}.gz"


def _record(row: dict[str, Any]) -> TruthRecord:
    return TruthRecord(
        row["offset"],
        row["timestampType"],
        row["timestamp"],
        _bytes(row["key"]),
        _bytes(row["value"]),
        tuple((key, _bytes(value)) for key, value in row["headers"]),
        row["leaderEpoch"],
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
