"""Tables by the width of what they are printed on."""

from __future__ import annotations

import pytest

from kafkafs.cli.printing.terminal.columns import cut_to, shown_width, table_lines

ROWS = [
    ["PARTITION", "BYTES", "FIRST", "NOTE"],
    ["orders-0", "28835", "2026-11-21T04:38Z", "a remark"],
    ["注文注文注文注文注文注文注文注文-12", "1", "2026-11-21T04:39Z", "-"],
]


def test_without_a_limit_every_text_is_whole_and_columns_are_aligned_by_what_is_shown() -> None:
    lines = list(table_lines(ROWS, None))
    assert [" ".join(line.split()) for line in lines] == [" ".join(row) for row in ROWS]
    texts = [row[2] for row in ROWS]
    starts = {
        shown_width(line[: line.index(text)]) for line, text in zip(lines, texts, strict=True)
    }
    assert len(starts) == 1


@pytest.mark.parametrize("room", range(20, 100))
def test_a_table_fits_its_room_and_each_part_names_the_rows(room: int) -> None:
    lines = list(table_lines(ROWS, room))
    assert max(map(shown_width, lines)) <= room
    parts = "\n".join(lines).split("\n\n")
    for part in parts:
        header, *others = (line for line in part.split("\n") if not line.startswith(" "))
        assert (header[:2], *(line[0] for line in others)) == ("PA", "o", "注")
    if room >= 40:  # only the long name is cut
        shown = " ".join(lines).split()
        assert {"28835", "2026-11-21T04:38Z", "2026-11-21T04:39Z", "orders-0"} <= set(shown)


@pytest.mark.parametrize("room", range(30, 140))
def test_a_key_is_whole_while_each_other_column_fits_beside_it(room: int) -> None:
    """Other columns move below, and break between their words, before a key is cut."""
    key, words = (
        "customer-orders-archive-17",
        ["2023-11-14T22:41Z to 2023-11-14T22:42Z", "a", "x" * 30],
    )
    rows = [["KEY", "WRITTEN", "B", "WORD"], [key, *words]]
    lines = list(table_lines(rows, room))
    shown = " ".join(lines).split()
    assert max(map(len, lines)) <= room
    assert (key in shown) == (room >= len(key) + 2 + 30)
    assert {"2023-11-14T22:41Z", "to", "a"} <= set(shown) or room < 36
    assert "x" * 30 in shown or room < 48


def test_a_room_of_no_use_makes_lines_all_the_same() -> None:
    assert list(table_lines(ROWS, 1))


def test_the_header_comes_again_on_each_screen_where_columns_continue_below() -> None:
    rows = [["KEY", "A" * 20, "B" * 20], *([str(number), "a", "b"] for number in range(45))]
    lines = list(table_lines(rows, 30))
    assert sum(line.startswith("KEY") for line in lines) == 2 * 3
    for number in range(45):
        assert sum(line.split()[:1] == [str(number)] for line in lines) == 2


def test_a_table_without_rows_is_its_header() -> None:
    assert list(table_lines([["KEY", "VALUE"]], 80)) == ["KEY  VALUE"]


def test_keys_of_several_columns_are_repeated() -> None:
    rows = [["TOPIC", "PARTITION", "A" * 12, "B" * 12], ["orders", "3", "1", "2"]]
    assert list(table_lines(rows, 32, keys=2)) == [
        "TOPIC   PARTITION  AAAAAAAAAAAA",
        "orders  3          1",
        "",
        "TOPIC   PARTITION  BBBBBBBBBBBB",
        "orders  3          2",
    ]


@pytest.mark.parametrize("width", range(1, 12))
def test_a_cut_text_is_never_wider_than_asked(width: int) -> None:
    for text in ("customer-orders-17", "注文注文注文", "abc"):
        assert shown_width(cut_to(text, width)) <= width or width == 0
