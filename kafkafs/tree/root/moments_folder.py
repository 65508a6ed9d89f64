"""`/at/<moment>/`: the whole tree as of a moment. `/at/` lists nothing: a walk would read everything again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import Lock

from engine.cut.moment import Moment, MomentError
from engine.cut.opening import open_at
from engine.errors import SourceError
from kafkafs.time_grammar import MOMENTS, TimeGrammar
from kafkafs.tree.context import Context
from kafkafs.tree.errors import NotFound
from kafkafs.tree.node import Attrs, Directory, Entry, Node
from kafkafs.tree.path_names import parse_time

_MOST = 8
"""Moments that are kept open."""


class OpenMoments:
    """The sources of the moments that were looked up last. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[Moment, Context] = OrderedDict()

    def context(self, moment: Moment, now: Context) -> Context:
        """Return the context of a moment's tree. Raises MomentError, SourceError, OSError."""
        with self._lock:
            known = self._known.pop(moment, None)
            if known is None:
                paths = [root.path for root in now.source.roots]
                source = open_at(paths, moment, snapshot=now.is_snapshot, budgets=now.budgets)
                known = Context(source, replace(now.options, at=moment), None)
            self._known[moment] = known
            while len(self._known) > _MOST:
                self._known.popitem(last=False)[1].source.close()
            return known


class MomentsFolder(Directory):
    """`/at/`: any moment can be looked up."""

    __slots__ = ("_context", "_make", "_moments")

    def __init__(
        self,
        path: str,
        context: Context,
        moments: OpenMoments,
        make: Callable[[Context, str], Node],
    ) -> None:
        super().__init__(path)
        self._context = context
        self._moments, self._make = moments, make

    def attrs(self) -> Attrs:
        context = self._context
        return context.root_owner().directory(self.path, context.ttl(context.is_live))

    def lookup(self, name: str) -> Node:
        path, moment = self.child(name), _parsed(name)
        if moment is None:
            raise NotFound(path, f"not a moment: {MOMENTS}")
        try:
            context = self._moments.context(moment, self._context)
        except (MomentError, SourceError) as error:
            raise NotFound(path, str(error)) from None
        return self._make(context, path)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        return iter(())


def _parsed(name: str) -> Moment | None:
    """Return the moment of a name; names are never relative to now."""
    time = parse_time(name)
    if time is not None:
        return Moment(time=time)
    found = TimeGrammar(0).moment(name)
    return None if found is None or found.time is not None else found
