"""The writer that `df.write.format("kafkalog")` gets."""

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
    """What a task tells the driver."""

    output: TaskOutput


class KafkaLogWriter(DataSourceArrowWriter):
    """One write job: made where it is planned, sent to tasks, and back for the commit.

    Args:
        schema: of the frame.
        options: checked.

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
            RecordError: a row that no record can be made of.
            OSError: the disk fails.
        """
        context = TaskContext.get()
        task, attempt = (
            (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())
        )
        reader = FrameReader(self._columns, self._options, self._now)
        return TaskMessage(TaskWriter(self._job.path, reader).write(task, attempt, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the log dir of what the tasks wrote, and give it its name.

        Raises:
            RecordError: an offset was written twice, or lies outside of the log's bounds.
            RebuildFailedError: a log does not load.
            OSError: the disk fails. Spark calls `abort` then.
        """
        outputs = [message.output for message in messages if isinstance(message, TaskMessage)]
        commit(self._job, outputs, self._options, keeps_offsets=self._columns.keeps_offsets)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what the tasks wrote."""
        self._job.discard()
