"""Words for what a start does to a node besides its logs, the same in `plan` and `report`."""

from __future__ import annotations

from collections.abc import Iterator

from engine.plan.start_plan import StartPlan
from kafkafs.loss_words import FORGETS


def lost_folder_lines(start: StartPlan) -> Iterator[str]:
    """Yield a line for each partition without a folder; its names may have characters that a reader cannot see."""
    for lost in start.lost_folders:
        yield f"{lost.missing.name}: {'; '.join(lost.sentences())}"


def risk_lines(start: StartPlan) -> Iterator[str]:
    """Yield a line for each other risk."""
    for log_dir in start.log_dirs:
        for failure in log_dir.late_failures:
            yield f"{log_dir.path}, once its logs are loaded: {failure.reason}"
        for risk in log_dir.risks:
            yield f"{log_dir.path}: {risk}"
    if start.forgets_topics:
        yield _without_metadata(start)


def _without_metadata(start: StartPlan) -> str:
    others = start.metadata.other_controllers(start.node_id)
    if others is None:
        return FORGETS
    if not others:
        return (
            "no metadata here, and this node is the only controller: it forgets every topic, and a broker in it sets"
            " all logs aside (-stray)"
        )
    named = f"controller{'s' * (len(others) > 1)} {', '.join(map(str, sorted(others)))}"
    return f"no metadata here: the node fetches it again, if {named} still {'have' if len(others) > 1 else 'has'} it"
