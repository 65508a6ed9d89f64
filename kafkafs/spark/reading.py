"""`kafkafs.spark.read`: make a frame over log dirs with Python arguments instead of options."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from weakref import WeakSet

from kafkafs.spark.errors import OptionError
from kafkafs.spark.source.columns import VIEWS
from kafkafs.spark.source.options.read_options import parse_options
from kafkafs.spark.source.schemas import types_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Moment = datetime | int

_KNOWING: WeakSet[SparkSession] = WeakSet()
"""Sessions with the registered source: to register again costs as much as the planning of a small query."""


def read(
    spark: SparkSession,
    path: str | Sequence[str],
    *,
    topics: str | Sequence[str] | None = None,
    partitions: Mapping[str, Sequence[int]] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    columns: Sequence[str] | None = None,
    **options: str | int | bool,
) -> DataFrame:
    """Return a frame over log dirs; each call looks at the log dirs again.

    Args:
        spark: session; the source is registered in it.
        path: log dirs, partition folders or .log files.
        topics: names of topics; by default all but Kafka's own.
        partitions: partition numbers by topic, instead of whole topics.
        since, until: read from the first record at or after `since` to before the first one at or after `until`;
            milliseconds since 1970, or a datetime with a time zone.
        columns: columns to read; an empty list counts rows without decoding.
        options: other options of the source, by name.

    Raises:
        OptionError: a datetime has no time zone, a column is unknown, or `parse_options` refuses an option.
    """
    from pyspark.sql.types import StructField, StructType

    from kafkafs.spark.data_source import KafkaLogDataSource

    if spark not in _KNOWING:
        spark.dataSource.register(KafkaLogDataSource)
        _KNOWING.add(spark)
    given = {name: option_text(value) for name, value in options.items()}
    given |= choice_options(topics, partitions, since, until)
    paths = [path] if isinstance(path, str) else list(path)
    checked = parse_options(given | {"paths": json.dumps(paths)})
    reader = spark.read.format("kafkalog").options(**given)
    if columns is not None:
        known = {**VIEWS[checked.view], **types_of(checked)}
        unknown = [name for name in columns if name not in known]
        if unknown:
            raise OptionError(f"no such column: {', '.join(unknown)}; there are {', '.join(known)}")
        reader = reader.schema(StructType([StructField(name, known[name]) for name in columns]))
    return reader.load(path if isinstance(path, str) else paths)


def option_text(value: str | int | bool) -> str:
    """Return the value of an option as text, which is all that Spark passes on."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def choice_options(
    topics: str | Sequence[str] | None,
    partitions: Mapping[str, Sequence[int]] | None,
    since: Moment | None,
    until: Moment | None,
) -> dict[str, str]:
    """Return the choice of records of `read` as options of the source.

    Raises:
        OptionError: a datetime has no time zone.
    """
    given: dict[str, str] = {}
    if topics is not None:
        given["subscribe"] = topics if isinstance(topics, str) else ",".join(topics)
    if partitions is not None:
        given["assign"] = json.dumps({topic: list(some) for topic, some in partitions.items()})
    for name, moment in (("startingTimestamp", since), ("endingTimestamp", until)):
        if moment is not None:
            given[name] = str(milliseconds(moment))
    if since is not None:
        given["startingOffsetsByTimestampStrategy"] = "latest"
    return given


def milliseconds(moment: Moment) -> int:
    """Return a moment in milliseconds since 1970, UTC.

    Raises:
        OptionError: the datetime has no time zone.
    """
    if isinstance(moment, int):
        return moment
    if moment.tzinfo is None:
        raise OptionError(
            f"{moment!r} has no time zone: write datetime(…, tzinfo=timezone.utc), or another zone"
        )
    return int(moment.astimezone(UTC).timestamp() * 1000)
