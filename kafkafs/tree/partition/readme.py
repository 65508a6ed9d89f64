"""README.txt in `offset/`, `time/` and a period of a partition: names that work there, with values of this very log."""

from __future__ import annotations

from collections.abc import Callable

from engine.errors import KafkaStorageError
from engine.log.view.log_view import LogView
from kafkafs.decode.shown_text import printable_lines
from kafkafs.tree.lookups import offsets_of_period
from kafkafs.tree.partition.link_targets import first_offset, last_offset
from kafkafs.tree.partition.partition import Partition
from kafkafs.tree.path_names import Period, instant_name
from kafkafs.tree.plain_files import BytesFile

_OFFSETS = """\
Records of {name} by offset: {first} to {last} (log start offset {start}, log end offset {end}).

Each record is a file, listed or not. The listing has links only: earliest, latest, and the first
record of each segment. For example:

  {at:<24}the record at offset {at}, one JSON line
  {value:<24}its value, exact bytes; {at}.key its key (a null one is not there)
  {batch:<24}the batch that holds it, as on disk
  {some:<24}offsets {at} to {to}; also {at}+10, {at}.. and ..{at}
  {tail:<24}the last ten offsets (for most programs: ./-10)
  {latest:<24}link to the last record, {last}

There is no file for an offset below the log start offset, at or past the log end offset, or removed
by compaction; a range has no line for it.
"""

_TIMES = """\
Records of {name} by time: the first has the timestamp {first}, the newest {newest}.

A listing has the days with records; a day lists links to its hours, an hour to its minutes. Every
other name works, too. Times are UTC unless a zone is written (+02:00). For example:

  {first}
      link to the first record at or after this moment; also {ms}, in milliseconds
  {hour}/records.jsonl
      the records of an hour as JSON lines; also of a year, a month, a day or a minute
  {minute}../records.jsonl
      the records from this minute on; also A..B, up to another moment
  {day}/log/
      the batches of a day, byte for byte, as files that a broker loads: cp -r
  {day}/exact.jsonl
      exactly the records with timestamps of that day, wherever they are in the log
"""

_PERIOD = """\
Records of {name} from {start} up to {end}: {content}.

  records.jsonl    the records, one JSON line each
  log/             their batches, byte for byte, as files that a broker loads
  exact.jsonl      exactly the records with timestamps of the period, wherever they are in the log

All three work, but are not listed: so grep -r, find and rsync over the mount read each record once,
in records/. To copy, name them: cp -r log /backup/.
"""


def readme_file(path: str, partition: Partition, make: Callable[[LogView], str]) -> BytesFile:
    """Return a README.txt with a text about the current view of the log."""
    view = partition.view()
    try:
        text = make(view)
    except KafkaStorageError as error:
        text = f"This part of {partition.name} cannot be described: {error}\n"
    owner = partition.owner(view)
    return BytesFile(
        path,
        printable_lines(text).encode("utf-8", "backslashreplace"),
        owner,
        mtime_ns=owner.mtime_ns,
        ttl=partition.ttl(view),
    )


def readme_of_offsets(partition: Partition, view: LogView) -> str:
    """Return the text for `offset/`."""
    first, last = first_offset(partition, view), last_offset(partition, view)
    start, end = view.log_start_offset, view.log_end_offset
    name = partition.name
    if first is None or last is None:
        return f"{name} has no records: log start offset {start}, log end offset {end}.\n"
    middle = partition.records.first_at(view, (first + last) // 2)
    at = last if middle is None else middle
    return _OFFSETS.format(
        name=name, first=first, last=last, start=start, end=end, at=at, to=at + 9,
        value=f"{at}.value", batch=f"{at}.batch", some=f"{at}..{at + 10}", tail="-10", latest="latest",
    )  # fmt: skip


def readme_of_times(partition: Partition, view: LogView) -> str:
    """Return the text for `time/`."""
    found, newest = view.offset_for_time(0, records_only=True), view.max_timestamp
    first = None if found is None else instant_name(found.timestamp)
    if found is None or first is None or newest is None or len(first) < len("2024-01-01T10:30:00Z"):
        return f"{partition.name} has no records with a time between 1970 and 9999.\n"
    return _TIMES.format(
        name=partition.name,
        first=first,
        newest=instant_name(newest.timestamp),
        ms=found.timestamp,
        day=first[:10],
        hour=first[:13],
        minute=first[:16],
    )


def readme_of_period(partition: Partition, view: LogView, period: Period) -> str:
    """Return the text for a period."""
    start, end = offsets_of_period(view, period)
    content = f"offsets {start} to {end - 1}" if start < end else "no records"
    first, last = (None if ms is None else instant_name(ms) for ms in period)
    return _PERIOD.format(
        name=partition.name,
        start=first or "the beginning",
        end=last or "the end",
        content=content,
    )
