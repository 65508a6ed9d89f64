"""Text around the batches of a records file, as DumpLogSegments prints it: its headline, and the bytes that make none."""

from __future__ import annotations

from engine.files.file_names import FileKind
from engine.log.segment.damage import DamageKind
from engine.log.segment.scan import Damage
from kafkafs.decode.shown_text import printable
from kafkafs.dump.dump_file import DumpFile
from kafkafs.dump.dump_items import Complaint, DumpItem, text_line
from kafkafs.dump.dump_options import DumpOptions
from kafkafs.dump.records.log_batches import ShownBatches
from kafkafs.dump.records.log_sentences import stop_sentence


class LogText:
    """Text of one records file apart from its batches. To be asked in file order."""

    def __init__(self, file: DumpFile, options: DumpOptions) -> None:
        self.file = file
        self.options = options
        self.lost = 0  # bytes without a batch before the next batch

    def headline(self, size: int) -> list[DumpItem]:
        """Return the line before the batches of a file of `size` bytes."""
        file = self.file
        if file.kind is FileKind.LOG:
            if file.base_offset is None:
                return [Complaint(f'For input string: "{file.stem}"')]
            return [text_line(f"Log starting offset: {file.base_offset}")]
        if file.kind is FileKind.BOOTSTRAP_CHECKPOINT:
            return [text_line("KRaft bootstrap snapshot")]
        if (found := file.snapshot_id) is not None:
            return [text_line(f"Snapshot end offset: {found[0]}, epoch: {found[1]}")]
        return []

    def lost_bytes(self, damage: Damage, end: int) -> list[DumpItem]:
        """Return the complaint about bytes without a batch, in a file that is read up to `end`."""
        self.lost += damage.length
        if self.options.is_partial and damage.kind is DamageKind.TORN_TAIL:
            return []
        # A preallocated end, or the end of a file that a broker is writing, is no damage.
        is_finding = not damage.kind.is_quiet
        return [Complaint(stop_sentence(damage, self.file.shown, end), is_finding)]

    def before(self, batches: ShownBatches) -> list[DumpItem]:
        """Return the line about lost bytes before batches; DumpLogSegments counts all bytes after them as invalid."""
        lost, self.lost = self.lost, 0
        if not lost:
            return []
        start, name = int(batches.table["position"][0]) - lost, self.file.base_name
        return [text_line(f"Found {lost} invalid bytes at position {start} of {name}")]

    def tail(self, left: int) -> list[DumpItem]:
        """Return the line after the batches, with `left` bytes of the file not looked at."""
        trailing = self.lost or max(left, 0)
        if not trailing or self.options.is_partial:
            return []
        name = printable(self.file.base_name)
        return [text_line(f"Found {trailing} invalid bytes at the end of {name}")]
