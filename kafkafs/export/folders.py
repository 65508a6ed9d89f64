"""Folders of an export: topic=NAME/date=DAY, as Spark and Hive name the folders of partitioned tables."""

from __future__ import annotations

import re

from engine.units import NO_TIMESTAMP, Timestamp

NO_DAY = "__HIVE_DEFAULT_PARTITION__"
"""Day of records without a timestamp."""
MS_OF_DAY = 86_400_000
_ESCAPED = re.compile("[\x01-\x1f\"#%'*/:=?\\\\\x7f{\\[\\]^]")
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")
_DAYS_OF_400_YEARS = 146_097
_MARCH_1_OF_YEAR_0 = -719_468
"""Day since 1970 of 0000-03-01, from which years end with February."""


def day_of(timestamp: Timestamp) -> str:
    """Return the day of a timestamp in UTC, as Spark's date_format writes it; NO_DAY for no timestamp.

    >>> day_of(1_700_000_000_000), day_of(-2), day_of(253_402_300_800_000), day_of(-1)
    ('2023-11-14', '1969-12-31', '+10000-01-01', '__HIVE_DEFAULT_PARTITION__')
    """
    if timestamp == NO_TIMESTAMP:
        return NO_DAY
    era, day = divmod(timestamp // MS_OF_DAY - _MARCH_1_OF_YEAR_0, _DAYS_OF_400_YEARS)
    year = (day - day // 1460 + day // 36524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    month, year = (month + 3, year) if month < 10 else (month - 9, year + 1)
    year += 400 * era
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day + 1:02}"


def folder_of(topic: str, day: str) -> str:
    """Return the folder of a topic's records of a day, relative to the target.

    >>> folder_of("orders", "2023-11-14"), folder_of("a=b", NO_DAY)
    ('topic=orders/date=2023-11-14', 'topic=a%3Db/date=__HIVE_DEFAULT_PARTITION__')
    """
    escaped = _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", topic)
    return f"topic={escaped or NO_DAY}/date={day}"


def place_of(path: str) -> tuple[str, str] | None:
    """Return the topic and the day of a file of records by its path in the target; None for another file.

    >>> place_of("topic=a%3Db/date=2023-11-14/chunk-000001-part-00000.parquet")
    ('a=b', '2023-11-14')
    """
    folders = dict(part.partition("=")[::2] for part in path.split("/")[:-1])
    if not {"topic", "date"} <= set(folders):
        return None
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), folders["topic"]), folders["date"]
