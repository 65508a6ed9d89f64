"""The condition of --where, and its failures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from kafkafs import amounts
from kafkafs.cli.printing.terminal.output import fail
from kafkafs.records.conditions.where import Where, WhereError


@contextmanager
def condition_of(text: str | None, jobs: int) -> Iterator[Where | None]:
    """Yield the condition of --where; at its end report the records for which it failed."""
    if text is None:
        yield None
        return
    try:
        with Where(text, jobs) as where:
            try:
                yield where
            finally:
                _tell_failures(where)
    except WhereError as error:
        raise click.exceptions.Exit(fail(str(error))) from None


def _tell_failures(where: Where) -> None:
    """Say for which records a condition failed, and where none met it, how many lack what it asks for."""
    if where.first is None:
        return
    name, reason = where.first
    if where.failed:
        records = amounts.counted(where.failed, "record")
        fail(f"--where failed for {records}, such as {name}: {reason}")
    elif not where.met:
        records = amounts.counted(where.lacking, "record")
        fail(f"--where asks for a field that {records} lack, such as {name}: {reason}")
