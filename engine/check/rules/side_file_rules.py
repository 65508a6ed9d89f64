"""The rules for what lies beside the batches, and for copies of a partition; `engine.check.rules.rules` registers them."""

from __future__ import annotations

from engine.check.rules.rule_registry import Severity

_INDEX = "Remove the index while no broker runs: it makes it again. `kafkafs rebuild` makes it too."
_STATE = "A broker rebuilds it from the batches where it does not trust it; see `kafkafs plan`."
_CHECKPOINT = "See `kafkafs plan` for what a broker would make of it, and `kafkafs rebuild`."

SIDE_FILE_RULES: tuple[tuple[str, Severity, dict[str, tuple[str, str]]], ...] = (
    (
        "indexes",
        Severity.ERROR,
        {
            "index-misses-records": ("look-ups by offset would begin behind their records", _INDEX),
            "index-position": ("an offset index points where no batch begins", _INDEX),
            "log-moved": (
                "bytes came into the log or went since its index was made",
                "Records may be missing there. Compare with another replica: `kafkafs check --replica`.",
            ),
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
    ),
    (
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
    ),
    (
        "indexes",
        Severity.NOTE,
        {
            "index-empty": (
                "an offset index without entries for a segment that is not small",
                "Look-ups read the segment from its start; a large index.interval.bytes does this too.",
            ),
        },
    ),
    (
        "producer snapshots",
        Severity.ERROR,
        {
            "snapshot-transactions": (
                "a producer snapshot and the log differ on which transactions are open",
                "Consumers that read committed records would wait for ever, or not at all. "
                + _STATE,
            ),
        },
    ),
    (
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
    ),
    (
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
    ),
    (
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
    ),
    (
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
    ),
    (
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
    ),
    (
        "topic ids",
        Severity.WARNING,
        {
            "topic-id-missing": (
                "a partition without a topic id, where others have one",
                "A broker of KRaft takes it for stray or gives it the id of the topic of that name.",
            ),
        },
    ),
    (
        "topic ids",
        Severity.NOTE,
        {
            "topic-unknown": (
                "the cluster metadata does not know the partition's topic",
                "A broker moves it away as stray when it starts.",
            ),
        },
    ),
    (
        "unfinished segments",
        Severity.ERROR,
        {
            "unfinished-damaged": (
                "a damaged segment is about to take the place of others",
                "Remove the .swap files before a broker starts: then the old segments stay.",
            ),
        },
    ),
    (
        "unfinished segments",
        Severity.NOTE,
        {
            "unfinished-replaces": (
                "new segments that a broker puts in the place of old ones",
                "A compaction or split was interrupted at its end; nothing to do.",
            ),
            "unfinished-undone": (
                "new segments that a broker removes",
                "A compaction or split was interrupted; the old segments are all there.",
            ),
        },
    ),
    (
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
                "Correct it while no broker runs, from the broker's other log dirs. `kafkafs plan` tells whether it starts.",
            ),
            "kraft-snapshot": (
                "a snapshot of the cluster metadata is damaged or not complete",
                "A controller does not start with it. Take it from another controller, or an older one.",
            ),
            "quorum-state": ("the election state of the metadata log is wrong", _CHECKPOINT),
        },
    ),
    (
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
            "high-watermark-missing": (
                "a partition has a recovery point and no high watermark",
                "A broker takes the log start for it until its replicas have caught up.",
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
    ),
    (
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
    ),
    (
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
    ),
    (
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
    ),
)
"""By group and severity: id, title and advice."""
