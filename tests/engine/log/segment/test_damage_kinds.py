"""Kinds of damage: each has a rule of the check."""

from engine.check.rules.rules import RULES
from engine.log.segment.damage import DamageKind


def test_each_kind_has_a_rule_of_the_check() -> None:
    assert {kind.rule for kind in DamageKind} <= set(RULES)


def test_what_was_never_written_is_a_tail() -> None:
    assert [kind for kind in DamageKind if kind.is_tail] == [
        DamageKind.TORN_TAIL,
        DamageKind.ZERO_TAIL,
    ]
    assert [kind for kind in DamageKind if kind.is_quiet] == [DamageKind.ZERO_TAIL]
