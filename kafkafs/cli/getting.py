"""`kafkafs get`: the newest record of a key, its value, or all records of the key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import click

from engine.log.partition_choice import ALL_PARTITIONS
from kafkafs import amounts
from kafkafs.cli.arguments import (
    LostRead,
    format_option,
    jobs_option,
    key_format_option,
    one_source_argument,
    open_log_source,
    schemas_option,
    values_option,
)
from kafkafs.cli.completing import names
from kafkafs.cli.options.isolation import committed_option
from kafkafs.cli.options.leftovers import Leftovers, leftover_options, takes_beside
from kafkafs.cli.options.masking import Masks, mask_option
from kafkafs.cli.options.partitions import (
    PARTITION_OPTION,
    NothingMatchedError,
    Partitioner,
    choice_of,
    require_choice,
    require_partitions,
)
from kafkafs.cli.options.times import at_option
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.damage import report
from kafkafs.cli.printing.terminal.output import fail, write_output
from kafkafs.cli.printing.terminal.progress import Progress
from kafkafs.cli.printing.terminal.verbosity import note
from kafkafs.exit_codes import EXIT_CANNOT_READ, EXIT_FINDINGS

if TYPE_CHECKING:
    from engine.log.log_directory import LogSource
    from engine.log.partition_log import PartitionLog
    from engine.log.view.log_view import LogView
    from kafkafs.decode.searching.apart import Apart
    from kafkafs.decode.searching.key_search import KeyFindings, KeySearch, Passed
    from kafkafs.decode.searching.live_key_search import LiveKeySearch
    from kafkafs.decode.searching.search import DamageFacts, Match
    from kafkafs.forms.record_format import RecordFormat
    from kafkafs.masking.line_mask import LineMask
    from kafkafs.records.conditions.wanted_keys import WantedKey
    from kafkafs.schemas.sources.known_schemas import KnownSchemas

_MOST_NAMES = 4


@click.command()
@one_source_argument
@click.argument("topic", shell_complete=names.topics)
@click.argument("key")
@key_format_option
@click.option(
    "-a", "--all", "is_history", is_flag=True, help="Print all records of the key, by offset."
)
@click.option(
    "--value",
    "only_value",
    is_flag=True,
    help="Write the exact bytes of the value, without a newline.",
)
@PARTITION_OPTION
@click.option(
    "--partitioner",
    "count",
    type=Partitioner(),
    metavar="murmur2[:N]",
    help="Read only the partition to which Kafka's default partitioner sends the key, of N partitions; "
    "without N, of as many as the cluster's metadata in SOURCE says.",
)
@committed_option()
@format_option
@jobs_option
@values_option
@schemas_option
@mask_option
@leftover_options
@at_option
@verbosity_options
def get(
    source: str,
    topic: str,
    key: str,
    key_format: str,
    is_history: bool,
    only_value: bool,
    chosen_partitions: tuple[str, ...],
    count: int | None,
    jobs: int,
    schemas: tuple[str, ...],
    **lines: Any,  # noqa: ANN401 - which records are read, and how they are shown
) -> None:
    """Print the newest record of KEY in TOPIC as a record line.

    \b
    kafkafs get /var/lib/kafka/data customers 4711
    kafkafs get /var/lib/kafka/data customers 4711 --value > customer.json
    kafkafs get /var/lib/kafka/data customers 4711 --all | jq .value
    kafkafs get /var/lib/kafka/data customers 4711 --all --format '%o %s\\n'
    kafkafs get /var/lib/kafka/data orders --key-format hex 0000002a
    kafkafs get /var/lib/kafka/data orders 4711 --partitioner murmur2
    kafkafs get /var/lib/kafka/data orders --key-format json '{"id":4711}'

    All partitions of TOPIC are searched, each from its newest segment on: producers
    may have another partitioner, and a topic may have got partitions. If several
    partitions hold KEY, the newest record of each is printed, and the partitions
    are named. --partition and --partitioner read fewer. A null value is a tombstone.

    --deleted prints also the newest record of each file and folder beside the logs,
    with --all all of them: earlier values that compaction or retention removed.

    --key-format json finds a key by the JSON that the record line shows for it:
    decoded with its schema or as Kafka's own, JSON itself, or "text". Spaces and the
    order of names do not count. It decodes every key, so the bytes are found faster.

    Exit status: 0 printed, 1 there is no such record (or --value has no value, or
    several), 3 a part could not be searched that may hold a newer record.
    """
    if count is not None and chosen_partitions:
        raise click.UsageError("--partition and --partitioner cannot be combined")
    if only_value and lines["form"] is not None:
        raise click.UsageError("--value writes the value alone: leave out --format")
    if is_history and only_value:
        raise click.UsageError("--value writes one value: leave out --all")
    leftovers: Leftovers = lines.pop("leftovers")
    if leftovers.are_read and (only_value or lines["form"] is not None):
        raise click.UsageError(
            "--deleted says in each line where a record is from: leave out --value and --format"
        )
    masks: Masks = lines.pop("masks")
    masks.refuse(lines["values"], lines["form"], value=only_value)
    masks.refuse_key(topic)
    from kafkafs.schemas.sources.known_schemas import KnownSchemas

    sought_in = choice_of((topic,), chosen_partitions).takes
    reads = LostRead(sought_in, EXIT_CANNOT_READ) if count is None else None
    with (
        open_log_source((source,), reads=reads) as opened,
        masks.told(opened),
        Progress("searched") as progress,
        ExitStack() as stack,
    ):
        logs = _chosen_logs(opened, topic, chosen_partitions)
        known = KnownSchemas(opened, schemas)
        sought = _wanted_key(key, key_format, topic, known)
        wanted = sought.content if sought.is_exact else None
        if count is not None:
            if wanted is None:
                raise click.UsageError("--partitioner needs the bytes of KEY: use hex or base64")
            logs = _log_of_key(opened, logs, topic, wanted, count)
        takes = takes_beside(opened, ALL_PARTITIONS, list(logs))
        stack.enter_context(leftovers.told(opened, takes))
        threads = 1 if len(logs) >= jobs and not is_history else jobs
        make = _search_maker(sought, known, threads, mask=masks.of(topic), **lines)
        of_text = known if key_format == "text" else None
        beside = [
            part
            for log, apart in leftovers.logs(opened, takes)
            for part in _parts({log.name: log}, partial(make, apart=apart))
        ]
        lookup = _Lookup(opened, topic, wanted, _parts(logs, make), beside, progress, of_text)
        if is_history:
            lookup.print_all()
        else:
            lookup.print_newest(jobs if threads == 1 else 1, only_value=only_value)


def _wanted_key(text: str, form: str, topic: str, known: KnownSchemas) -> WantedKey:
    """Return the key to look for.

    Raises:
        click.BadParameter: the text does not have the form, or the type that the topic's keys have.
    """
    from kafkafs.records.conditions.wanted_keys import wanted_key

    try:
        return wanted_key(text, topic, known, form)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"not {form}: {error}", param_hint="KEY") from None


def _chosen_logs(
    source: LogSource, topic: str, partitions: Sequence[str]
) -> dict[str, PartitionLog]:
    """Return the chosen partitions of a topic by name.

    Raises:
        NothingMatchedError: the source has no such topic or partition.
    """
    from engine.log.unmatched import unmatched_partition

    logs = require_partitions(source)
    own = {
        name: log
        for name, log in logs.items()
        if log.topic_partition.topic == topic
        and (name == str(log.topic_partition) or not log.folder)
    }
    if not own:
        raise NothingMatchedError(unmatched_partition("TOPIC", topic, logs))
    choice = choice_of((), partitions)
    require_choice(choice, own)
    return {name: log for name, log in own.items() if choice.takes(log)}


def _log_of_key(
    source: LogSource, logs: Mapping[str, PartitionLog], topic: str, key: bytes, count: int
) -> dict[str, PartitionLog]:
    """Return the partition of a key among `count`; 0 for the number in the cluster's metadata.

    Raises:
        click.UsageError: the number is needed, and the source does not state it.
        NothingMatchedError: the source lacks the partition.
    """
    from engine.replay.key_partitions import partition_of_key

    stated = count or _stated_count(source, topic)
    if not stated:
        raise click.UsageError(
            f"the number of partitions of {topic} is unknown: write --partitioner murmur2:N"
        )
    number = partition_of_key(key, stated)
    found = {name: log for name, log in logs.items() if log.topic_partition.partition == number}
    if not found:
        raise NothingMatchedError(
            f"murmur2 sends the key to partition {number} of {stated}, which the source does not have"
        )
    return found


def _stated_count(source: LogSource, topic: str) -> int | None:
    from engine.replay.key_partitions import stated_partitions
    from engine.replay.source_state import SourceState

    return stated_partitions(SourceState(source).cluster, topic)


class _Part(NamedTuple):
    """A partition that is searched. Its search is None if the partition cannot be read."""

    name: str
    number: int
    search: LiveKeySearch | None


def _parts(logs: Mapping[str, PartitionLog], make: Callable[[LogView], KeySearch]) -> list[_Part]:
    from kafkafs.decode.searching.live_key_search import LiveKeySearch

    found = []
    for name, log in logs.items():
        readable = log.view_or_none() is not None
        search = LiveKeySearch(log, make) if readable else None
        found.append(_Part(name, log.topic_partition.partition, search))
    return found


class _Maker(Protocol):
    """Makes the search of a log."""

    def __call__(self, view: LogView, apart: Apart | None = None) -> KeySearch:
        """Return the search; `apart` is set for records that are not part of a log."""


def _search_maker(
    key: WantedKey,
    known: KnownSchemas,
    jobs: int,
    *,
    values: str,
    committed: bool,
    form: RecordFormat | None,
    mask: LineMask | None,
) -> _Maker:
    from engine import kernel
    from kafkafs.decode.searching.key_search import KeySearch

    def make(view: LogView, apart: Apart | None = None) -> KeySearch:
        options = kernel.LineOptions(
            *view.partition,
            values=values,
            decode_with=known.decoder(view.partition.topic),
            committed=committed,
            log_start_offset=view.log_start_offset,
            from_offset=view.log_start_offset,
            to_offset=view.end(committed=committed),
            mask=mask,
        )
        return KeySearch(view, key, options, jobs, form, apart)

    return make


class _Lookup:
    """Looks a key up in partitions, prints its records, and ends the command with its status."""

    def __init__(
        self,
        source: LogSource,
        topic: str,
        key: bytes | None,
        parts: Sequence[_Part],
        beside: Sequence[_Part],
        progress: Progress,
        schemas: KnownSchemas | None,
    ) -> None:
        self._source = source
        self._schemas = schemas
        self._topic = topic
        self._key = key
        self._parts = parts
        self._beside = beside
        self._progress = progress
        self._places = 0

    def print_all(self) -> None:
        """Print all records of the key, partition by partition."""
        parts = [*self._parts, *self._beside]
        records = sum(self._print_lines(part.search.lines()) for part in parts if part.search)
        self._say_read([])
        self._end(is_found=bool(records))

    def print_newest(self, jobs: int, *, only_value: bool) -> None:
        """Print the newest record of each partition that holds the key, or the one value."""
        from engine.workers import Workers
        from kafkafs.decode.searching.key_search import KeySearch

        found: list[tuple[_Part, LiveKeySearch, KeyFindings]] = []
        read: list[KeyFindings] = []
        with Workers(min(jobs, len(self._parts)), "get") as workers:
            for part, findings in workers.map(_newest, self._parts):
                if findings is None or part.search is None:
                    continue
                self._progress.advance(findings.size)
                read.append(findings)
                if findings.offset is not None:
                    found.append((part, part.search, findings))
                self._report(part, findings)
        self._say_read(read)
        if len(found) > 1:
            found = self._say_several(found, only_value=only_value)
        for part in self._beside:
            findings = _newest(part)
            if findings is not None and part.search is not None and findings.offset is not None:
                found.append((part, part.search, findings))
        is_found = is_shown = False
        for part, search, findings in found:
            if only_value:
                now, value = search.at_newest(findings, KeySearch.value)
                is_found |= value is not None
                is_shown = value is not None and _write_value(part, now, value[0])
            else:
                _, lines = search.at_newest(findings, KeySearch.line)
                is_found |= lines is not None
                is_shown |= bool(self._print_lines(lines or ()))
        self._end(is_found=is_found, is_shown=is_shown)

    def _print_lines(self, items: Iterable[Match | DamageFacts | Passed]) -> int:
        """Print lines, and report damaged places; return the number of records."""
        from kafkafs.decode.searching.key_search import Passed

        records = 0
        for item in items:
            if isinstance(item, dict):
                self._places += 1
                self._progress.clear()
                report(item, as_json=False)
            elif isinstance(item, Passed):
                self._progress.advance(item.size)
            else:
                write_output(item.text)
                records += item.records
        write_output(b"", flush=True)
        return records

    def _report(self, part: _Part, findings: KeyFindings) -> None:
        for facts in findings.damage:
            report(facts, as_json=False)
        self._places += findings.places
        if findings.places and findings.offset is not None:
            fail(
                f"{part.name}: the record at offset {findings.offset} may not be the newest of the key:"
                " damage after it may hold a newer one"
            )

    def _say_read(self, read: Sequence[KeyFindings]) -> None:
        """Say what was read."""
        names = ", ".join(part.name for part in self._parts[:_MOST_NAMES])
        more = len(self._parts) - _MOST_NAMES
        names += f" and {more} more partitions" if more > 0 else ""
        if not read:
            note(f"read {names} from the log start to the end")
            return
        segments = sum(each.segments for each in read)
        total = sum(len(part.search.search.view) for part in self._parts if part.search)
        bytes_read = amounts.size(sum(each.size for each in read))
        note(f"read {names}, the newest segments first: {segments} of {total}, {bytes_read}")

    def _say_several(
        self, found: list[tuple[_Part, LiveKeySearch, KeyFindings]], *, only_value: bool
    ) -> list[tuple[_Part, LiveKeySearch, KeyFindings]]:
        """Name the partitions with the key; return them, that of the default partitioner first."""
        from engine.replay.key_partitions import partition_of_key

        where = ", ".join(f"{part.name} (offset {each.offset})" for part, _, each in found)
        sentence = f"{len(found)} partitions hold the key: {where}"
        count = _stated_count(self._source, self._topic)
        if count and self._key is not None:
            number = partition_of_key(self._key, count)
            found = sorted(found, key=lambda each: each[0].number != number)
            sentence += f"; the default partitioner sends it to partition {number}"
        if only_value:
            fail(f"{sentence}: choose one with --partition or --partitioner")
            raise click.exceptions.Exit(EXIT_FINDINGS)
        fail(sentence)
        return found

    def _way(self) -> str:
        """Return what else finds a key that was given as text."""
        store = None if self._schemas is None else self._schemas.fixed().store
        schema = None if store is None else store.newest(self._topic, is_key=True)
        if schema is None:
            return ""
        return (
            f"; its keys have the schema {schema.name}: --key-format json finds them by their JSON"
        )

    def _end(self, *, is_found: bool, is_shown: bool = True) -> None:
        """End the command with its status unless that is 0."""
        unread = [part.name for part in self._parts if part.search is None]
        if not is_found:
            names = "partition" if len(self._parts) == 1 else "partitions"
            where = f"the {len(self._parts)} {names} of {self._topic} that were searched"
            fail(f"there is no record of the key in {where}{self._way()}")
        if self._places or unread:
            noun = "place" if self._places == 1 else "places"
            what = ", ".join(
                [*([f"{self._places} damaged {noun}"] if self._places else []), *unread]
            )
            fail(f"not all was searched: {what}")
            raise click.exceptions.Exit(EXIT_CANNOT_READ)
        if not is_found or not is_shown:
            raise click.exceptions.Exit(EXIT_FINDINGS)


def _newest(part: _Part) -> KeyFindings | None:
    return None if part.search is None else part.search.newest()


def _write_value(part: _Part, findings: KeyFindings, value: bytes | None) -> bool:
    """Write a value; return whether there is one."""
    if value is None:
        fail(f"{part.name}: the newest record of the key is a tombstone (offset {findings.offset})")
        return False
    write_output(value, flush=True)
    return True
