"""Keywords that choose the records of a job, like those of `kafkafs.spark.read`, as options of the source."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafkafs.spark.errors import OptionError
from kafkafs.spark.reading import Moment, milliseconds
from kafkafs.spark.source.options.read_options import ReadOptions, parse_options

OptionValue = str | int | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSelection:
    """Choice of records.

    Attributes:
        path: log dirs, partition folders or .log files.
        topics: names of topics; by default all but Kafka's own.
        partitions: partition numbers by topic, instead of whole topics.
        since, until: read from the first record at or after `since` to before the first one at or after `until`;
            milliseconds since 1970, or a datetime with a time zone.
        options: other options of the source, by name.
    """

    path: str | Sequence[str]
    topics: str | Sequence[str] | None = None
    partitions: Mapping[str, Sequence[int]] | None = None
    since: Moment | None = None
    until: Moment | None = None
    options: Mapping[str, OptionValue] = field(default_factory=dict)

    def checked(self, *refused: str, **fixed: OptionValue) -> ReadOptions:
        """Return the checked options of the source.

        Args:
            refused: names of options that the job sets itself.
            fixed: their values.

        Raises:
            OptionError: an option is unknown, malformed, contradictory, or set by the job.
        """
        own = {name.lower() for name in refused}
        for name in self.options:
            if name.lower() in own:
                raise OptionError(f"this job has no option {name!r}: it sets that itself")
        given: dict[str, OptionValue] = {**self.options, **fixed}
        paths = [self.path] if isinstance(self.path, str) else list(self.path)
        given["paths"] = json.dumps(paths)
        if self.topics is not None and self.partitions is not None:
            raise OptionError("topics and partitions exclude each other: give one")
        if self.topics is not None:
            some = self.topics
            given["subscribe"] = some if isinstance(some, str) else ",".join(some)
        if self.partitions is not None:
            given["assign"] = json.dumps(
                {topic: list(some) for topic, some in self.partitions.items()}
            )
        for name, moment in (("startingTimestamp", self.since), ("endingTimestamp", self.until)):
            if moment is not None:
                given[name] = milliseconds(moment)
        if self.since is not None:
            given["startingOffsetsByTimestampStrategy"] = "latest"
        return parse_options({name: _text(value) for name, value in given.items()})


def _text(value: OptionValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
