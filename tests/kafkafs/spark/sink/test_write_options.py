"""What a write is asked to do is checked before anything is done."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from engine.coding.compression import CompressionType
from engine.units import TopicPartition
from kafkafs.spark.errors import OptionError
from kafkafs.spark.sink.frame_columns import check_frame
from kafkafs.spark.sink.write_options import parse_write_options

TYPES = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "long": LongType(),
    "timestamp": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
    "headers": ArrayType(
        StructType([StructField("key", StringType(), False), StructField("value", BinaryType())])
    ),
}


def frame_of(text: str) -> StructType:
    """Columns as `name type, …`."""
    pairs = [each.split() for each in text.split(",")]
    return StructType([StructField(name, TYPES[kind]) for name, kind in pairs])


WHOLE = frame_of(
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp,"
    " timestampType int, headers headers, leaderEpoch int, producerId long, codec string"
)
REFUSED = {
    "path": "Option 'path' must be specified",
    "path=s3a://bucket/x": "not a path of a mounted file system",
    "sinc=1": "unknown option 'sinc'",
    "codex=1": "unknown option 'codex'; is it codec?",
    "codec=brotli": "'codec' is one of auto, none, gzip, snappy, lz4, zstd",
    "compressionLevel=3": "needs a codec",
    "codec=gzip,compressionLevel=10": "gzip has levels 1 to 9",
    "codec=snappy,compressionLevel=1": "snappy has no levels",
    "batchBytes=many": "'batchBytes' is a size",
    "segmentBytes=1k": "'segmentBytes' is from 4096",
    "segmentBytes=2g": "'segmentBytes' is from 4096 to 2147483647",
    "numPartitions=0": "numPartitions must be positive",
    "numPartitions=x": "'numPartitions' is a number",
    'numPartitions={"t":0}': "t cannot have 0",
    "numPartitions={": "'numPartitions': Expected e.g.",
    "offsets=maybe": "'offsets' is one of auto, keep, assign",
    "leaderEpoch=-1": "'leaderEpoch' is a number from 0",
    "topic=a/b": "no topic name",
    "topicIds={}x": "'topicIds': Expected e.g.",
    'topicIds={"t":"short"}': "'topicIds': t: not a UUID",
    'logStartOffsets={"t":{"0":-2}}': "'logStartOffsets': Expected e.g.",
    'logStartOffsets={"t":[0]}': "'logStartOffsets': Expected e.g.",
    'logEndOffsets={"t":{"x":1}}': "'logEndOffsets': Expected e.g.",
    "clusterId=abc": "set both",
    "nodeId=1": "set both",
    "nodeId=1,clusterId=a b": "'clusterId' is an id",
}


@pytest.mark.parametrize(("text", "words"), REFUSED.items(), ids=REFUSED)
def test_an_option_that_cannot_be_is_refused(text: str, words: str) -> None:
    pairs = dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)
    given = pairs if "path" in text else {"path": "/x", **pairs}
    with pytest.raises(OptionError) as raised:
        parse_write_options(given)
    assert words in str(raised.value)


def test_a_log_that_ends_before_it_starts_is_refused() -> None:
    bounds = {"logStartOffsets": '{"t":{"3":9}}', "logEndOffsets": '{"t":{"3":8}}'}
    with pytest.raises(OptionError, match="t-3 cannot start at 9 and end at 8"):
        parse_write_options({"path": "/x", **bounds})


def test_names_are_known_in_any_case_and_a_producers_settings_too() -> None:
    found = parse_write_options(
        {
            "PATH": "file:///x",
            "Codec": "ZSTD",
            "compressionLevel": "-5",
            "kafka.batch.size": "16384",
            "kafka.bootstrap.servers": "nobody:9092",
            "includeHeaders": "true",
            "numPartitions": '{"t":3}',
            "logEndOffsets": '{"t":{"3":8}}',
        }
    )
    assert (found.path, found.codec, found.compression_level) == ("/x", CompressionType.ZSTD, -5)
    assert found.batch_bytes == 16384
    assert (found.partitions_of("t"), found.partitions_of("u")) == (3, None)
    assert found.log_ends == {TopicPartition("t", 3): 8}


FRAMES = {
    ("value binary", ""): "topic option required when no 'topic' attribute is present.",
    ("key binary", "topic=t"): "Required attribute 'value' not found",
    ("value int", "topic=t"): "value attribute unsupported type int. value must be a(n) string",
    (
        "value binary, topic binary",
        "",
    ): "topic attribute unsupported type binary. topic must be a(n)",
    ("value binary, headers string", "topic=t"): "headers attribute unsupported type string.",
    ("value binary, partition long", "topic=t"): "partition attribute unsupported type bigint.",
    ("value binary, timestamp timestamp_ntz", "topic=t"): "without a time zone",
    ("value binary, colour string", "topic=t"): "the sink knows no column 'colour'",
    ("value binary", "topic=t"): "numPartitions option required",
    ("value binary, partition int", "topic=t,offsets=keep"): "needs the column 'offset'",
    ("value binary, offset long", "topic=t,numPartitions=1"): "they need the column 'partition'",
}


@pytest.mark.parametrize(("frame", "words"), FRAMES.items(), ids=lambda each: str(each)[:50])
def test_a_frame_that_makes_no_records_is_refused(frame: tuple[str, str], words: str) -> None:
    columns, text = frame
    given = dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)
    with pytest.raises(OptionError) as raised:
        check_frame(frame_of(columns), parse_write_options({"path": "/x", **given}))
    assert words in str(raised.value)


def test_what_the_source_gives_can_be_written() -> None:
    found = check_frame(WHOLE, parse_write_options({"path": "/x"}))
    assert found.keeps_offsets
    assert set(WHOLE.names) - set(found.names) == {"producerId"}
    anew = check_frame(WHOLE, parse_write_options({"path": "/x", "offsets": "assign"}))
    assert not anew.keeps_offsets
