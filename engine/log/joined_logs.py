"""The copies of a partition in log dirs of several nodes, which are read as one log."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.checkpoint.meta_properties import MetaProperties
from engine.log.partition_log import PartitionLog, Shared


class NamedLogs(dict[str, PartitionLog]):
    """Partitions by name, in order; the copies of joined ones are found by their names, and not listed."""

    def __init__(
        self, listed: Mapping[str, PartitionLog], replicas: Mapping[str, PartitionLog]
    ) -> None:
        super().__init__(listed)
        self._replicas = replicas

    def __missing__(self, name: str) -> PartitionLog:
        return self._replicas[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._replicas

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401
        """Return a partition, or a copy of one; the default without it."""
        return self[name] if name in self else default  # noqa: SIM401


class JoinedLog(PartitionLog):
    """The copies of a partition in log dirs of several nodes, read as one log."""

    __slots__ = ()

    @property
    @abstractmethod
    def nodes(self) -> tuple[int, ...]:
        """Ids of the nodes, in the order in which their log dirs were named."""

    @property
    @abstractmethod
    def leading_node(self) -> int:
        """The node of the leading copy once a view was asked for, before the first one."""

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """Return the copies, which one leads and why, as a JSON object. Raises OSError."""


Join = Callable[[str, Sequence[tuple[PartitionLog, MetaProperties | None]], Shared], JoinedLog]
"""Returns the log of a name that several nodes have copies of, each with the meta.properties of its log dir."""
