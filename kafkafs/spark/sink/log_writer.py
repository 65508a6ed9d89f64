"""The writer of `df.write.format("kafkalog")`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from engine.clock import SYSTEM_CLOCK
from kafkafs.spark.sink.frame_columns import FrameReader, check_frame
from kafkafs.spark.sink.job_folder import JobFolder
from kafkafs.spark.sink.log_dir_assembly import commit
from kafkafs.spark.sink.task_writer import TaskOutput, TaskWriter
from kafkafs.spark.sink.write_options import WriteOptions


@dataclass
class TaskMessage(WriterCommitMessage):
    """Message of a task to the driver."""

    output: TaskOutput


class KafkaLogWriter(DataSourceArrowWriter):
    """One write job: made when it is planned, pickled to tasks and to the commit.

    Args:
        schema: schema of the frame.
        options: checked options.

    Raises:
        OptionError: the frame or the target is refused.
    """

    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        self._options = options
        self._columns = check_frame(schema, options)
        self._now = SYSTEM_CLOCK.now_ms()
        self._job = JobFolder.make(options.path)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task below the folder of the job.

        Raises:
            RecordError: a row cannot become a record.
            OSError: the disk fails.
        """
        context = TaskContext.get()
        task, attempt = (
            (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())
        )
        reader = FrameReader(self._columns, self._options, self._now)
        return TaskMessage(TaskWriter(self._job.path, reader).write(task, attempt, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the log dir from the files of the tasks, and rename it to its target.

        Raises:
            RecordError: an offset was written twice, or is outside the log's bounds.
            RebuildFailedError: a log does not load.
            OSError: the disk fails; Spark then calls `abort`.
        """
        outputs = [message.output for message in messages if isinstance(message, TaskMessage)]
        commit(self._job, outputs, self._options, keeps_offsets=self._columns.keeps_offsets)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the files of the tasks."""
        self._job.discard()
