"""Keywords that choose the records of a job, like those of `kafkafs.spark.read`, as options of the source."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafkafs.spark.errors import OptionError
from kafkafs.spark.reading import Moment, choice_options, option_text
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
        if "mask" in map(str.lower, self.options):
            raise OptionError(
                "jobs have no 'mask': read the data source kafkalog with this option, and write the frame"
            )
        if self.topics is not None and self.partitions is not None:
            raise OptionError("topics and partitions exclude each other: give one")
        given = {name: option_text(value) for name, value in {**self.options, **fixed}.items()}
        paths = [self.path] if isinstance(self.path, str) else list(self.path)
        given["paths"] = json.dumps(paths)
        return parse_options(
            given | choice_options(self.topics, self.partitions, self.since, self.until)
        )
