"""What Spark's Kafka connector and our source are asked alike: options that give rows, and options that are refused.

Topics are those of `tests.kafka.shapes` and the three that are named here. In the names of options _ stands for a dot.
"""

from __future__ import annotations

import json

from tests.kafka.shapes import DAY, START

HOUR = 3_600_000
EVENLY = "evenly"
UNEVENLY = "unevenly"
ABSURD = "absurd-time"


def offsets_of(**partitions: list[int]) -> str:
    """An offset or a time for each partition of topics; in a topic's name _ stands for a dash."""
    return json.dumps(
        {
            topic.replace("_", "-"): {str(number): each for number, each in enumerate(offsets)}
            for topic, offsets in partitions.items()
        }
    )


CHOICES: dict[str, tuple[dict[str, str], bool]] = {
    "two topics": ({"subscribe": " orders , weird,orders"}, True),
    "a pattern that is found inside": ({"subscribePattern": "dec-[gz]"}, True),
    "a pattern that is nowhere": ({"subscribePattern": "^dec-"}, False),
    "an empty topic": ({"subscribe": "empty"}, False),
    "some partitions": ({"assign": '{"orders":[1],"days":[0,1]}'}, True),
    "a partition that is not there": ({"assign": '{"orders":[0,77]}'}, True),
    "no topic that was deleted": ({"subscribePattern": "doomed"}, False),
    "offsets": (
        {
            "subscribe": "orders",
            "startingOffsets": offsets_of(orders=[17, 300]),
            "endingOffsets": offsets_of(orders=[18, 444]),
        },
        True,
    ),
    "offsets that stand for others": (
        {
            "subscribe": "orders",
            "startingOffsets": offsets_of(orders=[-2, 590]),
            "endingOffsets": offsets_of(orders=[20, -1]),
        },
        True,
    ),
    "no offsets between": (
        {
            "subscribe": "orders",
            "startingOffsets": offsets_of(orders=[17, 5]),
            "endingOffsets": offsets_of(orders=[17, 5]),
        },
        False,
    ),
    "offsets inside of holes": (
        {
            "subscribe": "compacted",
            "startingOffsets": offsets_of(compacted=[333]),
            "endingOffsets": offsets_of(compacted=[1100]),
        },
        True,
    ),
    "from a marker on": (
        {
            "subscribe": "txn",
            "startingOffsets": offsets_of(txn=[11, 12]),
            "endingOffsets": offsets_of(txn=[31, 29]),
            "kafka_isolation_level": "read_committed",
        },
        True,
    ),
    "the part above the log start": (
        {"subscribe": "trimmed", "startingOffsets": "earliest"},
        True,
    ),
    "a day": (
        {
            "subscribe": "days,days-zstd",
            "startingTimestamp": str(START + DAY),
            "endingTimestamp": str(START + 2 * DAY),
        },
        True,
    ),
    "from a time in one, from another in the other": (
        {
            "subscribe": "days",
            "startingOffsetsByTimestamp": offsets_of(days=[START + HOUR, START + 2 * DAY]),
            "endingOffsetsByTimestamp": offsets_of(days=[START + 2 * HOUR, START + 40 * DAY]),
        },
        True,
    ),
    "up to a time that is before all": ({"subscribe": "days", "endingTimestamp": "5"}, False),
    "from a time that is after all": (
        {
            "subscribe": "days",
            "startingTimestamp": str(START + 9 * DAY),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        False,
    ),
    "one time goes before times and offsets": (
        {
            "subscribe": "days",
            "startingTimestamp": str(START + 2 * DAY),
            "startingOffsetsByTimestamp": offsets_of(days=[START, START]),
            "startingOffsets": offsets_of(days=[1, 1]),
        },
        True,
    ),
    "times go before offsets": (
        {
            "subscribe": "days",
            "endingOffsetsByTimestamp": offsets_of(days=[START + HOUR, START + 2 * HOUR]),
            "endingOffsets": offsets_of(days=[1, 1]),
        },
        True,
    ),
    "a time after the log's end": (
        {"subscribe": "append-time", "endingTimestamp": str(2**62)},
        True,
    ),
    "what is left below the log start": (
        {
            "subscribe": "trimmed",
            "startingOffsets": offsets_of(trimmed=[3]),
            "failOnDataLoss": "false",
        },
        True,
    ),
    "what there is above the log end": (
        {
            "subscribe": "orders",
            "endingOffsets": offsets_of(orders=[99_999, 30]),
            "kafkaConsumer.pollTimeoutMs": "3000",
            "failOnDataLoss": "false",
        },
        True,
    ),
    "nothing of what is gone": (
        {
            "subscribe": "trimmed",
            "startingOffsets": offsets_of(trimmed=[3]),
            "endingOffsets": offsets_of(trimmed=[9]),
            "failOnDataLoss": "false",
        },
        False,
    ),
}


REFUSALS: dict[str, tuple[dict[str, str], str]] = {
    "an unknown topic": ({"subscribe": "orders,nowhere"}, "UnknownTopicOrPartition"),
    "a partition of an unknown topic": ({"assign": '{"nowhere":[0]}'}, "UnknownTopicOrPartition"),
    "two ways to choose": (
        {"subscribe": "orders", "subscribePattern": "orders"},
        "Only one of the following options can be specified for Kafka source: ",
    ),
    "no topics": (
        {"subscribe": " , "},
        "No topics to subscribe to as specified value for option 'subscribe' is ' , '",
    ),
    "an empty pattern": (
        {"subscribePattern": " "},
        "Pattern to subscribe is empty as specified value for option 'subscribePattern' is ' '",
    ),
    "partitions that are no JSON": (
        {"assign": "orders"},
        "No topicpartitions to assign as specified value for option 'assign' is 'orders'",
    ),
    "partitions of another form": (
        {"assign": '{"orders":{"0":1}}'},
        'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}, got {"orders":{"0":1}}',
    ),
    "a start at the end": (
        {"subscribe": "orders", "startingOffsets": "latest"},
        "starting offset can't be latest for batch queries on Kafka",
    ),
    "an end at the start": (
        {"subscribe": "orders", "endingOffsets": "earliest"},
        "ending offset can't be earliest for batch queries on Kafka",
    ),
    "a start at the end of a partition": (
        {"subscribe": "orders", "startingOffsets": offsets_of(orders=[0, -1])},
        "startingOffsets for orders-1 can't be latest for batch queries on Kafka",
    ),
    "an end at the start of a partition": (
        {"subscribe": "orders", "endingOffsets": offsets_of(orders=[0, -2])},
        "ending offset for orders-1 can't be earliest for batch queries on Kafka",
    ),
    "offsets that are no JSON": (
        {"subscribe": "orders", "startingOffsets": "{orders"},
        "Expected e.g. ",
    ),
    "starts of too few partitions": (
        {"subscribe": "orders", "startingOffsets": offsets_of(orders=[0])},
        "Partitions specified for Kafka start offsets don't match what are assigned.",
    ),
    "times of too few partitions": (
        {"subscribe": "days", "startingOffsetsByTimestamp": offsets_of(days=[START])},
        "Partitions specified for Kafka timestamp based start offsets don't match what are assigned.",
    ),
    "starts and ends of different partitions": (
        {
            "subscribe": "orders",
            "startingOffsets": offsets_of(orders=[0, 0]),
            "endingOffsets": offsets_of(orders=[1]),
        },
        "The specified start offset and end offset should have the same topic-partitions. Topic-partitions for start offset: orders-0, orders-1, topic-partitions for end offset: orders-0.",
    ),
    "a start above the end": (
        {
            "subscribe": "orders",
            "startingOffsets": offsets_of(orders=[9, 0]),
            "endingOffsets": offsets_of(orders=[8, 9]),
        },
        "The specified start offset 9 is greater than the end offset 8 for topic orders partition 0.",
    ),
    "a start time above the end time": (
        {
            "subscribe": "days",
            "startingTimestamp": str(START + DAY),
            "endingTimestamp": str(START),
        },
        "is greater than the",  # we say it of the times, the connector of what they lead to
    ),
    "a start time above the end time of a partition": (
        {
            "subscribe": "days",
            "startingOffsetsByTimestamp": offsets_of(days=[START, START + 1]),
            "endingOffsetsByTimestamp": offsets_of(days=[START, START]),
        },
        (
            f"The specified start timestamp {START + 1} is greater than the end timestamp {START} for"
            " topic days partition 1."
        ),
    ),
    "a start above the end that a time leads to": (
        {
            "subscribe": "days",
            "startingOffsets": offsets_of(days=[400, 400]),
            "endingTimestamp": str(START + DAY),
        },
        "The resolved start offset 400 is greater than the resolved end offset ",
    ),
    "a time after all": (
        {"subscribe": "days", "startingTimestamp": str(START + 9 * DAY)},
        "No offset matched from request of topic-partition days-",
    ),
    "a loss below the log start": (
        {"subscribe": "trimmed", "startingOffsets": offsets_of(trimmed=[3])},
        "Could not read records in offset [3, ",
    ),
    "a loss above the log end": (
        {
            "subscribe": "orders",
            "endingOffsets": offsets_of(orders=[99_999, 30]),
            "kafkaConsumer.pollTimeoutMs": "3000",
        },
        "Some data may have been lost because they are not available in ",
    ),
    "no tasks": ({"subscribe": "orders", "minPartitions": "0"}, "minPartitions must be positive"),
    "no records": (
        {"subscribe": "orders", "maxRecordsPerPartition": "-1"},
        "must be positive",
    ),
    "another start of consumers": (
        {"subscribe": "orders", "kafka_auto_offset_reset": "earliest"},
        "Kafka option 'auto.offset.reset' is not supported.",
    ),
    "deserializers": (
        {"subscribe": "orders", "kafka_value_deserializer": "java.lang.String"},
        "Kafka option 'value.deserializer' is not supported as values are deserialized",
    ),
    "commits": (
        {"subscribe": "orders", "kafka_enable_auto_commit": "true"},
        "Kafka option 'enable.auto.commit' is not supported",
    ),
    "interceptors": (
        {"subscribe": "orders", "kafka_interceptor_classes": "x"},
        "Kafka option 'interceptor.classes' is not supported",
    ),
}
