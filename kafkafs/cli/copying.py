"""`kafkafs cat` and `kafkafs cp`: copy bytes out of the tree without a mount."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from engine.errors import UnreadableError
from kafkafs.cli.arguments import (
    Failures,
    clean_path,
    format_option,
    jobs_option,
    one_source_argument,
    open_tree,
    schemas_option,
    values_option,
)
from kafkafs.cli.completing import names
from kafkafs.cli.options.leftovers import Leftovers, leftover_options, takes_beside
from kafkafs.cli.options.masking import Masks, mask_option
from kafkafs.cli.options.partitions import partition_options, require_choice, require_partitions
from kafkafs.cli.options.times import moment_option, range_options
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.terminal.output import fail, write_output
from kafkafs.cli.printing.terminal.progress import Progress
from kafkafs.exit_codes import EXIT_FINDINGS
from kafkafs.tree.node import Directory, File, Link, Node

if TYPE_CHECKING:
    from engine.log.log_directory import LogSource
    from engine.log.partition_choice import PartitionChoice
    from engine.log.view.log_bound import LogRange
    from engine.log.view.log_view import LogView
    from kafkafs.decode.searching.apart import Apart
    from kafkafs.decode.searching.search import Search
    from kafkafs.forms.record_format import RecordFormat
    from kafkafs.schemas.sources.known_schemas import KnownSchemas
    from kafkafs.tree.tree import Tree

_ERROR_LINE = re.compile(rb'\{"error":\{.*?"kind":"(\w+)"')
"""Line of a record stream in place of bytes that are damaged or cannot be read."""
UNREAD_KINDS = frozenset({b"unreadable", b"codec_missing"})
PIECE = 1 << 20
"""Bytes that cp reads at a time after unreadable bytes."""


@click.command()
@one_source_argument
@click.argument("paths", metavar="[PATH]...", nargs=-1, shell_complete=names.paths)
@partition_options
@range_options
@format_option
@jobs_option
@values_option
@schemas_option
@mask_option
@leftover_options
@moment_option
@verbosity_options
def cat(
    source: str,
    paths: tuple[str, ...],
    choice: PartitionChoice,
    extent: LogRange,
    form: RecordFormat | None,
    jobs: int,
    values: str,
    schemas: tuple[str, ...],
    masks: Masks,
    leftovers: Leftovers,
) -> None:
    """Write files of the tree to standard output, with the same bytes as in a mount.

    \b
    kafkafs cat /var/lib/kafka/data orders-0/offset/35
    kafkafs cat /var/lib/kafka/data orders-0/offset/35.value > value.bin
    kafkafs cat /var/lib/kafka/data orders-0/offset/100..200 | jq .value
    kafkafs cat /var/lib/kafka/data orders-0/time/2024-01-01T10/records.jsonl
    kafkafs cat /var/lib/kafka/data --topic orders --from today-1d --to today
    kafkafs cat /var/lib/kafka/data --topic orders --format '%k %s\\n'
    kafkafs cat mailed/payments.log

    Without a PATH, --topic, --partition, --from and --to choose records, which are written
    partition by partition, as in PARTITION/offset/A..B; a .log file or one partition's folder
    is written whole. With --format a PATH names records: a partition, or within it records,
    committed, one of their files, offset/RANGE or time/PERIOD; or time/PERIOD. The same holds
    with --mask: no other file of the tree is shown.

    With --deleted chosen records are followed by those of files and folders beside
    the logs: that compaction or retention removed, and those of deleted topics.

    Reports on standard error what cannot be read, and writes the rest. Exit status: 0 complete, 1 some
    of it is damaged or no record is chosen, 3 some of it could not be read.
    """
    words = "name PATHs, or choose records with --topic, --partition, --from and --to"
    if paths and (choice or any(extent)):
        raise click.UsageError(f"{words}: not both")
    if leftovers.are_read and (paths or form is not None):
        raise click.UsageError(
            "--deleted is about records that --topic, --partition, --from and --to choose, and about their lines:"
            " leave out " + ("PATH" if paths else "--format")
        )
    masks.refuse(values, form)
    with (
        open_tree(source, values, jobs, schemas) as tree,
        masks.told(tree.source),
        Failures() as failures,
        Progress("written", quiet=sys.stdout.isatty()) as progress,
        ExitStack() as stack,
    ):
        apart: Sequence[tuple[LogView, Apart]] = ()
        if not (paths or choice or any(extent) or leftovers.are_read or tree.source.is_one_log):
            raise click.UsageError(words)
        if not paths:
            takes = takes_beside(tree.source, choice)
            stack.enter_context(leftovers.told(tree.source, takes))
            apart = list(leftovers.views(tree.source, takes))
            failures.report_absent(tree.source)
        ranges = paths or chosen_ranges(
            tree.source, choice, extent, failures, may_be_empty=bool(apart)
        )
        if form is not None or masks or apart:
            from kafkafs.schemas.sources.known_schemas import KnownSchemas

            known = KnownSchemas(tree.source, schemas)
        if form is not None or masks:
            print_records(tree.source, ranges, form, masks, known, jobs, failures, progress)
            ranges = ()
        for path in ranges:
            node = failures.tried(resolved, tree, path)
            if isinstance(node, Directory):
                raise click.UsageError(f"{path} is a folder; try: kafkafs ls {source} {path}")
            if isinstance(node, File):
                errors, before, is_empty = ErrorLines(node), failures.count, True
                with closing(failures.passed_on(node.chunks())) as chunks:
                    for data in chunks:
                        is_empty &= not data
                        errors.look(data)
                        write_output(data)
                        progress.advance(len(data))
                errors.report(failures)
                if is_empty and node.has_error_lines and failures.count == before:
                    from kafkafs.cli.options.emptiness import logs_of_path, no_records

                    failures.report_nothing(no_records(path, logs_of_path(tree.source, path)))
            write_output(b"", flush=True)
        if apart:
            print_apart(apart, extent, values, masks, known, jobs, failures, progress)
        failures.report_beside(tree.source)


def print_apart(
    apart: Iterable[tuple[LogView, Apart]],
    extent: LogRange,
    values: str,
    masks: Masks,
    known: KnownSchemas,
    jobs: int,
    failures: Failures,
    progress: Progress,
) -> None:
    """Write the lines of records beside the logs, and report the damaged places between them."""
    from engine.kernel import LineOptions
    from kafkafs.decode.searching.search import Search
    from kafkafs.tree.lookups import first_on_disk

    for view, place in apart:
        start, stop = extent.offsets_in(view, first_on_disk(view), view.log_end_offset)
        options = LineOptions(
            *view.partition,
            values=values,
            decode_with=known.decoder(view.partition.topic),
            log_start_offset=view.log_start_offset,
            from_offset=start,
            to_offset=stop,
            mask=masks.of(view.partition.topic),
        )
        print_found([Search(view, None, options, apart=place)], jobs, failures, progress)


def print_records(
    source: LogSource,
    paths: Iterable[str],
    form: RecordFormat | None,
    masks: Masks,
    known: KnownSchemas,
    jobs: int,
    failures: Failures,
    progress: Progress,
) -> None:
    """Write the texts or masked lines of the records that paths name, and report the damaged places between them."""
    from engine.kernel import LineOptions
    from kafkafs.cli.options.emptiness import logs_of_path, no_records
    from kafkafs.decode.searching.search import Search
    from kafkafs.tree.selection import select

    for path in paths:
        selections = failures.tried(masks.found, source, path, lambda name: select(source, name))
        searches = [
            Search(
                each.view,
                None,
                LineOptions(
                    *each.view.partition,
                    decode_with=known.decoder(each.view.partition.topic),
                    committed=each.committed,
                    log_start_offset=each.view.log_start_offset,
                    from_offset=each.from_offset,
                    to_offset=each.to_offset,
                    mask=masks.of(each.view.partition.topic),
                ),
                form=form,
            )
            for each in selections or ()
        ]
        if not print_found(searches, jobs, failures, progress) and selections is not None:
            failures.report_nothing(no_records(path, logs_of_path(source, path)))
        write_output(b"", flush=True)


def print_found(
    searches: Sequence[Search], jobs: int, failures: Failures, progress: Progress
) -> bool:
    """Write what searches find, and report the damaged places; return whether there was something."""
    from engine.verdict.log_runs import is_large
    from engine.workers import Workers
    from kafkafs.cli.printing.damage import report
    from kafkafs.decode.searching.search import Match

    has_some = False
    with Workers(jobs, "cat") as pool:
        parts = ((search, part) for search in searches for part in search.parts())
        found = pool.flat_map(lambda it: it[0].results(*it[1]), parts, lambda it: is_large(it[1]))
        for item in found:
            has_some = True
            if isinstance(item, Match):
                write_output(item.text)
                progress.advance(len(item.text))
            else:
                progress.clear()
                report(item, as_json=False)
                failures.note_reported(is_unread=item["kind"].encode() in UNREAD_KINDS)
    return has_some


def chosen_ranges(
    source: LogSource,
    choice: PartitionChoice,
    extent: LogRange,
    failures: Failures,
    *,
    may_be_empty: bool = False,
) -> Iterator[str]:
    """Yield the paths of the chosen records, one for each partition that has some.

    Raises:
        NothingMatchedError: the choice takes no partition.
        click.exceptions.Exit: no chosen partition has records in the range.
    """
    from engine.verdict.log_losses import losses_of
    from kafkafs.tree.selection import proper_logs

    logs = require_partitions(source)
    require_choice(choice, logs)
    chosen = [log for log in map(logs.__getitem__, proper_logs(logs)) if choice.takes(log)]
    is_empty = True
    for log in chosen:
        view = failures.tried(log.view)
        if view is None:
            is_empty = False
            continue
        start, stop = extent.offsets_in(view, view.log_start_offset, view.log_end_offset)
        lost = losses_of(view).instead_of(start, stop)
        is_empty &= not lost and start >= stop
        for each in lost:
            failures.report_loss(each)
        if start < stop and not lost:
            yield f"{log.name}/offset/{start}..{stop}"
        log.forget()
    if is_empty and not may_be_empty:
        from kafkafs.cli.options.emptiness import no_records, place_of

        fail(no_records(place_of(choice, extent), chosen))
        raise click.exceptions.Exit(EXIT_FINDINGS)


class ErrorLines:
    """Detector of error lines in a file while it is copied.

    Args:
        file: only a record stream has error lines; in another file such a line is user data.
    """

    def __init__(self, file: File) -> None:
        self._file = file
        self._kinds: set[bytes] = set()
        self._is_line_start = True

    def look(self, data: bytes) -> None:
        """Look at the next piece of the file: an error line is a piece of its own."""
        if not self._file.has_error_lines or not data:
            return
        if self._is_line_start and (line := _ERROR_LINE.match(data)):
            self._kinds.add(line[1])
        self._is_line_start = data.endswith(b"\n")

    def report(self, failures: Failures) -> None:
        """Report the error lines that were found."""
        if self._kinds & UNREAD_KINDS:
            failures.report_hole(self._file.path)
        elif self._kinds:
            failures.report_damage(self._file.path)


def resolved(tree: Tree, path: str) -> Node:
    """Return the node of a path as a user typed it; follow its links."""
    # Imported here because --help needs none of the tree.
    from kafkafs.cli.options.paths import node_at

    return tree.follow(node_at(tree, path))


@click.command()
@one_source_argument
@click.argument("path", shell_complete=names.paths)
@click.argument("dest", type=click.Path(path_type=Path))
@jobs_option
@values_option
@schemas_option
@mask_option
@verbosity_options
def cp(
    source: str,
    path: str,
    dest: Path,
    jobs: int,
    values: str,
    schemas: tuple[str, ...],
    masks: Masks,
) -> None:
    """Copy a file or a folder of the tree to DEST, with modes and times.

    \b
    kafkafs cp /var/lib/kafka/data time/2024-01-01 /backup/2024-01-01
    kafkafs cp /var/lib/kafka/data orders-0/time/2024-01/log /restore/orders-0
    kafkafs cp /var/lib/kafka/data orders-0/offset/35.value value.bin

    If DEST is a folder, the copy is made inside it. Existing files are never overwritten. Files that
    cannot be read are reported and left out, and the exit status is 3. Bytes that the disk cannot read
    become zeros in a copied segment, and a line {"error": ...} in record lines. Damaged records become
    such lines, too: they are reported, and the exit status is 1. It is also 1, without a copy, if there are
    no records in PATH.
    """
    # Imported here because --help needs none of the engine.
    from kafkafs.cli.options.emptiness import logs_of_path, no_records, selects_nothing
    from kafkafs.tree.partition.by_time import PeriodFolder

    masks.refuse(values)
    with (
        open_tree(source, values, jobs, schemas, masks.policy) as tree,
        masks.told(tree.source),
        masks.refused(),
    ):
        node = resolved(tree, path)
        if selects_nothing(tree.source, clean_path(path)) or is_without_records(node):
            logs = logs_of_path(tree.source, clean_path(path))
            fail(no_records(clean_path(path), logs))
            raise click.exceptions.Exit(EXIT_FINDINGS)
        if isinstance(node, PeriodFolder):
            raise click.UsageError(
                f"{node.path} lists no records; copy {node.path}/log or {node.path}/records.jsonl"
            )
        target = dest / (clean_path(path).rsplit("/", 1)[-1] or "kafka") if dest.is_dir() else dest
        refuse_inside_source(target, [root.path for root in tree.source.roots])
        with Failures() as failures, Progress("copied") as progress:
            copy(node, target, progress, failures)


def is_without_records(node: Node) -> bool:
    """Return whether a node is a record stream without a line; such as a range of offsets that compaction took."""
    if not isinstance(node, File) or not node.has_error_lines:
        return False
    with closing(node.open()) as content:
        return not content.size


def refuse_inside_source(target: Path, roots: list[str]) -> None:
    """Refuse a target inside a source.

    Raises:
        click.UsageError: the target is inside one.
    """
    real = Path(os.path.realpath(target))
    for root in roots:
        if real.is_relative_to(os.path.realpath(root)):
            raise click.UsageError(f"{target} is inside the source {root}; choose another DEST")


def copy(node: Node, target: Path, progress: Progress, failures: Failures) -> None:
    """Copy a node and all readable nodes below it; set the time of a folder after its content."""
    attrs = failures.tried(node.attrs)
    if attrs is None:
        return
    if isinstance(node, Link):
        target.symlink_to(node.target)
        return
    if isinstance(node, Directory):
        target.mkdir(parents=True)
        for entry in failures.passed_on(node.entries(0)):
            child = failures.tried(node.lookup, entry.name)
            if child is not None:
                copy(child, target / entry.name, progress, failures)
    else:
        assert isinstance(node, File)
        if not copy_file(node, target, progress, failures):
            return
    target.chmod(attrs.mode | 0o200 if isinstance(node, File) else 0o755)
    os.utime(target, ns=(attrs.mtime_ns, attrs.mtime_ns))


def copy_file(file: File, target: Path, progress: Progress, failures: Failures) -> bool:
    """Copy a file under a temporary name, and rename the copy when it is complete.

    Return whether there is a copy: a file that cannot be read to its end is left out. Bytes that the disk cannot
    read are reported, and the copy has a hole (zeros) in their place.
    """
    if os.path.lexists(target):
        raise click.UsageError(f"{target} exists; choose another DEST")
    target.parent.mkdir(parents=True, exist_ok=True)
    staged = target.with_name(f".{target.name[:200]}.part")
    before, gaps, is_empty = failures.count, 0, True
    errors = ErrorLines(file)
    with open(staged, "xb") as output, closing(failures.passed_on(pieces(file))) as found:
        try:
            for data in found:
                if isinstance(data, FileGap):
                    failures.report(data.error, "the copy has zeros there")
                    output.truncate(output.seek(data.length, os.SEEK_CUR))
                    gaps += 1
                else:
                    errors.look(data)
                    output.write(data)
                    progress.advance(len(data))
                    is_empty = False
            output.flush()
            os.fsync(output.fileno())
        except BaseException as error:
            staged.unlink()
            if isinstance(error, OSError):  # of the copy: Failures has those of the source
                error.filename = str(target)
            raise
    if failures.count > before + gaps or (gaps and is_empty):
        staged.unlink()
        return False
    staged.rename(target)
    errors.report(failures)
    return True


class FileGap(NamedTuple):
    """Length in bytes of an unreadable part of a file, and the error."""

    length: int
    error: UnreadableError


def pieces(file: File) -> Iterator[bytes | FileGap]:
    """Yield the bytes of a file in order, and a FileGap for each unreadable part."""
    position = 0
    try:
        for data in file.chunks():
            yield data
            position += len(data)
        return
    except UnreadableError as error:
        failure = error
    content = file.open()
    try:
        while content.has_unreadable:
            behind = content.unreadable_end(failure)
            yield FileGap(behind - position, failure)
            position = behind
            try:
                while data := content.read_up_to_unreadable(position, PIECE):
                    yield data
                    position += len(data)
                return
            except UnreadableError as error:
                failure = error
    finally:
        content.close()
    raise failure
