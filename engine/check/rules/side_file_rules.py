"""The rules for the files beside the batches, and for copies of a partition; `rules.py` registers them."""

from __future__ import annotations

from engine.check.rules.rule_registry import Severity

_INDEX = (
    "Delete the index while no broker runs: the broker rebuilds it. `kafkafs rebuild` does too."
)
_STATE = "If the snapshot is invalid, a broker rebuilds it from the batches; see `kafkafs plan`."
_CHECKPOINT = "`kafkafs plan` shows the effect on a broker; `kafkafs rebuild` repairs it."

SIDE_FILE_RULES: tuple[tuple[str, Severity, dict[str, tuple[str, str]]], ...] = (
    (
        "indexes",
        Severity.ERROR,
        {
            "index-misses-records": ("look-ups by offset would begin after their records", _INDEX),
            "index-position": ("an offset index points inside a batch", _INDEX),
            "log-moved": (
                "bytes were added to or removed from the log after its index was made",
                "Records may be missing there. Compare with another replica: `kafkafs check --replica`.",
            ),
            "index-order": ("the entries of an offset index are not ascending", _INDEX),
            "time-index-misses-records": ("look-ups by time would miss records", _INDEX),
            "time-index-order": ("the entries of a time index are not ascending", _INDEX),
            "txn-index-missing": (
                "aborted transactions missing from the transaction index",
                "read_committed consumers would get aborted records. " + _INDEX,
            ),
            "txn-index-extra": (
                "the transaction index has aborted transactions that are not in the log",
                "read_committed consumers would miss records. " + _INDEX,
            ),
            "txn-index-entry": ("an entry of a transaction index contradicts the log", _INDEX),
        },
    ),
    (
        "indexes",
        Severity.WARNING,
        {
            "index-entry": ("an offset index names an offset that is not in the batch", _INDEX),
            "index-past-end": ("an index has entries beyond the end of its segment", _INDEX),
            "index-length": ("an index's size is not a multiple of its entries' size", _INDEX),
            "index-missing": (
                "a segment without its offset index",
                "A broker rebuilds it when it starts, from the whole segment.",
            ),
            "time-index-entry": ("an entry of a time index contradicts the log", _INDEX),
            "time-index-missing": (
                "a segment without its time index",
                "Look-ups by time can end there. A broker rebuilds it if the .index is missing too.",
            ),
        },
    ),
    (
        "indexes",
        Severity.NOTE,
        {
            "index-empty": (
                "an offset index without entries for a large segment",
                "Look-ups read the segment from its start. Normal with a large index.interval.bytes.",
            ),
        },
    ),
    (
        "producer snapshots",
        Severity.ERROR,
        {
            "snapshot-transactions": (
                "a producer snapshot and the log have different open transactions",
                "read_committed consumers would wait for ever, or not at all. " + _STATE,
            ),
        },
    ),
    (
        "producer snapshots",
        Severity.WARNING,
        {
            "snapshot-unreadable": (
                "a producer snapshot cannot be parsed",
                "A broker deletes it and uses an older one, or the batches.",
            ),
            "snapshot-producer": (
                "a producer snapshot and the log differ on a producer's last batch",
                "A broker would refuse or repeat that producer's next batch. " + _STATE,
            ),
            "snapshot-missing": (
                "no producer snapshot in spite of a clean shutdown",
                "A broker would forget its producers. Delete .kafka_cleanshutdown before it starts.",
            ),
        },
    ),
    (
        "producer snapshots",
        Severity.NOTE,
        {
            "snapshot-stray": (
                "a producer snapshot without a segment",
                "A broker deletes it when it loads the log.",
            ),
            "snapshot-not-compared": (
                "a producer snapshot was not compared with the log",
                "There are more producers than the check can track.",
            ),
        },
    ),
    (
        "leader epochs",
        Severity.ERROR,
        {
            "epochs-unreadable": (
                "the leader epochs of a partition cannot be read",
                "A broker does not load the log. Delete the file while no broker runs, or rebuild.",
            ),
            "epochs-contradict": (
                "leader-epoch-checkpoint contradicts the batches",
                "Replicas would truncate at the wrong offset. `kafkafs rebuild` writes it again.",
            ),
            "epoch-batch": (
                "a batch's leader epoch is not the one in leader-epoch-checkpoint",
                "The epoch is not covered by the checksum. A broker would rewrite its epochs with it.",
            ),
        },
    ),
    (
        "leader epochs",
        Severity.WARNING,
        {
            "epochs-order": ("leader-epoch-checkpoint is out of order", _CHECKPOINT),
            "epochs-past-end": ("a leader epoch begins beyond the log end", _CHECKPOINT),
            "epochs-start": ("the first leader epochs of the log are missing", _CHECKPOINT),
            "epochs-missing": (
                "the batches have leader epochs, but leader-epoch-checkpoint is missing or empty",
                "A broker rebuilds it only when it recovers the log.",
            ),
        },
    ),
    (
        "topic ids",
        Severity.ERROR,
        {
            "topic-id-unreadable": (
                "the topic id of a partition cannot be read",
                "A broker does not load the log. Write the topic id of the topic's other partitions to the file.",
            ),
            "topic-id-differs": (
                "a partition has another topic's id",
                "A broker moves it away as stray, or stops.",
            ),
            "topic-id-shared": ("two topics have the same id", "One of them was copied by hand."),
        },
    ),
    (
        "topic ids",
        Severity.WARNING,
        {
            "topic-id-missing": (
                "a partition without a topic id, although others have one",
                "A KRaft broker treats it as stray, or gives it the id of the topic of that name.",
            ),
        },
    ),
    (
        "topic ids",
        Severity.NOTE,
        {
            "topic-unknown": (
                "the partition's topic is not in the cluster metadata",
                "A broker moves it away as stray when it starts.",
            ),
        },
    ),
    (
        "unfinished segments",
        Severity.ERROR,
        {
            "unfinished-damaged": (
                "a damaged segment is about to replace others",
                "Delete the .swap files before a broker starts: then the old segments stay.",
            ),
        },
    ),
    (
        "unfinished segments",
        Severity.NOTE,
        {
            "unfinished-replaces": (
                "a broker replaces old segments with new ones",
                "A compaction or split was interrupted near its end; nothing to do.",
            ),
            "unfinished-undone": (
                "a broker deletes new segments",
                "A compaction or split was interrupted; all old segments are still there.",
            ),
        },
    ),
    (
        "checkpoints",
        Severity.ERROR,
        {
            "checkpoint-unreadable": (
                "a checkpoint file cannot be parsed",
                "A broker ignores it, or does not start.",
            ),
            "log-start-past-end": (
                "the log start is beyond the log end",
                "A broker deletes the whole log when it loads it. Correct log-start-offset-checkpoint.",
            ),
            "clean-shutdown-damage": (
                "a damaged log in spite of a clean shutdown",
                "A broker would serve it without recovery. Delete .kafka_cleanshutdown, or rebuild.",
            ),
            "meta-properties": (
                "meta.properties is missing or wrong",
                "Correct it while no broker runs, from the broker's other log dirs. `kafkafs plan` shows whether the broker starts.",
            ),
            "kraft-snapshot": (
                "a snapshot of the cluster metadata is damaged or incomplete",
                "A controller does not start with it. Copy it from another controller, or use an older one.",
            ),
            "quorum-state": ("the election state of the metadata log is wrong", _CHECKPOINT),
        },
    ),
    (
        "checkpoints",
        Severity.WARNING,
        {
            "recovery-point-past-end": (
                "the recovery point is beyond the log end",
                "Flushed records are missing: compare with another replica.",
            ),
            "high-watermark-past-end": (
                "the high watermark is beyond the log end",
                "Replicated records are missing here: compare with another replica.",
            ),
            "high-watermark-before-start": (
                "the high watermark is below the log start",
                _CHECKPOINT,
            ),
            "log-start-epochs": (
                "the log start and the start of the first leader epoch differ",
                "Records were deleted up to one of the two: see log-start-offset-checkpoint.",
            ),
            "checkpoint-negative": ("a checkpoint has a negative offset", _CHECKPOINT),
            "checkpoint-twice": ("a checkpoint names a partition twice", _CHECKPOINT),
            "checkpoint-without-folder": (
                "a checkpoint names a partition without a folder",
                "The partition was deleted, moved or lost: see the other log dirs.",
            ),
            "folder-without-checkpoint": (
                "a partition without a recovery point",
                "After an unclean shutdown a broker recovers it from its start.",
            ),
            "high-watermark-missing": (
                "a partition has a recovery point but no high watermark",
                "A broker uses the log start until its replicas have caught up.",
            ),
            "recovery-point-short": (
                "a recovery point below the log end in spite of a clean shutdown",
                "The log or the checkpoint was changed after the shutdown.",
            ),
            "cleaner-offset": (
                "the cleaner's checkpoint is outside the log",
                "A broker compacts from the log start again.",
            ),
            "clean-shutdown-unreadable": (
                ".kafka_cleanshutdown has unexpected content",
                "A broker still assumes a clean shutdown.",
            ),
        },
    ),
    (
        "replicas",
        Severity.ERROR,
        {
            "replica-diverges": (
                "two copies of a partition differ in their records",
                "A leader would keep the copy with the higher leader epoch.",
            ),
            "replica-epochs": (
                "two copies of a partition differ on a leader epoch",
                "One log was truncated at the wrong offset: compare the leader-epoch-checkpoint files.",
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
            "replica-absent": (
                "a partition of only one of the two sources",
                "The other copy may be elsewhere.",
            ),
        },
    ),
    (
        "replicas",
        Severity.NOTE,
        {
            "replica-range": (
                "one of two copies of a partition begins later or ends earlier",
                "Normal: a follower lags behind, and each broker applies retention on its own.",
            ),
            "replica-batching": (
                "two copies have the same records in different batches",
                "Normal after compaction or recompression: the records are the same.",
            ),
        },
    ),
)
"""Title and advice by id, in groups of one severity."""
