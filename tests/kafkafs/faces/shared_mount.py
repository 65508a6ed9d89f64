"""The logs of many hostile log dirs in one log dir, each under a name of its own, read through one mount.

A log is left out where its log dir decides what it lost: by metadata, by a clean shutdown, by the name of an internal
topic, or by checkpoints that cannot be read.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from engine.checkpoint.offset_checkpoint import parse_offset_checkpoint, render_offset_checkpoint
from engine.errors import KafkaStorageError
from engine.files.file_names import parse_folder_name
from engine.units import Offset, TopicPartition
from tests.kafkafs.faces.daemons import mount
from tests.kafkafs.faces.damage import CHECKPOINTS, MARKER, METADATA, Damaged, SoundNode


class Told(NamedTuple):
    """What another face says of a log.

    Attributes:
        case: the test that made it.
        lost, shown: offsets.
    """

    case: str
    lost: set[int]
    shown: set[int]


class SharedMount(Damaged):
    """Takes logs, and mounts them all at the end.

    Args:
        folder: an empty folder.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "data", SoundNode(folder / "data"))
        self.path.mkdir()
        self.told: dict[str, Told] = {}
        self._stated: dict[str, dict[TopicPartition, Offset]] = {each: {} for each in CHECKPOINTS}

    def add(
        self, case: str, node: Damaged, lost: dict[str, set[int]], shown: dict[str, set[int]]
    ) -> None:
        """Take the logs of a log dir, with what another face says is lost and shows, by partition."""
        if (node.path / METADATA).exists() or (node.path / MARKER).exists():
            return
        try:
            stated = {
                each: parse_offset_checkpoint((node.path / each).read_bytes())
                for each in CHECKPOINTS
                if (node.path / each).exists()
            }
        except (KafkaStorageError, OSError):
            return
        for name in node.partitions():
            if name.startswith("__") or not (node.path / name).is_dir():
                continue
            own = TopicPartition(f"hostile{len(self.told)}", 0)
            shutil.copytree(node.path / name, self.path / f"{own.topic}-0", symlinks=True)
            for checkpoint, offsets in stated.items():
                offset = offsets.get(parse_folder_name(name).topic_partition)
                if offset is not None:
                    self._stated[checkpoint][own] = offset
            self.told[f"{own.topic}-0"] = Told(case, lost.get(name, set()), shown.get(name, set()))
            self.sound.ends[f"{own.topic}-0"] = node.sound.ends[name]

    def partitions(self) -> list[str]:
        """The logs."""
        return sorted(self.told)

    def truth(self, *, of_rebuild: bool = False) -> dict[str, set[int]]:
        """What the other face says is lost."""
        return {name: told.lost for name, told in self.told.items() if told.lost}

    def contradictions(self) -> Iterator[str]:
        """What a mount of the logs says that differs."""
        for checkpoint, offsets in self._stated.items():
            (self.path / checkpoint).write_bytes(render_offset_checkpoint(offsets))
        said = mount(self)
        for name, told in self.told.items():
            end = self.sound.ends[name]
            lost = {each for each in said.lost.get(name, ()) if each < end}
            shown = {each for each in said.shown.get(name, ()) if each < end}
            if lost != told.lost:
                yield f"{told.case}: a mount says {sorted(lost)[:5]} is lost, not {sorted(told.lost)[:5]}"
            if shown != told.shown:
                yield f"{told.case}: a mount shows {sorted(shown ^ told.shown)[:5]} otherwise than the tree"
