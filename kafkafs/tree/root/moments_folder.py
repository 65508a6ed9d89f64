"""`/at/<moment>/`: the whole tree as of a moment. `/at/` lists nothing: a walk would read everything again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from engine.cut.moment import Moment, MomentError
from engine.errors import SourceError
from kafkafs.time_grammar import MOMENTS, TimeGrammar
from kafkafs.tree.context import Context
from kafkafs.tree.errors import NotFound
from kafkafs.tree.node import Attrs, Directory, Entry, Node
from kafkafs.tree.path_names import parse_time


class MomentsFolder(Directory):
    """`/at/`: any moment can be looked up."""

    __slots__ = ("_context", "_make")

    def __init__(
        self,
        path: str,
        context: Context,
        make: Callable[[Context, str], Node],
    ) -> None:
        super().__init__(path)
        self._context = context
        self._make = make

    def attrs(self) -> Attrs:
        context = self._context
        return context.root_owner().directory(self.path, context.ttl(context.is_live))

    def lookup(self, name: str) -> Node:
        path, moment = self.child(name), _parsed(name)
        if moment is None:
            raise NotFound(path, f"not a moment: {MOMENTS}")
        try:
            context = self._context.moments.context(moment, self._context)
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
