"""Turn the damage of a scan into breaches, and find a single wrong field that explains it."""

from __future__ import annotations

import errno

from engine.check.rules.breach import Breach
from engine.check.rules.rules import Severity
from engine.coding.checksums import crc32c
from engine.coding.fixed_width import read_uint32
from engine.files.read_failures import errno_name, way_out
from engine.files.source_files import SourceFile
from engine.log.segment.damage import DamageKind
from engine.log.segment.scan import Damage
from engine.record.batch_frame import CRC_COVERS_FROM, CRC_POSITION, HEAD, LOG_OVERHEAD
from engine.units import Offset, Position

_NOT_BY_CHECKSUM = CRC_COVERS_FROM[2]
_LARGEST_PROOF = 64 << 20


def damage_breach(
    damage: Damage, file: SourceFile, following: Position, next_base: Offset | None
) -> Breach:
    """Return the breach for damaged bytes.

    Args:
        damage: an item of the scan.
        file: the segment's file.
        following: position of the next good batch, or the end of the file.
        next_base: the next segment's base offset, None for the log's last segment.
    """
    if damage.kind is DamageKind.UNREADABLE:
        return _unreadable(damage, next_base)
    sentence = f"{damage.reason}: {damage.length} bytes from byte {damage.position}"
    if damage.kind is DamageKind.CRC_MISMATCH and damage.expected is not None:
        sentence = (
            f"the batch at byte {damage.position} has the checksum {damage.expected:#010x},"
            f" but its {damage.length} bytes have {damage.found or 0:#010x}"
        )
    facts: dict[str, object] = {"expected": damage.expected, "found": damage.found}
    only = _only_field(damage, file, following)
    if only:
        facts["onlyField"] = only
        sentence += f"; only its {only} is wrong, the rest is a valid batch"
    severity = None
    if damage.kind is DamageKind.TORN_TAIL and next_base is not None:
        severity = Severity.ERROR
        sentence += ", and it is not the last segment"
    if damage.kind is DamageKind.ZERO_TAIL and (damage.first_offset or 0) < (next_base or 0):
        severity = Severity.ERROR
        sentence += f", where offsets {damage.first_offset} to {(next_base or 0) - 1} were"
    end = next_base if damage.last_offset is None else damage.last_offset + 1
    return Breach(
        damage.kind.rule,
        sentence,
        damage.position,
        damage.length,
        damage.first_offset,
        end,
        severity,
        facts,
    )


def _unreadable(damage: Damage, next_base: Offset | None) -> Breach:
    """Return the breach for bytes that the device cannot read."""
    facts: dict[str, object] = {
        "unreadable": [
            {"position": each.position, "length": each.length} for each in damage.stretches
        ]
    }
    if damage.unproven:
        facts["unproven"] = [list(each) for each in damage.unproven]
    number = damage.stretches[0].errno if damage.stretches else errno.EIO
    name = errno_name(number)
    facts["errno"] = name
    hint = way_out(name)
    end = next_base if damage.last_offset is None else damage.last_offset + 1
    sentence = (
        f"{damage.reason}: the batches there, {damage.length} bytes from byte {damage.position},"
        " are missing"
    )
    return Breach(
        DamageKind.UNREADABLE.rule,
        sentence,
        damage.position,
        damage.length,
        damage.first_offset,
        end,
        None,
        facts,
        advice=f"{hint[0].upper()}{hint[1:]}." if hint else None,
    )


def _only_field(damage: Damage, file: SourceFile, following: Position) -> str | None:
    """Return the only wrong field outside the checksum, if the rest is a valid batch of magic 2."""
    size = following - damage.position
    if not _NOT_BY_CHECKSUM < size <= _LARGEST_PROOF or damage.kind.is_zeros:
        return None
    data = file.read_at(damage.position, size)
    if len(data) < size:
        return None
    _, length, _, magic = HEAD.unpack_from(data)
    stored = read_uint32(data, CRC_POSITION[2])
    if crc32c(data[_NOT_BY_CHECKSUM:]) != stored:
        return None
    if magic != 2:
        return "magic" if length + LOG_OVERHEAD == size else None
    return None if length + LOG_OVERHEAD == size else "length"
