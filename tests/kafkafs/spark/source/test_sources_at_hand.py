"""Spark opens what people have in hand as the commands do, or refuses it with the same sentence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kafkafs.sources_at_hand import Source, at_hand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
__all__ = ["at_hand"]


def test_a_frame_has_the_records_or_says_why_not(
    spark: SparkSession, at_hand: tuple[Path, Source]
) -> None:
    path, expected = at_hand

    def rows() -> list[dict[str, object]]:
        frame = spark.read.format("kafkalog").load(str(path))
        found: list[dict[str, object]] = frame.select("topic", "partition").toArrow().to_pylist()
        return found

    if expected.topic is None:
        with pytest.raises(Exception, match=expected.refusal):
            rows()
        return
    places = {(row["topic"], row["partition"]) for row in rows()}
    assert (len(rows()), places) == (expected.records, {(expected.topic, expected.number)})
