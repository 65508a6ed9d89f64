"""SourceFacts of a report on thousands of partitions, without their logs."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np

from engine.check.log_check import PartitionSummary
from engine.check.log_statistics import CodecCounts, LogStatistics, SegmentCounts
from engine.units import TopicPartition
from kafkafs.report.facts import GroupFacts, Lag, SourceFacts
from kafkafs.report.partition_facts import PartitionFacts, TopicFacts

NOW = 1_790_000_000_000
DAY_MS = 86_400_000


def many_facts(partitions: int, topics: int, segments: int = 6) -> SourceFacts:
    """A source of `partitions` over `topics`, two weeks of records, errors in one of a hundred."""
    random.seed(partitions)
    facts = SourceFacts(("/var/lib/kafka/data",), NOW)
    facts.log_dirs.append(("/var/lib/kafka/data", "MkU3OEVBNTcwNTJENDM2Qk", 1))
    facts.start.skipped = "there are no files"
    facts.groups = []
    kinds = [_statistics(segments) for _ in range(40)]
    for number in range(partitions):
        place = TopicPartition(f"service-{number % topics:04}-events", number // topics)
        counted = kinds[number % len(kinds)]
        end = counted.segments[-1].next_offset
        summary = PartitionSummary(str(place), 0, end, False, segments, 0, segments * 40, end)
        summary.found.update(Counter(error=1) if number % 100 == 7 else Counter())
        summary.statistics = counted
        each = PartitionFacts.of(summary, place)
        facts.partitions.append(each)
        facts.topics.setdefault(place.topic, TopicFacts(place.topic)).add(each, counted)
        facts.times.merge(counted.times)
        facts.batch_sizes += counted.batch_sizes
        for codec, counts in counted.codecs.items():
            facts.codecs.setdefault(codec, CodecCounts()).add(counts)
        if number < 500:
            lag = Lag(place.topic, place.partition, end - number, end, number)
            facts.groups.append(GroupFacts(f"group-{number}", "consumer", "Stable", 2, [lag] * 20))
    return facts


def _statistics(segments: int) -> LogStatistics:
    counted = LogStatistics()
    offset, time = 0, NOW - 14 * DAY_MS
    for _ in range(segments):
        records, length = random.randrange(1000, 900_000), 2 * DAY_MS
        file = f"{offset:020}.log"
        counted.segments.append(
            SegmentCounts(
                file, offset, offset + records, records * 97, 40, records, time, time + length
            )
        )
        times = np.linspace(time, time + length, 40).astype(np.int64)
        counted.times.add(times, np.full(40, records // 40))
        offset, time = offset + records, time + length
        counted.codecs.setdefault("zstd", CodecCounts()).add(
            CodecCounts(40, records, records * 97, records * 210)
        )
    counted.batch_sizes[14] += 40 * segments
    counted.first_timestamp, counted.last_timestamp = NOW - 14 * DAY_MS, time
    return counted
