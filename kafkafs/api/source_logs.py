"""The logs of an open source by topic and number, and the state that its objects share."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from engine.cut.opening import open_at
from engine.files.file_names import FolderState
from engine.files.stores import STORES
from engine.lines.line_decoder import LineDecoder
from engine.log.leftover_logs import state_of
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from kafkafs.schemas.sources.known_schemas import AUTO, NONE
from kafkafs.tree.context import TreeOptions
from kafkafs.tree.errors import MaskedError
from kafkafs.tree.tree import Tree

if TYPE_CHECKING:
    from engine.cut.moment import Moment
    from engine.replay.source_state import SourceState
    from kafkafs.records.row_mask import RowMask


class SourceLogs:
    """An open source. Thread-safe. Picklable: the copy opens the same paths with the same options.

    Args:
        paths: log dirs of one broker, a partition's folder, a .log file, or tiered copies.
        options: how records look in the tree, whether the source is frozen, and bounds of memory.

    Attributes:
        paths: absolute paths.
        options: the options.
        source: the source in the engine.
        warns: whether `warn_unmet` warns: a command says so itself.

    Raises:
        SourceError: the source, or a path of schemas, does not exist or cannot be read.
        SchemaFileError: a file of schemas breaks its format.
        MaskPolicyError: there is a mask, and a log is in no folder of a topic.
        OSError: the schemas cannot be read.
    """

    def __init__(self, paths: Sequence[str], options: TreeOptions | None = None) -> None:
        paths = list(map(STORES.local, paths))
        if any(os.path.isfile(path) for path in paths):
            # Imported here: most sources are folders.
            from kafkafs.unpacking import unpacked

            paths = unpacked(paths, lambda sentence: warnings.warn(sentence, stacklevel=4))
        self.paths = tuple(STORES.shown(os.path.abspath(path)) for path in paths)
        self.options = _with_absolute_paths(options or TreeOptions())
        self.warns = False
        self._warned: set[tuple[str, str]] = set()
        self.source: LogSource = open_at(
            paths,
            self.options.at,
            snapshot=self.options.snapshot,
            budgets=self.options.budgets,
        )
        if self.options.mask or any(path not in (AUTO, NONE) for path in self.options.schemas):
            try:
                if self.options.mask is not None:
                    from kafkafs.masking.policy import require_topics

                    require_topics(self.source)
                _ = self.tree  # a wrong path of schemas is an error now, not at the first record
            except BaseException:
                self.source.close()
                raise

    def __reduce__(self) -> tuple[type[SourceLogs], tuple[tuple[str, ...], TreeOptions]]:
        return SourceLogs, (self.paths, self.options)

    def topics(self) -> dict[str, dict[int, PartitionLog]]:
        """Return the logs by topic and number, sorted.

        A folder that is being deleted or moved, and the second copy of a partition in another log dir, are in the
        tree only.
        """
        found: dict[str, dict[int, PartitionLog]] = {}
        for name, log in self.source.partitions().items():
            topic, number = log.topic_partition
            if name == str(log.topic_partition) or not log.folder:
                found.setdefault(topic, {}).setdefault(number, log)
        return {topic: dict(sorted(found[topic].items())) for topic in sorted(found)}

    def set_aside(self) -> dict[str, set[int]]:
        """Return the topics and numbers of the partitions that have folders which a broker set aside."""
        found: dict[str, set[int]] = {}
        for log in self.source.partitions().values():
            if state_of(log) is not FolderState.LOG:
                found.setdefault(log.topic_partition.topic, set()).add(
                    log.topic_partition.partition
                )
        return found

    def topic(self, name: str) -> Mapping[int, PartitionLog]:
        """Return the logs of a topic by number.

        Raises:
            KeyError: the source has no such topic.
        """
        topics = self.topics()
        if name not in topics:
            # Imported here: most names are right.
            from engine.log.unmatched import CONTROLLER, did_you_mean, is_of_controller

            like = did_you_mean(name, topics)
            like = f"; {CONTROLLER}" if is_of_controller(self.source.partitions()) else like
            raise KeyError(f"the source has no topic {name!r}{like}")
        return topics[name]

    def log(self, topic: str, number: int) -> PartitionLog:
        """Return the log of a partition.

        Raises:
            KeyError: the source has no such topic or partition.
        """
        logs = self.topic(topic)
        if number not in logs:
            numbers = ", ".join(map(str, logs))
            raise KeyError(f"the source has no partition {number} of {topic!r}; it has {numbers}")
        return logs[number]

    def decoder(self, topic: str) -> LineDecoder | None:
        """Return the decoder of a topic's keys and values; None if they are shown by their bytes."""
        return self.tree.context.schemas.decoder(topic)

    @cached_property
    def row_mask(self) -> RowMask | None:
        """The mask of records; None without one."""
        if self.options.mask is None:
            return None
        # Imported here: it needs numpy, and importing that is slow.
        from kafkafs.records.row_mask import RowMask

        return RowMask(self.options.mask, self.decoder)

    def warn_unmet(self) -> None:
        """Warn of fields of the mask that no record had which was read so far, once of each."""
        if self.options.mask is None or not self.warns:
            return
        from kafkafs.masking.policy import MaskWarning

        for topic, path in self.options.mask.missed():
            if (topic, path) not in self._warned:
                self._warned.add((topic, path))
                text = f"mask: no record of {topic} that was read has {path}"
                warnings.warn(text, MaskWarning, stacklevel=3)

    def refuse_masked(self, what: str, *topics: str) -> None:
        """Refuse what would show bytes of masked records.

        Args:
            what: name of what is asked for.
            topics: the topics that it shows; any topic if there are none.

        Raises:
            MaskedError: one of them has a mask.
        """
        mask = self.options.mask
        if mask is None:
            return
        masked = [topic for topic in topics or self.topics() if mask.mask(topic) is not None]
        if masked:
            raise MaskedError(what, f"the mask hides records of {', '.join(masked[:3])}")

    @cached_property
    def tree(self) -> Tree:
        """The tree that a mount of the source shows."""
        return Tree(self.source, options=self.options)

    @property
    def state(self) -> SourceState:
        """What Kafka's own topics add up to."""
        return self.tree.context.state

    def state_at(self, moment: Moment | None) -> SourceState:
        """Return what Kafka's own topics added up to at a moment.

        Raises MomentError, SourceError, OSError.
        """
        return self.state if moment is None else self.tree.context.then(moment).state


def _with_absolute_paths(options: TreeOptions) -> TreeOptions:
    """Return options that mean the same schemas in another working directory."""
    schemas = (each if each in (AUTO, NONE) else os.path.abspath(each) for each in options.schemas)
    return replace(options, schemas=tuple(schemas))
