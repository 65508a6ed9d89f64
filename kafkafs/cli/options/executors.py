"""`--spark`: the command's tasks run on Spark's executors, and here everything else. Sessions, and what their errors say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kafkafs.cli.arguments import Command
from kafkafs.decode.shown_text import printable
from kafkafs.exit_codes import EXIT_CANNOT_READ, EXIT_USAGE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from engine.log.log_directory import LogSource
    from kafkafs.spark.executors import Executors

_PYTHON = re.compile(
    r"^(?:[\w.]*\.)?(?P<name>[A-Za-z_]\w*(?:Error|Exception)): (?P<said>.+)$",
    re.MULTILINE,
)
_REFUSALS = frozenset({"OptionError"})
_CONDITION = re.compile(r"SQLSTATE: \w+")


class SparkMaster(NamedTuple):
    """What --spark and --spark-conf say; false without --spark.

    Attributes:
        master: master of Spark; None for a command without Spark.
        settings: properties of Spark, NAME=VALUE.
    """

    master: str | None
    settings: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.master is not None

    @contextmanager
    def executors(
        self, name: str, source: LogSource, paths: Sequence[str]
    ) -> Iterator[Executors | None]:
        """Yield the executors for a command of this name; None without --spark.

        Args:
            name: name of the command.
            source: the opened source.
            paths: its paths.

        Raises:
            RefusedError: no session is possible.
            JobError: a task could not run.
        """
        if self.master is None:
            yield None
            return
        with spark_session(name, self.master, pairs(self.settings, "--spark-conf")) as spark:
            from kafkafs.spark.executors import Executors

            yield Executors(spark, name, source, paths)


def spark_options(command: Command) -> Command:
    """Add --spark and --spark-conf; the command gets `spark`."""

    @wraps(command)
    def with_spark(
        *given: Any,  # noqa: ANN401
        spark_master: str | None,
        spark_settings: tuple[str, ...],
        **named: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        if spark_settings and spark_master is None:
            raise click.UsageError("--spark-conf is about --spark: give --spark MASTER, too")
        return command(*given, spark=SparkMaster(spark_master, spark_settings), **named)

    for option in (
        click.option(
            "--spark-conf",
            "--conf",
            "spark_settings",
            multiple=True,
            metavar="NAME=VALUE",
            help="With --spark, set a property of Spark, such as spark.executor.memory=4g. Repeatable.",
        ),
        click.option(
            "--spark",
            "--master",
            "spark_master",
            metavar="MASTER",
            help="Read on the executors of this master of Spark, such as local[4] or spark://host:7077, which see "
            "SOURCE under the same path: see kafkafs help spark/jobs.",
        ),
    ):
        with_spark = option(with_spark)
    return with_spark  # type: ignore[return-value]


@contextmanager
def spark_session(
    name: str, master: str | None, settings: Mapping[str, str]
) -> Iterator[SparkSession]:
    """Open a session, and stop it after the job; turn errors into one line.

    Args:
        name: name of the job.
        master: master of Spark; None for local[*]. Under spark-submit its --master applies.
        settings: properties of Spark.

    Raises:
        RefusedError: no session is possible, or the job was refused before it started.
        JobError: the job failed.
    """
    import logging
    import warnings

    from kafkafs.spark.session import why_not

    reason = why_not()
    if reason is not None:
        raise RefusedError(reason)
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException

    from kafkafs.spark.errors import DataLossError, OptionError
    from kafkafs.spark.session import session
    from kafkafs.spark.source.planning.volume import NotVisibleError
    from kafkafs.table.errors import LostRecordsError, RecreatedTopicError

    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # it repeats every error
    is_own = SparkContext._active_spark_context is None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PySpark warns about itself
            spark = session(f"kafkafs {name}", master=master, settings=settings)
        yield spark
    except OptionError as error:
        raise RefusedError(str(error)) from error
    except (DataLossError, LostRecordsError, RecreatedTopicError, NotVisibleError) as error:
        raise JobError(str(error)) from error
    except (PySparkException, Py4JJavaError) as error:
        sentence, is_refusal = failure_of(error)
        raise (RefusedError if is_refusal else JobError)(sentence) from error
    finally:
        own = SparkContext._active_spark_context
        if is_own and own is not None:
            own.stop()


def failure_of(error: BaseException) -> tuple[str, bool]:
    """Return the cause of a failure in one line, and whether the query was refused before it read anything.

    Spark wraps a Python trace into a Java trace.

    Args:
        error: error of PySpark, raised while a query was planned or run.
    """
    text = str(error)
    found = list(_raised(text))
    if found:
        name, said = found[-1]
        return said, name in _REFUSALS
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return _CONDITION.sub("", first).strip().rstrip(";"), False


def _raised(text: str) -> Iterator[tuple[str, str]]:
    """Yield the exceptions at the ends of Python traces in a text."""
    for trace in text.split("Traceback (most recent call last):")[1:]:
        for match in _PYTHON.finditer(trace):
            yield match["name"], match["said"].strip()
            break


class JobError(click.ClickException):
    """A job that failed, or could not read its source."""

    exit_code = EXIT_CANNOT_READ

    def show(self, file: Any = None) -> None:  # noqa: ANN401 - as click has it
        """Print one line on standard error."""
        click.echo(f"kafkafs: {printable(self.message)}", file=file, err=True)


class RefusedError(JobError):
    """A job that was refused before it started."""

    exit_code = EXIT_USAGE


def pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """Return NAME=VALUE options as a dict.

    Raises:
        click.BadParameter: an option has no name or no "=".
    """
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not (name and sign):
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=option)
        found[name] = value
    return found
