"""A breach: a finding about one batch of a file, before its partition is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from engine.check.rules.rules import Severity
from engine.record.attributes import COMPRESSION_MASK
from engine.units import Offset, Position


@dataclass(frozen=True, slots=True)
class Breach:
    """A breach of a rule: description and place in the file; see `engine.check.rules.finding.Finding`."""

    rule: str
    sentence: str
    position: Position
    length: int
    first_offset: Offset | None = None
    next_offset: Offset | None = None
    severity: Severity | None = None
    facts: Mapping[str, object] = field(default_factory=dict)
    advice: str | None = None

    @classmethod
    def of(
        cls,
        rule: str,
        batch: np.void,
        sentence: str,
        *,
        severity: Severity | None = None,
        **facts: object,
    ) -> Self:
        """Make a breach by a batch; `batch` is a row of BATCH_ROW."""
        is_wrapper = batch["magic"] < 2 and batch["attributes"] & COMPRESSION_MASK
        first = None if is_wrapper else int(batch["base_offset"])
        return cls(
            rule,
            sentence,
            int(batch["position"]),
            int(batch["size"]),
            first,
            int(batch["last_offset"]) + 1,
            severity,
            facts,
        )
