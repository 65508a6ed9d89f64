"""The tasks of `kafkafs export` on Spark's executors.

Executors write to a target that is a path, which they see as the driver does. To a target that Hadoop's client reaches
(hdfs:, s3a:, …) the driver writes the finished files, which executors send it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from engine.budgets import MiB
from kafkafs.export.export_task import (
    ExportTask,
    ExportTaskWriter,
    FileOptions,
    RecordSource,
    TaskResult,
)
from kafkafs.export.target import LocalFiles
from kafkafs.spark.executors import Executors
from kafkafs.spark.jobs.files.target_files import HadoopFiles
from kafkafs.table.row_options import RowOptions

if TYPE_CHECKING:
    from kafkafs.export.export import ExportOptions

_PART = 1 * MiB


class _Sent(NamedTuple):
    """Bytes of a file, in order; `path` is below the folder of the chunk."""

    path: str
    data: bytes
    is_last: bool


class _Item(NamedTuple):
    """A task, and the logs that it reads."""

    task: ExportTask
    source: RecordSource


@dataclass(frozen=True, slots=True)
class _ExportTask:
    """Writes the files of tasks.

    Attributes:
        rows, files: as of `ExportTaskWriter`.
        staged: absolute path of the folder for the files; None to send them.
    """

    rows: RowOptions
    files: FileOptions
    staged: str | None

    def __call__(self, item: _Item) -> Iterator[_Sent | TaskResult]:
        if self.staged is not None:
            _remove_earlier(self.staged, item.task.number)
            yield self._written(item, self.staged)
            return
        with tempfile.TemporaryDirectory(prefix="kafkafs-export-") as folder:
            result = self._written(item, folder)
            for path in sorted(each for each in Path(folder).rglob("*") if each.is_file()):
                yield from _sent(path, path.relative_to(folder).as_posix())
        yield result

    def _written(self, item: _Item, staged: str) -> TaskResult:
        writer = ExportTaskWriter(item.source, self.rows, self.files, staged)
        return writer.write(item.task, lambda _: None)


def _remove_earlier(staged: str, number: int) -> None:
    """Remove what an earlier attempt of a task wrote: Spark repeats tasks of executors that it has lost."""
    for path in Path(staged).rglob(f"part-{number:05}[.-]*"):
        path.unlink()


def _sent(path: Path, name: str) -> Iterator[_Sent]:
    left = path.stat().st_size
    with path.open("rb") as file:
        while True:
            data = file.read(_PART)
            left -= len(data)
            yield _Sent(name, data, left <= 0)
            if left <= 0:
                return


class ExecutorTasks(NamedTuple):
    """Runs the tasks of an export on executors; see `TaskRunner`."""

    files: LocalFiles | HadoopFiles
    executors: Executors

    def run(
        self,
        tasks: Sequence[ExportTask],
        source: RecordSource,
        options: ExportOptions,
        made: FileOptions,
        staged: str,
        take_note: Callable[[int], None],
    ) -> Iterator[TaskResult]:
        """Yield the results of tasks, in order."""
        folder = f"{self.files.path}/{staged}" if isinstance(self.files, LocalFiles) else None
        items = (_Item(task, _source_of(task, source)) for task in tasks)
        work = _ExportTask(options.rows, made, folder)
        sizes = (task.size for task in tasks)
        results = self.executors.flat_map(work, items, lambda item: item.task.size, 1)
        with closing(results), tempfile.TemporaryDirectory(prefix="kafkafs-export-") as here:
            for each in results:
                if isinstance(each, TaskResult):
                    take_note(next(sizes))
                    yield each
                else:
                    self._take(each, staged, f"{here}/part")

    def _take(self, sent: _Sent, staged: str, here: str) -> None:
        """Write bytes of a file that an executor sent; when it is whole, put it into its place."""
        assert isinstance(self.files, HadoopFiles)
        with open(here, "ab") as part:
            part.write(sent.data)
        if sent.is_last:
            self.files.put(here, f"{staged}/{sent.path}")


def _source_of(task: ExportTask, source: RecordSource) -> RecordSource:
    """Return the logs that a task reads."""
    leftovers = {split.leftover for split in task.splits} - {""}
    partitions = {split.partition for split in task.splits if not split.leftover}
    return RecordSource(
        {partition: source.logs[partition] for partition in partitions},
        {name: source.leftovers[name] for name in leftovers},
    )
