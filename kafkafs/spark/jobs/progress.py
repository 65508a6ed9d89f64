"""Progress of a job's tasks, from Spark's status tracker."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

INTERVAL = 0.5
_GROUP, _DESCRIPTION = "spark.jobGroup.id", "spark.job.description"


class JobProgress(NamedTuple):
    """Progress of a job.

    Attributes:
        step: name of the current step.
        share: finished share of the whole job, 0 to 1.
        done, tasks: finished tasks of the step, and its known tasks.
        active, failed: running tasks, and failed attempts.
    """

    step: str
    share: float
    done: int
    tasks: int
    active: int
    failed: int


OnProgress: TypeAlias = Callable[[JobProgress], None]


class JobWatch:
    """Reports the progress of each step's Spark jobs, and names the jobs after the step in Spark's web pages.

    Args:
        spark: session that runs the jobs.
        job: name of the job.
        on_progress: called with progress in a thread of the watch; None for no reports.
    """

    def __init__(
        self, spark: SparkSession, job: str, on_progress: OnProgress | None = None
    ) -> None:
        self._context: SparkContext | None = getattr(spark, "sparkContext", None)
        self._job = job
        self._on_progress = on_progress

    @contextmanager
    def step(self, name: str, start: float = 0.0, end: float = 1.0) -> Iterator[None]:
        """Watch the Spark jobs of this thread in the block, the part from `start` to `end` of the whole job."""
        context = self._context
        if context is None:
            yield
            return
        before = {key: context.getLocalProperty(key) for key in (_GROUP, _DESCRIPTION)}
        group = f"kafkafs-{self._job}-{secrets.token_hex(8)}"
        context.setJobGroup(group, f"kafkafs {self._job}: {name}")
        stop = threading.Event()
        reporter = None
        if self._on_progress is not None:
            reporter = threading.Thread(
                target=self._follow,
                args=(context, group, name, (start, end), self._on_progress, stop),
                daemon=True,
            )
            reporter.start()
        try:
            yield
            if self._on_progress is not None:
                last = _progress(context, group, name, (end, end))
                self._on_progress(last._replace(tasks=last.done, active=0))
        finally:
            stop.set()
            if reporter is not None:
                reporter.join()
            for key, value in before.items():
                context.setLocalProperty(key, cast(str, value))  # None removes the property

    def _follow(
        self,
        context: SparkContext,
        group: str,
        name: str,
        part: tuple[float, float],
        on_progress: OnProgress,
        stop: threading.Event,
    ) -> None:
        while not stop.wait(INTERVAL):
            on_progress(_progress(context, group, name, part))


def _progress(
    context: SparkContext, group: str, name: str, part: tuple[float, float]
) -> JobProgress:
    tracker = context.statusTracker()
    done = tasks = active = failed = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        if info is None:
            continue
        for stage in info.stageIds:
            found = tracker.getStageInfo(stage)
            # A job also lists skipped stages, which an earlier job ran.
            if found is not None and (found.numCompletedTasks or info.status == "RUNNING"):
                done += found.numCompletedTasks
                tasks += found.numTasks
                active += found.numActiveTasks
                failed += found.numFailedTasks
    start, end = part
    share = start + (end - start) * (done / tasks if tasks else 0)
    return JobProgress(name, share, done, tasks, active, failed)
