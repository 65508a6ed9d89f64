"""Whether a broker starts on a rebuilt log dir, as far as the files beside the records decide it."""

from __future__ import annotations

from typing import NamedTuple

from engine.errors import KafkaStorageError
from engine.log.partition_choice import PartitionChoice
from engine.plan.loading.broker_failure import Outcome
from engine.plan.log_dir_plan import METADATA_LOG
from engine.plan.start_plan import StartPlan


class Start(NamedTuple):
    """What a broker does at its start on a new log dir.

    Attributes:
        why_not: why it does not start; None if it does.
        strays: the logs that it sets aside as -stray: the metadata in the log dir does not assign them to the node.
    """

    why_not: str | None
    strays: tuple[str, ...] = ()


def planned_start(log_dir: str) -> Start:
    """Plan a start on a new log dir.

    Each log was loaded when it was written; here meta.properties, the checkpoints and the metadata log count.
    """
    choice = PartitionChoice.parse((), (METADATA_LOG,))
    try:
        with StartPlan([log_dir], clean=True, verifies=False, choice=choice) as plan:
            for _ in plan.logs():
                pass
            outcome, reason = plan.verdict()
            return Start(None if outcome is Outcome.LOADS else reason, plan.strays)
    except (KafkaStorageError, OSError) as error:
        return Start(f"this is not known: {error}")
