"""Paths of fields as jq writes them: `.value.customer.email`, `.value.cards[].number`, `.value."first name"`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from kafkafs.masking.actions import DROPPED, Action, DroppedField, Json

_STEP = re.compile(
    r'\.?\[(?:\]|("(?:[^"\\]|\\.)*")\])|\.(?:([A-Za-z_][A-Za-z0-9_]*)|("(?:[^"\\]|\\.)*"))'
)
_ROOTS = ("key", "value")
_UNDERSCORES = re.compile("_+(.?)")

Names: TypeAlias = Callable[[str], tuple[str, ...]]
"""Function from the name in a step to the names that the field may have in JSON."""


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

    def masked(self, field: Json, action: Action, names: Names | None = None) -> MaskedJson:
        """Return a key or value with an action on the fields of the path.

        What lies in the way of the path and is neither null nor an object (for `[]`, an array or an object) is masked
        itself, because it may hold the field in another form.

        Args:
            field: the key or value.
            action: the action.
            names: returns the names in JSON of a field that a step names; by default the step is the name.
        """
        return _masked(field, self.steps, action, names or _alone)


class MaskedJson(NamedTuple):
    """What is left of a key or value.

    Attributes:
        shown: it.
        is_met: whether a field of the path was there.
        is_lacking: whether an object or an element on the way has no field of the path.
    """

    shown: Json | DroppedField
    is_met: bool
    is_lacking: bool


def protobuf_names(step: str) -> tuple[str, ...]:
    """Return the names in ProtoJSON of a field by either of its names: `card_no` is shown as `cardNo`.

    >>> protobuf_names("card_no"), protobuf_names("cardNo")
    (('card_no', 'cardNo'), ('cardNo',))
    """
    made = _UNDERSCORES.sub(lambda match: match[1].upper(), step)
    return (step,) if made == step else (step, made)


def _alone(step: str) -> tuple[str, ...]:
    return (step,)


def _masked(
    field: Json, steps: tuple[str | EachElement, ...], action: Action, names: Names
) -> MaskedJson:
    if not steps:
        return MaskedJson(action.apply(field), True, False)
    if field is None:
        return MaskedJson(None, False, False)
    step, rest = steps[0], steps[1:]
    if isinstance(field, dict):
        chosen = (
            list(field)
            if isinstance(step, EachElement)
            else [name for name in names(step) if name in field]
        )
        made = {name: _masked(field[name], rest, action, names) for name in chosen}
        kept = {name: made[name].shown if name in made else each for name, each in field.items()}
        return MaskedJson(
            {name: each for name, each in kept.items() if each is not DROPPED},
            any(each.is_met for each in made.values()),
            any(each.is_lacking for each in made.values())
            or not (made or isinstance(step, EachElement)),
        )
    if isinstance(field, list) and isinstance(step, EachElement):
        elements = [_masked(each, rest, action, names) for each in field]
        return MaskedJson(
            [None if each.shown is DROPPED else each.shown for each in elements],
            any(each.is_met for each in elements),
            any(each.is_lacking for each in elements),
        )
    return MaskedJson(action.apply(field), True, False)
