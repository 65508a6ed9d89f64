"""The options of `kafkafs dump`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import builders
from tests.builders import Rec
from tests.kafkafs.dump.dumped import dump
from tests.message_bytes import coordinator_key
from tests.messages import NAMED


@pytest.fixture
def log(tmp_path: Path) -> Path:
    key = coordinator_key(3, NAMED["ConsumerGroupMetadataKey"], groupId="group")
    return builders.write_segment(tmp_path, [builders.batch([Rec(None, key)])])


def test_something_has_to_be_named() -> None:
    found = dump([])
    assert found.status == 2
    assert "name a file, a partition's folder or a log dir" in found.err


def test_json_is_a_format(log: Path) -> None:
    assert dump(log, "--format", "jsonl") == dump(log, "--json")
    assert dump(log, "--format", "dump-log") == dump(log)


def test_a_decoder_prints_contents_and_the_first_one_wins(log: Path) -> None:
    found = dump(log, "--cluster-metadata-decoder", "--offsets-decoder")
    assert found.lines[-1].endswith(
        'key: {"type":"3","data":{"groupId":"group"}} payload: <DELETE>'
    )


def test_no_java_class_is_loaded_but_the_default_is_known(log: Path) -> None:
    known = dump(log, "--key-decoder-class", "org.apache.kafka.tools.api.StringDecoder")
    assert known == dump(log, "--print-data-log")
    found = dump(log, "--value-decoder-class", "com.example.Decoder")
    assert found.status == 2
    assert "cannot load" in found.err


def test_a_record_without_a_key_that_a_decoder_needs_is_said(tmp_path: Path) -> None:
    log = builders.write_segment(tmp_path, [builders.batch([Rec(b"v"), Rec(b"w")])])
    found = dump(log, "--transaction-log-decoder")
    assert found.err.count("(message had a missing key)") == 2
    assert sum(line.startswith("| ") for line in found.lines) == 2
    assert found.status == 1


def test_sizes_below_zero_are_refused(log: Path) -> None:
    assert dump(log, "--max-bytes", "-1").status == 2
