"""Screens by a path of the tree."""

from __future__ import annotations

import re

from engine.units import Offset
from kafkafs.browse.partition_facts import PartitionNotes
from kafkafs.browse.partition_screen import PartitionScreen
from kafkafs.browse.record_pages import RecordPages
from kafkafs.browse.record_screen import RecordScreen
from kafkafs.browse.records_screen import RecordsScreen
from kafkafs.browse.session import BrowseSession, Screen
from kafkafs.browse.source_screen import SourceScreen
from kafkafs.tree.errors import NotFound
from kafkafs.tree.path_names import parse_instant

_OFFSETS = re.compile(r"offset(?:/([0-9]{1,19})(\.\.)?)?|records")
_FORMS = "browse opens TOPIC, PARTITION, and in one offset/N, offset/N.. and time/INSTANT"


def screens_of(session: BrowseSession, path: str) -> list[Screen]:
    """Return the screens from the one below the list of topics down to a path.

    In a source that is one log, the path is also one inside of it; "" is the log.

    Raises:
        NotFound: there is no such path.
        OSError, KafkaStorageError: the partition cannot be read.
    """
    partitions = session.partitions
    name, _, rest = path.partition("/")
    if name not in partitions and session.tree.source.is_one_log:
        name, rest = next(iter(partitions), ""), path
    if not rest and name not in partitions:
        if any(each.topic == name for each in partitions.values()):
            return [SourceScreen(session, name)]
        # Imported here: most paths exist.
        from engine.log.unmatched import did_you_mean

        names = {each.topic for each in partitions.values()} | set(partitions)
        raise NotFound(path, f"no topic or partition of the source{did_you_mean(name, names)}")
    notes = partitions.get(name)
    if notes is None or notes.log is None:
        raise NotFound(path, "no partition of the source")
    screens: list[Screen] = [PartitionScreen(session, notes)]
    if not rest:
        return screens
    match, moment = _OFFSETS.fullmatch(rest), parse_instant(rest.removeprefix("time/"))
    if match is not None:
        start = int(match[1] or 0)
    elif rest.startswith("time/") and moment is not None:
        view = notes.log.view()
        found = view.offset_for_time(moment, records_only=True)
        start = view.log_end_offset if found is None else found.offset
    else:
        raise NotFound(path, _FORMS)
    screens.append(RecordsScreen(session, notes, start))
    if match is not None and match[1] and not match[2]:
        screens.append(_record(session, notes, path, start))
    return screens


def _record(
    session: BrowseSession, notes: PartitionNotes, path: str, offset: Offset
) -> RecordScreen:
    assert notes.log is not None
    pages = RecordPages(session.tree, notes.log)
    items = pages.forward(offset, 1)
    if not items or not items[0].span[0] <= offset < items[0].span[1]:
        raise NotFound(path, "no record with this offset")
    notes.meet(items)
    return RecordScreen(session, notes, pages, items[0])
