"""Options of `df.write.format("kafkalog")`: names, values and contradictions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType

from engine.budgets import MiB
from engine.checkpoint.base64_uuid import canonical_uuid
from engine.coding.compression import CODEC_NAMES, Compression, CompressionType
from engine.errors import InvalidNameError
from engine.files.file_names import validate_topic
from engine.units import MAX_INT32, MAX_INT64, Offset, TopicPartition
from kafkafs.spark.errors import OptionError
from kafkafs.spark.source.options.option_values import count, flag, one_of, size

BATCH_BYTES = 64 * 1024
SEGMENT_BYTES = 1024 * MiB
SMALLEST_SEGMENT = 4096
LARGEST_SEGMENT = MAX_INT32
AUTOMATIC, KEEP, ASSIGN = "auto", "keep", "assign"
_CODECS = ("auto", *CODEC_NAMES)
_NOTHING: Mapping[str, int] = MappingProxyType({})

_KNOWN = {
    name.lower(): name
    for name in (
        "path", "topic", "codec", "compressionLevel", "batchBytes", "segmentBytes", "numPartitions", "offsets",
        "leaderEpoch", "topicIds", "logStartOffsets", "logEndOffsets", "clusterId", "nodeId", "allowEmpty",
    )
}  # fmt: skip
_IGNORED = re.compile(r"kafka\..*|includeheaders")
_SAME = {"kafka.compression.type": "codec", "kafka.batch.size": "batchbytes"}
"""Producer settings with a name of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Checked options of a write; see `parse_write_options`.

    Attributes:
        path: log dir to make.
        topic: topic of all records; None for a column.
        codec: codec of all batches; None for the column `codec`, or none.
        compression_level: level of the codec; None for Kafka's default.
        batch_bytes: bytes of records in a batch, before compression.
        segment_bytes: largest .log file; a larger batch has a file of its own.
        partition_counts: number of partitions by topic, for records without a partition; "" for other topics.
        offsets: KEEP those of the column, ASSIGN new ones, or AUTOMATIC: keep them if there is the column.
        leader_epoch: leader epoch of all batches; None for the column `leaderEpoch`, or 0.
        topic_ids: topic ids in base64, by topic; other topics get new ones.
        log_starts, log_ends: offsets by partition, if not those of the first and last record.
        cluster_id, node_id: ids for a meta.properties; both or none.
        allow_empty: whether a frame without rows makes a log dir without partitions, instead of an error.
    """

    path: str
    topic: str | None = None
    codec: CompressionType | None = None
    compression_level: int | None = None
    batch_bytes: int = BATCH_BYTES
    segment_bytes: int = SEGMENT_BYTES
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    offsets: str = AUTOMATIC
    leader_epoch: int | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    log_starts: Mapping[TopicPartition, Offset] = field(default_factory=dict)
    log_ends: Mapping[TopicPartition, Offset] = field(default_factory=dict)
    cluster_id: str | None = None
    node_id: int | None = None
    allow_empty: bool = False

    def partitions_of(self, topic: str) -> int | None:
        """Return the number of partitions of a topic, if set."""
        return self.partition_counts.get(topic, self.partition_counts.get(""))


def parse_write_options(options: Mapping[str, str]) -> WriteOptions:
    """Parse and check the options.

    Args:
        options: as Spark passes them; names in any case.

    Raises:
        OptionError: an option is unknown, malformed or contradictory.
    """
    given = _known({name.lower(): value for name, value in options.items()})
    codec_name = one_of(given, "codec", _CODECS)
    codec = None if codec_name == "auto" else CompressionType[codec_name.upper()]
    starts, ends = _offsets(given, "logStartOffsets"), _offsets(given, "logEndOffsets")
    for partition in starts.keys() & ends.keys():
        if starts[partition] > ends[partition]:
            raise OptionError(
                f"{partition} cannot start at {starts[partition]} and end at {ends[partition]}"
            )
    cluster_id, node_id = _identity(given)
    return WriteOptions(
        path=_path(given),
        topic=_topic(given),
        codec=codec,
        compression_level=_level(given, codec),
        batch_bytes=_bounded(given, "batchBytes", BATCH_BYTES, 1, 512 * MiB),
        segment_bytes=_bounded(
            given, "segmentBytes", SEGMENT_BYTES, SMALLEST_SEGMENT, LARGEST_SEGMENT
        ),
        partition_counts=_partition_counts(given),
        offsets=one_of(given, "offsets", (AUTOMATIC, KEEP, ASSIGN)),
        leader_epoch=_integer(given, "leaderEpoch", 0, MAX_INT32),
        topic_ids=_topic_ids(given),
        log_starts=starts,
        log_ends=ends,
        cluster_id=cluster_id,
        node_id=node_id,
        allow_empty=flag(given, "allowEmpty"),
    )


def _known(given: dict[str, str]) -> dict[str, str]:
    for theirs, ours in _SAME.items():
        if theirs in given:
            given.setdefault(ours, given[theirs])
    found = {}
    for name, value in given.items():
        if name in _KNOWN:
            found[name] = value
        elif not _IGNORED.fullmatch(name):
            near = [_KNOWN[each] for each in get_close_matches(name, _KNOWN)]
            hint = f"; is it {' or '.join(near)}?" if near else ""
            raise OptionError(f"unknown option {name!r}{hint}")
    return found


def _path(given: Mapping[str, str]) -> str:
    path = given.get("path", "").strip()
    if not path:
        raise OptionError("Option 'path' must be specified: the log dir to make")
    local = path.removeprefix("file://") if path.startswith("file:///") else path
    if re.match(r"[a-z][a-z0-9+.-]*://", local):
        raise OptionError(
            f"{path} is not a path of a mounted file system: a log dir must be on one"
        )
    return local


def _topic(given: Mapping[str, str]) -> str | None:
    topic = given.get("topic")
    if topic is not None:
        check_topic(topic)
    return topic


def check_topic(topic: str) -> None:
    """Raise OptionError for a name that no topic can have."""
    try:
        validate_topic(topic)
    except InvalidNameError as error:
        raise OptionError(str(error)) from None


def _level(given: Mapping[str, str], codec: CompressionType | None) -> int | None:
    level = _integer(given, "compressionLevel", -(2**31), MAX_INT32)
    if level is None:
        return None
    if codec is None:
        raise OptionError("'compressionLevel' needs a codec: set 'codec'")
    try:
        Compression(codec, level)
    except ValueError as error:
        raise OptionError(f"'compressionLevel': {error}") from None
    return level


def _bounded(given: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    found = size(given, name, default)
    if not least <= found <= most:
        raise OptionError(f"'{name}' is from {least} to {most} bytes, not {found}")
    return found


def _integer(given: Mapping[str, str], name: str, least: int, most: int) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise OptionError(f"'{name}' is a number from {least} to {most}, not {text!r}")
    return number


def _partition_counts(given: Mapping[str, str]) -> Mapping[str, int]:
    text = given.get("numpartitions")
    if text is None:
        return _NOTHING
    if not text.strip().startswith("{"):
        return {"": count(given, "numPartitions") or 0}
    counts: dict[str, int] = {}
    for topic, number in _object(text, "numPartitions", '{"topicA":6}').items():
        if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= MAX_INT32:
            raise OptionError(f"'numPartitions': {topic} cannot have {number!r}")
        check_topic(topic)
        counts[topic] = number
    return counts


def _topic_ids(given: Mapping[str, str]) -> Mapping[str, str]:
    text = given.get("topicids")
    if text is None:
        return {}
    found = {}
    for topic, name in _object(text, "topicIds", '{"topicA":"sgf5MsZgRTuEMv68ZXKJbQ"}').items():
        check_topic(topic)
        try:
            found[topic] = canonical_uuid(name if isinstance(name, str) else "")
        except ValueError as error:
            raise OptionError(f"'topicIds': {topic}: {error}") from None
    return found


def _offsets(given: Mapping[str, str], name: str) -> Mapping[TopicPartition, Offset]:
    text = given.get(name.lower())
    if text is None:
        return {}
    example = '{"topicA":{"0":23}}'
    found = {}
    for topic, partitions in _object(text, name, example).items():
        check_topic(topic)
        if not isinstance(partitions, dict):
            raise _expected(name, example, text)
        for number, offset in partitions.items():
            is_offset = isinstance(offset, int) and not isinstance(offset, bool)
            is_number = number.isascii() and number.isdigit() and int(number) <= MAX_INT32
            if not (is_offset and is_number and 0 <= offset <= MAX_INT64):
                raise _expected(name, example, text)
            found[TopicPartition(topic, int(number))] = offset
    return found


def _object(text: str, name: str, example: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise _expected(name, example, text)
    return found


def _expected(name: str, example: str, text: str) -> OptionError:
    return OptionError(f"'{name}': Expected e.g. {example}, got {text}")


def _identity(given: Mapping[str, str]) -> tuple[str | None, int | None]:
    cluster, node = given.get("clusterid"), _integer(given, "nodeId", 0, MAX_INT32)
    if (cluster is None) != (node is None):
        raise OptionError("'clusterId' and 'nodeId' make a meta.properties together: set both")
    if cluster is not None and not re.fullmatch(r"[A-Za-z0-9_.-]+", cluster):
        raise OptionError(f"'clusterId' is an id as in meta.properties, not {cluster!r}")
    return cluster, node
