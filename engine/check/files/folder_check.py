"""Check a partition's folder: links and devices, names that stop a broker, and leftovers."""

from __future__ import annotations

from collections.abc import Iterator

from engine.check.partition_under_check import PartitionUnderCheck
from engine.check.rules.finding import Finding
from engine.check.rules.rules import Severity
from engine.errors import InvalidNameError
from engine.files.file_names import FileKind, FileState, parse_file_name, validate_topic
from engine.files.folder_entries import EntryKind, SourceEntry
from engine.units import MAX_INT32

_LOADED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".swap", ".cleaned")
"""Endings of names that a broker parses an offset from."""
_INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)
_HALF_DONE = (FileState.SWAP, FileState.CLEANED)


def check_folder(under: PartitionUnderCheck) -> Iterator[Finding]:
    """Yield findings about the names in a partition's folder, and about sizes and links of its files."""
    listing = under.view.listing
    for entry in listing.others:
        yield _no_file(under, entry)
    bases = set(listing.base_offsets)
    half_done: list[str] = []
    deleted: list[str] = []
    for name in listing.files:
        parsed = parse_file_name(name)
        if name == under.view.log.only or name in listing.replaced:
            continue  # named by the operator; see unfinished_check
        if parsed is None:
            yield _odd_name(under, name)
        elif parsed.state in _HALF_DONE:
            half_done.append(name)
        elif parsed.state is FileState.DELETED:
            deleted.append(name)
        elif parsed.kind in _INDEXES and parsed.base_offset not in bases:
            log = f"{name[:20]}{FileKind.LOG.value}"
            yield under.found("file-without-log", name, f"an index, but {log} does not exist")
    yield from _left_over(under, half_done, deleted)
    yield from _sizes_and_links(under)
    yield from _topic(under)


def _no_file(under: PartitionUnderCheck, entry: SourceEntry) -> Finding:
    name, kind = entry
    if kind is EntryKind.SYMLINK:
        return under.found("file-link", name, "a symbolic link; its target was not checked")
    if kind is EntryKind.FURTHER_COPY:
        return under.found("tiered-copy", name, under.root.remark(under.relative(name)))
    if kind in {EntryKind.ENCODED_COPY, EntryKind.UNDONE_COPY}:
        return under.found("file-unreadable", name, under.root.remark(under.relative(name)))
    if kind is EntryKind.OTHER:
        return under.found("file-kind", name, "a device, FIFO or socket; it was not opened")
    if parse_file_name(name) is not None or name.endswith(_LOADED):
        return under.found("file-kind", name, "a folder instead of a file")
    return under.found("file-other", name, "a folder in a partition's folder")


def _odd_name(under: PartitionUnderCheck, name: str) -> Finding:
    if name.endswith(_LOADED):
        sentence = "a broker expects an offset in such a name"
        return under.found("file-name", name, sentence)
    return under.found("file-other", name, "not a name of a log's file")


def _left_over(
    under: PartitionUnderCheck, half_done: list[str], deleted: list[str]
) -> Iterator[Finding]:
    if half_done:
        number = len(half_done)
        what = "file" if number == 1 else "files"
        yield under.found(
            "file-half-compacted",
            half_done[0],
            f"{number} {what} of an unfinished compaction or split",
            severity=Severity.NOTE if under.is_live else None,
            files=half_done[:100],
        )
    if deleted:
        number = len(deleted)
        what = "file is" if number == 1 else "files are"
        sentence = f"{number} {what} renamed for deletion"
        yield under.found("file-deleted", deleted[0], sentence, files=deleted[:100])


def _sizes_and_links(under: PartitionUnderCheck) -> Iterator[Finding]:
    linked: list[str] = []
    listing = under.view.listing
    names = [name for name in listing.files if name not in listing.replaced]
    for name, status in under.root.stat_files(under.folder, names):
        if status.st_nlink > 1:
            linked.append(name)
        if name.endswith(FileKind.LOG.value) and status.st_size > MAX_INT32:
            yield under.found(
                "file-too-large",
                name,
                f"{status.st_size} bytes; Kafka opens at most {MAX_INT32}",
                expected=f"at most {MAX_INT32}",
                found=status.st_size,
            )
    if linked:
        number = len(linked)
        what = "file has" if number == 1 else "files have"
        sentence = f"{number} {what} more than one hard link"
        yield under.found("file-hard-link", linked[0], sentence, files=linked[:100])


def _topic(under: PartitionUnderCheck) -> Iterator[Finding]:
    try:
        validate_topic(under.partition.topic)
    except InvalidNameError as error:
        yield under.found("topic-name", "", str(error))
