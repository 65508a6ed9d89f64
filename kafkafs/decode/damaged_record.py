"""The error of a record that cannot be returned, with the facts of the damaged place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.errors import CorruptRecordError, DamagedFileError
from engine.log.segment.scan import BatchRun, Damage
from engine.units import Offset
from kafkafs.decode.error_line import damage_facts, exception_facts

if TYPE_CHECKING:
    from engine.log.view.log_view import LogView


class DamagedRecordError(CorruptRecordError):
    """The record at an offset cannot be returned; `damage` has the JSON facts.

    Args:
        place: the damaged place.
        damage: JSON facts of it.
    """

    def __init__(self, place: Damage | DamagedFileError, damage: dict[str, Any]) -> None:
        super().__init__(
            place.reason,
            path=place.path,
            position=place.position,
            expected=place.expected,
            found=place.found,
        )
        self.damage = damage


def damaged(damage: Damage) -> DamagedRecordError:
    """Return the error for a record in a damaged place."""
    return DamagedRecordError(damage, damage_facts(damage))


def refuse_lost(view: LogView, offset: Offset) -> None:
    """Raise DamagedRecordError if an offset without a record is lost."""
    # Imported here because most look-ups find their record.
    from engine.verdict.log_losses import losses_of

    loss = losses_of(view).at(offset)
    if loss is not None:
        raise damaged(loss.damage())


def explained(view: LogView, offset: Offset, error: DamagedFileError) -> DamagedRecordError:
    """Return the error with the facts that a scan gives of the damaged place."""
    segment = view.segment_for(offset)
    for item in () if segment is None else segment.scan_from(offset):
        if isinstance(item, Damage) and may_hold(item, offset):
            return damaged(item)
        if isinstance(item, BatchRun) and item.base_offset > offset:
            break
    return DamagedRecordError(error, exception_facts(error))


def may_hold(damage: Damage, offset: Offset) -> bool:
    """Return whether damage may have taken an offset."""
    first, last = damage.first_offset, damage.last_offset
    return (first is None or first <= offset) and (last is None or offset <= last)
