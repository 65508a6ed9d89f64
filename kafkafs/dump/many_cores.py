"""A dump on many cores, with its items in the order of the files.

A large records file is divided: its parts are found one after the other, and their items are made by threads where
the kernel makes them, else by processes that have inherited the open file. Other files are made whole, each by one
of a few processes.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import fields
from functools import lru_cache, partial
from typing import Any, NamedTuple

from engine.budgets import MiB
from engine.errors import KafkaStorageError
from engine.files.read_failures import reason_of
from engine.files.source_files import SourceFile, SourceRoot
from engine.memory_gate import LARGE, batches_read
from kafkafs.dump.dump_file import DumpFile
from kafkafs.dump.dump_form import (
    FAILURES,
    LOG_KINDS,
    DumpForm,
    file_items,
    log_parts,
    part_items,
    sentence_of,
)
from kafkafs.dump.dump_items import DumpItem
from kafkafs.dump.inputs import MissingInput
from kafkafs.dump.records.log_batches import ShownBatches, decodable
from kafkafs.dump.records.log_parts import LogPart

SMALL = 4 * MiB
"""Bytes of batches that one core dumps sooner than several, where the kernel does most of the work."""
_PYTHON = 4
"""Bytes of such batches that a byte counts for where Python does most of the work."""
_FILE = 4096
"""Bytes that each file counts for."""
_BLOCK = 128 * 1024
"""Bytes that the files of a block count for, at least: to hand over each file would cost more than a small one."""
_SECTOR = 512


def items_of(
    files: Iterable[DumpFile | MissingInput], form: DumpForm, jobs: int
) -> Generator[DumpItem, None, None]:
    """Yield the items of files, made by `jobs` cores; by the calling thread alone if it is little work."""
    rest = iter(files)
    first: list[DumpFile | MissingInput] = []
    is_small = jobs < 2 or _is_small(rest, form, first)
    every = itertools.chain(first, rest)
    if is_small:
        for file in every:
            yield from file_items(form, file)
        return
    # Imported here because little work needs no other process.
    from engine.processes import in_turns

    mine, theirs = itertools.tee(_divided(every, form))
    sent = (task for task in theirs if not isinstance(task, DumpFile))
    with closing(in_turns(partial(_block_items, form), sent, jobs)) as made:
        for task in mine:
            if isinstance(task, DumpFile):
                yield from _divided_items(form, task, jobs)
            else:
                yield from next(made)
        next(made, None)  # raises the error that ended the files early


def _is_small(
    files: Iterator[DumpFile | MissingInput],
    form: DumpForm,
    seen: list[DumpFile | MissingInput],
) -> bool:
    """Look at files until they are much work; append those to `seen`."""
    work = 0
    for file in files:
        seen.append(file)
        work += _work(file, form) + _FILE
        if work > SMALL:
            return False
    return True


def _divided(
    files: Iterable[DumpFile | MissingInput], form: DumpForm
) -> Iterator[DumpFile | list[_SentFile | MissingInput]]:
    """Yield the large records files, and the files between them in blocks."""
    block: list[_SentFile | MissingInput] = []
    left = _BLOCK
    for file in files:
        work = _work(file, form)
        if isinstance(file, DumpFile) and file.kind in LOG_KINDS and work > SMALL:
            if block:
                yield block
            yield file
            block, left = [], _BLOCK
            continue
        block.append(_sent(file))
        left -= work + _FILE
        if left <= 0:
            yield block
            block, left = [], _BLOCK
    if block:
        yield block


def _work(file: DumpFile | MissingInput, form: DumpForm) -> int:
    """Return the work on a file, in bytes of batches whose items the kernel makes."""
    if isinstance(file, MissingInput):
        return 0
    try:
        status = file.root.stat(file.name)
    except (OSError, KafkaStorageError):
        return 0
    size = min(status.st_size, status.st_blocks * _SECTOR)  # a broker preallocates indexes
    if file.kind not in LOG_KINDS:
        return size * _PYTHON
    return min(size, form.options.max_bytes) * (1 if form.is_native else _PYTHON)


# Large records files


def _divided_items(form: DumpForm, file: DumpFile, jobs: int) -> Iterator[DumpItem]:
    if form.is_native:
        # Imported here because nothing else needs threads.
        from engine.workers import Workers

        with Workers(jobs, "dump") as workers:
            yield from workers.flat_map(partial(part_items, form), log_parts(form, file), _is_large)
        return
    from engine.processes import in_turns

    try:
        opened = file.open()
    except FAILURES:
        yield from file_items(form, file)  # reports it
        return
    parts = (_without_bytes(part) for part in log_parts(form, file, opened))
    with closing(in_turns(partial(_part_items, form, file, opened), parts, jobs)) as made:
        for items in made:
            yield from items


def _is_large(part: LogPart) -> bool:
    return part.batches is not None and len(part.batches.buffer) > LARGE


class _SentPart(NamedTuple):
    """A LogPart for another process, which reads the bytes of the batches again."""

    told: list[DumpItem]
    batches: ShownBatches | None
    size: int


def _without_bytes(part: LogPart) -> _SentPart:
    batches = part.batches
    if batches is not None:
        start = int(batches.table["position"][0])
        batches = batches._replace(buffer=b"", start_position=start)
    return _SentPart(part.told, batches, part.size)


def _part_items(
    form: DumpForm, file: DumpFile, opened: SourceFile, part: _SentPart
) -> Iterator[DumpItem]:
    """Yield the items of a part, in another process than the one that found it."""
    batches = part.batches
    if batches is None:
        yield from part.told
        return
    start, table = batches.start_position, batches.table
    size = int(table["position"][-1]) + int(table["size"][-1]) - start
    with batches_read.room(size):
        try:
            data = opened.read_at(start, size)
            if len(data) < size:
                raise OSError("it was cut while it was read")
        except FAILURES as error:
            yield from part.told
            yield from form.unreadable(file.shown, sentence_of(error, file.shown))
            return
        batches = batches._replace(buffer=decodable(data, int(table["magic"][0])))
        yield from part_items(form, LogPart(file, part.told, batches, part.size))


# Other files


class _SentFile(NamedTuple):
    """A DumpFile for another process, which opens its root again."""

    root: str
    others: tuple[Any, ...]


_root = lru_cache(maxsize=8)(SourceRoot)
_OTHERS = [field.name for field in fields(DumpFile)][1:]
"""All fields but the first, the root."""


def _sent(file: DumpFile | MissingInput) -> _SentFile | MissingInput:
    if isinstance(file, MissingInput):
        return file
    return _SentFile(file.root.path, tuple(getattr(file, name) for name in _OTHERS))


def _block_items(form: DumpForm, block: list[_SentFile | MissingInput]) -> Iterator[DumpItem]:
    """Yield the items of some files, in another process than the one that found them."""
    for sent in block:
        yield from _whole_items(form, sent)


def _whole_items(form: DumpForm, sent: _SentFile | MissingInput) -> Iterator[DumpItem]:
    if isinstance(sent, MissingInput):
        yield from file_items(form, sent)
        return
    shown: str = sent.others[_OTHERS.index("shown")]
    try:
        root = _root(sent.root)
    except OSError as error:
        yield from file_items(form, MissingInput(shown, reason_of(error)))
        return
    yield from file_items(form, DumpFile(root, *sent.others))
