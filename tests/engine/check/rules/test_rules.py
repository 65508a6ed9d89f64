"""The rules: ids, words, and the page that declares them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import engine.check
from engine.check.rules.finding import found
from engine.check.rules.rules import RULES, Rule, Severity, rules_of

PAGE = Path(engine.check.__file__).parent / "RULES.md"


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_has_an_id_of_lower_case_words_and_says_what_to_do(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.id)
    assert RULES[rule.id] is rule
    assert rule.title
    assert not rule.title.endswith(".")
    assert rule.advice.endswith(".")


def test_each_row_of_the_page_is_a_rule_of_its_group() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert rules_of(page) == RULES
    tables = [part.split("\n") for part in page.split("\n## ") if "\n| rule |" in part]
    rows = [
        (title.lower(), row) for title, *rows in tables for row in rows if row.startswith("| `")
    ]
    assert [(group, row.split("`")[1]) for group, row in rows] == [
        (rule.group, rule.id) for rule in RULES.values()
    ]


ROW = "| `some-rule` | note | a title | An advice. |"


def test_two_rules_cannot_have_one_id() -> None:
    with pytest.raises(ValueError, match="two rules are called some-rule"):
        rules_of(f"{ROW}\n{ROW}")


def test_a_severity_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="fatal"):
        rules_of(ROW.replace("note", "fatal"))


def test_a_finding_has_the_severity_and_advice_of_its_rule_unless_others_are_given() -> None:
    rule = RULES["batch-checksum"]
    plain = found("batch-checksum", "a.log", "it is so", expected=1, found=None)
    assert (plain.severity, plain.advice) == (rule.severity, rule.advice)
    assert plain.facts == {"expected": 1}
    other = found("batch-checksum", "a.log", "it is so", severity=Severity.NOTE, advice="Wait.")
    assert (other.severity, other.advice) == (Severity.NOTE, "Wait.")
    with pytest.raises(KeyError):
        found("no-such-rule", "a.log", "it is so")


def test_a_finding_in_json_leaves_out_what_is_not_known() -> None:
    finding = found("torn-tail", "a.log", "it is so", position=5, first_offset=0, facts={"a": 1})
    assert finding.to_json() == {
        "rule": "torn-tail",
        "severity": "warning",
        "file": "a.log",
        "position": 5,
        "firstOffset": 0,
        "sentence": "it is so",
        "advice": RULES["torn-tail"].advice,
        "facts": {"a": 1},
    }
