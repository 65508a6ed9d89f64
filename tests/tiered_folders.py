"""Copies of segments as Kafka's LocalTieredStorage, or Aiven's plugin, lays them out."""

from __future__ import annotations

import json
import shutil
import struct
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path

from engine.checkpoint.leader_epoch_checkpoint import render
from engine.files.file_names import parse_folder_name
from engine.log.log_directory import open_source
from engine.units import EpochEntry

TOPIC_ID = "sgf5MsZgRTuEMv68ZXKJbQ"
_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
_NO_PRODUCERS = b"\x00\x01" + struct.pack(">I", 0x48674BC7) + bytes(4)


def segment_id(number: int) -> str:
    """A segment's id; those of larger numbers sort later."""
    return urlsafe_b64encode(uuid.UUID(int=number).bytes).decode().rstrip("=")


class TieredWriter:
    """Copies segments out of partition folders into one tiered partition folder."""

    def __init__(self, root: Path, name: str = "orders-0", topic_id: str = TOPIC_ID) -> None:
        self.root = root
        self.topic_id = topic_id
        self.folder = root / f"{name}-{topic_id}"
        self.folder.mkdir(parents=True)
        self._copied = 0

    def copy(
        self, partition: Path, base_offset: int, *, epochs: list[tuple[int, int]] | None = None
    ) -> Path:
        """One segment with all that Kafka copies with it; its records file."""
        self._copied += 1
        stem = f"{base_offset:020}-{segment_id(self._copied)}"
        for suffix in _SUFFIXES:
            file = partition / f"{base_offset:020}{suffix}"
            if file.exists():
                shutil.copyfile(file, self.folder / f"{stem}{suffix}")
        end = _end_of(partition, base_offset)
        snapshot = partition / f"{end:020}.snapshot"
        data = snapshot.read_bytes() if snapshot.exists() else _NO_PRODUCERS
        (self.folder / f"{stem}.snapshot").write_bytes(data)
        entries = [EpochEntry(*entry) for entry in epochs or [(0, 0)]]
        (self.folder / f"{stem}.leader_epoch_checkpoint").write_bytes(render(entries))
        return self.folder / f"{stem}.log"

    def copy_all(self, partition: Path) -> list[Path]:
        """All segments of a partition's folder."""
        logs = sorted(partition.glob("*.log"))
        return [self.copy(partition, int(log.stem)) for log in logs]


def aiven_copy(root: Path, partition: Path, base_offset: int, *, number: int = 1) -> Path:
    """One plain segment as Aiven's plugin lays it out, with its manifest; its records file."""
    (topic, index), _, _ = parse_folder_name(partition.name)
    folder = root / f"{topic}-{TOPIC_ID}" / str(index)
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{base_offset:020}-{segment_id(number)}.log"
    shutil.copyfile(partition / f"{base_offset:020}.log", log)
    log.with_suffix(".indexes").write_bytes(b"indexes")
    end = _end_of(partition, base_offset)
    manifest = {
        "version": "1",
        "chunkIndex": {"type": "fixed", "originalFileSize": log.stat().st_size},
        "compression": False,
        "remoteLogSegmentMetadata": {
            "startOffset": base_offset,
            "endOffset": end - 1,
            "segmentLeaderEpochs": {"0": base_offset},
        },
    }
    log.with_suffix(".rsm-manifest").write_text(json.dumps(manifest))
    return log


def _end_of(partition: Path, base_offset: int) -> int:
    """One past a segment's last record."""
    view = next(iter(open_source(str(partition)).partitions().values())).view()
    place = view.base_offsets.index(base_offset)
    return [*view.base_offsets[1:], view.log_end_offset][place]
