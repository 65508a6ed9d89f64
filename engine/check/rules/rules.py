"""The rules of `check`: stable ids, severities, and what to do about a breach.

RULES.md is generated from this table: `python -m engine.check.rules.rules_page` prints it.
"""

from __future__ import annotations

from engine.check.rules.rule_registry import RULES, Rule, Severity, declare
from engine.check.rules.side_file_rules import SIDE_FILE_RULES

__all__ = ["RULES", "Rule", "Severity", "declare"]

_SALVAGE = (
    "Rebuild the partition with `kafkafs rebuild`, or let the broker take it from another replica."
)
_REBUILD = "A broker would serve it unchanged; `kafkafs rebuild` writes a log without it."
_LOOK = "Inspect it with `kafkafs dump`; it was written this way, or changed later."
_MERGE = "Take them from another copy: `kafkafs rebuild --merge`."
_BEFORE_START = "Run `kafkafs plan` before a broker starts on this directory."

declare(
    "batches",
    Severity.ERROR,
    {
        "unreadable": (
            "the device cannot read bytes of a records file",
            "Image the disk first. `kafkafs rebuild` keeps all other batches; --merge adds these from a replica.",
        ),
        "batch-checksum": ("a batch's checksum is wrong", _SALVAGE),
        "batch-length": ("a batch's length is wrong", _SALVAGE),
        "batch-magic": ("a batch has an unknown magic", _SALVAGE),
        "batch-too-large": (
            "a batch states more bytes than the budget allows",
            "Raise the budget for batches if such batches were written; else treat it as damaged.",
        ),
        "batch-offsets": ("a batch's header states impossible offsets", _SALVAGE),
        "batch-zeros": ("zeros between batches", _SALVAGE),
        "batch-producer": (
            "a batch's producer id, epoch and sequence contradict each other",
            _LOOK,
        ),
    },
)
declare(
    "batches",
    Severity.WARNING,
    {
        "torn-tail": (
            "the last segment ends inside a batch",
            "An interrupted write leaves this; a broker truncates it when it starts.",
        ),
        "batch-attributes": ("a batch has attribute bits without a meaning", _LOOK),
    },
)
declare(
    "batches",
    Severity.NOTE,
    {
        "zero-tail": (
            "the segment ends in zeros",
            "Normal for a preallocated segment; the broker trims it when it stops or recovers.",
        ),
        "batch-without-records": ("a batch has bytes but states no records", _LOOK),
    },
)
declare(
    "records",
    Severity.ERROR,
    {
        "records-invalid": ("a record contradicts the format", _SALVAGE),
        "records-count": ("a batch does not have as many records as it states", _SALVAGE),
        "records-leftover": ("bytes follow the last record of a batch", _SALVAGE),
        "records-compression": ("a batch's records cannot be decompressed", _SALVAGE),
        "records-codec": ("a batch states an unknown compression codec", _SALVAGE),
        "records-offsets": ("records' offsets are not ascending, or outside their batch", _LOOK),
        "control-record": ("a control record is malformed", _BEFORE_START),
    },
)
declare(
    "records",
    Severity.WARNING,
    {
        "records-not-checked": (
            "a batch's records were not checked",
            "Install the named codec, or raise the budget, and check again.",
        ),
        "records-timestamps": (
            "a batch's max timestamp is not the largest of its records",
            "Look-ups by time can miss its records. " + _REBUILD,
        ),
        "records-refused": (
            "Kafka's consumers refuse a batch's compressed frame, which kafkafs reads",
            "A consumer stops here. `kafkafs export` and the mount show the records; produce them again.",
        ),
        "timestamp-seconds": (
            "records have timestamps in seconds where Kafka has milliseconds",
            "They count as of early 1970: retention by time deletes them at once, look-ups by time miss them.",
        ),
        "timestamp-negative": ("a record has a timestamp below -1", _LOOK),
        "control-type": ("a control record has an unknown type", _BEFORE_START),
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
        "offset-duplicate": ("a batch is in the log twice", _BEFORE_START),
        "offset-segment": ("a batch's offsets are outside its segment", _BEFORE_START),
        "offset-overflow": (
            "offsets too far from the segment's base offset",
            "A broker splits the segment when it loads it, or does not load it. " + _BEFORE_START,
        ),
        "log-start-short": (
            "offsets at the start of the log are missing, but were not deleted",
            _MERGE,
        ),
        "log-end-short": (
            "offsets at the end of the log are missing, but existed once",
            _MERGE + " Otherwise a broker that starts here gives their offsets to other records.",
        ),
        "gap-loss": (
            "offsets are missing because records were lost",
            _MERGE,
        ),
    },
)
declare(
    "offsets",
    Severity.WARNING,
    {
        "gap-unexplained": (
            "offsets are missing for an unknown reason",
            "Compare with another replica: `kafkafs check --replica`.",
        ),
    },
)
declare(
    "offsets",
    Severity.NOTE,
    {
        "gap-compaction": ("offsets are missing because of compaction", "Nothing to do."),
        "gap-held": (
            "batches without records hold offsets",
            "`kafkafs rebuild` and Spark's writer write such batches for offsets without records; nothing to do.",
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
            "a batch's leader epoch is out of order",
            "The epoch is not covered by the checksum. A broker would rewrite its epochs with it.",
        ),
        "transaction-without-producer": ("a transactional batch has no producer id", _LOOK),
    },
)
declare(
    "epochs and producers",
    Severity.WARNING,
    {
        "producer-epoch": ("a producer's epoch decreases", _LOOK),
        "producer-sequence": ("a producer's sequence numbers are out of order", _LOOK),
    },
)
declare(
    "epochs and producers",
    Severity.NOTE,
    {
        "marker-without-transaction": (
            "end markers without a transaction in this partition",
            "Normal if a transaction wrote nothing here, and after compaction or retention.",
        ),
    },
)
declare(
    "files",
    Severity.ERROR,
    {
        "file-unreadable": (
            "a file or folder cannot be read",
            "Run as the owner of the files if permission is missing; if the disk fails, image it first.",
        ),
        "file-link": (
            "a symbolic link, which the check does not follow",
            "A broker follows it and changes its target. Name the real path as a source.",
        ),
        "file-kind": ("a device, FIFO, socket or folder instead of a file", _BEFORE_START),
        "file-name": (
            "a name that keeps a broker from loading the log",
            "Move it out of the folder before a broker starts.",
        ),
        "file-too-large": (
            "a segment larger than Kafka can open",
            "A broker refuses it; `kafkafs rebuild` splits it.",
        ),
    },
)
declare(
    "files",
    Severity.WARNING,
    {
        "file-half-compacted": (
            "files of an unfinished compaction or split",
            (
                "A broker finishes or reverts it when it loads the log: see `kafkafs plan`; `kafkafs grep --deleted` "
                "searches them."
            ),
        ),
        "file-without-log": (
            "an index without its records file",
            "A broker deletes it. If the records file was lost, so were its records.",
        ),
        "folder-twice": (
            "a partition is in two log dirs",
            "A broker does not start on both; keep the complete one.",
        ),
        "topic-name": ("an invalid topic name", "Rename it before restoring."),
    },
)
declare(
    "files",
    Severity.NOTE,
    {
        "file-deleted": (
            "files renamed for deletion",
            (
                "A broker deletes them a minute after renaming them; `kafkafs grep --deleted` searches them, "
                "`kafkafs rebuild` can bring them back."
            ),
        ),
        "file-other": ("a file that is not Kafka's", "Kafka ignores it."),
        "file-hard-link": (
            "a file with several hard links",
            "Normal in a backup made of hard links; a change of the file shows in all of them.",
        ),
        "tiered-copy": (
            "a superfluous copy of a segment in tiered storage",
            "Another copy has its offsets, or its leader epochs are not those of the log.",
        ),
        "folder-apart": (
            "a folder that is not the log of its partition",
            "It is being moved or deleted, or is stray; its records are not served.",
        ),
    },
)

for _group, _severity, _rules in SIDE_FILE_RULES:
    declare(_group, _severity, _rules)
