"""Record lines read back, to compare with what a consumer saw."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from tests.fixtures_data import TruthRecord
from tests.kafka.truth import PartitionTruth

TYPES = {"NoTimestampType": 0, "CreateTime": 1, "LogAppendTime": 2}


class ExactObject:
    """A JSON object with its members in their order, doubled ones too."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, members: list[tuple[str, Any]]) -> None:
        self.members = members

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExactObject) and self.members == other.members

    def __repr__(self) -> str:
        return repr(self.members)


class ShownAsJson:
    """A field that was shown as JSON: equal to the bytes that are the same JSON."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, shown: object) -> None:
        self.shown = shown

    def __eq__(self, other: object) -> bool:
        return isinstance(other, bytes) and _exact_json(other) == self.shown

    def __repr__(self) -> str:
        return f"json {self.shown!r}"


def shown_lines(text: bytes) -> list[dict[str, Any]]:
    """The lines that a consumer has records for: no control records, nothing below the log start.

    Members of values that are shown as JSON keep their order and the text of their numbers.
    """
    assert not text or text.endswith(b"\n")
    lines = [_line(line) for line in text.splitlines()]
    errors = [line["error"] for line in lines if "error" in line]
    assert not errors, errors[0]
    return [line for line in lines if "control" not in line and not line.get("belowLogStart")]


def assert_same_records(text: bytes, truth: PartitionTruth, records: Sequence[TruthRecord]) -> None:
    """Record lines hold exactly those records; of internal topics, whose values are decoded, the frames."""
    lines = shown_lines(text)
    assert [int(line["offset"][0]) for line in lines] == [record.offset for record in records]
    for line, record in zip(lines, records, strict=True):
        where = f"{truth.folder} at {record.offset}"
        assert line["topic"] == truth.topic, where
        assert int(line["partition"][0]) == truth.partition, where
        assert int(line["timestamp"][0]) == record.timestamp, where
        assert TYPES[line["timestampType"]] == record.timestamp_type, where
        assert int(line["leaderEpoch"][0]) == record.leader_epoch, where
        if not truth.internal:
            _assert_same_fields(line, record, where)


def _assert_same_fields(line: dict[str, Any], record: TruthRecord, where: str) -> None:
    assert _field(line, "key") == record.key, where
    assert _field(line, "value") == record.value, where
    headers = [(_field(header, "key"), _field(header, "value")) for header in line["headers"]]
    assert headers == [(key.encode(), value) for key, value in record.headers], where


def _field(line: dict[str, Any], name: str) -> bytes | ShownAsJson | None:
    shown, encoding = line[name], line.get(name + "Encoding")
    if encoding == "json":
        return ShownAsJson(shown)
    if encoding == "base64":
        return base64.b64decode(shown, validate=True)
    assert encoding is None
    return None if shown is None else shown.encode("utf-8")


def _line(text: bytes) -> dict[str, Any]:
    line = dict(_exact_json(text).members)
    if "headers" in line:
        line["headers"] = [dict(header.members) for header in line["headers"]]
    return line


def _exact_json(text: bytes) -> Any:
    # A number becomes a tuple of its text: equal to the same text only, never to a string.
    return json.loads(
        text.decode("utf-8"),
        object_pairs_hook=ExactObject,
        parse_int=lambda digits: (digits,),
        parse_float=lambda digits: (digits,),
    )
