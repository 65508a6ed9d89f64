"""Output of `kafkafs stats --keys`: a table of partitions and one of frequent keys, or one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import click

from engine.json_facts import facts_of
from engine.lines.record_line import LineOptions, record_line
from engine.record.attributes import TimestampType
from engine.record.record import Record
from engine.units import NO_TIMESTAMP
from kafkafs.cli.printing.terminal.table import print_json, print_table
from kafkafs.decode.key_counts import WHOLE_KEY, KeyCounts
from kafkafs.decode.shown_text import json_text

if TYPE_CHECKING:
    from kafkafs.masking.line_mask import LineMask
    from kafkafs.schemas.sources.known_schemas import KnownSchemas

ShowKey: TypeAlias = "Callable[[bytes], dict[str, object]]"

_HEADER = ("PARTITION", "RECORDS", "KEYLESS", "KEYS", "TOP-KEY", "TOP-10", "TOP-100")
_KEYS = ("PARTITION", "KEY", "RECORDS", "SHARE")
_SHOWN = 10
_LISTED = 3


class KeyReport:
    """Receiver of partitions' keys.

    Args:
        as_json: whether to print JSON.
    """

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._rows: list[tuple[object, ...]] = []
        self._keys: list[tuple[object, ...]] = []

    def add(
        self, partition: str, counts: KeyCounts, show: ShowKey, *, is_leftover: bool = False
    ) -> None:
        """Show a partition.

        Args:
            partition: its name.
            counts: its keys.
            show: returns what is shown of a key.
            is_leftover: whether a broker set the records aside.
        """
        if self._as_json:
            mark = {"leftover": partition} if is_leftover else {}
            print_json({**_facts(partition, counts, show), **mark})
            return
        sums = (sum(number for _, number in counts.most_frequent(most)) for most in (1, 10, 100))
        self._rows.append(
            (
                partition,
                counts.records,
                f"{counts.without_key / counts.records:.1%}" if counts.without_key else None,
                counts.distinct if counts.is_exact else f"~{counts.distinct}",
                *(_share(number, counts) for number in sums),
            )
        )
        for key, number in counts.most_frequent(_LISTED):
            found = show(key)["key"]
            text = json_text(found) if isinstance(found, dict | list) else str(found)
            self._keys.append((partition, text, f"{_mark(counts)}{number}", _share(number, counts)))

    def end(self) -> None:
        """Print the tables."""
        if self._as_json:
            return
        print_table(_HEADER, self._rows)
        if self._keys:
            click.echo()
            print_table(_KEYS, self._keys, keys=2)


def _facts(partition: str, counts: KeyCounts, show: ShowKey) -> dict[str, object]:
    return {
        "type": "keys",
        "partition": partition,
        **facts_of(
            counts, "records recordsWithoutKey=without_key keys=distinct keysAreExact=is_exact"
        ),
        "frequentKeys": [
            {**show(key), "records": number} for key, number in counts.most_frequent(_SHOWN)
        ],
        "recordsAreTooFewByUpTo": counts.error,
    }


def _shown(key: bytes) -> dict[str, object]:
    try:
        return {"key": key.decode()}
    except UnicodeDecodeError:
        return {"key": key.hex(), "keyEncoding": "hex"}


def decoded_key(topic: str, known: KnownSchemas) -> ShowKey:
    """Return a function that returns a key as its schema decodes it, or as Kafka's own."""
    decoder = known.decoder(topic)

    def show(key: bytes) -> dict[str, object]:
        # The end of a longer key was cut off, and is its digest.
        if decoder is None or len(key) > WHOLE_KEY:
            return _shown(key)
        field, _ = decoder.shown(key, None, (), NO_TIMESTAMP)
        if field is None or field.text is None:
            return _shown(key)
        shown: dict[str, object] = {"key": json.loads(field.text)}
        encoding = field.encoding
        return {**shown, "keyEncoding": encoding.decode()} if encoding else shown

    return show


def masked_key(topic: str, mask: LineMask, known: KnownSchemas) -> ShowKey:
    """Return a function that returns what a mask leaves of a key."""
    options = LineOptions(topic, 0, decode_with=known.decoder(topic))

    def show(key: bytes) -> dict[str, object]:
        if len(key) > WHOLE_KEY:  # its end was cut off, and is its digest
            return {"key": None, "keyMasked": "unreadable"}
        record = Record(0, NO_TIMESTAMP, TimestampType.NO_TIMESTAMP_TYPE, key, None)
        left = mask.record(record_line(record, options)).key
        content = None if left.content is None else left.content.decode("utf-8", "replace")
        shown: dict[str, object] = {"key": content}
        return shown if left.done is None else {**shown, "keyMasked": left.done}

    return show


def _mark(counts: KeyCounts) -> str:
    """Return what stands before a number that is a lower bound."""
    return "≥" if counts.error else ""


def _share(number: int, counts: KeyCounts) -> str | None:
    return f"{_mark(counts)}{number / counts.records:.1%}" if counts.records else None
