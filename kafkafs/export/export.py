"""Export of records to files in the folders topic=…/date=…, in chunks that each are complete or absent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from engine.budgets import DEFAULT_BUDGETS, Budgets, MiB
from engine.errors import SourceGoneError
from engine.log.partition_log import PartitionLog
from engine.log.view.log_bound import LogRange
from engine.log.view.log_view import LogView
from engine.processes import in_any_order
from engine.units import Offset, TopicPartition
from kafkafs.decode.searching.apart import Apart, Deleted
from kafkafs.export.chunks import ExportChunk, chunked, chunked_leftovers
from kafkafs.export.errors import NothingToExportError, OptionError
from kafkafs.export.export_task import (
    GROUP_BYTES,
    ExportTask,
    ExportTaskWriter,
    FileOptions,
    RecordSource,
    TaskResult,
    tasks_of,
)
from kafkafs.export.file_columns import USUAL, USUAL_DECODED, check_columns, decodes, file_type
from kafkafs.export.file_formats import FORMATS
from kafkafs.export.ledger import (
    DAMAGE,
    LOCK,
    Done,
    Ledger,
    Manifest,
    Moved,
    leftovers_done,
    offsets_done,
    topic_ids_done,
    types_done,
)
from kafkafs.export.summary import ExportSummary, Gap
from kafkafs.export.target import LocalFiles, TargetFiles
from kafkafs.export.typed_topics import TypedTopics, typed_topics
from kafkafs.forms.arrow.arrow_columns import LEFTOVER
from kafkafs.records.row_mask import RowMask
from kafkafs.schemas.store import SchemaStore
from kafkafs.table.row_options import DecoderOf, RowOptions
from kafkafs.table.splits.split import QueryRange, Split, plan, plan_leftover, reaches_lost_end

CHUNK_BYTES = 1024 * MiB
SPLIT_BYTES = 16 * MiB

Logs = Mapping[TopicPartition, PartitionLog]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """Options of an export.

    Attributes:
        form: one of `file_formats.FORMATS`.
        values: "text" or "base64" for bytes in CSV; in record lines a form of values.
        codec: codec of the files; None for the usual one of the format.
        columns: names of columns; None for the usual ones. Record lines have none.
        committed: leave out aborted records, and end at the first open transaction.
        on_corrupt: "fail" at a damaged place, or "skip" and list it.
        decoder_of: returns the decoder of a topic; None for bytes.
        schemas: the schemas of the decoder, for the ledger.
        decode: "columns" for decoded keys and values in the types of the newest schemas, or "json".
        store: the schemas that give the types; None without any.
        mask: what the files leave out of records; None for nothing.
        extent: offsets or times to read.
        deleted: whether what a broker set aside is read, too; its name is the column `leftover`.
        group_bytes: bytes of records that are written at once.
        chunk_bytes: bytes of logs in a chunk, about.
        jobs: number of processes.
        budgets: limits on memory.

    Raises:
        OptionError: the options contradict each other.
    """

    form: str = "parquet"
    values: str = "text"
    codec: str | None = None
    columns: tuple[str, ...] | None = None
    committed: bool = False
    on_corrupt: str = "fail"
    decoder_of: DecoderOf | None = None
    schemas: tuple[str, ...] = ("auto",)
    decode: str = "json"
    store: SchemaStore | None = None
    mask: RowMask | None = None
    extent: LogRange = field(default_factory=LogRange)
    deleted: Deleted = False
    group_bytes: int = GROUP_BYTES
    chunk_bytes: int = CHUNK_BYTES
    jobs: int = 1
    budgets: Budgets = DEFAULT_BUDGETS

    def __post_init__(self) -> None:
        FORMATS[self.form].codec(self.codec)
        if self.form == "jsonl" and self.columns is not None:
            raise OptionError("jsonl has record lines: choose columns with another format")
        check_columns(self.columns or ())
        if self.decode != "columns":
            return
        if self.form in ("csv", "orc"):
            raise OptionError(
                f"{self.form} has no nested columns here: choose parquet, arrow or avro"
            )
        if self.form == "jsonl":
            raise OptionError(
                "jsonl has record lines, which are decoded: leave out --decode columns"
            )
        if self.mask is not None:
            raise OptionError(
                "a masked field need not have the type of its schema: leave out --decode columns, or --mask"
            )
        if not decodes(self.shown_columns):
            raise OptionError(
                "--decode columns is for decodedKey and decodedValue: name one of them"
            )

    @property
    def shown_columns(self) -> tuple[str, ...]:
        """Names of the columns of the files; record lines have none."""
        if self.form == "jsonl":
            return ()
        usual = USUAL_DECODED if self.decode == "columns" else USUAL
        return self.columns or (*usual, *([LEFTOVER] if self.deleted else []))

    @property
    def decodes(self) -> bool:
        """Whether keys and values are decoded."""
        return self.form == "jsonl" or decodes(self.shown_columns)

    @property
    def files(self) -> FileOptions:
        """What the files look like."""
        return FileOptions(
            form=self.form,
            columns=self.shown_columns,
            values=self.values,
            codec=FORMATS[self.form].codec(self.codec),
            group_bytes=self.group_bytes,
        )

    @property
    def rows(self) -> RowOptions:
        """How records are read."""
        return RowOptions(
            committed=self.committed,
            on_corrupt="row" if self.on_corrupt == "skip" else "fail",
            decoder_of=self.decoder_of if self.decodes else None,
            keeps_bytes=True,
            budgets=self.budgets,
            mask=self.mask,
        )

    @property
    def manifest(self) -> Manifest:
        """The settings that stay the same when an export goes on."""
        filters = {}
        if self.committed:
            filters["isolationLevel"] = "read_committed"
        if self.decode == "columns":
            filters["decode"] = self.decode
        if self.columns not in (None, USUAL):
            filters["columns"] = ",".join(self.columns or ())
        if self.decodes and self.schemas != ("auto",):
            filters["schemas"] = ",".join(self.schemas)
        if self.deleted:
            filters["deleted"] = "all" if self.deleted == "all" else "true"
        if self.mask is not None:
            filters["mask"] = self.mask.policy.fingerprint
        return Manifest(self.form, self.values, filters)


class TaskRunner(Protocol):
    """Runs tasks, such as `LocalTasks`."""

    @property
    def files(self) -> TargetFiles:
        """The target of the files."""

    def run(
        self,
        tasks: Sequence[ExportTask],
        source: RecordSource,
        options: ExportOptions,
        made: FileOptions,
        staged: str,
        take_note: Callable[[int], None],
    ) -> Iterator[TaskResult]:
        """Yield the results of tasks in any order.

        Args:
            tasks: what to write.
            source: the logs.
            options: see `ExportOptions`.
            made: what the files look like.
            staged: the folder for the files, relative to the target.
            take_note: is called with bytes that were read.
        """


class LocalTasks(NamedTuple):
    """Runs tasks in processes of this machine; the target is there, too."""

    files: LocalFiles

    def run(
        self,
        tasks: Sequence[ExportTask],
        source: RecordSource,
        options: ExportOptions,
        made: FileOptions,
        staged: str,
        take_note: Callable[[int], None],
    ) -> Iterator[TaskResult]:
        """Yield the results of tasks in any order, see `TaskRunner`."""
        writer = ExportTaskWriter(source, options.rows, made, f"{self.files.path}/{staged}")
        weights = [task.size for task in tasks]
        results = in_any_order(writer.write, tasks, options.jobs, weights, take_note)
        with closing(results) as done:
            for _, result in done:
                yield result


def export(
    source: RecordSource,
    runner: TaskRunner,
    options: ExportOptions,
    owners: Mapping[TopicPartition, str | None],
    take_plan: Callable[[int], None] = lambda _: None,
    take_note: Callable[[int], None] = lambda _: None,
) -> ExportSummary:
    """Write the records of some partitions to files; an export that is there already goes on.

    Args:
        source: the partitions of an open source, and what a broker set aside, if that is wanted.
        runner: runs the tasks, and has the target.
        options: see `ExportOptions`.
        owners: owners of the log dirs of the partitions, see `kafkafs.table.splits.log_dir_owners`.
        take_plan: is called with the bytes of logs to read.
        take_note: is called with bytes that were read.

    Raises:
        NothingToExportError: there are no records.
        OptionError: the target has something else, or an export that these logs and options do not continue.
        CorruptBatchError: damage, and `on_corrupt` is "fail"; finished chunks stay.
        LostRecordsError: the broker deleted records since the export began.
        OSError: the target cannot be written, or no partition can be read.

    A partition whose folder cannot be read is left out, with the reason in the log's problems, and the export is
    not marked as finished: the next one takes it, if it can be read by then. Nor is it if a mask names a field that no
    record has which it wrote.
    """
    files = runner.files
    ledger = Ledger(files)
    ledger.check(options.manifest, resume=True)
    earlier = ledger.done() if ledger.is_begun() else []
    chunks, gaps, unread = plan_export(source.logs, options, owners, earlier)
    chunks += plan_leftovers(source.leftovers, options, earlier)
    if not earlier and not any(chunk.splits for chunk in chunks):
        if unread:
            raise next(iter(unread.values()))
        raise NothingToExportError("there are no records to export")
    typed = None
    if options.decode == "columns":
        topics = {topic for chunk in chunks for topic in chunk.topics}
        topics |= {partition.topic for partition in source.logs}
        typed = typed_topics(topics, options.store, types_done(earlier), file_type)
    take_plan(sum(chunk.size for chunk in chunks))
    with files.lock(LOCK):
        before = ledger.begin(options.manifest)
        if offsets_done(before) != offsets_done(earlier):
            raise OptionError(f"{files.shown} was changed by another export: try again")
        written = []
        for place, chunk in enumerate(chunks):
            number = len(before) + place + 1
            try:
                written.append(
                    _write(source, runner, ledger, options, typed, number, chunk, take_note)
                )
            except BaseException:
                with suppress(OSError):
                    files.remove(ledger.staging(number))
                raise
        unmet = [] if options.mask is None else options.mask.policy.missed()
        if not unread and not unmet:
            ledger.end()
    untyped = [] if typed is None else typed.without
    return ExportSummary(
        files.shown, options.form, written, before, gaps, untyped, len(unread), unmet
    )


def _write(
    source: RecordSource,
    runner: TaskRunner,
    ledger: Ledger,
    options: ExportOptions,
    typed: TypedTopics | None,
    number: int,
    chunk: ExportChunk,
    take_note: Callable[[int], None],
) -> Done:
    staged = ledger.staging(number)
    records, damaged = dict.fromkeys(chunk.topics, 0), 0
    misfits, untimed = Counter[str](), Counter[str]()
    tasks = tasks_of(chunk.splits, options.jobs)
    made = options.files if typed is None else replace(options.files, typed=typed.columns)
    for result in runner.run(tasks, source, options, made, staged, take_note) if tasks else ():
        damaged += _added(records, result)
        misfits.update(result.misfits)
        untimed.update(result.untimed)
        if options.mask is not None:
            options.mask.policy.add(result.masked)
    moved: list[Moved] = list(ledger.moved(number, f"{staged}/records", ""))
    if damaged:
        moved += ledger.moved(number, f"{staged}/damage", DAMAGE)
    types = None if typed is None else typed.types
    finished = chunk.done(number, records, moved, damaged, types, misfits, untimed)
    ledger.record(finished)
    return finished


def _added(records: dict[str, int], result: TaskResult) -> int:
    """Add the records of a task; return its damaged places."""
    for topic, count in result.records.items():
        records[topic] += count
    return result.damaged


def plan_export(
    logs: Logs,
    options: ExportOptions,
    owners: Mapping[TopicPartition, str | None],
    earlier: Sequence[Done],
) -> tuple[list[ExportChunk], list[Gap], dict[TopicPartition, OSError]]:
    """Return the chunks that are left to write, the offsets that are lost to an export that goes on, and the
    partitions that cannot be read.

    Raises:
        OptionError: a log does not continue what was exported of it.
    """
    done, topic_ids = offsets_done(list(earlier)), topic_ids_done(list(earlier))
    begun = _first_offsets(earlier)
    splits: list[Split] = []
    gaps: list[Gap] = []
    unread: dict[TopicPartition, OSError] = {}
    empty: dict[TopicPartition, tuple[Offset, Offset]] = {}
    for partition, log in sorted(logs.items()):
        try:
            view = log.view()
        except (FileNotFoundError, SourceGoneError):
            raise
        except OSError as error:
            unread[partition] = error
            continue
        _refuse_another(partition, topic_ids.get(partition), view)
        wanted = _wanted(view, options)
        if partition in done:
            wanted, gap = _rest(view, wanted, begun[partition], done[partition])
            gaps += gap
        found: list[Split] = []
        if wanted.start < wanted.stop or reaches_lost_end(view, wanted):
            found = list(plan(view, wanted, SPLIT_BYTES, owners.get(partition)))
        if found and wanted.start < found[0].part_start:
            # The log begins with empty segments before this one.
            found[0] = replace(found[0], part_start=wanted.start)
        splits += found
        if not found and partition not in done:
            empty[partition] = wanted.start, max(wanted.start, wanted.stop)
    chunks = chunked(splits, options.chunk_bytes)
    if empty and (chunks or earlier):
        chunks.append(ExportChunk((), empty, 0))
    return chunks, gaps, unread


def plan_leftovers(
    leftovers: Mapping[str, tuple[PartitionLog, Apart]],
    options: ExportOptions,
    earlier: Sequence[Done],
) -> list[ExportChunk]:
    """Return the chunks of what a broker set aside, without what is written already: a name with the same size."""
    written, found = leftovers_done(earlier), dict[str, tuple[list[Split], int]]()
    for name, (log, _) in leftovers.items():
        view = log.view_or_none()
        if view is None or (name, view.size) in written:
            continue
        wanted = _wanted(view, options)
        if wanted.start < wanted.stop:
            found[name] = list(plan_leftover(view, wanted, SPLIT_BYTES)), view.size
    return chunked_leftovers(found, options.chunk_bytes)


def _wanted(view: LogView, options: ExportOptions) -> QueryRange:
    low, end = view.log_start_offset, view.end(committed=options.committed)
    start, stop = options.extent.offsets_in(view, low, max(low, end))
    return QueryRange(view.partition, start, stop)


def _rest(
    view: LogView, wanted: QueryRange, first: Offset, done: Offset
) -> tuple[QueryRange, list[Gap]]:
    """Return what is left of a range after an earlier export of [first, done), and the gap between both."""
    name = str(wanted.partition)
    elsewhere = "export it to another target"
    if view.log_end_offset < done:
        raise OptionError(
            f"{name} ends at offset {view.log_end_offset}, and {done} were exported: the log was truncated, or is"
            f" another one; {elsewhere}"
        )
    if wanted.start < first:
        raise OptionError(
            f"the export of {name} begins at offset {first}; offsets {wanted.start} to {first - 1} cannot be added:"
            f" {elsewhere}"
        )
    if wanted.start <= done or wanted.start >= wanted.stop:
        return wanted._replace(start=max(min(done, wanted.stop), wanted.start)), []
    if view.log_start_offset <= done:
        raise OptionError(
            f"the export of {name} ends at offset {done}, and --from leaves out {done} to {wanted.start - 1}:"
            " leave out --from"
        )
    return wanted, [Gap(name, done, wanted.start)]


def _refuse_another(partition: TopicPartition, before: str | None, view: LogView) -> None:
    if None not in (before, view.topic_id) and before != view.topic_id:
        raise OptionError(
            f"topic {partition.topic} was deleted and created again since it was exported (topic id {before}"
            f" before, {view.topic_id} now): export it to another target"
        )


def _first_offsets(earlier: Sequence[Done]) -> dict[TopicPartition, Offset]:
    found: dict[TopicPartition, Offset] = {}
    for chunk in earlier:
        for name, (start, _) in chunk.ranges.items():
            topic, _, number = name.rpartition("-")
            found.setdefault(TopicPartition(topic, int(number)), start)
    return found
