"""Options of `spark.read.format("kafkalog")`: names, values and contradictions.

Names are those of the Kafka connector, in any case of letters, and some of our own. Options that only make
sense with a broker are ignored, or refused with the connector's words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.budgets import DEFAULT_BUDGETS, Budgets, MiB
from engine.clock import SYSTEM_CLOCK
from engine.cut.moment import Moment
from kafkafs.forms.arrow.typed_values import TypedValues
from kafkafs.records.conditions.wanted_keys import TopicKeys
from kafkafs.records.row_mask import RowMask
from kafkafs.schemas.sources.known_schemas import AUTO, NONE
from kafkafs.spark.errors import OptionError
from kafkafs.spark.source.options.offset_limits import (
    EARLIEST,
    LATEST,
    Extreme,
    OffsetLimit,
    check_batch,
    parse_limit,
)
from kafkafs.spark.source.options.option_values import count, delay, flag, one_of, pattern, size
from kafkafs.spark.source.options.partition_choice import ALL, Choice, parse_choice
from kafkafs.table.row_options import DecoderOf, RowOptions
from kafkafs.time_grammar import FORMS, MOMENTS, TimeGrammar

SPLIT_BYTES = 64 * MiB
MAX_TRIGGER_DELAY_MS = 15 * 60 * 1000
VIEWS = ("records", "batches", "segments")
ON_CORRUPT = ("fail", "skip", "row")
FROM_EARLIEST = Extreme(EARLIEST)
UP_TO_LATEST = Extreme(LATEST)

_KNOWN = {
    name.lower(): name
    for name in (
        "path", "paths", "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets",
        "startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "startingTimestamp", "endingTimestamp",
        "startingOffsetsByTimestampStrategy", "failOnDataLoss", "minPartitions", "maxRecordsPerPartition",
        "includeHeaders", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
        "isolationLevel", "splitBytes", "onCorrupt", "decode", "decodeMode", "schemas", "view", "includeInternalTopics",
        "keyEquals", "keyPattern", "endAt", "mask", "at",
    )
}  # fmt: skip
_IGNORED = re.compile(r"kafka\..*|groupidprefix|kafkaconsumer\..*|fetchoffset\..*")
_OF_RECORDS = ("keyEquals", "keyPattern", "decode", "decodeMode", "schemas", "includeHeaders")
_OF_TRIGGERS = ("maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay")
_REFUSED = {
    "kafka.auto.offset.reset": "Kafka option 'auto.offset.reset' is not supported. Instead set the source"
    " option 'startingoffsets' to 'earliest' or 'latest' to specify where to start.",
    "kafka.key.deserializer": "Kafka option 'key.deserializer' is not supported as keys are deserialized as"
    " byte arrays with ByteArrayDeserializer. Use DataFrame operations to explicitly deserialize the keys.",
    "kafka.value.deserializer": "Kafka option 'value.deserializer' is not supported as values are"
    " deserialized as byte arrays with ByteArrayDeserializer. Use DataFrame operations to explicitly"
    " deserialize the values.",
    "kafka.enable.auto.commit": "Kafka option 'enable.auto.commit' is not supported",
    "kafka.interceptor.classes": "Kafka option 'interceptor.classes' is not supported",
}
NO_TABLES = (
    "Spark passes no options to the read of a catalog table; make a temporary view:"
    " CREATE TEMPORARY VIEW … USING kafkalog OPTIONS (path '…')"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Checked options of a read; see `parse_options`.

    Attributes:
        paths: log dirs, partition folders or .log files; globs are expanded when the paths are opened.
        choice: choice of partitions.
        start, end: limits of each partition.
        at: read the whole source as it was at this moment; None for now.
        start_or_latest: start at the log end, without an error, for a starting timestamp after the last record.
        fail_on_data_loss: fail when requested offsets no longer exist.
        min_partitions, max_records_per_partition: bounds on Spark's partitions, not Kafka's.
        include_headers: add the column `headers`.
        committed: read as a read_committed consumer.
        replicated: end at the high watermark that the broker last checkpointed.
        split_bytes: bytes of a log file in one task, about.
        says_split_bytes: whether splitBytes was set.
        on_corrupt: what to do at damage: "fail", "skip" or "row".
        decode: add columns of decoded keys and values.
        has_types: whether decoded keys and values have the types of the topic's newest schemas, in place of JSON.
        fail_on_undecodable: fail at what does not decode, instead of null and a note.
        schemas: what to decode with: "auto" for the registry's topic of the paths, "none", or paths of schemas.
        view: "records", "batches" or "segments".
        internal: whether a pattern may match Kafka's own topics.
        key: the only wanted key.
        key_pattern: regular expression to find in keys.
        max_offsets, min_offsets, max_delay_ms: limits of a micro-batch.
        budgets: limits on memory and entries.
        ignored: options for brokers or streams, in lower case.
        decoder_of: decoders of topics, from `with_schemas`.
        keys: the wanted key as the topics have it, from `with_schemas`.
        mask: path of a policy of what is shown of records; None without one.
        row_mask: the policy, from `with_schemas`.
        typed: the decoded columns that have types, from `with_schemas`.
    """

    paths: tuple[str, ...]
    choice: Choice = ALL
    start: OffsetLimit = FROM_EARLIEST
    end: OffsetLimit = UP_TO_LATEST
    at: Moment | None = None
    start_or_latest: bool = False
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    include_headers: bool = False
    committed: bool = False
    replicated: bool = False
    split_bytes: int = SPLIT_BYTES
    says_split_bytes: bool = False
    on_corrupt: str = "fail"
    decode: bool = False
    has_types: bool = False
    fail_on_undecodable: bool = False
    schemas: tuple[str, ...] = (AUTO,)
    view: str = "records"
    internal: bool = False
    key: str | None = None
    key_pattern: str | None = None
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = MAX_TRIGGER_DELAY_MS
    budgets: Budgets = DEFAULT_BUDGETS
    ignored: tuple[str, ...] = field(default=(), compare=False)
    decoder_of: DecoderOf | None = field(default=None, compare=False)
    keys: TopicKeys | None = field(default=None, compare=False, repr=False)
    mask: str | None = None
    row_mask: RowMask | None = field(default=None, compare=False, repr=False)
    typed: TypedValues | None = field(default=None, compare=False, repr=False)

    @property
    def rows(self) -> RowOptions:
        """The options of reading a split.

        Raises:
            OptionError: there is a mask, and its policy was not read.
        """
        if self.mask is not None and self.row_mask is None:
            raise OptionError("'mask': the policy was not read")
        return RowOptions(
            fail_on_data_loss=self.fail_on_data_loss,
            committed=self.committed,
            on_corrupt=self.on_corrupt,
            decoder_of=self.decoder_of,
            keeps_bytes=True,
            fail_on_undecodable=self.fail_on_undecodable,
            budgets=self.budgets,
            mask=self.row_mask,
        )


def parse_options(options: Mapping[str, str], *, streaming: bool = False) -> ReadOptions:
    """Parse and check the options.

    Args:
        options: as Spark passes them; names in any case.
        streaming: whether for readStream, which starts at the log end by default and has no end.

    Raises:
        OptionError: an option is unknown, malformed or contradictory.
    """
    given = {name.lower(): value for name, value in options.items()}
    ignored = _check_names(given)
    if not streaming:
        ignored += tuple(name for name in given if name in _OF_TRIGGERS)
    start = parse_limit(given, "starting", LATEST if streaming else EARLIEST)
    if streaming:
        _refuse_an_end(given)
        end: OffsetLimit = Extreme(LATEST)
    else:
        end = parse_limit(given, "ending", LATEST)
        check_batch(start, end)
    minimum, maximum = count(given, "minOffsetsPerTrigger"), count(given, "maxOffsetsPerTrigger")
    if minimum is not None and maximum is not None and minimum > maximum:
        raise OptionError(
            f"The value of minOffsetPerTrigger({minimum}) is higher than the"
            f" maxOffsetsPerTrigger({maximum})."
        )
    view = one_of(given, "view", VIEWS)
    _check_view(given, view)
    return ReadOptions(
        paths=_paths(given),
        choice=parse_choice(given),
        start=start,
        end=end,
        at=_moment(given, streaming=streaming),
        start_or_latest=one_of(given, "startingOffsetsByTimestampStrategy", ("error", "latest"))
        == "latest",
        fail_on_data_loss=flag(given, "failOnDataLoss", default=True),
        min_partitions=count(given, "minPartitions"),
        max_records_per_partition=count(given, "maxRecordsPerPartition"),
        include_headers=flag(given, "includeHeaders"),
        committed=_is_committed(given),
        replicated=one_of(given, "endAt", ("logend", "highwatermark")) == "highwatermark",
        split_bytes=size(given, "splitBytes", SPLIT_BYTES),
        says_split_bytes="splitbytes" in given,
        on_corrupt=one_of(given, "onCorrupt", ON_CORRUPT),
        decode=_decode(given) != "false",
        has_types=_decode(given) == "columns",
        fail_on_undecodable=one_of(given, "decodeMode", ("permissive", "failfast")) == "failfast",
        schemas=_schemas(given),
        view=view,
        internal=flag(given, "includeInternalTopics"),
        key=given.get("keyequals"),
        key_pattern=pattern(given, "keyPattern"),
        max_offsets=maximum,
        min_offsets=minimum,
        max_delay_ms=delay(given, "maxTriggerDelay", MAX_TRIGGER_DELAY_MS),
        ignored=ignored,
        mask=_mask(given),
    )


def _check_names(given: Mapping[str, str]) -> tuple[str, ...]:
    for name, sentence in _REFUSED.items():
        if name in given:
            raise OptionError(sentence)
    ignored = []
    if "provider" in given and "owner" in given:
        raise OptionError(NO_TABLES)
    for name in given:
        if name in _KNOWN or name == "kafka.isolation.level":
            continue
        if not _IGNORED.fullmatch(name):
            near = [known for low, known in _KNOWN.items() if low[:6] == name[:6]]
            hint = f"; is it {' or '.join(near)}?" if near else ""
            raise OptionError(f"unknown option {name!r}{hint}")
        ignored.append(name)
    return tuple(ignored)


def _moment(given: Mapping[str, str], *, streaming: bool) -> Moment | None:
    text = given.get("at")
    if text is None:
        return None
    if streaming:
        raise OptionError("'at' is for a batch: nothing comes after that moment")
    found = TimeGrammar(SYSTEM_CLOCK.now_ms()).moment(text)
    if found is None:
        raise OptionError(f"'at' is {MOMENTS}, not {text!r}; a time is such as {FORMS}")
    return found


def _check_view(given: Mapping[str, str], view: str) -> None:
    for name in () if view == "records" else _OF_RECORDS:
        if given.get(name.lower(), "false").strip().lower() != "false":
            raise OptionError(f"'{name}' is for view='records': remove it from view={view!r}")


def _decode(given: Mapping[str, str]) -> str:
    return one_of(given, "decode", ("false", "true", "columns"))


def _mask(given: Mapping[str, str]) -> str | None:
    text = given.get("mask")
    if text is not None and _decode(given) == "columns":
        raise OptionError(
            "decode='columns' is not for 'mask': a masked field need not have the type of its schema"
        )
    if text is not None and "decodemode" in given:
        raise OptionError(
            "'decodeMode' is not for 'mask': what does not decode is hidden, and has a note"
        )
    if text is not None and not text.strip():
        raise OptionError("'mask' is the path of a policy, and is empty")
    return text


def _schemas(given: Mapping[str, str]) -> tuple[str, ...]:
    for name in ("schemas", "decodeMode"):
        types_key = name == "schemas" and "keyequals" in given
        if name.lower() in given and _decode(given) == "false" and not types_key:
            raise OptionError(f"'{name}' is for decode='true' or 'columns'")
    text = given.get("schemas", AUTO)
    return tuple(_list(text, "schemas") if text.startswith("[") else _separated(text)) or (NONE,)


def _list(text: str, name: str) -> list[str]:
    """Return the texts of a JSON list."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise OptionError(f"'{name}' is a JSON list of paths, not {text!r}")
    return [each.strip() for each in found if each.strip()]


def _separated(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    if "paths" in given:
        paths = _list(given["paths"], "paths")
    else:
        paths = _separated(given.get("path", ""))
    if not given:
        raise OptionError(f"Option 'path' must be specified: {NO_TABLES}")
    if not paths:
        raise OptionError(
            "Option 'path' must be specified: a broker's log dir, several of them separated by commas,"
            " a partition's folder, or a .log file"
        )
    return tuple(paths)


def _refuse_an_end(given: Mapping[str, str]) -> None:
    if "endingoffsets" in given:
        raise OptionError("ending offset not valid in streaming queries")
    if "endingoffsetsbytimestamp" in given or "endingtimestamp" in given:
        raise OptionError("ending timestamp not valid in streaming queries")


def _is_committed(given: Mapping[str, str]) -> bool:
    name = "kafka.isolation.level" if "kafka.isolation.level" in given else "isolationLevel"
    return one_of(given, name, ("read_uncommitted", "read_committed")) == "read_committed"
