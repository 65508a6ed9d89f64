"""Text of a records file, as DumpLogSegments prints it: its headline, its batches, and the bytes that make none."""

from __future__ import annotations

from collections.abc import Callable

from engine.files.file_names import FileKind
from engine.files.source_files import SourceFile
from engine.log.segment.damage import DamageKind
from engine.log.segment.scan import Damage
from kafkafs.decode.shown_text import printable
from kafkafs.dump.dump_file import DumpFile
from kafkafs.dump.dump_options import DumpOptions
from kafkafs.dump.records.batch_dump import BatchDump
from kafkafs.dump.records.log_batches import Lost, batches_of
from kafkafs.dump.records.log_sentences import stop_sentence
from kafkafs.dump.report import DumpReport

Advance = Callable[[int], object]


class LogText:
    """Writer of the dump of one records file to a report.

    Args:
        advance: called with the number of bytes of the file that were processed.
    """

    def __init__(
        self, file: DumpFile, options: DumpOptions, report: DumpReport, advance: Advance
    ) -> None:
        self.file = file
        self.options = options
        self.report = report
        self.advance = advance
        self.batches = BatchDump(file, options, report)
        self.lost = 0  # bytes without a batch before the next batch

    def write(self, opened: SourceFile) -> None:
        """Write the whole file, or the part that the options select."""
        self._headline()
        size = opened.size()
        end = min(size, self.options.max_bytes)
        done = 0
        budgets = self.options.budgets
        for item in batches_of(opened, end, path=self.file.shown, budgets=budgets):
            if isinstance(item, Lost):
                self._note_lost(item.damage, end)
                now = item.damage.position + item.damage.length
            else:
                self._say_lost(int(item.table["position"][0]))
                self.batches.write(item)
                now = item.end_position
            self.advance(now - done)
            done = now
            del item  # free it before the next read: a batch may be as large as the budget
        trailing = self.lost or max(end - done, 0)
        if trailing and not self.options.is_partial:
            name = self.file.base_name
            self.report.line(f"Found {trailing} invalid bytes at the end of {printable(name)}")

    def _headline(self) -> None:
        file = self.file
        if file.kind is FileKind.LOG:
            if file.base_offset is None:
                self.report.complain(f'For input string: "{file.stem}"')
            else:
                self.report.line(f"Log starting offset: {file.base_offset}")
        elif file.kind is FileKind.BOOTSTRAP_CHECKPOINT:
            self.report.line("KRaft bootstrap snapshot")
        elif (found := file.snapshot_id) is not None:
            self.report.line(f"Snapshot end offset: {found[0]}, epoch: {found[1]}")

    def _note_lost(self, damage: Damage, end: int) -> None:
        self.lost += damage.length
        if self.options.is_partial and damage.kind is DamageKind.TORN_TAIL:
            return
        # A preallocated end, or the end of a file that a broker is writing, is no damage.
        is_finding = not damage.kind.is_quiet
        sentence = stop_sentence(damage, self.file.shown, end)
        self.report.complain(sentence, is_finding=is_finding)

    def _say_lost(self, position: int) -> None:
        """Report lost bytes between batches; DumpLogSegments counts all bytes after them as invalid."""
        if self.lost:
            start, name = position - self.lost, self.file.base_name
            self.report.line(f"Found {self.lost} invalid bytes at position {start} of {name}")
            self.lost = 0
