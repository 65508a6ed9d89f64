"""Log dirs of a broker that something happened to: one to three, with future, stray and doomed logs, by a seed."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.checkpoint.offset_checkpoint import render_offset_checkpoint
from engine.units import TopicPartition
from tests.builders import Rec
from tests.hurt_folders import Hurt
from tests.hurt_nodes import HurtNode
from tests.replayed_bytes import in_batches, metadata_record, snapshot_bytes, write_partition

NODE = 1
CLUSTER = "EjRWeJCrze8SNFZ4kKvN7w"
DIRECTORY_IDS = ("sgf5MsZgRTuEMv68ZXKJbQ", "cmVjb3JkcyBvZiBsb2dzIQ", "b3RoZXIgcmVjb3JkcyBvQQ")
NO_DIRECTORY = ("AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg")
"""Migrating, unassigned, lost."""
_META = "version=1\ncluster.id={cluster}\nnode.id={node}\ndirectory.id={directory}\n"
_METADATA = "__cluster_metadata-0"
_VERSION = metadata_record("FEATURE_LEVEL_RECORD", name="metadata.version", featureLevel=30)
_ROUGH = 0.3
"""The share of starts to which anything may happen; the others mostly go on, so that their logs are compared."""
_MILD_META = frozenset({"other spelling", "directory lost"})
_MILD_ENTRIES = frozenset(
    {"__cluster_metadata-1", "remote-log-index-cache", "empty-3", "odd.txt",
     "__cluster_metadata-0.00000000000000000000000000000000-delete"}
)  # fmt: skip


@dataclass
class HurtStart:
    """What was made.

    Attributes:
        log_dirs: in the order of `log.dirs`; the first has the metadata log.
        topics: of the cluster, as tests/kafka/load_judge.py takes them.
        acts: what was done to them.
    """

    log_dirs: list[Path]
    topics: list[dict[str, Any]] = field(default_factory=list)
    acts: list[str] = field(default_factory=list)


class StartMaker:
    """Makes one start.

    Args:
        seed: the same makes the same.
        top: where the log dirs come to be.
        sound: folders to copy, with the end of each log.
    """

    def __init__(self, seed: int, top: Path, sound: list[tuple[Path, int]]) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.sound = sound
        self.is_rough = self.random.random() < _ROUGH
        count = self.random.choice([1, 1, 2, 2, 3])
        self.made = HurtStart([top / f"dir{number}" for number in range(count)])
        self.topics: dict[str, dict[str, Any]] = {}
        self.ends: dict[tuple[Path, TopicPartition], int] = {}

    def make(self) -> HurtStart:
        """Make the log dirs."""
        for number, log_dir in enumerate(self.made.log_dirs):
            log_dir.mkdir(parents=True)
            self._write_meta(log_dir, number)
        for number in range(self.random.randrange(1, 6)):
            self._add_log(number)
        for log_dir in self.made.log_dirs:
            self._write_checkpoints(log_dir)
            self._mark(log_dir)
            if self.random.random() < 0.12:
                self._odd_entry(log_dir)
        self._write_cluster()
        if self.random.random() < 0.5:
            self._hurt_node()
        return self.made

    def _hurt_node(self) -> None:
        """What happens to whole nodes: side files, snapshots, folders and log dirs that go."""
        node = HurtNode(self.seed, self.made.log_dirs)
        self.made.acts += [f"node {each}" for each in node.hurt()]

    # meta.properties

    def _write_meta(self, log_dir: Path, number: int) -> None:
        text = _META.format(cluster=CLUSTER, node=NODE, directory=DIRECTORY_IDS[number])
        path = log_dir / "meta.properties"
        path.write_text(text)
        if self.random.random() < 0.8:
            return
        lines = text.splitlines(keepends=True)
        other = DIRECTORY_IDS[(number + 1) % 3]
        acts: dict[str, Callable[[], object]] = {
            "empty": lambda: path.write_bytes(b""),
            "garbage": lambda: path.write_bytes(self.random.randbytes(90)),
            "zeros": lambda: path.write_bytes(bytes(len(text))),
            "gone": path.unlink,
            "directory lost": lambda: path.write_text("".join(lines[:3])),
            "line lost": lambda: path.write_text("".join(self._without_one(lines))),
            "version 0": lambda: path.write_text(text.replace("version=1", "version=0")),
            "version 0 of a broker": lambda: path.write_text(
                text.replace("version=1", "version=0").replace("node.id", "broker.id")
            ),
            "version 0 without cluster": lambda: path.write_text("version=0\nbroker.id=1\n"),
            "no version, of a broker": lambda: path.write_text(
                f"broker.id=1\ncluster.id={CLUSTER}\n"
            ),
            "version 2": lambda: path.write_text(text.replace("version=1", "version=2")),
            "node -1": lambda: path.write_text(text.replace("node.id=1", "node.id=-1")),
            "node 2": lambda: path.write_text(text.replace("node.id=1", "node.id=2")),
            "node of words": lambda: path.write_text(text.replace("node.id=1", "node.id=one")),
            "other cluster": lambda: path.write_text(text.replace(CLUSTER, "other")),
            "same directory": lambda: path.write_text(text.replace(DIRECTORY_IDS[number], other)),
            "reserved directory": lambda: path.write_text(
                text.replace(DIRECTORY_IDS[number], "AAAAAAAAAAAAAAAAAAAAYw")
            ),
            "odd directory": lambda: path.write_text(text.replace(DIRECTORY_IDS[number], "x")),
            "bit": lambda: self._flip(path),
            "cut": lambda: path.write_text(text[: self.random.randrange(len(text))]),
            "folder": lambda: (path.unlink(), path.mkdir()),
            "other spelling": lambda: path.write_text(
                f"# a comment\r\n! another\n version : 1\ncluster.id {CLUSTER}\n\\\n"
                f"nod\\\n  e.id=\\u0031\ndirectory.id={DIRECTORY_IDS[number]}==\n"
            ),
            "bad escape": lambda: path.write_text(text + "x=\\u12\n"),
        }
        name = self.random.choice(sorted(acts if self.is_rough else _MILD_META))
        acts[name]()
        self.made.acts.append(f"{log_dir.name} meta {name}")

    def _without_one(self, lines: list[str]) -> list[str]:
        gone = self.random.randrange(len(lines))
        return lines[:gone] + lines[gone + 1 :]

    def _flip(self, path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
        path.write_bytes(data)

    # Logs

    def _add_log(self, number: int) -> None:
        random = self.random
        topic = f"hurt{number}"
        topic_id = f"dG9waWMgb2YgbG9ncyAw{number}A"
        log_dir = random.choice(self.made.log_dirs)
        at = self.made.log_dirs.index(log_dir)
        directory = random.choice([DIRECTORY_IDS[at]] * 4 + [*DIRECTORY_IDS, *NO_DIRECTORY])
        replicas = random.choice([[1], [1], [1, 2], [2, 1], [2]] if number else [[1]])
        directories = [directory if each == NODE else DIRECTORY_IDS[2] for each in replicas]
        partition = {"partition": 0, "replicas": replicas, "directories": directories}
        if random.random() < 0.95:
            self.topics[topic] = {"name": topic, "id": topic_id, "partitions": [partition]}
        state = random.choice(["", "", "", "", "", "-delete", "-stray", "-future"])
        folder = self._copy_log(log_dir, topic, state, topic_id)
        # Where a future log becomes the log, the log must not be in the same log dir.
        targets = [
            each
            for each in self.made.log_dirs
            if self.is_rough or each != log_dir or directory != DIRECTORY_IDS[at]
        ]
        if state == "" and targets and random.random() < 0.35:
            target = random.choice(targets)
            future = self._copy_log(target, topic, "-future", topic_id, like=folder)
            if random.random() < 0.6:
                segments = sorted(future.glob("*.log"))
                kept = random.randrange(len(segments) + 1)
                for path in segments[kept:]:
                    path.unlink()
                    for ending in (".index", ".timeindex", ".txnindex"):
                        path.with_suffix(ending).unlink(missing_ok=True)
            if self.is_rough and random.random() < 0.2:
                self._copy_log(random.choice(self.made.log_dirs), topic, "", topic_id)
        if random.random() < (0.35 if self.is_rough else 0.6):
            acts = Hurt(self.seed + number, folder, mild=not self.is_rough).hurt()
            self.made.acts.append(f"{folder.relative_to(log_dir.parent)} {acts}")

    def _copy_log(
        self, log_dir: Path, topic: str, state: str, topic_id: str, like: Path | None = None
    ) -> Path:
        random = self.random
        name = f"{topic}-0"
        if state:
            name += f".{random.randbytes(16).hex()}{state}"
        target = log_dir / name
        if target.exists():
            return target
        sound, end = random.choice(self.sound)
        shutil.copytree(like or sound, target)
        self.ends[log_dir, TopicPartition(topic, 0)] = end
        metadata = target / "partition.metadata"
        chance = random.random()
        if chance < 0.94:
            metadata.write_text(f"version: 0\ntopic_id: {topic_id}")
        elif chance < 0.97:
            metadata.unlink(missing_ok=True)
        else:
            metadata.write_text(f"version: 0\ntopic_id: {CLUSTER}")
        return target

    # What a log dir has besides

    def _write_checkpoints(self, log_dir: Path) -> None:
        random = self.random
        recovery: dict[TopicPartition, int] = {}
        watermarks: dict[TopicPartition, int] = {}
        starts: dict[TopicPartition, int] = {}
        for (where, partition), end in self.ends.items():
            if where == log_dir:
                if random.random() < 0.6:
                    recovery[partition] = random.choice([0, end, random.randrange(end + 5)])
                if random.random() < 0.6:
                    watermarks[partition] = random.choice([0, end, random.randrange(end + 5)])
                if random.random() < 0.2:
                    starts[partition] = random.choice([0, random.randrange(end + 2)])
        for name, offsets in (
            ("recovery-point-offset-checkpoint", recovery),
            ("log-start-offset-checkpoint", starts),
            ("replication-offset-checkpoint", watermarks),
            ("cleaner-offset-checkpoint", {}),
        ):
            path = log_dir / name
            if random.random() < 0.9:
                path.write_bytes(render_offset_checkpoint(offsets))
            if random.random() < 0.06:
                texts = ("", "0\n0\n", "0\n1\nhurt0 x 3\n", "0\n1\nhurt0 0 -3\n", "0\n-1\n")
                if self.is_rough:
                    texts += ("0", "1\n0\n", "0\n1\n", "0\n1\nhurt0 0\n", "x", "\xff")
                path.write_bytes(random.choice(texts).encode("latin-1"))
                self.made.acts.append(f"{log_dir.name} {name} spoiled")

    def _mark(self, log_dir: Path) -> None:
        random = self.random
        marker = log_dir / ".kafka_cleanshutdown"
        if random.random() < 0.04:
            marker.mkdir()
            if self.is_rough and random.random() < 0.5:
                (marker / "x").write_text("")
            self.made.acts.append(f"{log_dir.name} marker is a folder")
        elif random.random() < 0.5:
            marker.write_text('{"version":0,"brokerEpoch":5}')

    def _odd_entry(self, log_dir: Path) -> None:
        random = self.random
        names = (
            ["lost+found", "a-b", "notes", "__cluster_metadata-1", "__cluster_metadata-0",
             "remote-log-index-cache", "x-0.1-future", "recovery-point-offset-checkpoint.tmp", "a-+7",
             "__cluster_metadata-0.00000000000000000000000000000000-delete", "empty-3", "odd.txt"]
            if self.is_rough else sorted(_MILD_ENTRIES)
        )  # fmt: skip
        name = random.choice(names)
        path = log_dir / name
        if name == "odd.txt":
            path.write_text("x")
        elif not path.exists() and not (name == _METADATA and log_dir == self.made.log_dirs[0]):
            path.mkdir()
        self.made.acts.append(f"{log_dir.name} has {name}")

    def _write_cluster(self) -> None:
        self.made.topics = list(self.topics.values())
        records = [_VERSION]
        for topic in self.made.topics:
            records.append(metadata_record("TOPIC_RECORD", name=topic["name"], topicId=topic["id"]))
            for each in topic["partitions"]:
                state = {
                    "isr": each["replicas"], "leader": each["replicas"][0], "leaderEpoch": 0,
                    "partitionEpoch": 0, "partitionId": each["partition"],
                }  # fmt: skip
                records.append(
                    metadata_record(
                        "PARTITION_RECORD", version=1, topicId=topic["id"],
                        replicas=each["replicas"], directories=each["directories"], **state,
                    )
                )  # fmt: skip
        first = self.made.log_dirs[0]
        had_meta = (first / "meta.properties").exists()
        write_partition(first, _METADATA, in_batches(records))
        if not had_meta:
            (first / "meta.properties").unlink()
        self._write_raft_files(first, records)
        if self.random.random() < 0.1:
            acts = Hurt(self.seed, first / _METADATA, mild=not self.is_rough).hurt()
            self.made.acts.append(f"{first.name}/{_METADATA} {acts}")

    def _write_raft_files(self, first: Path, records: list[Rec]) -> None:
        """Beside the metadata log: quorum-state, bootstrap.checkpoint, and a snapshot of some or all records."""
        folder, random = first / _METADATA, self.random
        if random.random() < 0.8:
            (folder / "quorum-state").write_text(
                '{"clusterId":"","leaderId":1,"leaderEpoch":0,"votedId":-1,"appliedOffset":0,'
                '"currentVoters":[{"voterId":1}],"data_version":0}'
            )
        if random.random() < 0.8:
            (first / "bootstrap.checkpoint").write_bytes(snapshot_bytes([_VERSION]))
        if random.random() < 0.4:
            end = random.choice(
                [len(records), random.randrange(len(records) + 1), len(records) + 3]
            )
            (folder / f"{end:020}-{0:010}.checkpoint").write_bytes(snapshot_bytes(records[:end]))
