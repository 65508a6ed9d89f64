"""Losing tails: records of a former leader whose offsets the log has from another one, as files that can be read."""

from __future__ import annotations

import os
from collections.abc import Iterator

from engine.disk.disk import Disk
from engine.files.file_names import log_file_name
from engine.rebuild.assembly.pieces import Piece
from engine.rebuild.target.records_files import CHUNK
from engine.recover.partitions.saved_pieces import CopyFiles
from engine.recover.partitions.survey import AsideTail, PartitionSurvey

ASIDE = "aside"


def aside_path(survey: PartitionSurvey, tail: AsideTail) -> str:
    """Return the path of a tail's file below the target: by node, partition and first offset.

    The tails of a copy are together a partition's folder.
    """
    copy = survey.copies[tail.copy]
    owner = f"copy-{tail.copy + 1}" if copy.node_id is None else f"node-{copy.node_id}"
    if copy.node_id in [other.node_id for other in survey.copies[: tail.copy]]:
        owner = f"{owner}-copy-{tail.copy + 1}"
    return f"{ASIDE}/{owner}/{survey.partition}/{log_file_name(tail.first_offset)}"


def write_aside(survey: PartitionSurvey, files: CopyFiles, target: str, disk: Disk) -> None:
    """Write the losing tails of a partition, and sync them.

    Raises:
        OSError: a source cannot be read or the disk fails.
    """
    for tail in survey.aside:
        path = os.path.join(target, aside_path(survey, tail))
        folder = os.path.dirname(path)
        disk.make_folder(folder)
        with disk.open(path, exclusive=True) as file:
            position = 0
            for piece in files.restored(tail.pieces):
                for data in _chunks(piece):
                    file.write_at(position, data)
                    position += len(data)
            file.sync()
        disk.sync_folder(folder)


def _chunks(piece: Piece) -> Iterator[bytes]:
    for start in range(0, piece.size, CHUNK):
        yield piece.read(start, CHUNK)
