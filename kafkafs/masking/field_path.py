"""Paths of fields as jq writes them: `.value.customer.email`, `.value.cards[].number`, `.value."first name"`."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from kafkafs.masking.actions import DROPPED, Action, DroppedField, Json

_STEP = re.compile(
    r'\.?\[(?:\]|("(?:[^"\\]|\\.)*")\])|\.(?:([A-Za-z_][A-Za-z0-9_]*)|("(?:[^"\\]|\\.)*"))'
)
_ROOTS = ("key", "value")


class EachElement(NamedTuple):
    """The step `[]`: all elements of an array, or all values of an object."""


EACH = EachElement()


class FieldPath(NamedTuple):
    """A key, a value, or fields in one.

    Attributes:
        text: the path as the policy has it.
        root: key or value.
        steps: names of fields, and EACH.
    """

    text: str
    root: str
    steps: tuple[str | EachElement, ...]

    @classmethod
    def parse(cls, text: str) -> FieldPath:
        """Parse a path.

        Raises:
            ValueError: the text is no path, or does not begin with .key or .value.

        >>> FieldPath.parse('.value.cards[]."card number"').steps
        ('cards', EachElement(), 'card number')
        """
        steps: list[str | EachElement] = []
        at = 0
        while at < len(text):
            step = _STEP.match(text, at)
            if step is None:
                raise ValueError(f"{text!r} is no path such as .value.customer.email")
            quoted = step[1] or step[3]
            steps.append(json.loads(quoted) if quoted else step[2] or EACH)
            at = step.end()
        if not steps or steps[0] not in _ROOTS:
            raise ValueError(f"{text!r} does not begin with .key or .value")
        return cls(text, str(steps[0]), tuple(steps[1:]))

    def masked(self, field: Json, action: Action) -> tuple[Json | DroppedField, bool]:
        """Return a key or value with an action on the fields of the path, and whether there was one.

        What lies in the way of the path and is neither null nor an object (for `[]`, an array or an object) is masked
        itself, because it may hold the field in another form.
        """
        return _masked(field, self.steps, action)


def _masked(
    field: Json, steps: tuple[str | EachElement, ...], action: Action
) -> tuple[Json | DroppedField, bool]:
    if not steps:
        return action.apply(field), True
    if field is None:
        return None, True
    step, rest = steps[0], steps[1:]
    if isinstance(field, dict):
        names = list(field) if isinstance(step, EachElement) else [step] if step in field else []
        made = {name: _masked(field[name], rest, action) for name in names}
        kept = {name: made[name][0] if name in made else each for name, each in field.items()}
        return (
            {name: each for name, each in kept.items() if each is not DROPPED},
            any(is_met for _, is_met in made.values()),
        )
    if isinstance(field, list) and isinstance(step, EachElement):
        elements = [_masked(each, rest, action) for each in field]
        return (
            [None if each is DROPPED else each for each, _ in elements],
            any(is_met for _, is_met in elements),
        )
    return action.apply(field), True
