"""What the queries on topics have read."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkafs.api.scan import Scan
    from kafkafs.forms.arrow.typed.counted_misfits import CountedMisfits

MOST_DAMAGE = 20
"""Damaged places that are kept; all are counted."""


class ReadReport:
    """What the queries on some datasets have read.

    Attributes:
        scans: each scan that was made, by topic.
        typed: the typed columns, by topic, with what did not fit.
        damage: facts of the first damaged places.
        places: number of damaged places.
        failure: the error that ended a scan.
        untimed: number of timestamps that are null because DuckDB does not hold them, by topic.
    """

    def __init__(self) -> None:
        self.scans: list[tuple[str, Scan]] = []
        self.typed: dict[str, CountedMisfits] = {}
        self.damage: list[dict[str, Any]] = []
        self.places = 0
        self.failure: Exception | None = None
        self.untimed = Counter[str]()

    def add_damage(self, text: str) -> None:
        """Count a damaged place.

        Args:
            text: its facts as JSON.
        """
        self.places += 1
        if len(self.damage) < MOST_DAMAGE:
            self.damage.append(json.loads(text))
