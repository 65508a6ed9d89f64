"""Whether a broker starts on a rebuilt log dir, as far as the files beside the records decide it."""

from __future__ import annotations

from engine.errors import KafkaStorageError
from engine.log.partition_choice import PartitionChoice
from engine.plan.loading.broker_failure import Outcome
from engine.plan.log_dir_plan import METADATA_LOG
from engine.plan.start_plan import StartPlan


def why_no_start(log_dir: str) -> str | None:
    """Return why a broker does not start on a new log dir; None if it does.

    Each log was loaded when it was written; here meta.properties, the checkpoints and the metadata log count.
    """
    choice = PartitionChoice.parse((), (METADATA_LOG,))
    try:
        with StartPlan([log_dir], clean=True, verifies=False, choice=choice) as plan:
            for _ in plan.logs():
                pass
            outcome, reason = plan.verdict()
    except (KafkaStorageError, OSError) as error:
        return f"this is not known: {error}"
    return None if outcome is Outcome.LOADS else reason
