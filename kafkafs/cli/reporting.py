"""`kafkafs report`: one page of HTML with all that a source holds and what is wrong with it."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

import engine
from kafkafs.cli.arguments import (
    jobs_option,
    json_option,
    open_log_source,
    source_argument,
    source_paths,
)
from kafkafs.cli.options.evidence import EvidenceFile, evidence_option
from kafkafs.cli.options.outputs import StagedFile, refuse_inside
from kafkafs.cli.options.partitions import partition_options, require_choice, require_partitions
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.terminal.output import say
from kafkafs.cli.printing.terminal.progress import Progress
from kafkafs.decode.shown_text import printable
from kafkafs.exit_codes import EXIT_CANNOT_READ, EXIT_FINDINGS

if TYPE_CHECKING:
    from engine.log.partition_choice import PartitionChoice
    from kafkafs.report.facts import SourceFacts

_COLORS = {"error": "red", "warning": "yellow", "fine": None}


@click.command()
@source_argument
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default=None,
    help="Write the page to FILE; - is standard output, as for --json without this option.",
)
@json_option
@partition_options
@evidence_option
@jobs_option
@verbosity_options
def report(
    sources: tuple[str, ...],
    output: str | None,
    as_json: bool,
    choice: PartitionChoice,
    evidence: str | None,
    jobs: int,
) -> None:
    """Write one page of HTML: what SOURCE holds, what is wrong with it, and what to do.

    \b
    kafkafs report /var/lib/kafka/data -o report.html
    kafkafs report /backup/orders-0 -o orders.html
    kafkafs report /data1 /data2 --topic orders,payments -o report.html
    kafkafs report /var/lib/kafka/data --json | jq .losses

    --json writes every number of the page as one JSON object instead.

    The page needs no network and no script. It has findings and what to do, damaged files
    with their holes to scale, what a broker would do at its start, partitions, records by
    time, segments, codecs, groups with their lag, and open transactions. It holds no key,
    value or header of a record. Every byte of the chosen partitions is read and checked.

    Exit status: 0 nothing found, 1 findings, or a start would lose or change something, 3
    something could not be read. The page is written in all these cases, and says so.
    """
    if output is None and not as_json:
        raise click.UsageError("name the page: -o FILE, or -o - for standard output")
    output = output or "-"
    from engine.clock import SYSTEM_CLOCK
    from kafkafs.report.facts import FactsReader, finding_counts
    from kafkafs.report.verdict import verdict

    logging.getLogger(engine.__name__).setLevel(
        logging.CRITICAL
    )  # the page has all that a plan warns of
    with ExitStack() as files:
        source = files.enter_context(open_log_source(sources, is_cluster=False))
        progress = files.enter_context(Progress("read"))
        require_partitions(source)
        require_choice(choice, source.partitions())
        if output != "-":
            refuse_inside(source, output, "-o")
        kept = None
        if evidence is not None:
            kept = files.enter_context(EvidenceFile(evidence, source, source_paths(sources)))
        reader = FactsReader(
            source,
            source_paths(sources),
            takes=choice.takes if choice else None,
            jobs=jobs,
            clock=SYSTEM_CLOCK,
            advance=progress.advance,
            on_file=None if kept is None else kept.add,
        )
        facts = reader.read()
        if kept is not None:
            kept.finish(source.unread(), finding_counts(facts))
        _write(_text_of(facts, as_json=as_json), output)
        progress.clear()
        for each in verdict(facts) if output != "-" else ():
            say(click.style(printable(each.text), fg=_COLORS[each.level]))
        if not facts.is_known:
            sys.exit(EXIT_CANNOT_READ)
        if not facts.is_sound:
            sys.exit(EXIT_FINDINGS)


def _text_of(facts: SourceFacts, *, as_json: bool) -> str:
    """Return the page, or one JSON object on one line."""
    if as_json:
        from kafkafs.decode.shown_text import json_text
        from kafkafs.report import as_json as report_json

        return json_text(report_json.as_json(facts)) + "\n"
    from kafkafs.report.page import page

    return page(facts)


def _write(text: str, output: str) -> None:
    """Write the page; a file appears whole or not at all."""
    data = text.encode("utf-8", "backslashreplace")
    if output == "-":
        sys.stdout.buffer.write(data)
        return
    if os.path.exists(output) and not os.path.isfile(output):
        with open(output, "wb") as device:
            device.write(data)
        return
    with StagedFile(output) as file:
        file.write(data)
        file.appear(0o666 & ~_umask(), replaces=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
