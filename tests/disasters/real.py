"""Disasters of real clusters: three nodes under load are killed and their files hurt; a recovery beside a mere start."""

from __future__ import annotations

import json
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.log.log_directory import open_source
from engine.rebuild.assembly.salvage import salvage
from engine.recover.coordinators.coordinator_log import coordinator_records
from engine.recover.options import FOLDERS, RecoverOptions
from engine.recover.recovering import recover
from engine.replay.partition_records import ReplayedRecord
from tests.checkout import ROOT, commit, now
from tests.kafka import jars
from tests.kafka.recover.acknowledged_load import (
    History,
    Load,
    judge,
    make_topics,
    write_more,
)
from tests.kafka.recover.power_loss import cut_tails
from tests.kafka.recover.real_cluster import (
    RealCluster,
    leaderless,
    new_cluster,
    recovered_cluster,
)

NODES = (1, 2, 3)
SECONDS = 8
MORE = 240
KEPT = ROOT / "build" / "disasters" / "real.jsonl"
KINDS = (
    "the leaders' tails cut",
    "the tails of all but one copy cut",
    "a disk lost, tails cut",
    "no metadata, the leaders' tails cut",
    "bytes of a disk changed",
)
WRONG = ("lost", "torn", "gone", "revived", "beyond")
"""What a cluster may have too many of."""


def run_real(cases: int, seed: int, version: str | None) -> int:
    """Run cases one after the other, print and keep what they found; 1 if a recovery was wrong."""
    wrong = 0
    for number in range(seed, seed + cases):
        chosen = version or (jars.CURRENT, jars.PREVIOUS)[number % 2]
        with tempfile.TemporaryDirectory(prefix="disaster-") as home:
            found = run_case(Path(home), number, chosen)
        wrong += bool(found["wrong"])
        print(said(found), flush=True)
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        with KEPT.open("a") as file:
            file.write(json.dumps(found) + "\n")
    print(f"{cases} cases, {wrong} of them wrong after recover; kept in {KEPT}")
    return int(wrong > 0)


def said(found: Mapping[str, Any]) -> str:
    """Return a case in a line."""
    words = [
        f"{name} {', '.join(f'{count:,} {what}' for what, count in found[key].items())}"
        for name, key in (("recover:", "recovered"), ("mere start:", "started"))
    ]
    return (
        f"case {found['seed']}, Kafka {found['version']}, {found['kind']}: "
        f"{found['acknowledged']:,} acknowledged, {found['onNoDisk']:,} of them on no disk; "
        f"{'; '.join(words)}{'; WRONG' if found['wrong'] else ''}"
    )


def run_case(home: Path, seed: int, version: str) -> dict[str, Any]:
    """Run a case in a folder; return what it found."""
    chooser = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    cluster, history = _killed(home / "old", seed, version, chooser)
    log_dirs = {node: home / "old" / f"node-{node}" / "data" for node in NODES}
    log_dirs = _hurt(log_dirs, kind, chooser)
    values = held(log_dirs.values())
    history, missing = _held_only(history, values)
    options = RecoverOptions(
        metadata=FOLDERS if kind.startswith("no metadata") else None, kafka_version=version
    )
    target = home / "target"
    recover([*map(str, log_dirs.values())], str(target), options)
    with recovered_cluster(home / "run", version, target, log_dirs) as recovered:
        facts = {"leaderless": len(leaderless(recovered.describe_when_led()))}
        facts |= _counts(recovered, history)
        more = write_more(recovered.bootstrap, MORE)
        recovered.end(signal.SIGKILL)
        recovered.start(log_dirs)
        recovered.describe_when_led()
        facts["lostOfNew"] = len(judge(recovered.bootstrap, replace(more, offsets={})).lost)
    shutil.rmtree(target)
    try:
        cluster.start(log_dirs)
        if len(log_dirs) == len(NODES):
            cluster.describe_when_led()
        else:  # the admin client waits for the lost node
            time.sleep(20)
        started = _counts(cluster, history)
    finally:
        cluster.end(signal.SIGKILL)
    return {
        "seed": seed,
        "version": version,
        "kind": kind,
        "commit": commit(),
        "date": now(),
        "acknowledged": sum(map(len, history.records.values())) + missing,
        "onNoDisk": missing,
        "recovered": facts,
        "started": started,
        "wrong": any(
            count
            for name, count in facts.items()
            # What shows that a transaction was committed may have been on the lost disk.
            if name != "gone" or not kind.startswith("a disk lost")
        ),
    }


def _killed(
    home: Path, seed: int, version: str, chooser: random.Random
) -> tuple[RealCluster, History]:
    """Return a killed cluster, and what its clients were told."""
    cluster = new_cluster(home, version, dict.fromkeys(NODES, "broker,controller"))
    with cluster:
        make_topics(cluster.bootstrap)
        load = Load(cluster.bootstrap, seed)
        load.run(SECONDS)
        time.sleep(chooser.uniform(0, 6))  # checkpoints are written each five seconds
        load.run(1)
        load.begin_open()
    return cluster, load.history


def _hurt(log_dirs: dict[int, Path], kind: str, chooser: random.Random) -> dict[int, Path]:
    """Hurt the disks; return those that are left."""
    if kind == "bytes of a disk changed":
        for path in log_dirs[chooser.choice(NODES)].glob("*-[0-9]/*.log"):
            data = bytearray(path.read_bytes())
            for _ in range(2 if data else 0):
                data[chooser.randrange(len(data))] ^= 1 << chooser.randrange(8)
            path.write_bytes(data)
        return log_dirs
    cut_tails(log_dirs, chooser, leaders_only="leaders" in kind)
    if kind.startswith("a disk lost"):
        lost = chooser.choice(NODES)
        shutil.rmtree(log_dirs[lost])
        return {node: path for node, path in log_dirs.items() if node != lost}
    return log_dirs


def held(log_dirs: Iterable[Path]) -> set[bytes]:
    """Return the values of all records in good batches of some log dirs."""
    found: set[bytes] = set()
    for path in log_dirs:
        source = open_source(str(path))
        try:
            for name, log in source.partitions().items():
                if name.startswith("__"):
                    continue
                pieces = salvage(log.view(), 0, lambda *_: None).pieces
                found |= {
                    each.value or b""
                    for each in coordinator_records(pieces, name)
                    if isinstance(each, ReplayedRecord)
                }
        finally:
            source.close()
    return found


def _held_only(history: History, values: set[bytes]) -> tuple[History, int]:
    """Return what is to be judged of a history: what a disk still holds, and the number of records that none does."""
    missing = 0
    records: dict[tuple[str, int], dict[int, bytes]] = {}
    for where, told in history.records.items():
        kept = {offset: value for offset, value in told.items() if value in values}
        missing += len(told) - len(kept)
        records[where] = kept
    whole = [each for each in history.committed if all(value in values for value in each)]
    # Offsets of a group are moved to the end of a log that lost what no disk has.
    return replace(history, records=records, committed=whole, offsets={}), missing


def _counts(cluster: RealCluster, history: History) -> dict[str, int]:
    judged = judge(cluster.bootstrap, history)
    return {
        name: len(value) if isinstance(value := getattr(judged, name), list) else value
        for name in WRONG
    }
