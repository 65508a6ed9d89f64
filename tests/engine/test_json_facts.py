from typing import NamedTuple

import pytest

from engine.json_facts import camel_case, facts_of


class Log(NamedTuple):
    log_end: int
    before: "Log | None" = None


def test_facts_have_the_names_and_the_order_that_were_asked_for() -> None:
    log = Log(7, Log(3))
    facts = facts_of(log, "size=log_end log_end endBefore=before.log_end")
    assert list(facts.items()) == [("size", 7), ("logEnd", 7), ("endBefore", 3)]


def test_an_attribute_of_none_is_none_and_one_that_is_not_there_an_error() -> None:
    assert facts_of(Log(7), "endBefore=before.before.log_end") == {"endBefore": None}
    with pytest.raises(AttributeError, match="start"):
        facts_of(Log(7), "start")
    with pytest.raises(AttributeError, match="start"):
        facts_of(Log(7, Log(3)), "start=before.start")


def test_a_name_of_one_word_stays() -> None:
    assert [camel_case(name) for name in ("size", "log_end", "last_stable_offset")] == [
        "size", "logEnd", "lastStableOffset",
    ]  # fmt: skip
