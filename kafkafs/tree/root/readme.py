"""`/README.txt`: description of the tree, inside the tree."""

from __future__ import annotations

from engine.version import __version__
from kafkafs.decode.shown_text import printable
from kafkafs.tree.context import Context

_TEXT = """\
This is a read-only view of Kafka log directories, made by kafkafs {version}.

Shown here:
{sources}

The source is never changed. Every name below works, listed or not:

{examples}  orders-0/                      a partition (topic orders, partition 0)
    offset/35                    the record at offset 35, one JSON line
    offset/35.key  35.value      its exact bytes (a null one is not there)
    offset/35.batch              the batch that holds it, as on disk
    offset/100..200              records 100 to 199; also 100..  ..200  100+50  -10 (the last ten)
    offset/earliest  latest      links to the first and to the last record
    time/2024-01-01T10:30:00Z    link to the first record at or after this moment
    time/20240101T103000Z        the same without colons (rsync takes a:b for a host)
    time/1704105000000           the same in milliseconds since 1970
    time/2024-01-01/             a period: a year, month, day, hour, minute, or A..B
        records.jsonl            its records as JSON lines
        log/                     its batches, byte for byte, as files that a broker loads
        exact.jsonl              exactly the records with timestamps in the period
        10/                      a part of it: an hour of a day, a day of a month
    records/                     every segment decoded, a line a record: grep -r, tail -f
    committed/                   the same as a read_committed consumer sees it
    segments/                    the source files, byte for byte
    state/                       offsets, epochs, producers, transactions, indexes, leftovers
    key/4711                     link to the newest record of a key, where the topic is compacted
  time/2024-01-01/               all partitions cut to a period: a log dir for tar, rsync or cp
  state/                         meta.properties, checkpoints, partitions
  groups/G/                      a consumer group: group.json, and for each partition TOPIC-N with its
                                 committed offset and lag; from __consumer_offsets. For a share group
                                 start offset, epochs, records in flight; from __share_group_state
  transactions/ID                a transactional id; from __transaction_state
  cluster/                       topics, brokers, configs, acls, features; from __cluster_metadata
  schemas/S/V                    version V of the subject S; from _schemas. V.json has all that is
                                 known of it; schemas/ids/7 is the schema with this id
  time/2024-01-01/groups/        the same four as of the end of a period (not listed there)
  .kafkafs/                      version, problems found

Good to know:

- grep -r, find and rsync read each record once, in records/. All that shows it again works by its
  name, but is not listed, or is a link: offset/ lists links to the first and the last record and to one
  of each segment; time/ lists days, a day links to its hours; committed/ lists links. Nothing is
  listed in the time/ beside this file. So name a file to grep it: grep refund committed/*
- earliest is the first record at or after the log start offset; where compaction removed the record at the
  log start offset itself, the two numbers differ (see state/offsets.json).
- An offset removed by compaction does not exist; ranges have no line for it.
- A period is a range of offsets: from the first record at or after its start up to the first record at
  or after its end; a transaction's markers do not count. Where timestamps jump back and forth it may
  hold a few records from outside: exact.jsonl has those of the period and no others.
- Files below log/ hold whole batches, so they may begin and end a few records outside the period.
- Records that are on disk but below the log start offset are in records/ with "belowLogStart":true.
- groups/, transactions/, cluster/ and schemas/ are there when the source holds those topics. In their
  names, bytes that a file name cannot hold are %XX, and the empty name is a lone %.
- Damage is a line {{"error":{{...}}}} at its place in a decoded file, and the stream goes on; a single record
  that is damaged gives an input/output error, and: getfattr -n user.kafka.error FILE
- The size of a decoded file is an estimate until it is first opened, then exact. Its time is the
  timestamp of its newest record.
"""


_EXAMPLES = """\
  For example, of {count} here:
    cat {name}/offset/earliest
    cat {name}/offset/-10
    ls {name}/time

"""


def readme(context: Context) -> bytes:
    """Return the text, with the sources of this tree and examples that work in it."""
    sources = "\n".join(f"  {printable(root.path)}" for root in context.source.roots)
    logs = context.source.partitions()
    name = next((name for name in logs if not name.startswith("__")), next(iter(logs), None))
    examples = ""
    if name is not None:
        count = f"{len(logs):,} partitions" if len(logs) > 1 else "one partition"
        examples = _EXAMPLES.format(count=count, name=printable(name))
    text = _TEXT.format(version=__version__, sources=sources, examples=examples)
    return text.encode("utf-8", "backslashreplace")
