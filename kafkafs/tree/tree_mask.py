"""What a tree with a mask refuses, and which problems it shows.

Of a masked topic there are record lines, masked, and facts about the log. All that would need bytes of records, or has
names that may come from them, is refused: it can be looked up no more than read, and is not listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.log.segment.problems import ProblemEntry, Problems
from engine.verdict.source_losses import source_problems
from kafkafs.tree.errors import MaskedError

if TYPE_CHECKING:
    from engine.log.log_directory import LogSource
    from kafkafs.masking.line_mask import LineMask
    from kafkafs.masking.policy import MaskPolicy

_KIND = "masked"


class TreeMask:
    """The mask of a tree. Thread-safe.

    Args:
        source: the logs.
        policy: the policy.
    """

    def __init__(self, source: LogSource, policy: MaskPolicy) -> None:
        self._source = source
        self._policy = policy
        self._refused = Problems()

    def of(self, topic: str) -> LineMask | None:
        """Return the mask of a topic; None for a topic that is shown as it is."""
        return self._policy.mask(topic)

    def refused(self, path: str, reason: str) -> MaskedError:
        """Return the error of a refused path, and note it as a problem."""
        self._refused.add(_KIND, path, reason)
        return MaskedError(path, reason)

    def problems(self) -> list[ProblemEntry]:
        """Return the problems of the source, without facts from masked records, what was refused, and unmet paths."""
        found = source_problems(self._source)
        logs = self._source.partitions()
        shown: list[ProblemEntry] = []
        for entry in found:
            name = entry.get("partition")
            if name is None:
                shown.append(entry)
                continue
            mask = (
                self.of(logs[name].topic_partition.topic)
                if name in logs
                else self._policy.drops_all()
            )
            shown.append(entry if mask is None else {"partition": name, **mask.damage(entry)})
        missed = Problems()
        for topic, path in self._policy.missed():
            missed.add(_KIND, topic, f"no record that was shown has {path}")
        return shown + missed.entries() + self._refused.entries()
