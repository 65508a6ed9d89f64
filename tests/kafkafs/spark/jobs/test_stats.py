"""Statistics are what the headers and the truth say."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.coding.compression import CompressionType
from engine.log.log_directory import open_source
from engine.log.segment.scan import BatchRun
from tests.fixtures_data import copy_of, log_dir, truth_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from kafkafs.spark.errors import OptionError
from kafkafs.spark.jobs.stats import Count, stats


def headers_of(kind: str) -> tuple[dict[tuple[str, int, str], Count], dict[str, int]]:
    """By partition and codec, and the control batches of each topic: from a walk over the files."""
    found: dict[tuple[str, int, str], list[int]] = {}
    control: Counter[str] = Counter()
    source = open_source([str(log_dir(kind))])
    try:
        for name, log in source.partitions().items():
            topic, partition = log.topic_partition
            if topic.startswith("__") or name != str(log.topic_partition):
                continue
            for _, run in log.view().runs(0, 1 << 62):
                assert isinstance(run, BatchRun)
                for row in run.table:
                    if row["attributes"] & 32 and row["magic"] == 2:
                        control[topic] += 1
                        continue
                    codec = CompressionType(int(row["attributes"]) & 7).name.lower()
                    of = found.setdefault((topic, partition, codec), [0, 0])
                    of[0] += 1
                    of[1] += int(row["size"])
    finally:
        source.close()
    records = {key: sum(1 for _ in truth_records(kind, f"{key[0]}-{key[1]}")) for key in found}
    return {key: Count(some, records[key], size) for key, (some, size) in found.items()}, control


def test_counts_are_those_of_headers_and_of_what_a_consumer_saw(spark: SparkSession) -> None:
    counted = stats(spark, str(log_dir("current")), keys=0)
    wanted, control = headers_of("current")
    one_codec = {key for key in wanted if sum(key[:2] == other[:2] for other in wanted) == 1}
    whole = {key for key in one_codec if key[0] not in ("trimmed", "mixed.codecs_in-one-7")}
    assert len(whole) > 10
    assert {key: counted.codecs[key] for key in whole} == {key: wanted[key] for key in whole}
    assert set(counted.codecs) == set(wanted)
    by_codec = [counted.codecs[key][::2] for key in sorted(wanted) if key[0] != "trimmed"]
    assert by_codec == [wanted[key][::2] for key in sorted(wanted) if key[0] != "trimmed"]
    assert {topic: count for topic, (_, count) in counted.transactional.items() if count} == control
    assert counted.skews == {}
    assert counted.damaged == counted.findings == 0
    totals = [
        sum(count.records for count in some.values()) for some in (counted.codecs, counted.hours)
    ]
    assert totals[0] == totals[1]


def test_keys_are_counted(spark: SparkSession) -> None:
    counted = stats(spark, str(log_dir("current")), topics="orders,weird", keys=3)
    for topic in ("orders", "weird"):
        keys = Counter(record.key for record in truth_records("current", f"{topic}-0"))
        skew = counted.skews[topic]
        assert skew.records == sum(keys.values())
        assert skew.null == keys[None]
        assert skew.distinct == len(set(keys) - {None})
        assert [each.records for each in skew.top] == [count for _, count in keys.most_common(3)]
        assert all(keys[each.key] == each.records for each in skew.top)
    facts = counted.facts()
    assert [topic["topic"] for topic in facts["topics"]] == ["orders", "weird"]
    assert (
        facts["topics"][0]["keys"]["top"][0]["keyHex"] == counted.skews["orders"].top[0].key.hex()
    )  # type: ignore[union-attr]


def test_hours_are_of_utc_and_the_table_has_the_latest(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        counted = stats(spark, str(log_dir("sample")), keys=0, shown_hours=1)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    hours = [(each["hour"], each["topic"], each["records"]) for each in counted.facts()["hours"]]
    assert hours == [
        ("2023-11-14T22:00:00Z", "orders", 1850),
        ("2023-11-14T23:00:00Z", "orders", 150),
        ("2024-01-11T19:00:00Z", "txn", 613),
    ]
    (table,) = [table for table in counted.tables() if "earlier" in table.title]
    assert [row[0] for row in table.rows] == ["2024-01-11T19:00:00Z"]
    assert table.title.startswith("by hour (UTC); 2 earlier ones")


def test_damage_is_counted_and_the_rest_as_well(spark: SparkSession, tmp_path: Path) -> None:
    source = copy_of("sample", tmp_path, ["orders-0"])
    path = source / "orders-0" / "00000000000000000395.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    counted = stats(spark, str(source), keys=1)
    (count,) = counted.codecs.values()
    assert counted.findings == 1
    assert [json.loads(each)["file"] for each in counted.damages] == [str(path)]
    assert 980 < count.records < 1000
    assert counted.skews["orders"].records == count.records
    with pytest.raises(Exception, match=r"00000000000000000395\.log"):
        stats(spark, str(source), keys=0, onCorrupt="fail")


def test_what_the_job_says_itself_is_refused(spark: SparkSession) -> None:
    with pytest.raises(OptionError, match="this job has no option 'view'"):
        stats(spark, str(log_dir("sample")), view="segments")
