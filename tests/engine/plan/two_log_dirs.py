"""A node with two log dirs and a cluster that has one partition, orders-0."""

from __future__ import annotations

from pathlib import Path

from tests.replayed_bytes import in_batches, metadata_record, write_partition

TOPIC = "dG9waWMgb2YgbG9ncyAwMA"
IDS = {"first": "sgf5MsZgRTuEMv68ZXKJbQ", "second": "cmVjb3JkcyBvZiBsb2dzIQ"}


class TwoLogDirs:
    """The log dirs below a folder; the first has the metadata log."""

    def __init__(self, top: Path) -> None:
        self.top = top
        for name, directory in IDS.items():
            (top / name).mkdir()
            (top / name / "meta.properties").write_text(
                f"version=1\ncluster.id=c\nnode.id=1\ndirectory.id={directory}\n"
            )

    @property
    def paths(self) -> list[str]:
        """The paths, in the order of `log.dirs`."""
        return [str(self.top / name) for name in IDS]

    def assign(self, directory: str, *more: bytes) -> None:
        """Let the cluster have orders-0 in a directory of this node; `more` batches follow in the metadata log."""
        state = {"isr": [1], "leader": 1, "leaderEpoch": 0, "partitionEpoch": 0, "partitionId": 0}
        records = [
            metadata_record("TOPIC_RECORD", name="orders", topicId=TOPIC),
            metadata_record(
                "PARTITION_RECORD", version=1, topicId=TOPIC, replicas=[1], directories=[directory], **state,
            ),
        ]  # fmt: skip
        write_partition(self.top / "first", "__cluster_metadata-0", [*in_batches(records), *more])
