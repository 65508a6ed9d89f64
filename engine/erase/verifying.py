"""Look whether what an erase made is still so: its files, and that no erased record is back."""

from __future__ import annotations

import os
from collections.abc import Iterator

from engine.erase.choice import Removed
from engine.erase.found_files import files_of
from engine.errors import CorruptCheckpointError
from engine.log.log_directory import open_source
from engine.log.segment.scan import BatchRun, scan
from engine.rebuild.target.manifest import Difference, Json, compare


def verify(manifest: Json, target: str) -> Iterator[Difference]:
    """Yield the files that differ from a manifest, and those in which an erased record is back.

    Args:
        manifest: manifest of an erase.
        target: the target of that erase, or a folder with its log dirs under the same names.

    Raises:
        CorruptCheckpointError: it is no manifest of an erase.
        SourceError: a log dir cannot be read.
        OSError: a file cannot be read.
    """
    if manifest.get("kind") != "erase":
        raise CorruptCheckpointError("not the manifest of an erase", line=1, path=target)
    differing = set()
    for each in compare(target, manifest):
        differing.add(each.path)
        yield each
    hashes = {bytes.fromhex(each) for each in manifest["removed"]}
    removed = Removed(bytes.fromhex(manifest["salt"]))
    for name in manifest["sources"]:
        if os.path.isdir(os.path.join(target, name)):
            yield from _returned(os.path.join(target, name), name, removed, hashes, differing)


def _returned(
    path: str, name: str, removed: Removed, hashes: set[bytes], differing: set[str]
) -> Iterator[Difference]:
    """Yield the changed files with erased records; the others have the bytes that were searched then."""
    source = open_source(path)
    try:
        for file in files_of(source, name):
            if not file.is_records or file.new_path not in differing:
                continue
            assert file.log is not None
            partition, records = file.log.topic_partition, file.open()
            found = 0
            for item in scan(records, 0, records.size(), path=file.path, any_order=True):
                if isinstance(item, BatchRun):
                    for columns in item.columns():
                        found += sum(
                            removed.hash_of(partition, columns, index) in hashes
                            for index in range(len(columns))
                        )
            if found:
                yield Difference(file.new_path, f"erased records are back in it: {found}")
    finally:
        source.close()
