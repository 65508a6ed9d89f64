"""How far the tasks of a job have come, asked of Spark's status tracker now and then."""

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
    """How far a job has come.

    Attributes:
        step: what it is at.
        share: how much of the whole job is done, 0 to 1.
        done, tasks: tasks of the step that have ended, and that are known.
        active, failed: tasks that run, and tries that failed.
    """

    step: str
    share: float
    done: int
    tasks: int
    active: int
    failed: int


Tell: TypeAlias = Callable[[JobProgress], None]


class JobWatch:
    """Tells how far the Spark jobs of each step are; they bear the step's name in Spark's own pages too.

    Args:
        spark: the session that runs them.
        job: its name.
        tell: hears of progress, in a thread of the watch's own; None for nobody.
    """

    def __init__(self, spark: SparkSession, job: str, tell: Tell | None = None) -> None:
        self._context: SparkContext | None = getattr(spark, "sparkContext", None)
        self._job = job
        self._tell = tell

    @contextmanager
    def step(self, name: str, start: float = 0.0, end: float = 1.0) -> Iterator[None]:
        """Watch what this thread has Spark do inside; it is the part from `start` to `end` of the job."""
        context = self._context
        if context is None:
            yield
            return
        before = {key: context.getLocalProperty(key) for key in (_GROUP, _DESCRIPTION)}
        group = f"kafkafs-{self._job}-{secrets.token_hex(8)}"
        context.setJobGroup(group, f"kafkafs {self._job}: {name}")
        stop = threading.Event()
        teller = None
        if self._tell is not None:
            teller = threading.Thread(
                target=self._follow,
                args=(context, group, name, (start, end), self._tell, stop),
                daemon=True,
            )
            teller.start()
        try:
            yield
            if self._tell is not None:
                last = _progress(context, group, name, (end, end))
                self._tell(last._replace(tasks=last.done, active=0))
        finally:
            stop.set()
            if teller is not None:
                teller.join()
            for key, value in before.items():
                context.setLocalProperty(key, cast(str, value))  # None takes it away

    def _follow(
        self,
        context: SparkContext,
        group: str,
        name: str,
        part: tuple[float, float],
        tell: Tell,
        stop: threading.Event,
    ) -> None:
        while not stop.wait(INTERVAL):
            tell(_progress(context, group, name, part))


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
            # A job also names stages that an earlier one ran, which it skips.
            if found is not None and (found.numCompletedTasks or info.status == "RUNNING"):
                done += found.numCompletedTasks
                tasks += found.numTasks
                active += found.numActiveTasks
                failed += found.numFailedTasks
    start, end = part
    share = start + (end - start) * (done / tasks if tasks else 0)
    return JobProgress(name, share, done, tasks, active, failed)
