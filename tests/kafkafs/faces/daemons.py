"""The faces that are programs of their own: a mount, read through the kernel, and a server, asked over a connection."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from engine.record.memory_records import MemoryRecords
from kafkafs.serve.control.control_client import ask
from kafkafs.serve.error_codes import ErrorCode
from tests.kafkafs.faces.damage import METADATA, Damaged
from tests.kafkafs.faces.naming import Said, with_problems
from tests.kafkafs.serve.connection import Connection
from tests.kafkafs.serve.serving import Served, serving
from tests.mount.mounted import Mounted

_FETCH, _LIST_OFFSETS = 1, 2


class _Mount(Mounted):
    """`kafkafs mount` over a damaged log dir."""

    def __init__(self, folder: Path, source: Path) -> None:
        self.given = source
        super().__init__(folder)

    def command(self, options: tuple[str, ...]) -> list[str]:
        command = [sys.executable, "-m", "kafkafs", "mount", "--foreground", *options]
        return [*command, str(self.given), str(self.path)]


def mount(node: Damaged) -> Said:
    """What the files of records/ show, and the problems; a lost offset has no file that can be read."""
    folder = node.path.parent / "mount"
    folder.mkdir()
    mounted = _Mount(folder, node.path)
    try:
        shown: dict[str, set[int]] = defaultdict(set)
        errors: list[dict[str, Any]] = []
        for name in node.partitions():
            for file in sorted((mounted.path / name / "records").glob("*.jsonl")):
                for line in map(json.loads, file.read_text().splitlines()):
                    if "error" in line:
                        errors.append(line["error"])
                    else:
                        shown[name].add(line["offset"])
        _refuse_lost_offsets(mounted.path, node)
        problems = (mounted.path / ".kafkafs" / "problems").read_text()
        return with_problems(map(json.loads, problems.splitlines()), errors, shown, node)
    finally:
        mounted.stop()


def _refuse_lost_offsets(path: Path, node: Damaged) -> None:
    for name, lost in node.truth().items():
        for offset in (min(lost), max(lost)):
            try:
                text = (path / name / "offset" / str(offset)).read_text()
            except OSError:
                continue
            raise AssertionError(f"{name}/offset/{offset} is lost, and shows {text}")


def client_of_serve(node: Damaged) -> Said:
    """What a client is told that fetches all offsets, and what the server's log has."""
    shown: dict[str, set[int]] = defaultdict(set)
    lost: dict[str, set[int]] = defaultdict(set)
    with (
        serving(node.path, node.path.parent) as served,
        Connection(served) as connection,
    ):
        for name in set(node.partitions()) - {METADATA}:
            _fetch_all(connection, name, shown[name], lost[name])
        said = _with_log(served, node)
    for name, offsets in said.lost.items():
        lost[name] |= offsets
    status = int(bool(said.status or any(lost.values())))
    return Said(status, lost, said.gone, shown)


def _fetch_all(connection: Connection, name: str, shown: set[int], lost: set[int]) -> None:
    topic, _, number = name.rpartition("-")
    start, end = (
        connection.ask(
            _LIST_OFFSETS,
            1,
            replicaId=-1,
            topics=[
                {
                    "name": topic,
                    "partitions": [{"partitionIndex": int(number), "timestamp": each}],
                }
            ],
        )["topics"][0]["partitions"][0]["offset"]
        for each in (-2, -1)
    )
    offset = start
    while offset < end:
        wanted = {"partition": int(number), "fetchOffset": offset, "partitionMaxBytes": 1 << 20}
        answer = connection.ask(
            _FETCH,
            4,
            replicaId=-1,
            maxWaitMs=0,
            minBytes=0,
            maxBytes=1 << 20,
            isolationLevel=0,
            topics=[{"topic": topic, "partitions": [wanted]}],
        )["responses"][0]["partitions"][0]
        following = offset
        if answer["errorCode"] == ErrorCode.CORRUPT_MESSAGE:
            lost.add(offset)
            following += 1
        for batch in MemoryRecords(bytes(answer["records"] or b"")).batches():
            shown |= {each.offset for each in batch.records()}
            following = max(following, batch.next_offset)
        if following == offset:
            break
        offset = following


def _with_log(served: Served, node: Damaged) -> Said:
    problems = ask(served.host, served.port, "problems").splitlines()
    return with_problems(map(json.loads, problems), [], {}, node)
