"""Rows with a mask: what is left of keys, values and headers, and that no byte of the rest is in their columns."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.lines.line_decoder import HIDDEN, DecodedField, LineDecoder
from kafkafs.masking.policy import MaskPolicy
from kafkafs.records.row_mask import RowMask
from kafkafs.records.rows import Rows
from tests.builders import Rec
from tests.kafkafs.masked_source import CANARY, KEY, found_in
from tests.kafkafs.records.batches_of_records import PARTITION, Decoded, decoded

SECRET = CANARY.encode()
HEADERS = ((b"trace", SECRET), (b"open", b"yes"), (b"none", None), (b"raw", b"\xff" + SECRET))
VALUES = [
    b'{"secret":"%s", "n":1.0}' % SECRET, b'{"n" : 2}', None, b"\xff" + SECRET, SECRET, b"", b"\xff",
]  # fmt: skip


def no_decoder(topic: str) -> None:
    assert topic == PARTITION.topic


@pytest.fixture(scope="module")
def records() -> Decoded:
    made = [Rec(each, b"k%d" % place, headers=HEADERS) for place, each in enumerate(VALUES)]
    return decoded(made[:3], made[3:])


def row_mask(folder: Path, rule: str, topic: str = "orders") -> RowMask:
    (folder / "mask.key").write_text(KEY)
    path = folder / "mask.toml"
    path.write_text(f'key_file = "mask.key"\n[[rules]]\ntopics = ["{topic}"]\n{rule}\n')
    return RowMask(MaskPolicy(str(path)), no_decoder)


def shown(rows: Rows) -> list[tuple[Any, ...]]:
    return [
        (rows.columns.key(at), rows.columns.value(at), [(each.key, each.value) for each in rows.columns.headers(at)])
        for at in rows.indices.tolist()
    ]  # fmt: skip


VISIBLE = [(b"open", b"yes"), (b"none", None)]


def test_rows_have_what_the_mask_leaves_and_no_byte_of_the_rest(
    tmp_path: Path, records: Decoded
) -> None:
    mask = row_mask(
        tmp_path, 'fields = { \'.value.secret\' = { replace = "x" } }\nheaders = { trace = "drop" }'
    )
    rows = records.rows()
    masked = mask.masked(rows)
    assert shown(masked) == [
        (b"k0", b'{"secret":"x","n":1.0}', VISIBLE), (b"k1", b'{"n":2}', VISIBLE), (b"k2", None, VISIBLE),
        (b"k3", b"unreadable", VISIBLE), (b"k4", b"x", VISIBLE), (b"k5", b"x", VISIBLE), (b"k6", b"unreadable", VISIBLE),
    ]  # fmt: skip
    assert found_in(bytes(masked.columns.arena) + masked.columns.table.tobytes()) == []
    assert found_in(bytes(rows.columns.arena)) != []
    replaced, unreadable = (
        DecodedField(None, b"", f"masked: {done}", None, HIDDEN)
        for done in ("replaced", "unreadable")
    )
    assert masked.fields == (
        [None] * 7,
        [None, None, None, unreadable, replaced, replaced, unreadable],
    )
    assert masked.numbers("offset").tolist() == list(range(7))
    assert masked.numbers("row").tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert (masked.decoder, masked.keeps_bytes, masked.columns.next_row) == (
        None,
        True,
        rows.columns.next_row,
    )
    assert masked.columns.problems == []
    assert not masked.columns.table.flags.writeable
    headers = b"\x08open\x06yes\x08none\x01"  # as Kafka writes them; -1 is a null
    at, size = (int(masked.columns.table[f"headers_{name}"][0]) for name in ("start", "size"))
    assert bytes(masked.columns.arena)[at : at + size] == headers
    assert (masked.partition, masked.segment, masked.table is rows.table) == (PARTITION, 7, True)


def test_what_no_rule_names_has_its_exact_bytes(tmp_path: Path, records: Decoded) -> None:
    masked = row_mask(tmp_path, "fields = { '.key' = \"hash\" }").masked(records.rows([1, 3, 6]))
    assert [each[1] for each in shown(masked)] == [VALUES[1], b"unreadable", b"unreadable"]
    assert {len(each[0]) for each in shown(masked)} == {64}
    assert masked.numbers("offset").tolist() == [1, 3, 6]
    assert masked.indices.tolist() == [0, 1, 2]
    assert [each and each.note for each in (masked.fields or ((), ()))[0]] == ["masked: hashed"] * 3


@pytest.mark.parametrize("action", ["drop", '{ replace = "" }'])
def test_a_dropped_value_is_null_and_one_that_is_replaced_by_nothing_is_empty(
    tmp_path: Path, records: Decoded, action: str
) -> None:
    written = f'"{action}"' if action == "drop" else action
    masked = row_mask(tmp_path, f"fields = {{ '.value' = {written} }}").masked(records.rows([0]))
    assert shown(masked)[0][1] == (None if action == "drop" else b"")
    assert masked.columns.table["value_size"].tolist() == [-1 if action == "drop" else 0]


def test_rows_of_other_topics_and_no_rows_are_as_they_are(tmp_path: Path, records: Decoded) -> None:
    rows = records.rows()
    assert row_mask(tmp_path, "fields = { '.value' = \"drop\" }", "payments").masked(rows) is rows
    empty = records.rows([])
    mask = row_mask(tmp_path, "fields = { '.value' = \"drop\" }")
    assert mask.masked(empty) is empty
    assert mask.of("orders") is mask.policy.mask("orders")
    assert pickle.loads(pickle.dumps(mask.policy)).fingerprint == mask.policy.fingerprint


class OneText(LineDecoder):
    """A decoder that gives each value one text."""

    def fields(self, *_: object) -> tuple[DecodedField | None, DecodedField | None]:
        return None, DecodedField(b'{"secret":1}', b"avro", None, b'{"id":4}', self)


@pytest.mark.parametrize(("decoder", "keeps", "wanted"), [
    (None, False, True), (None, True, True), (OneText(), False, False), (OneText(), True, True),
])  # fmt: skip
def test_bytes_stay_beside_decoded_columns_only_where_they_were(
    tmp_path: Path, records: Decoded, decoder: Any, keeps: bool, wanted: bool
) -> None:
    mask = row_mask(tmp_path, "fields = { '.value.secret' = \"drop\" }")
    masked = mask.masked(records.rows([0], decoder=decoder, keeps_bytes=keeps))
    assert masked.keeps_bytes is wanted


def test_the_fields_of_a_decoder_are_masked_in_the_text_that_it_makes(
    tmp_path: Path, records: Decoded
) -> None:
    decoder = OneText()
    mask = row_mask(tmp_path, "fields = { '.value.secret' = { replace = \"x\" } }")
    masked = RowMask(mask.policy, lambda _: decoder).masked(records.rows([3, 1]))
    assert [each[1] for each in shown(masked)] == [b'{"secret":"x"}'] * 2
    assert masked.fields == (
        [None] * 2,
        [DecodedField(b'{"secret":"x"}', b"avro", None, b'{"id":4}', None)] * 2,
    )
    assert isinstance(masked.indices, np.ndarray)
