"""What a mount must hold: every path with its kind, bytes, names and attributes, and proof that it fits what brokers told.

Each file is read once from its beginning to its end. The raw files must be the source's bytes; the keys and values of
records, and the lines of whole segments, must be what a consumer got from the broker that wrote the source. Whatever is
read later, in whatever order and pieces, is compared with that.
"""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import fixtures_data
from tests.fixtures_data import TruthRecord

CHANGING = ".kafkafs"
"""The folder whose files change with the daemon."""
PIECE = 1 << 20
LOOKED_UP = 12
"""Records of each partition that are looked up one by one."""


@dataclass
class TreeModel:
    """All that is known of a mount, by path below it.

    Attributes:
        files, folders, links: contents, names and targets.
        inodes, modes: of each path.
        xattrs: names and values.
        proven: paths whose content was compared with a broker's own answers or the source.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    folders: dict[str, list[str]] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    inodes: dict[str, int] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    xattrs: dict[str, dict[str, bytes]] = field(default_factory=dict)
    proven: set[str] = field(default_factory=set)

    def wrong(self, other: TreeModel) -> list[str]:
        """Where another walk over the same source found something else."""
        return [
            f"{name} {path}: {one.get(path)!r:.200}, then {two.get(path)!r:.200}"
            for name in ("files", "folders", "links", "inodes", "modes")
            for one, two in [(getattr(self, name), getattr(other, name))]
            for path in sorted({*one, *two})
            if one.get(path) != two.get(path)
        ]


def walked(root: Path, source: Path, *, looked_up: int = LOOKED_UP) -> TreeModel:
    """Walk over a mount of a copy of partitions of tests/data. Raises AssertionError for what contradicts a broker."""
    model = TreeModel()
    left = ["", *unlisted(source, looked_up)]
    while left:
        path = left.pop()
        where = root / path
        status = os.lstat(where)
        model.inodes[path], model.modes[path] = status.st_ino, status.st_mode
        model.xattrs[path] = {
            name: os.getxattr(where, name, follow_symlinks=False)
            for name in os.listxattr(where, follow_symlinks=False)
        }
        if stat.S_ISDIR(status.st_mode):
            names = sorted(os.listdir(where))
            model.folders[path] = names
            left += [os.path.join(path, name) for name in names if name != CHANGING]
        elif stat.S_ISLNK(status.st_mode):
            model.links[path] = os.readlink(where)
        else:
            model.files[path] = read_whole(where)
    prove(model, source)
    return model


def read_whole(path: Path) -> bytes:
    """All bytes, by one sequential read after the other."""
    parts = []
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        while part := file.read(PIECE):
            parts.append(part)
    data = b"".join(parts)
    assert len(data) == size, f"{path}: {size} bytes by fstat, {len(data)} by read"
    return data


def truths(source: Path) -> Iterator[tuple[str, tuple[TruthRecord, ...]]]:
    """The partitions of a source of which a consumer told the records."""
    for name in sorted(fixtures_data.truth_partitions("current")):
        if (source / name).is_dir():
            yield name, fixtures_data.truth_records("current", name)


def unlisted(source: Path, looked_up: int) -> Iterator[str]:
    """Names that resolve without being listed, of some records of each partition."""
    for name, records in truths(source):
        step = max(len(records) // looked_up, 1)
        for record in records[::step]:
            yield f"{name}/offset/{record.offset}"
            yield f"{name}/offset/{record.offset}.batch"
            for part, data in (("key", record.key), ("value", record.value)):
                if data is not None:
                    yield f"{name}/offset/{record.offset}.{part}"
            if record.timestamp >= 0:
                yield f"{name}/time/{record.timestamp}"
        if records:
            first, last = records[0].offset, records[-1].offset
            yield f"{name}/offset/{first}..{last + 1}"
            yield f"{name}/offset/-7"
            yield f"{name}/time/2000..2030/records.jsonl"
            yield f"{name}/time/2000..2030/log"


def prove(model: TreeModel, source: Path) -> None:
    """Compare with the source, and with what its broker's consumers got."""
    for path, data in model.files.items():
        parts = path.split("/")
        if len(parts) == 3 and parts[1] == "segments":
            assert data == (source / parts[0] / parts[2]).read_bytes(), path
            model.proven.add(path)
    for name, records in truths(source):
        for record in records:
            for part, data in (("key", record.key), ("value", record.value)):
                path = f"{name}/offset/{record.offset}.{part}"
                if path in model.files:
                    assert model.files[path] == data, path
                    model.proven.add(path)
        paths = sorted(path for path in model.files if path.startswith(f"{name}/records/"))
        told = {record.offset: record for record in records}
        for path in paths:
            for line in model.files[path].splitlines():
                fact = json.loads(line)
                record = told.pop(fact["offset"], None)
                assert record is None or tells(fact, record), f"{path}: {line!r:.300}"
            model.proven.add(path)
        assert not told, f"{name}: no lines of {sorted(told)[:5]}"


def tells(fact: dict[str, Any], record: TruthRecord) -> bool:
    """Whether a record line tells of the same record as a consumer did."""
    if fact["timestamp"] != record.timestamp and record.timestamp >= 0:
        return False
    return all(
        same(fact[name], fact.get(f"{name}Encoding"), data)
        for name, data in (("key", record.key), ("value", record.value))
    )


def same(shown: Any, encoding: str | None, data: bytes | None) -> bool:
    """Whether what a line shows are these bytes."""
    if shown is None and encoding is None:
        return data is None
    if encoding == "json":
        return data is not None and bool(json.loads(data) == shown)
    if encoding == "base64":
        return base64.b64decode(shown) == data
    return isinstance(shown, str) and shown.encode() == data
