"""Files as DumpLogSegments prints them."""

from __future__ import annotations

from collections.abc import Iterator

from engine.files.file_names import FileKind
from kafkafs.decode.shown_text import printable
from kafkafs.dump.dump_file import DumpFile
from kafkafs.dump.dump_items import Complaint, Contradicted, DumpItem, Tally, text_line
from kafkafs.dump.dump_options import DumpOptions
from kafkafs.dump.entries.state_entries import STATE_KINDS
from kafkafs.dump.findings import Contradiction, Found, Note, ShownEntry
from kafkafs.dump.records.batch_dump import BatchDump
from kafkafs.dump.records.log_batches import ShownBatches
from kafkafs.dump.records.log_text import LogText

_LINES = 10_000


class TextForm:
    """See DumpForm. The kernel makes the text of records unless they are decoded."""

    def __init__(self, options: DumpOptions) -> None:
        self.options = options
        self.is_native = options.decoder is None

    def opening(self, file: DumpFile) -> list[DumpItem]:
        """Return the line with the path."""
        return [text_line(f"Dumping {printable(file.shown)}")]

    def unreadable(self, shown: str, sentence: str) -> list[DumpItem]:
        """Return a complaint."""
        return [Complaint(sentence, is_finding=False), Tally(unreadable=1)]

    def unknown(self, file: DumpFile) -> list[DumpItem]:
        """Return a complaint."""
        return [Complaint(f"Ignoring unknown file {file.shown}", is_finding=False)]

    def around(self, file: DumpFile) -> LogText:
        """Return a maker of the text around the batches."""
        return LogText(file, self.options)

    def batches(self, file: DumpFile, batches: ShownBatches) -> Iterator[DumpItem]:
        """Yield the text of batches, with their records if asked for."""
        return BatchDump(file, self.options).items(batches)

    def entries(self, file: DumpFile, found: Iterator[Found]) -> Iterator[DumpItem]:
        """Yield a line for each entry; contradictions are for the end."""
        lines: list[str] = []
        quiet = self.options.verify_index_only and file.kind is not FileKind.TRANSACTION_INDEX
        for each in found:
            if isinstance(each, ShownEntry):
                if not quiet or file.kind in STATE_KINDS:
                    lines.append(each.text)
            elif isinstance(each, Note):
                lines.append(each.text)
            elif isinstance(each, Contradiction):
                yield Contradicted(file.absolute, each)
            else:
                yield from _joined(lines)
                yield Complaint(each.reason)
            if len(lines) > _LINES:
                yield from _joined(lines)
        yield from _joined(lines)


def _joined(lines: list[str]) -> Iterator[bytes]:
    """Yield the lines as one text, and clear the list."""
    if lines:
        yield text_line("\n".join(lines))
        lines.clear()
