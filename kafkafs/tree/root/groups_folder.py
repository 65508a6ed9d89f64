"""`/groups/<group>/`: a group, and a file for each partition with an offset committed by the group.

A share group has a file for each of its partitions, with the state of its share coordinator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine.replay.groups.group import CommittedOffset, Group
from engine.replay.groups.known_groups import SHARE, KnownGroups
from engine.replay.groups.share_rows import SharePlace, ShareRows
from engine.replay.log_ends import lag
from kafkafs.escaped_names import escaped, name_of
from kafkafs.tree.errors import NotFound
from kafkafs.tree.listing import entry
from kafkafs.tree.node import Directory, Entry, Kind, Node
from kafkafs.tree.root.documents import Document, StateDirectory, damage_xattrs, with_times

if TYPE_CHECKING:
    from kafkafs.tree.context import Context

GROUP = "group.json"
MOST_SHOWN = 100


class GroupsFolder(StateDirectory):
    """`/groups/`."""

    __slots__ = ()

    def xattrs(self) -> dict[str, bytes]:
        return damage_xattrs([each.facts() for each in self._image().unreadable])

    def lookup(self, name: str) -> Node:
        image = self._image()
        plain = name_of(name, image.names)
        group = None if plain is None else image.group(plain)
        if group is None:
            raise NotFound(self.child(name), "no such group")
        return GroupFolder(self.child(name), self.context, group, image)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        names = [escaped(name) for name in self._image().names]
        for cookie, name in self.context.slots.of(self.path).number(names).behind(after):
            yield entry(self, name, Kind.DIRECTORY, cookie)

    def _image(self) -> KnownGroups:
        return self.context.state.known_groups()


class GroupFolder(StateDirectory):
    """`/groups/<group>/`."""

    __slots__ = ("_group", "_known", "_offsets", "_places", "_rows")

    def __init__(self, path: str, context: Context, group: Group, known: KnownGroups) -> None:
        super().__init__(path, context)
        self._group = group
        self._known = known
        self._rows = context.state.share_rows(group, known) if group.kind == SHARE else None
        self._places = {} if self._rows is None else {each.name: each for each in self._rows.places}
        self._offsets = {
            f"{topic}-{partition}": offset for (topic, partition), offset in group.offsets.items()
        }

    def lookup(self, name: str) -> Node:
        if name == GROUP:
            return self.file(name, self._about())
        plain = name_of(name, self._names())
        if plain is None:
            raise NotFound(self.child(name), "no offset was committed for it")
        if self._rows is not None and plain in self._places:
            return self.file(name, self._share_document(self._rows, self._places[plain]))
        return self.file(name, self._document(self._offsets[plain]))

    def entries(self, after: int = 0) -> Iterator[Entry]:
        names = [GROUP, *map(escaped, self._names())]
        for cookie, name in self.context.slots.of(self.path).number(names).behind(after):
            yield entry(self, name, Kind.FILE, cookie)

    def _names(self) -> Mapping[str, object]:
        return {**self._places, **self._offsets}

    def _about(self) -> Document:
        group = self._group
        places = {f"__consumer_offsets-{group.coordinator}"}
        facts = with_times(group.facts())
        if self._rows is not None:
            facts["sharedPartitions"] = len(self._places)
            places |= {each.partition for each in self._known.shares.unreadable}
        damage = [each.facts() for each in self._known.unreadable if each.partition in places]
        return Document(facts | damaged(damage), group.timestamp)

    def _share_document(self, rows: ShareRows, place: SharePlace) -> Document:
        row = rows.row(place)
        facts = {"group": self._group.group_id, **with_times(row.facts())}
        return Document(facts, -1 if row.state is None else row.state.record_timestamp)

    def _document(self, offset: CommittedOffset) -> Document:
        end = self.context.state.ends.end_of(offset.topic, offset.partition)
        facts: dict[str, Any] = {
            "group": self._group.group_id,
            **with_times(offset.facts()),
            "logEndOffset": end,
            "lag": lag(offset.offset, end),
        }
        return Document(facts, offset.record_timestamp)


def damaged(damage: Sequence[Any]) -> dict[str, Any]:
    """Return the unreadable places of a topic, as a fact for a file with records that may be missing."""
    return {"damage": list(damage[:MOST_SHOWN])} if damage else {}


def groups_folder(path: str, context: Context) -> Directory:
    """Return `/groups/`."""
    return GroupsFolder(path, context)
