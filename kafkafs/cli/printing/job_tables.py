"""Tables of a job's result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkafs.cli.printing.terminal.table import cell, print_table
from kafkafs.decode.shown_text import printable

if TYPE_CHECKING:
    from kafkafs.job_summary import JobSummary


def show(summary: JobSummary, *, err: bool = False) -> None:
    """Print the tables of a summary."""
    for place, table in enumerate(summary.tables()):
        if place:
            click.echo(err=err)
        if table.title:
            click.echo(printable(table.title), err=err)
        header, rows = table.header, table.rows
        if (
            not any(header) and rows
        ):  # a list of facts has no header: its first row takes that place
            header, rows = [cell(value) for value in rows[0]], rows[1:]
        print_table(header, rows, err=err)
