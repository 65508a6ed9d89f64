"""Building, stamping and filtering against what Kafka's own classes answered."""

import gzip

import pytest

from tests.record_scripts import GOLDEN, Runner, comparable


def scripts() -> list[list[tuple[str, str]]]:
    """Lines with Kafka's answers, by script."""
    lines = gzip.decompress(GOLDEN.read_bytes()).decode().split("\n")
    made: list[list[tuple[str, str]]] = []
    for line, answer in zip(lines[:-1:2], lines[1::2], strict=True):
        if line == "new":
            made.append([])
        made[-1].append((line, answer))
    return made


SCRIPTS = scripts()


@pytest.mark.parametrize("script", SCRIPTS, ids=range(len(SCRIPTS)))
def test_each_step_gives_what_kafka_gives(script):
    runner = Runner()
    for line, answer in script:
        ours = runner.run(line)
        assert ours == answer or comparable(ours) == comparable(answer), line


def test_the_scripts_have_every_kind_of_step_and_every_codec():
    answers = [(line.split(), answer) for script in SCRIPTS for line, answer in script]
    kept = {words[0] for words, answer in answers if answer != "refused"}
    assert kept >= {
        "builder",
        "append",
        "marker",
        "leader",
        "header",
        "footer",
        "version",
        "voters",
    }
    assert kept >= {"last", "producer", "room", "build", "move", "epoch", "stamp", "filter"}
    made = {tuple(words[1:3]) for words, _ in answers if words[0] == "builder"}
    assert made >= {(magic, codec) for magic in "012" for codec in "0123"} | {("2", "4")}
    assert sum(answer == "refused" for _, answer in answers) > 50
