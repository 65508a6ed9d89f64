"""Items of whole files, in either form of a dump: the text of DumpLogSegments, or JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from engine.errors import KafkaStorageError
from engine.files.file_names import FileKind
from engine.files.read_failures import failure_text
from engine.files.source_files import SourceFile
from kafkafs.dump.dump_file import DumpFile
from kafkafs.dump.dump_items import Begun, DumpItem, Tally
from kafkafs.dump.dump_options import DumpOptions
from kafkafs.dump.entries.index_entries import aborted_entries, offset_entries, time_entries
from kafkafs.dump.entries.state_entries import STATE_KINDS, state_entries
from kafkafs.dump.findings import Found
from kafkafs.dump.inputs import MissingInput
from kafkafs.dump.records.log_batches import ShownBatches
from kafkafs.dump.records.log_parts import Around, LogPart, parts_of

LOG_KINDS = frozenset({FileKind.LOG, FileKind.KRAFT_CHECKPOINT, FileKind.BOOTSTRAP_CHECKPOINT})
INDEX_KINDS = frozenset({FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX})
ENTRY_KINDS = INDEX_KINDS | STATE_KINDS
FAILURES = (OSError, KafkaStorageError)


class DumpForm(Protocol):
    """Maker of the items of files; safe from several threads.

    Attributes:
        options: see DumpOptions.
        is_native: whether the kernel makes most of the items of batches, so that threads can work side by side.
    """

    options: DumpOptions
    is_native: bool

    def opening(self, file: DumpFile) -> list[DumpItem]:
        """Return the items before anything of a file is read."""

    def unreadable(self, shown: str, sentence: str) -> list[DumpItem]:
        """Return the items of a file that cannot be read; the sentence says why, and has the path."""

    def unknown(self, file: DumpFile) -> list[DumpItem]:
        """Return the items of a file that is not Kafka's."""

    def around(self, file: DumpFile) -> Around:
        """Return a maker of the items around the batches of a records file."""

    def batches(self, file: DumpFile, batches: ShownBatches) -> Iterator[DumpItem]:
        """Yield the items of batches."""

    def entries(self, file: DumpFile, found: Iterator[Found]) -> Iterator[DumpItem]:
        """Yield the items of another file of Kafka's. Raises the errors of `found`."""


def file_items(form: DumpForm, file: DumpFile | MissingInput) -> Iterator[DumpItem]:
    """Yield all items of a file."""
    if not isinstance(file, MissingInput) and file.kind in LOG_KINDS:
        for part in log_parts(form, file):
            yield from part_items(form, part)
            del part  # free it before the next read: a batch may be as large as the budget
        return
    yield Begun(file.shown)
    if isinstance(file, MissingInput):
        yield from form.unreadable(file.shown, f"{file.shown}: {file.reason}")
        return
    yield from form.opening(file)
    if file.kind not in ENTRY_KINDS:
        yield from form.unknown(file)
        return
    try:
        yield from form.entries(file, entries_of(file, form.options))
    except FAILURES as error:
        yield from form.unreadable(file.shown, sentence_of(error, file.shown))


def log_parts(
    form: DumpForm, file: DumpFile, opened: SourceFile | None = None
) -> Iterator[LogPart]:
    """Yield the parts of a records file. An error that ends them early is told in the last one.

    Args:
        form: maker of the items.
        file: the file.
        opened: the open file; by default it is opened here.
    """
    yield LogPart(file, [Begun(file.shown), *form.opening(file)])
    try:
        with opened or file.open() as reads:
            yield from parts_of(file, reads, form.options, form.around(file))
    except FAILURES as error:
        yield LogPart(file, form.unreadable(file.shown, sentence_of(error, file.shown)))


def part_items(form: DumpForm, part: LogPart) -> Iterator[DumpItem]:
    """Yield the items of a part of a records file."""
    yield from part.told
    if part.batches is not None:
        yield from form.batches(part.file, part.batches)
        yield Tally(processed=part.size)


def sentence_of(error: Exception, shown: str) -> str:
    """Return why a file cannot be read, with its path."""
    text = failure_text(error)
    return text if shown in text else f"{shown}: {text}"


def entries_of(file: DumpFile, options: DumpOptions) -> Iterator[Found]:
    """Yield the content of a file other than a records file.

    Raises:
        OSError, SourceRefusedError: the file cannot be read.
    """
    if file.kind in STATE_KINDS:
        yield from state_entries(file, options)
        return
    with file.open() as opened:
        if file.kind is FileKind.OFFSET_INDEX:
            yield from offset_entries(file, opened, options)
        elif file.kind is FileKind.TIME_INDEX:
            yield from time_entries(file, opened, options)
        else:
            yield from aborted_entries(file, opened)
