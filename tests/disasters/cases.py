"""Disasters of a modelled cluster, each from a number: the load, what is left on the disks, and the judgement."""

from __future__ import annotations

import random
from pathlib import Path

from engine.recover.options import FOLDERS, RecoverOptions
from engine.recover.planning import plan_recovery
from engine.recover.reading import opened, read_cluster
from tests.disasters.disks import NodeDisk, cut, flip, image, write
from tests.disasters.judge import Expected, problems
from tests.disasters.model import MADE_ANEW, NODES, Load, Model

MOST_BEHIND = 3
"""Records that a node's metadata log may be behind when all nodes are killed."""


class Case:
    """A disaster.

    Args:
        seed: chooses all.

    Attributes:
        kinds: what happened, in words.
        disks: those that are left.
        expected: what a recovery may be asked for.
    """

    def __init__(self, seed: int) -> None:
        self._chooser = chooser = random.Random(f"disaster {seed}")
        self.kinds: set[str] = set()
        load = Load(
            unclean=self._happens(0.15, "unclean elections"),
            bumps=not self._happens(0.4, "transactions of version 1"),
            cleans=self._happens(0.4, "compaction"),
            deletes=self._happens(0.25, "records deleted"),
            moves=self._happens(0.3, "reassignments"),
            makes_anew=self._happens(0.2, "a topic made anew"),
        )
        self.model = Model(seed, load)
        earlier = self._run()
        self.disks = [
            earlier.get(node) or image(self.model, node, chooser.randint(0, MOST_BEHIND))
            for node in NODES
        ]
        for disk in chooser.sample(self.disks, len(self.disks) // 2 + 1):
            if disk.node not in earlier:  # a majority has all of the metadata
                disk.metadata = list(self.model.metadata)
        self._destroy()
        newest = max((len(each.metadata) for each in self.disks), default=0)
        is_known = self.has_metadata and newest >= self._made_anew_at()
        # Without its marker, data of version 1 is ended by the producer's next one.
        has_markers = load.bumps or "flips" not in self.kinds
        newest_topics = is_known or not load.makes_anew
        self.expected = Expected(has_markers and not load.unclean, newest_topics)

    @property
    def has_metadata(self) -> bool:
        """Whether metadata logs are left."""
        return "no metadata" not in self.kinds

    @property
    def keeps_power(self) -> bool:
        """Whether the operator may say that no machine lost its power."""
        bad = {"power loss", "power loss below recovery points", "snapshots", "flips"}
        return not self.kinds & bad

    def problems(self, folder: Path) -> list[str]:
        """Write the disks into a folder, plan their recovery, and return what is wrong with it."""
        paths = write(self.disks, folder, metadata=self.has_metadata)
        options = RecoverOptions(
            no_power_loss=self.keeps_power, metadata=None if self.has_metadata else FOLDERS
        )
        with opened(paths) as sources:
            plan = plan_recovery(read_cluster(sources, options, lambda *_: None), options, 1)
            return problems(self.model, self.disks, plan, self.expected)

    def _happens(self, chance: float, kind: str) -> bool:
        happens = self._chooser.random() < chance
        if happens:
            self.kinds.add(kind)
        return happens

    def _run(self) -> dict[int, NodeDisk]:
        """Run the load; return disks of earlier moments."""
        earlier: dict[int, NodeDisk] = {}
        steps = self._chooser.randint(100, 350)
        if not self._happens(0.2, "snapshots"):
            self.model.run(steps)
            return earlier
        for node in self._chooser.sample(NODES, self._chooser.randint(1, 3)):
            part = self._chooser.randint(10, 80)
            self.model.run(max(steps - part, 20))
            steps = part
            earlier[node] = image(self.model, node)
        self.model.run(steps)
        return earlier

    def _destroy(self) -> None:
        """Lose disks, tails, bytes and metadata."""
        chooser = self._chooser
        below = self._happens(0.2, "power loss below recovery points")
        if below or self._happens(0.4, "power loss"):
            for disk in chooser.sample(self.disks, chooser.randint(1, len(self.disks))):
                cut(disk, chooser, below=below)
        if self._happens(0.15, "flips"):
            for disk in chooser.sample(self.disks, chooser.randint(1, 2)):
                flip(disk, chooser)
        if self._happens(0.3, "lost disks"):
            self.disks = chooser.sample(self.disks, chooser.randint(1, len(self.disks) - 1))
        if self._happens(0.1, "files of leader epochs lost"):
            for disk in chooser.sample(self.disks, 1):
                disk.has_epochs = False
        if self._happens(0.3, "several log dirs"):
            for disk in self.disks:
                disk.dirs = chooser.randint(1, 3)
        self._happens(0.15, "no metadata")

    def _made_anew_at(self) -> int:
        """Return how many records of the metadata state the newest topics."""
        marker = self.model.partitions[MADE_ANEW].topic_id
        return self.model.made_at[marker]
