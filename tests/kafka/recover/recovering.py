"""Recover the metadata of a real cluster that was killed: its logs are copied as they are, its metadata is made anew."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.log.log_directory import LogSource, open_source
from engine.recover.metadata.cluster_metadata import ClusterMetadata, newest_metadata
from engine.recover.metadata.records import PartitionPlacement
from engine.recover.metadata.snapshot import ClusterOptions, WrittenCluster, write_cluster
from engine.recover.nodes import ClusterNode, found_nodes

NEXT_PRODUCER_ID = 10_000
LATER = 10
"""How far leader epochs lie above those of the old cluster."""


class Recovering:
    """The log dirs of a killed cluster, opened."""

    def __init__(self, old: Path) -> None:
        self.dirs = sorted(path.parent for path in old.glob("node-*/*/meta.properties"))
        self.sources: list[LogSource] = [open_source(str(path)) for path in self.dirs]
        self.metadata = newest_metadata(self.sources)

    def close(self) -> None:
        """Closes the sources."""
        for source in self.sources:
            source.close()

    def nodes(self) -> list[ClusterNode]:
        """The nodes that the log dirs state."""
        return found_nodes(self.sources, self.metadata)

    def copies(self, name: str) -> dict[int, Path]:
        """The folders of a partition, by their old node."""
        found = {}
        for path in self.dirs:
            if (path / name).is_dir():
                found[int(path.parent.name.removeprefix("node-"))] = path / name
        return found

    def write(
        self,
        target: Path,
        nodes: Sequence[ClusterNode],
        homes: Mapping[int, Sequence[int]],
        metadata: ClusterMetadata | None = None,
        options: ClusterOptions | None = None,
    ) -> tuple[WrittenCluster, dict[str, int]]:
        """Makes the log dirs of new nodes: the cluster, and the chosen leader of each partition.

        Args:
            target: a new folder.
            nodes: the new nodes.
            homes: new nodes that take the partitions of each old one.
            metadata: of the old cluster; the newest, if not given.
            options: how.
        """
        metadata = metadata or self.metadata
        by_id = {node.id: node for node in nodes}
        placements, leaders = [], {}
        for topic, known in metadata.topics.items():
            for number, partition in known.partitions.items():
                name = f"{topic}-{number}"
                taken: dict[int, Path] = {}
                copies = self.copies(name)
                for old in sorted(copies, key=lambda each: _size(copies[each]), reverse=True):
                    for new in homes[old]:
                        taken.setdefault(new, copies[old])
                directories = {}
                for new, path in taken.items():
                    at = number % len(by_id[new].log_dirs)
                    directories[new] = by_id[new].directory_ids[at]
                    shutil.copytree(path, target / f"node-{new}" / by_id[new].log_dirs[at] / name)
                leader = next(iter(taken))
                leaders[name] = leader
                placements.append(
                    PartitionPlacement(
                        topic,
                        number,
                        tuple(sorted(taken)),
                        leader,
                        max(partition.leader_epoch, 0) + LATER,
                        directories,
                    )
                )
        return (
            write_cluster(
                target, metadata, nodes, placements, NEXT_PRODUCER_ID, options or ClusterOptions()
            ),
            leaders,
        )


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.log"))
