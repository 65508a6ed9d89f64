"""The rules that `check` holds a log to: stable ids, how bad a breach is, and what to do about it.

RULES.md is made from this table: `python -m engine.check.rules.rules_page` prints it.
"""

from __future__ import annotations

from engine.check.rules.rule_registry import RULES, Rule, Severity, declare
from engine.check.rules.side_file_rules import SIDE_FILE_RULES

__all__ = ["RULES", "Rule", "Severity", "declare"]

_SALVAGE = (
    "Rebuild the partition with `kafkafs rebuild`, or let the broker take it from another replica."
)
_REBUILD = "A broker would serve it as it is; `kafkafs rebuild` writes a log without it."
_LOOK = "Look at it with `kafkafs dump`; what it holds was written that way or was changed since."
_MERGE = "They are gone here. Take them from another copy: `kafkafs rebuild --merge`."
_BEFORE_START = "Look at `kafkafs plan` before a broker starts on this directory."

declare(
    "batches",
    Severity.ERROR,
    {
        "unreadable": (
            "the device cannot read bytes of a records file",
            "Image the disk first. `kafkafs rebuild` keeps all other batches; --merge has these from a replica.",
        ),
        "batch-checksum": ("a batch's bytes do not have its checksum", _SALVAGE),
        "batch-length": ("a batch's length leads to no other batch", _SALVAGE),
        "batch-magic": ("a batch of a format that does not exist", _SALVAGE),
        "batch-too-large": (
            "a batch states more bytes than the budget allows",
            "Raise the budget for batches if such batches were written; else treat it as damaged.",
        ),
        "batch-offsets": ("a batch's header states offsets that cannot be", _SALVAGE),
        "batch-zeros": ("zeros stand where batches were, and batches follow", _SALVAGE),
        "batch-producer": ("a batch's producer id, epoch and sequence do not fit together", _LOOK),
    },
)
declare(
    "batches",
    Severity.WARNING,
    {
        "torn-tail": (
            "the last segment ends inside a batch",
            "A stopped write leaves this, and the broker cuts it off when it starts.",
        ),
        "batch-attributes": ("a batch has attribute bits that no Kafka sets", _LOOK),
    },
)
declare(
    "batches",
    Severity.NOTE,
    {
        "zero-tail": (
            "the segment ends in zeros",
            "A preallocated segment does; the broker trims it when it stops or recovers.",
        ),
        "batch-without-records": ("a batch states no records and has bytes", _LOOK),
    },
)
declare(
    "records",
    Severity.ERROR,
    {
        "records-invalid": ("a record contradicts the format", _SALVAGE),
        "records-count": ("a batch holds another number of records than it states", _SALVAGE),
        "records-leftover": ("bytes follow the last record of a batch", _SALVAGE),
        "records-compression": ("a batch's records do not inflate", _SALVAGE),
        "records-codec": ("a batch is compressed with a codec that does not exist", _SALVAGE),
        "records-offsets": ("records' offsets are not ascending, or outside their batch", _LOOK),
        "control-record": ("a control record is not well formed", _BEFORE_START),
    },
)
declare(
    "records",
    Severity.WARNING,
    {
        "records-not-checked": (
            "a batch's records were not looked at",
            "Install the codec that is named, or raise the budget, and check again.",
        ),
        "records-timestamps": (
            "a batch's largest timestamp is not its records'",
            "Look-ups by time can miss records of it. " + _REBUILD,
        ),
        "timestamp-negative": ("a record has a timestamp below -1", _LOOK),
        "control-type": ("a control record of a type that is not known", _BEFORE_START),
    },
)
declare(
    "records",
    Severity.NOTE,
    {
        "timestamp-future": (
            "records have timestamps in the future",
            "Retention by time keeps their segments until then; check the producers' clocks.",
        ),
    },
)
declare(
    "offsets",
    Severity.ERROR,
    {
        "offset-order": ("a batch's offsets are not above those before it", _BEFORE_START),
        "offset-duplicate": ("a batch stands in the log twice", _BEFORE_START),
        "offset-segment": ("a batch's offsets do not belong into its segment", _BEFORE_START),
        "offset-overflow": (
            "offsets too far from the segment's base offset",
            "A broker splits the segment when it loads it, or does not load it. " + _BEFORE_START,
        ),
        "log-start-short": (
            "offsets at the start of the log are gone that nothing deleted",
            _MERGE,
        ),
        "log-end-short": (
            "offsets at the end of the log are gone that were given once",
            _MERGE + " A broker that starts here as it is gives their offsets to other records.",
        ),
        "gap-loss": (
            "offsets are missing that were lost",
            _MERGE,
        ),
    },
)
declare(
    "offsets",
    Severity.WARNING,
    {
        "gap-unexplained": (
            "offsets are missing, and nothing tells why",
            "Compare with another replica: `kafkafs check --replica`.",
        ),
    },
)
declare(
    "offsets",
    Severity.NOTE,
    {
        "gap-compaction": ("offsets are missing that compaction took", "Nothing to do."),
        "gap-held": (
            "batches without records hold offsets",
            "`kafkafs rebuild` and Spark's writer leave these where offsets have no record; nothing to do.",
        ),
        "gap-retention": ("offsets below the log start are missing", "Nothing to do."),
        "below-log-start": (
            "records below the log start are still on disk",
            "They were deleted and are not served; `kafkafs rebuild` brings them back on request.",
        ),
    },
)
declare(
    "epochs and producers",
    Severity.ERROR,
    {
        "epoch-order": (
            "a batch's leader epoch does not fit between its neighbours'",
            "The epoch is not covered by the checksum. A broker would rewrite its epochs with it.",
        ),
        "transaction-without-producer": ("a transactional batch has no producer id", _LOOK),
    },
)
declare(
    "epochs and producers",
    Severity.WARNING,
    {
        "producer-epoch": ("a producer's epoch goes back", _LOOK),
        "producer-sequence": ("a producer's sequence numbers are not in order", _LOOK),
    },
)
declare(
    "epochs and producers",
    Severity.NOTE,
    {
        "marker-without-transaction": (
            "transactions end that did not begin in this partition",
            "Normal where a transaction wrote nothing here, and after compaction or retention.",
        ),
    },
)
declare(
    "files",
    Severity.ERROR,
    {
        "file-unreadable": (
            "a file or folder cannot be read",
            "Run as the owner of the files if the permission is missing; image the disk first if it fails.",
        ),
        "file-link": (
            "a symbolic link, which is not followed",
            "A broker follows it and changes what it leads to. Name the real path as a source.",
        ),
        "file-kind": ("a device, FIFO, socket or folder where a file belongs", _BEFORE_START),
        "file-name": (
            "a name that keeps a broker from loading the log",
            "Move it out of the folder before a broker starts.",
        ),
        "file-too-large": (
            "a segment larger than Kafka can open",
            "A broker refuses it; `kafkafs rebuild` cuts it into smaller ones.",
        ),
    },
)
declare(
    "files",
    Severity.WARNING,
    {
        "file-half-compacted": (
            "files that a compaction or split did not finish with",
            "A broker finishes or undoes it when it loads the log: see `kafkafs plan`.",
        ),
        "file-without-log": (
            "an index without its segment",
            "A broker deletes it; where the segment was lost, so were its records.",
        ),
        "folder-twice": (
            "a partition lies in two log dirs",
            "A broker does not start on both; keep the one that is whole.",
        ),
        "topic-name": ("a topic of a name that nobody may create", "Rename it before restoring."),
    },
)
declare(
    "files",
    Severity.NOTE,
    {
        "file-deleted": (
            "files that are about to be deleted",
            "A broker removes them a minute after it renamed them; `kafkafs rebuild` can bring them back.",
        ),
        "file-other": ("a file that is nothing of Kafka's", "Kafka leaves it alone."),
        "file-hard-link": (
            "a file that has several names",
            "A backup made of links looks like this; what changes the file changes both.",
        ),
        "tiered-copy": (
            "a copy of a segment in tiered storage that is not needed",
            "Another copy holds its offsets, or its leader epochs are not those of the log.",
        ),
        "folder-apart": (
            "a folder that is not the log of its partition",
            "It is on its way in or out, or was found stray; its records are not served.",
        ),
    },
)

for _group, _severity, _rules in SIDE_FILE_RULES:
    declare(_group, _severity, _rules)
