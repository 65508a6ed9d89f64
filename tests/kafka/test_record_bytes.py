"""Kafka's own builder, stamping and filter judge ours, on scripts that are new each time."""

import gzip

import pytest

from tests.kafka.conftest import SEED, why_not
from tests.kafka.record_bytes import kafka_answers
from tests.record_scripts import GOLDEN, Runner, comparable, random_script

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]


@pytest.mark.parametrize("part", range(4))
def test_kafka_answers_as_we_do(part):
    first = SEED + part * 100
    lines = [line for seed in range(first, first + 100) for line in random_script(seed)]
    runner = Runner()
    for line, answer in zip(lines, kafka_answers(lines), strict=True):
        ours = runner.run(line)
        assert ours == answer or comparable(ours) == comparable(answer), line[:1000]


def test_the_golden_answers_are_those_of_kafka():
    lines = gzip.decompress(GOLDEN.read_bytes()).decode().split("\n")[:-1]
    for line, answer, again in zip(lines[::2], lines[1::2], kafka_answers(lines[::2]), strict=True):
        assert answer == again or comparable(answer) == comparable(again), line
