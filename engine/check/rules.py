"""The rules that `check` holds a log to: stable ids, how bad a breach is, and what to do about it.

RULES.md is made from this table: `python -m engine.check.rules` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is; notes do not make a log unsound."""

    ERROR = "error"
    """Records are lost or unreadable, or a broker would lose or misread something."""
    WARNING = "warning"
    """Something contradicts the log; a broker heals it, or it changes no record."""
    NOTE = "note"
    """Worth knowing; normal in some logs."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        id: stable, lower case with dashes.
        group: what it is about; rules of a group stand together.
        severity: of its findings, unless one says otherwise.
        title: what is wrong when it is broken, without a full stop.
        advice: what to do about it, one or two sentences.
    """

    id: str
    group: str
    severity: Severity
    title: str
    advice: str


RULES: dict[str, Rule] = {}
"""All rules by id, in the order they are documented."""


def declare(group: str, severity: Severity, rules: dict[str, tuple[str, str]]) -> None:
    """Register rules of one group and severity: by id, title and advice.

    Raises ValueError for an id that is taken.
    """
    for rule, (title, advice) in rules.items():
        if rule in RULES:
            raise ValueError(f"two rules are called {rule}")
        RULES[rule] = Rule(rule, group, severity, title, advice)


_SALVAGE = (
    "Rebuild the partition with `kafkafs rebuild`, or let the broker take it from another replica."
)
_REBUILD = "A broker would serve it as it is; `kafkafs rebuild` writes a log without it."
_LOOK = "Look at it with `kafkafs dump`; what it holds was written that way or was changed since."
_BEFORE_START = "Look at `kafkafs plan` before a broker starts on this directory."

declare(
    "batches",
    Severity.ERROR,
    {
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
        "gap-loss": ("offsets are missing that were lost", _SALVAGE),
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
        "file-unreadable": ("a file or folder cannot be read", "See the system's reason."),
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
        "folder-apart": (
            "a folder that is not the log of its partition",
            "It is on its way in or out, or was found stray; its records are not served.",
        ),
    },
)

# Indexes, snapshots, epochs, checkpoints and replicas:

_INDEX = "Remove the index while no broker runs: it makes it again. `kafkafs rebuild` makes it too."
_STATE = "A broker rebuilds it from the batches where it does not trust it; see `kafkafs plan`."
_CHECKPOINT = "See `kafkafs plan` for what a broker would make of it, and `kafkafs rebuild`."

declare(
    "indexes",
    Severity.ERROR,
    {
        "index-misses-records": ("look-ups by offset would begin behind their records", _INDEX),
        "index-position": ("an offset index points where no batch begins", _INDEX),
        "index-order": ("the entries of an offset index are not ascending", _INDEX),
        "time-index-misses-records": ("look-ups by time would miss records", _INDEX),
        "time-index-order": ("the entries of a time index are not ascending", _INDEX),
        "txn-index-missing": (
            "aborted transactions that the transaction index does not know",
            "Consumers that read committed records would get aborted ones. " + _INDEX,
        ),
        "txn-index-extra": (
            "the transaction index knows aborted transactions that the log does not",
            "Consumers that read committed records would miss some. " + _INDEX,
        ),
        "txn-index-entry": ("an entry of a transaction index contradicts the log", _INDEX),
    },
)
declare(
    "indexes",
    Severity.WARNING,
    {
        "index-entry": ("an offset index names an offset that no batch there has", _INDEX),
        "index-past-end": ("an index knows records behind the end of its segment", _INDEX),
        "index-length": ("an index does not hold whole entries", _INDEX),
        "index-missing": (
            "a segment without its offset index",
            "A broker reads the whole segment when it starts, to make it again.",
        ),
        "time-index-entry": ("an entry of a time index contradicts the log", _INDEX),
        "time-index-missing": (
            "a segment without its time index",
            "Look-ups by time can end there. A broker makes it again when the .index is gone too.",
        ),
    },
)
declare(
    "indexes",
    Severity.NOTE,
    {
        "index-empty": (
            "an offset index without entries for a segment that is not small",
            "Look-ups read the segment from its start; a large index.interval.bytes does this too.",
        ),
    },
)
declare(
    "producer snapshots",
    Severity.ERROR,
    {
        "snapshot-transactions": (
            "a producer snapshot and the log differ on which transactions are open",
            "Consumers that read committed records would wait for ever, or not at all. " + _STATE,
        ),
    },
)
declare(
    "producer snapshots",
    Severity.WARNING,
    {
        "snapshot-unreadable": (
            "a producer snapshot that is not whole",
            "A broker deletes it and uses an older one, or the batches.",
        ),
        "snapshot-producer": (
            "a producer snapshot and the log differ on what a producer wrote last",
            "A broker would refuse or repeat that producer's next batch. " + _STATE,
        ),
        "snapshot-missing": (
            "no producer snapshot, and a clean stop that says that none is needed",
            "A broker would forget its producers. Remove .kafka_cleanshutdown before it starts.",
        ),
    },
)
declare(
    "producer snapshots",
    Severity.NOTE,
    {
        "snapshot-stray": (
            "a producer snapshot that belongs to no segment",
            "A broker deletes it when it loads the log.",
        ),
        "snapshot-not-compared": (
            "a producer snapshot was not compared with the log",
            "There are more producers than the check keeps track of.",
        ),
    },
)
declare(
    "leader epochs",
    Severity.ERROR,
    {
        "epochs-unreadable": (
            "the leader epochs of a partition cannot be read",
            "A broker does not load the log. Remove the file while no broker runs, or rebuild.",
        ),
        "epochs-contradict": (
            "the leader epochs' file contradicts the batches",
            "Replicas would cut their logs in the wrong place. `kafkafs rebuild` makes it again.",
        ),
        "epoch-batch": (
            "a batch's leader epoch is not that of the leader epochs' file",
            "The epoch is not covered by the checksum. A broker would rewrite its epochs with it.",
        ),
    },
)
declare(
    "leader epochs",
    Severity.WARNING,
    {
        "epochs-order": ("the leader epochs' file is not in order", _CHECKPOINT),
        "epochs-past-end": ("a leader epoch begins behind the log end", _CHECKPOINT),
        "epochs-start": ("the first leader epochs of the log are missing", _CHECKPOINT),
        "epochs-missing": (
            "the batches have leader epochs, and there is no file of them",
            "A broker makes it again only when it recovers the log.",
        ),
    },
)
declare(
    "topic ids",
    Severity.ERROR,
    {
        "topic-id-unreadable": (
            "the topic id of a partition cannot be read",
            "A broker does not load the log. Write the id of the topic's other partitions there.",
        ),
        "topic-id-differs": (
            "a partition's topic id is not its topic's",
            "A broker takes it for another topic's: it moves it away as stray, or stops.",
        ),
        "topic-id-shared": ("two topics have the same id", "One of them was copied by hand."),
    },
)
declare(
    "topic ids",
    Severity.WARNING,
    {
        "topic-id-missing": (
            "a partition without a topic id, where others have one",
            "A broker of KRaft takes it for stray or gives it the id of the topic of that name.",
        ),
    },
)
declare(
    "topic ids",
    Severity.NOTE,
    {
        "topic-unknown": (
            "the cluster metadata does not know the partition's topic",
            "A broker moves it away as stray when it starts.",
        ),
    },
)
declare(
    "checkpoints",
    Severity.ERROR,
    {
        "checkpoint-unreadable": (
            "a checkpoint file that cannot be read",
            "A broker does without it, as if nothing were known, or does not start on it.",
        ),
        "log-start-past-end": (
            "the log start lies behind the log end",
            "A broker deletes the whole log when it loads it. Correct log-start-offset-checkpoint.",
        ),
        "clean-shutdown-damage": (
            "a clean stop is marked, and the log is damaged",
            "A broker would not look and serve it as it is. Remove .kafka_cleanshutdown, or rebuild.",
        ),
        "meta-properties": (
            "the log dir does not say properly whose it is",
            "A broker does not start on it. Correct meta.properties from another log dir.",
        ),
        "quorum-state": ("the election state of the metadata log is wrong", _CHECKPOINT),
    },
)
declare(
    "checkpoints",
    Severity.WARNING,
    {
        "recovery-point-past-end": (
            "the recovery point lies behind the log end",
            "Records that were flushed are gone: compare with another replica.",
        ),
        "high-watermark-past-end": (
            "the high watermark lies behind the log end",
            "Records that were replicated are gone here: compare with another replica.",
        ),
        "high-watermark-before-start": (
            "the high watermark lies before the log start",
            _CHECKPOINT,
        ),
        "log-start-epochs": (
            "log start and the first leader epoch differ",
            "Records were deleted up to one of the two: see log-start-offset-checkpoint.",
        ),
        "checkpoint-negative": ("a checkpoint has a negative offset", _CHECKPOINT),
        "checkpoint-twice": ("a checkpoint names a partition twice", _CHECKPOINT),
        "checkpoint-without-folder": (
            "a checkpoint names a partition that is not there",
            "It was deleted or moved, or its folder is lost: see the other log dirs.",
        ),
        "folder-without-checkpoint": (
            "a partition that the recovery points do not name",
            "A broker recovers it from its start when it did not stop cleanly.",
        ),
        "recovery-point-short": (
            "a clean stop is marked, and a recovery point is not the log end",
            "Something was written or lost after the stop, or the checkpoint was changed.",
        ),
        "cleaner-offset": (
            "the cleaner's checkpoint lies outside of the log",
            "A broker begins to compact at the log start again.",
        ),
        "clean-shutdown-unreadable": (
            "the file of the clean stop is not what a broker writes",
            "A broker takes it for a clean stop all the same.",
        ),
    },
)
declare(
    "replicas",
    Severity.ERROR,
    {
        "replica-diverges": (
            "two copies of a partition differ in their records",
            "The copy of the higher leader epoch is the one that a leader would keep.",
        ),
        "replica-epochs": (
            "two copies of a partition differ on a leader epoch",
            "The log of one was cut in the wrong place: compare the leader epochs' files.",
        ),
    },
)
declare(
    "replicas",
    Severity.WARNING,
    {
        "replica-lacks": (
            "one of two copies of a partition lacks records",
            "`kafkafs rebuild --merge` takes each batch from the copy that has it.",
        ),
        "replica-topic-id": ("two copies of a partition have different topic ids", _CHECKPOINT),
        "replica-absent": ("a partition that only one of the two has", "It may lie elsewhere."),
    },
)
declare(
    "replicas",
    Severity.NOTE,
    {
        "replica-range": (
            "one of two copies of a partition begins later or ends earlier",
            "A follower lags behind; log starts move by retention, each on its own.",
        ),
        "replica-batching": (
            "two copies hold the same records in other batches",
            "Compaction or another codec: the records are the same.",
        ),
    },
)
