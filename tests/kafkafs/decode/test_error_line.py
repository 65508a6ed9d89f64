"""Damage as lines of JSON."""

import json

import numpy as np
import pytest

from engine.columns.batch_table import BATCH_ROW, BatchProblem, Problem
from engine.errors import CorruptRecordError, UnsupportedCodecError
from engine.log.segment.damage import DamageKind
from engine.log.segment.scan import Damage
from kafkafs.decode.error_line import error_line, exception_facts, problem_line, shown_path

DAMAGE = Damage(
    "/var/kafka/data/orders-0/00000000000000000000.log", 123, 456, DamageKind.CRC_MISMATCH,
    "the checksum is wrong", 11, 22, 35, 44,
)  # fmt: skip


def row(**fields: int) -> np.void:
    table = np.zeros(1, BATCH_ROW.dtype)
    for name, value in fields.items():
        table[name] = value
    return table[0]


def test_damage_is_one_line_of_json_with_place_reason_and_offsets() -> None:
    line = error_line(DAMAGE)
    assert line.endswith(b"}}\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "error": {
            "file": "orders-0/00000000000000000000.log",
            "position": 123,
            "length": 456,
            "reason": "the checksum is wrong",
            "kind": "crc_mismatch",
            "expected": 11,
            "found": 22,
            "firstOffset": 35,
            "lastOffset": 44,
        }
    }


def test_what_is_not_known_is_null() -> None:
    facts = json.loads(error_line(DAMAGE._replace(expected=None, last_offset=None)))["error"]
    assert facts["expected"] is None
    assert facts["lastOffset"] is None


@pytest.mark.parametrize(
    "name", ["a\x1b[2Jb", "a\nb", "a\x7fb", "b\udcff\udc80", "\u202eabc", "\u2028"]
)
def test_names_from_a_disk_come_out_as_plain_ascii(name: str) -> None:
    line = error_line(DAMAGE._replace(path=f"/data/{name}/x.log"))
    assert line[:-1].isascii()
    assert all(32 <= byte < 127 for byte in line[:-1])
    json.loads(line)


def test_a_path_is_shown_as_folder_and_file() -> None:
    assert shown_path("/a/b/c/d.log") == "c/d.log"
    assert shown_path("d.log") == "d.log"
    assert shown_path(None) is None


def test_a_batch_that_decodes_in_part_tells_which_offsets_may_be_lost() -> None:
    batch = row(position=7, size=90, base_offset=100, last_offset=109, record_count=10)
    problem = BatchProblem(0, Problem.INVALID_RECORD, 4, "a key of 99 bytes, where 3 are left")
    facts = json.loads(problem_line(problem, batch, "t-0/x.log"))["error"]
    assert (facts["firstOffset"], facts["lastOffset"]) == (104, 109)
    assert (facts["position"], facts["length"], facts["record"]) == (7, 90, 4)
    assert facts["kind"] == "invalid_record"


def test_a_batch_with_gaps_may_have_lost_any_of_its_offsets() -> None:
    batch = row(base_offset=100, last_offset=109, record_count=5)
    problem = BatchProblem(0, Problem.DECOMPRESSION, 2, "cut")
    facts = json.loads(problem_line(problem, batch, "x.log"))["error"]
    assert (facts["firstOffset"], facts["lastOffset"]) == (100, 109)


def test_bytes_left_over_lose_no_offsets() -> None:
    batch = row(base_offset=100, last_offset=109, record_count=10)
    problem = BatchProblem(0, Problem.LEFTOVER_BYTES, 10, "3 bytes follow")
    facts = json.loads(problem_line(problem, batch, "x.log"))["error"]
    assert (facts["firstOffset"], facts["lastOffset"]) == (None, None)


def test_an_exception_tells_what_it_knows() -> None:
    error = CorruptRecordError("bad", path="/d/t-0/x.log", position=3, expected=b"a", found=2)
    assert exception_facts(error) == {
        "file": "t-0/x.log", "position": 3, "reason": "bad", "kind": "CorruptRecordError",
        "expected": "b'a'", "found": 2,
    }  # fmt: skip
    assert exception_facts(UnsupportedCodecError("zstd: install x"))["kind"] == "codec_missing"
