"""Names of offsets, ranges, instants and periods: what they mean, and what is no name."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction

import pytest
from hypothesis import example, given, strategies as st

from engine.units import MAX_INT64
from kafkafs.tree.path_names import (
    DAY_NAME,
    OffsetRange,
    Period,
    instant_name,
    parse_instant,
    parse_offset,
    parse_period,
    parse_range,
    parse_time,
)

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
FIRST = -62_135_596_800_000  # 0001-01-01T00:00:00Z
END = 253_402_300_800_000  # 10000-01-01T00:00:00Z


def ms(*fields: int) -> int:
    return (datetime(*fields, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        milliseconds=1
    )


offsets = st.integers(0, MAX_INT64)

# ---- offsets and ranges


@given(offsets, st.integers(0, 20))
@example(MAX_INT64, 20)
def test_an_offset_reads_back_with_any_leading_zeros_up_to_20_digits(offset, width):
    assert parse_offset(f"{offset:0{width}}") == offset


@pytest.mark.parametrize(
    "name",
    [
        "", " 1", "1 ", "1\n", "+1", "-1", "1_000", "0x10", "1.0", "1e3", "35.key", "١٢", "１２", "²",
        str(MAX_INT64 + 1), "9" * 20, "0" * 21, "9" * 5000, "earliest", ".", "..", "\udc80", "1\x00",
    ],
)  # fmt: skip
def test_other_names_are_no_offset(name):
    assert parse_offset(name) is None


@given(offsets, offsets)
def test_a_range_of_two_offsets_is_half_open_and_goes_forward(a, b):
    expected = OffsetRange(a, b) if a <= b else None
    assert parse_range(f"{a}..{b}") == expected


@given(offsets, offsets)
def test_open_and_counted_ranges(a, count):
    assert parse_range(f"{a}..") == OffsetRange(a, None)
    assert parse_range(f"..{a}") == OffsetRange(None, a)
    assert parse_range(f"{a}+{count}") == OffsetRange(a, min(a + count, MAX_INT64))
    assert parse_range(f"-{count}") == OffsetRange(None, None, count)
    assert parse_range(f"-{count}..") == OffsetRange(None, None, count)


@pytest.mark.parametrize(
    "name",
    [
        "", "..", ".", "...", "1...2", "1..2..3", "..1..", "1..2..", "....", "5..4", "1.2", "1-2", "1+", "+1",
        "1++2", "1+-2", "1+2..", "1+2..9", "1..+2", "1..-2", "-1..2", "-", "--1", "-1+2", "-..", "..-1", "-1.", "-1...",
        " 1..2", "1 ..2", "1.. 2", "1..2 ", "1..2\n", "1..2\x00", "-1\n", "1+2\n", "a..b", "1..b", "a..2", "١..٢", "1..２",
        f"1..{MAX_INT64 + 1}", f"{MAX_INT64 + 1}..", f"-{MAX_INT64 + 1}", f"1+{MAX_INT64 + 1}", f"{MAX_INT64 + 1}+0",
        "0" * 21 + "..", "7", "2024-01-01..2024-01-02",
    ],
)  # fmt: skip
def test_other_names_are_no_range(name):
    assert parse_range(name) is None


def test_every_short_name_over_the_grammar_s_letters_is_what_the_grammar_says():
    bounds = re.compile(r"(\d*)\.\.(\d*)")
    for length in range(1, 7):
        for letters in itertools.product("07.+-", repeat=length):
            name = "".join(letters)
            found = parse_range(name)
            if re.fullmatch(r"-\d+(\.\.)?", name):
                expected = OffsetRange(None, None, int(name.strip("-.")))
            elif re.fullmatch(r"\d+\+\d+", name):
                start, count = map(int, name.split("+"))
                expected = OffsetRange(start, start + count)
            elif (match := bounds.fullmatch(name)) and name != "..":
                a, b = (int(side) if side else None for side in match.groups())
                expected = None if a is not None and b is not None and a > b else OffsetRange(a, b)
            else:
                expected = None
            assert found == expected, name


@given(
    st.builds(OffsetRange, st.none() | offsets, st.none() | offsets, st.none())
    | st.builds(OffsetRange, st.none(), st.none(), offsets),
    st.integers(0, 60),
    st.integers(0, 60),
)
@example(OffsetRange(None, None, 3), 5, 6)
@example(OffsetRange(0, 5), 10, 10)
@example(OffsetRange(12, 40), 10, 20)
def test_a_range_within_a_log_holds_exactly_the_log_s_offsets_that_it_names(wanted, start, size):
    end = start + size
    found = wanted.within(start, end)
    assert start <= found[0] <= found[1] <= end
    if wanted.last is not None:
        expected = [n for n in range(start, end) if n >= end - wanted.last]
    else:
        low = 0 if wanted.start is None else wanted.start
        high = MAX_INT64 if wanted.end is None else wanted.end
        expected = [n for n in range(start, end) if low <= n < high]
    assert list(range(*found)) == expected


# ---- instants


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("2024-01-01T10:30:00Z", ms(2024, 1, 1, 10, 30)),
        ("2024-01-01t10:30:00z", ms(2024, 1, 1, 10, 30)),
        ("2024-01-01T10:30:00", ms(2024, 1, 1, 10, 30)),
        ("2024-01-01T10:30:00.123+02:00", ms(2024, 1, 1, 8, 30) + 123),
        ("2024-01-01T10:30:00-05:30", ms(2024, 1, 1, 16, 0)),
        ("2024-01-01T10:30:00+0200", ms(2024, 1, 1, 8, 30)),
        ("2024-01-01T10:30:00+02", ms(2024, 1, 1, 8, 30)),
        ("2024-01-01T10:30:00-00:00", ms(2024, 1, 1, 10, 30)),
        ("20240101T103000Z", ms(2024, 1, 1, 10, 30)),
        ("20240101T103000", ms(2024, 1, 1, 10, 30)),
        ("20240101T103000.5+0200", ms(2024, 1, 1, 8, 30) + 500),
        ("20240101T103000+02:00", ms(2024, 1, 1, 8, 30)),
        ("20240101T103000-05", ms(2024, 1, 1, 15, 30)),
        ("2023-11-14T22:13:55.123Z", 1_700_000_035_123),
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.999Z", -1),
        ("0001-01-01T00:00:00Z", FIRST),
        ("0001-01-01T00:00:00+14:00", FIRST - 14 * HOUR),
        ("9999-12-31T23:59:59.999Z", END - 1),
        ("9999-12-31T23:59:59.9991Z", END),
        ("2016-12-31T23:59:60Z", ms(2017, 1, 1)),
        ("2017-01-01T01:59:60+02:00", ms(2017, 1, 1)),
        ("0", 0),
        ("1", 1),
        ("000", 0),
        ("001000", 1000),
        ("12345", 12345),
        ("202401", 202401),
        ("1704105000000", ms(2024, 1, 1, 10, 30)),
        ("20240101103000", 20240101103000),
        (str(MAX_INT64), MAX_INT64),
        (f"{1000:020}", 1000),
    ],
)
def test_an_instant_in_each_of_its_forms(name, expected):
    assert parse_instant(name) == expected
    assert parse_period(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "", "now", "earliest", "2024", "1000", "20240101", "20241399", "00000000", "2024-01-01", "2024-01-01T10",
        "2024-01-01T10:30", "2024-01-01T10:30Z", "2024-01-01T10:30:00Zz", "2024-01-01T10:30:00 Z", "2024-01-01 10:30:00",
        "2024-1-01T10:30:00", "24-01-01T10:30:00", "2024-01-01T1:30:00", "2024-01-01T10:30:0", "02024-01-01T10:30:00Z",
        "2024-02-30T00:00:00Z", "2023-02-29T00:00:00Z", "2024-13-01T00:00:00Z", "2024-00-01T00:00:00Z", "2024-01-00T00:00:00Z",
        "0000-01-01T00:00:00Z", "2024-01-01T24:00:00Z", "2024-01-01T10:60:00Z", "2024-01-01T10:30:61Z", "2024-01-01T10:30:60Z",
        "2016-12-31T23:59:60+02:00", "2024-01-01T10:30:00.Z", "2024-01-01T10:30:00,5Z", "2024-01-01T10:30:00.5.5Z",
        "2024-01-01T10:30:00+2", "2024-01-01T10:30:00+24:00", "2024-01-01T10:30:00+02:60", "2024-01-01T10:30:00+02:0",
        "2024-01-01T10:30:00+02:000", "2024-01-01T10:30:00UTC", "2024-01-01T103000Z", "20240101T10:30:00Z", "2024-0101T10:30:00Z",
        "2024-001T10:30:00Z", "2024-W01-1T10:30:00Z", "٢٠٢٤-01-01T10:30:00Z", "2024-01-01T10:30:00Z\n", "\n1704105000000",
        "1704105000000\n", "1704105000000ms", "1704105000.5", "-1", "+1", "-1704105000000", str(MAX_INT64 + 1), "0" * 21,
        "2024-01-01T10:30:00.١Z", "2024-01-01T10:30:00\u2212" + "02:00", "2024-01-01T10:30:00Z..", "..", "0..1",
    ],
)  # fmt: skip
def test_other_names_are_no_instant(name):
    assert parse_instant(name) is None


@given(
    st.integers(FIRST // 1000, END // 1000 - 1),
    st.text("0123456789", min_size=1, max_size=30),
    st.integers(-1439, 1439),
)
@example(0, "0000", 0)
@example(-1, "9990000001", 0)
@example(0, "123" + "0" * 20 + "1", -90)
def test_an_instant_between_two_milliseconds_is_the_later_one(seconds, decimals, zone_minutes):
    exact = Fraction(seconds) * 1000 + Fraction(int(decimals), 10 ** len(decimals)) * 1000
    local = seconds + zone_minutes * 60
    if not FIRST // 1000 <= local < END // 1000:
        return
    clock = (datetime(1, 1, 1) + timedelta(seconds=local - FIRST // 1000)).isoformat()  # noqa: DTZ001
    zone = f"{'-' if zone_minutes < 0 else '+'}{abs(zone_minutes) // 60:02}:{abs(zone_minutes) % 60:02}"
    found = parse_instant(f"{clock}.{decimals}{zone}")
    assert found == -(-exact // 1)
    short = clock.replace("-", "").replace(":", "")
    assert parse_instant(f"{short}.{decimals}{zone.replace(':', '')}") == found


@given(st.integers(0, MAX_INT64))
def test_digits_are_milliseconds_except_four_and_eight_of_them(number):
    name = str(number)
    if len(name) in (4, 8):
        assert parse_instant(name) is None
    else:
        assert parse_instant(name) == number
        assert parse_period(name) is None


@given(st.integers(FIRST, MAX_INT64))
@example(FIRST)
@example(END - 1)
@example(END)
@example(MAX_INT64)
@example(-1)
@example(0)
def test_the_canonical_names_read_back(instant):
    name = instant_name(instant)
    assert parse_instant(name) == instant
    assert parse_period(name) is None


def test_the_canonical_names():
    assert instant_name(1_704_105_000_000) == "2024-01-01T10:30:00Z"
    assert instant_name(1_704_105_000_007) == "2024-01-01T10:30:00.007Z"
    assert instant_name(FIRST) == "0001-01-01T00:00:00Z"
    assert instant_name(END) == str(END)
    assert instant_name(FIRST - 1) is None


# ---- periods


@pytest.mark.parametrize(
    ("name", "start", "end"),
    [
        ("2024", ms(2024, 1, 1), ms(2025, 1, 1)),
        ("1000", ms(1000, 1, 1), ms(1001, 1, 1)),
        ("9999", ms(9999, 1, 1), END),
        ("2024-01", ms(2024, 1, 1), ms(2024, 2, 1)),
        ("2024-02", ms(2024, 2, 1), ms(2024, 3, 1)),
        ("2023-12", ms(2023, 12, 1), ms(2024, 1, 1)),
        ("9999-12", ms(9999, 12, 1), END),
        ("2024-02-29", ms(2024, 2, 29), ms(2024, 3, 1)),
        ("20240229", ms(2024, 2, 29), ms(2024, 3, 1)),
        ("9999-12-31", END - DAY, END),
        ("2024-01-01T10", ms(2024, 1, 1, 10), ms(2024, 1, 1, 11)),
        ("2024-01-01T23", ms(2024, 1, 1, 23), ms(2024, 1, 2)),
        ("20240101T10", ms(2024, 1, 1, 10), ms(2024, 1, 1, 11)),
        ("2024-01-01T10:30", ms(2024, 1, 1, 10, 30), ms(2024, 1, 1, 10, 31)),
        ("20240101T1030", ms(2024, 1, 1, 10, 30), ms(2024, 1, 1, 10, 31)),
        ("2024Z", ms(2024, 1, 1), ms(2025, 1, 1)),
        ("2024-05:00", ms(2024, 1, 1, 5), ms(2025, 1, 1, 5)),
        ("2024-01-05:00", ms(2024, 1, 1, 5), ms(2024, 2, 1, 5)),
        ("2024-01-01-05:00", ms(2024, 1, 1, 5), ms(2024, 1, 2, 5)),
        ("2024-01-01+02:00", ms(2024, 1, 1) - 2 * HOUR, ms(2024, 1, 2) - 2 * HOUR),
        ("20240101+0200", ms(2024, 1, 1) - 2 * HOUR, ms(2024, 1, 2) - 2 * HOUR),
        ("20240101-0530", ms(2024, 1, 1, 5, 30), ms(2024, 1, 2, 5, 30)),
        ("2024-01-01z", ms(2024, 1, 1), ms(2024, 1, 2)),
        ("2024-01-01T10+02", ms(2024, 1, 1, 8), ms(2024, 1, 1, 9)),
        ("2024-01-01T10:30-05:00", ms(2024, 1, 1, 15, 30), ms(2024, 1, 1, 15, 31)),
        ("20240101T1030+05", ms(2024, 1, 1, 5, 30), ms(2024, 1, 1, 5, 31)),
        ("20240101t10z", ms(2024, 1, 1, 10), ms(2024, 1, 1, 11)),
        ("2024-01-01T10:30:00Z..2024-01-01T11:00:00Z", ms(2024, 1, 1, 10, 30), ms(2024, 1, 1, 11)),
        ("2024-01..2024-03", ms(2024, 1, 1), ms(2024, 3, 1)),
        ("2024..2024-02", ms(2024, 1, 1), ms(2024, 2, 1)),
        ("20240101..20240103", ms(2024, 1, 1), ms(2024, 1, 3)),
        ("20240101T10..20240101T1030", ms(2024, 1, 1, 10), ms(2024, 1, 1, 10, 30)),
        ("0..1704105000000", 0, 1_704_105_000_000),
        ("1704105000000..2024-01-02", 1_704_105_000_000, ms(2024, 1, 2)),
        ("2024..", ms(2024, 1, 1), None),
        ("..2024", None, ms(2024, 1, 1)),
        ("2024..2024", ms(2024, 1, 1), ms(2024, 1, 1)),
        ("0.." + str(MAX_INT64), 0, MAX_INT64),
        ("2024-01-01T00:00:00.0001Z..2024-01-01T00:00:00.0010Z", ms(2024, 1, 1) + 1, ms(2024, 1, 1) + 1),
        ("2024-01-01T00:00:00.5Z..2024-01-01T02:00:01+02:00", ms(2024, 1, 1) + 500, ms(2024, 1, 1) + 1000),
    ],
)  # fmt: skip
def test_a_period_in_each_of_its_forms(name, start, end):
    assert parse_period(name) == Period(start, end)
    assert parse_instant(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..", "...", "2024...", "2024..2025..2026", "2025..2024", "now", "0000", "0000-01", "2024-00", "2024-13",
        "2024-1", "2024-01-", "2024-", "2024-02-30", "2023-02-29", "20230229", "20241399", "00000000", "2024-01-32", "2024-01-01T",
        "2024-01-01T24", "2024-01-01T1", "2024-01-01T10:", "2024-01-01T10:60", "2024-01-01T10:3", "2024-01-01T1030", "20240101T10:30",
        "2024-0101", "202401", "02024", "12024-01", "2024+02", "2024-01+02", "2024-01-01+02", "2024-01-01+0200", "2024+0200",
        "2024-01-01+24:00", "2024-01-01+02:60", "2024 ", " 2024", "2024\n", "2024-01-01\n", "٢٠٢٤", "２０２４", "2024/01", "2024-W01",
        "2024-Q1", "2024-001", "1704105000000", "2024-01-01T10:30:00Z", "2024..x", "x..2024", "2024..20241399", "2024-01-01T25..",
        "..2024-13", "2024 ..2025", "2024.. 2025", "2024..2025\n", f"0..{MAX_INT64 + 1}", "-1..0", "1..0",
        "2024-01-01T10:30:00Z..2024-01-01T10:29:59.9999Z\x00", "2024-01-01T02:00:00+02:00..2023-12-31T23:59:59Z",
    ],
)  # fmt: skip
def test_other_names_are_no_period(name):
    assert parse_period(name) is None


def test_every_day_hour_and_minute_of_some_years_is_where_the_calendar_has_it():
    for year in (1, 1600, 1900, 1969, 1970, 2000, 2024, 2100, 9999):
        day = date(year, 1, 1)
        at = ms(year, 1, 1)
        while True:
            for name in (day.isoformat(), day.isoformat().replace("-", "")):
                assert parse_period(name) == Period(at, at + DAY)
            for instant in (at, at + DAY - 1):
                assert (instant_name(instant) or "")[:DAY_NAME] == day.isoformat()
            hour = day.toordinal() % 24
            assert parse_period(f"{day}T{hour:02}") == Period(
                at + hour * HOUR, at + (hour + 1) * HOUR
            )
            minute = hour * HOUR + day.day * MINUTE
            assert parse_period(f"{day}T{hour:02}:{day.day:02}") == Period(
                at + minute, at + minute + MINUTE
            )
            at += DAY
            if (day.month, day.day) == (12, 31):
                break
            day += timedelta(days=1)


def test_every_name_of_four_digits_is_the_year_and_every_month_ends_where_the_next_begins():
    assert parse_period("0000") is None
    before = FIRST
    for year in range(1, 10_000):
        period = parse_period(f"{year:04}")
        assert period is not None
        assert period.start_ms == before
        before = period.end_ms
    assert before == END
    before = ms(1890, 1, 1)
    for year, month in itertools.product(range(1890, 2110), range(1, 13)):
        period = parse_period(f"{year}-{month:02}")
        assert period is not None
        assert period.start_ms == before == ms(year, month, 1)
        before = period.end_ms


@given(
    st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31)),  # noqa: DTZ001
    st.integers(-1439, 1439),
)
def test_a_zone_moves_a_period_as_it_moves_an_instant(moment, zone_minutes):
    zone = timezone(timedelta(minutes=zone_minutes))
    text = f"{'-' if zone_minutes < 0 else '+'}{abs(zone_minutes) // 60:02}:{abs(zone_minutes) % 60:02}"
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=zone)
    start = (day - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert parse_period(f"{moment:%Y}".zfill(4) + f"-{moment:%m-%d}{text}") == Period(
        start, start + DAY
    )


@given(st.text("0123456789-+:.TZ", max_size=40) | st.text(max_size=40))
def test_no_text_breaks_a_parser_or_is_both_an_instant_and_a_period(name):
    parse_offset(name)
    parse_range(name)
    instant, period = parse_instant(name), parse_period(name)
    assert instant is None or period is None
    start = period.start_ms if period is not None and ".." not in name else None
    assert parse_time(name) == (start if instant is None else instant)
    if not re.fullmatch(r"[0-9A-Za-z.:+-]+", name, re.ASCII):
        assert instant is None
        assert period is None
