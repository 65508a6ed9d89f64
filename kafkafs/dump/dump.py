"""Dump files one after the other, as DumpLogSegments prints them or as JSON lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from engine.errors import KafkaStorageError
from engine.files.file_names import FileKind
from engine.files.read_failures import failure_text
from kafkafs.decode.shown_text import printable
from kafkafs.dump.dump_file import DumpFile
from kafkafs.dump.dump_options import DumpOptions
from kafkafs.dump.entries.index_entries import aborted_entries, offset_entries, time_entries
from kafkafs.dump.entries.state_entries import STATE_KINDS, state_entries
from kafkafs.dump.findings import Contradiction, Found, Note, ShownEntry
from kafkafs.dump.inputs import MissingInput
from kafkafs.dump.json_lines import JsonLines
from kafkafs.dump.records.log_text import Advance, LogText
from kafkafs.dump.report import DumpReport

LOG_KINDS = frozenset({FileKind.LOG, FileKind.KRAFT_CHECKPOINT, FileKind.BOOTSTRAP_CHECKPOINT})
INDEX_KINDS = frozenset({FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX})


def dump_text(
    files: Iterable[DumpFile | MissingInput],
    options: DumpOptions,
    report: DumpReport,
    advance: Advance = lambda _: None,
) -> None:
    """Dump files as DumpLogSegments prints them.

    Files that cannot be read are reported on standard error, and the other files are dumped.
    """
    for file in files:
        if isinstance(file, MissingInput):
            report.complain(f"{file.shown}: {file.reason}", is_finding=False)
            report.unreadable += 1
            continue
        report.line(f"Dumping {printable(file.shown)}")
        if file.kind in LOG_KINDS or file.kind in INDEX_KINDS or file.kind in STATE_KINDS:
            try:
                _dump_one(file, options, report, advance)
            except (OSError, KafkaStorageError) as error:
                report.complain(_unreadable(file, error), is_finding=False)
                report.unreadable += 1
        else:
            report.complain(f"Ignoring unknown file {file.shown}", is_finding=False)
    report.finish()


def _unreadable(file: DumpFile, error: OSError | KafkaStorageError) -> str:
    """Return why a file could not be dumped, with the path of the unreadable file."""
    text = failure_text(error)
    return text if file.shown in text else f"{file.shown}: {text}"


def _dump_one(file: DumpFile, options: DumpOptions, report: DumpReport, advance: Advance) -> None:
    if file.kind in LOG_KINDS:
        with file.open() as opened:
            LogText(file, options, report, advance).write(opened)
        return
    lines: list[str] = []
    quiet = options.verify_index_only and file.kind is not FileKind.TRANSACTION_INDEX
    for found in entries_of(file, options):
        if isinstance(found, ShownEntry):
            if not quiet or file.kind in STATE_KINDS:
                lines.append(found.text)
        elif isinstance(found, Note):
            lines.append(found.text)
        elif isinstance(found, Contradiction):
            report.contradict(file.absolute, found)
        else:
            _flush(lines, report)
            report.complain(found.reason)
        if len(lines) > _LINES:
            _flush(lines, report)
    _flush(lines, report)


_LINES = 10_000


def _flush(lines: list[str], report: DumpReport) -> None:
    if lines:
        report.line("\n".join(lines))
        lines.clear()


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
        elif file.kind is FileKind.TRANSACTION_INDEX:
            yield from aborted_entries(file, opened)
        else:
            raise ValueError(f"{file.shown} is no file of entries")


def dump_json(
    files: Iterable[DumpFile | MissingInput],
    options: DumpOptions,
    report: DumpReport,
    advance: Advance = lambda _: None,
) -> None:
    """Dump files as JSON lines; damage and unreadable files are lines {"error": ...}."""
    for file in files:
        writer = JsonLines(options, report)
        if isinstance(file, MissingInput):
            writer.unreadable(file.shown, file.reason)
            continue
        try:
            if file.kind in LOG_KINDS:
                writer.log(file, advance)
            elif file.kind in INDEX_KINDS or file.kind in STATE_KINDS:
                writer.entries(file, entries_of(file, options))
            else:
                writer.unknown(file)
        except (OSError, KafkaStorageError) as error:
            writer.unreadable(file.shown, _unreadable(file, error).removeprefix(f"{file.shown}: "))
