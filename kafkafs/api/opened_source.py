"""A source of logs, as returned by `kafkafs.open`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, overload

from engine.log.log_directory import LogSource, open_source
from engine.log.partition_log import PartitionLog
from engine.log.segment.problems import ProblemEntry
from kafkafs.api.cluster_state import Groups, Transactions
from kafkafs.api.opened_partition import OpenedPartition
from kafkafs.tree.context import TreeOptions
from kafkafs.tree.errors import NotADirectory
from kafkafs.tree.node import Directory, File
from kafkafs.tree.tree import Tree

if TYPE_CHECKING:
    from engine.check.rules.finding import Finding
    from engine.replay.cluster import ClusterImage
    from kafkafs.api.scan import Scan
    from kafkafs.api.scan_plan import Topics


class OpenedSource:
    """The logs of a source as topics, partitions, records and tables, and as the tree of a mount.

    A context manager. Thread-safe. Picklable: the copy opens the same paths with the same options.

    Args:
        paths: log dirs of one broker, a partition's folder, a .log file, or tiered copies.
        options: how records look in the tree, whether the source is frozen, and bounds of memory.

    Raises:
        SourceError: the source does not exist or cannot be read.
    """

    def __init__(self, paths: Sequence[str], options: TreeOptions | None = None) -> None:
        self._paths = tuple(os.path.abspath(path) for path in paths)
        self._options = options or TreeOptions()
        self.logs: LogSource = open_source(
            paths, snapshot=self._options.snapshot, budgets=self._options.budgets
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<kafkafs.open({', '.join(map(repr, self._paths))}): {len(self.topics)} topics>"

    def __reduce__(self) -> tuple[Any, ...]:
        return OpenedSource, (self._paths, self._options)

    def close(self) -> None:
        """Close the source; a second call does nothing."""
        self.logs.close()

    # Topics and partitions

    @property
    def topics(self) -> OpenedTopics:
        """The topics by name, as they are now; Kafka's own among them."""
        return OpenedTopics(self)

    @overload
    def __getitem__(self, name: str) -> OpenedTopic: ...

    @overload
    def __getitem__(self, name: tuple[str, int]) -> OpenedPartition: ...

    def __getitem__(self, name: str | tuple[str, int]) -> OpenedTopic | OpenedPartition:
        """Return a topic by name, or a partition by topic and number: source["orders", 0].

        Raises:
            KeyError: the source has no such topic or partition.
        """
        if isinstance(name, str):
            return self.topics[name]
        topic, number = name
        return self.topics[topic][number]

    def partitions(self) -> tuple[OpenedPartition, ...]:
        """Return all partitions, by topic and number."""
        return tuple(each for topic in self.topics.values() for each in topic.values())

    def current_logs(self) -> dict[str, dict[int, PartitionLog]]:
        """Return the logs by topic and number.

        A folder that is being deleted or moved, and the second copy of a partition in another log dir, are in the
        tree only.
        """
        found: dict[str, dict[int, PartitionLog]] = {}
        for name, log in self.logs.partitions().items():
            topic, number = log.topic_partition
            if name == str(log.topic_partition) or not log.folder:
                found.setdefault(topic, {})[number] = log
        return {topic: dict(sorted(found[topic].items())) for topic in sorted(found)}

    def scan(self, topics: Topics | None = None, **options: Any) -> Scan:  # noqa: ANN401
        """Return records of many partitions as a table that is read on demand; needs PyArrow.

        Args:
            topics: a topic, several, or partition numbers by topic; by default all but Kafka's own.
            options: see `Scan`.

        Raises:
            ImportError: PyArrow is not installed: pip install 'kafkafs[arrow]'.
            KeyError: the source has no such topic or partition.
            ValueError, TypeError: an option is malformed.
        """
        from kafkafs.api.scan import Scan

        return Scan(self, topics, **options)

    # What Kafka's own topics add up to

    @property
    def groups(self) -> Groups:
        """The consumer, share and streams groups by name, with their committed offsets and lags."""
        return Groups(self.tree.context.state)

    @property
    def transactions(self) -> Transactions:
        """The transactional ids of __transaction_state, and the open transactions of the logs."""
        return Transactions(self.tree.context.state)

    @property
    def cluster(self) -> ClusterImage | None:
        """The state of the controllers; None if the source does not have __cluster_metadata."""
        cluster = self.tree.context.state.cluster
        return cluster.image() if cluster.exists else None

    @property
    def problems(self) -> list[ProblemEntry]:
        """The problems that reads found so far: kind, file, reason, position, …; `check` looks for all."""
        return self.logs.problems

    def check(self, jobs: int = 1) -> Iterator[Finding]:
        """Yield what `kafkafs check` finds: every byte of the logs and of the files beside them is read.

        Args:
            jobs: number of processes.
        """
        from engine.check.log_dir_check import CheckOptions, SourceCheck
        from engine.check.rules.finding import Finding

        for event in SourceCheck(self.logs, CheckOptions(jobs=jobs)).run():
            if isinstance(event, Finding):
                yield event

    # The tree

    @cached_property
    def tree(self) -> Tree:
        """The tree that a mount of the source shows."""
        return Tree(self.logs, options=self._options)

    def names(self, path: str = "") -> list[str]:
        """Return the names in a folder of the tree, as `ls` prints them.

        Raises:
            NotFound, NotADirectory: the path does not exist, or is not a folder.
        """
        node = self.tree.resolve(path)
        if not isinstance(node, Directory):
            raise NotADirectory(path)
        return [entry.name for entry in node.entries()]

    def read(self, path: str) -> bytes:
        """Return all bytes of a file of the tree.

        Raises:
            NotFound, NotADirectory: the path does not exist, or continues below a file.
            IsADirectoryError: the path is a folder.
            DamagedFileError, OSError: as `File.open` and `Content.read`.
        """
        node = self.tree.follow(self.tree.resolve(path))
        if not isinstance(node, File):
            raise IsADirectoryError(path)
        return b"".join(node.chunks())


class OpenedTopics(Mapping[str, "OpenedTopic"]):
    """The topics of a source by name, sorted; asked again for each access.

    Args:
        source: the open source.
    """

    def __init__(self, source: OpenedSource) -> None:
        self._source = source

    def __getitem__(self, name: str) -> OpenedTopic:
        if name not in self._source.current_logs():
            raise KeyError(f"the source has no topic {name!r}")
        return OpenedTopic(self._source, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._source.current_logs())

    def __len__(self) -> int:
        return len(self._source.current_logs())

    def __repr__(self) -> str:
        return f"<topics: {', '.join(self)}>"


class OpenedTopic(Mapping[int, OpenedPartition]):
    """The partitions of a topic by number; asked again for each access.

    Args:
        source: the open source.
        name: name of the topic.
    """

    def __init__(self, source: OpenedSource, name: str) -> None:
        self._source = source
        self.name = name

    def _logs(self) -> Mapping[int, PartitionLog]:
        return self._source.current_logs().get(self.name, {})

    def __getitem__(self, number: int) -> OpenedPartition:
        logs = self._logs()
        if number not in logs:
            numbers = ", ".join(map(str, logs))
            raise KeyError(
                f"the source has no partition {number} of {self.name!r}; it has {numbers}"
            )
        return OpenedPartition(self._source, logs[number])

    def __iter__(self) -> Iterator[int]:
        return iter(self._logs())

    def __len__(self) -> int:
        return len(self._logs())

    def __repr__(self) -> str:
        return f"<topic {self.name}: {len(self)} partitions>"

    def scan(self, **options: Any) -> Scan:  # noqa: ANN401
        """Return a scan of this topic; the options are those of `OpenedSource.scan`, without topics."""
        return self._source.scan(self.name, **options)
