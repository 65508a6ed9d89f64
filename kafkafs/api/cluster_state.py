"""Groups and transactions of a source as mappings by name, now or as of a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.cut.moment import Moment as CutMoment
from engine.replay.groups.group import Group
from engine.replay.groups.known_groups import KnownGroups
from engine.replay.groups.share_rows import ShareRow
from engine.replay.partition_records import Unreadable
from engine.replay.source_state import GroupRow, SourceState
from engine.replay.transactions import OpenTransaction, Transaction, TransactionsImage
from kafkafs.api.moments import Moment, moment_of
from kafkafs.api.source_logs import SourceLogs


class Groups(Mapping[str, Group]):
    """Consumer, share and streams groups by name; each access reads what was added to Kafka's own topics. Picklable.

    Args:
        logs: the open source.
        moment: the moment that they are shown as of; None for that of the source.
    """

    def __init__(self, logs: SourceLogs, moment: CutMoment | None = None) -> None:
        self._logs = logs
        self._moment = moment

    def _state(self) -> SourceState:
        return self._logs.state_at(self._moment)

    def _known(self) -> KnownGroups:
        return self._state().known_groups()

    def __getitem__(self, name: str) -> Group:
        found = self._known().group(name)
        if found is None:
            raise KeyError(f"the source has no group {name!r}")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._known().names)

    def __len__(self) -> int:
        return len(self._known().names)

    def __repr__(self) -> str:
        return f"<{len(self)} groups>"

    def at(self, moment: Moment) -> Groups:
        """Return the groups as they were at a moment, the same as of a source that is opened at it."""
        return Groups(self._logs, moment_of(moment))

    def lag(self, name: str) -> list[GroupRow | ShareRow]:
        """Return the partitions of a group with committed offset, log end and lag, as `kafkafs groups` shows them.

        Raises:
            KeyError: the source has no such group.
        """
        return list(self._state().lag_rows(self[name], self._known()))

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        """Damage in Kafka's own topics that may have cost facts of groups."""
        return self._known().unreadable


class Transactions(Mapping[str, Transaction]):
    """Transactional ids with their states; see `Groups` for the arguments."""

    def __init__(self, logs: SourceLogs, moment: CutMoment | None = None) -> None:
        self._logs = logs
        self._moment = moment

    def _state(self) -> SourceState:
        return self._logs.state_at(self._moment)

    def _image(self) -> TransactionsImage | None:
        replay = self._state().transactions
        return replay.image() if replay.exists else None

    def __getitem__(self, name: str) -> Transaction:
        image = self._image()
        found = None if image is None else image.transaction(name)
        if found is None:
            raise KeyError(f"the source has no transactional id {name!r}")
        return found

    def __iter__(self) -> Iterator[str]:
        image = self._image()
        return iter(() if image is None else image.names)

    def __len__(self) -> int:
        image = self._image()
        return 0 if image is None else len(image)

    def __repr__(self) -> str:
        return f"<{len(self)} transactional ids>"

    def at(self, moment: Moment) -> Transactions:
        """Return the transactional ids as they were at a moment, the same as of a source that is opened at it."""
        return Transactions(self._logs, moment_of(moment))

    def open(self) -> list[OpenTransaction]:
        """Return the transactions in the logs that have no end."""
        return list(self._state().open_transactions())

    def hanging(self) -> list[OpenTransaction]:
        """Return the open transactions that no coordinator will end, or of which this is not known."""
        return [each for each in self.open() if each.hangs is not False]

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        """Damage in __transaction_state that may have cost transactional ids."""
        image = self._image()
        return () if image is None else image.unreadable
