"""Dump files one after the other, as DumpLogSegments prints them or as JSON lines."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

from kafkafs.dump.dump_file import DumpFile
from kafkafs.dump.dump_form import DumpForm
from kafkafs.dump.dump_options import DumpOptions
from kafkafs.dump.inputs import MissingInput
from kafkafs.dump.json_lines import JsonForm
from kafkafs.dump.many_cores import items_of
from kafkafs.dump.masked_json import MaskedJsonForm
from kafkafs.dump.report import DumpReport
from kafkafs.dump.text_form import TextForm


def dump_text(
    files: Iterable[DumpFile | MissingInput],
    options: DumpOptions,
    report: DumpReport,
    jobs: int = 1,
) -> None:
    """Dump files as DumpLogSegments prints them, on `jobs` cores.

    Files that cannot be read are reported on standard error, and the other files are dumped.
    """
    _dump(files, TextForm(options), report, jobs)
    report.finish()


def dump_json(
    files: Iterable[DumpFile | MissingInput],
    options: DumpOptions,
    report: DumpReport,
    jobs: int = 1,
) -> None:
    """Dump files as JSON lines, on `jobs` cores; damage and unreadable files are lines {"error": ...}."""
    form = JsonForm(options) if options.mask is None else MaskedJsonForm(options)
    _dump(files, form, report, jobs)


def _dump(
    files: Iterable[DumpFile | MissingInput], form: DumpForm, report: DumpReport, jobs: int
) -> None:
    with closing(items_of(files, form, jobs)) as items:
        for item in items:
            report.take(item)
