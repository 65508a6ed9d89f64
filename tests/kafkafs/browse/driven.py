"""An explorer without a terminal: keys in, text out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafkafs.browse.explorer import Explorer
from kafkafs.browse.session import BrowseSession
from kafkafs.browse.work import AtOnce
from kafkafs.masking.policy import MaskPolicy
from kafkafs.time_grammar import TimeGrammar
from kafkafs.tree.tree import Tree
from tests.kafkafs.built_logs import tree_over

NOW = 1_700_003_000_000


class Driven:
    """An explorer of a tree; background work is done at once."""

    def __init__(self, tree: Tree, path: str = "", width: int = 80, height: int = 24) -> None:
        self.copied: list[bytes] = []
        self.saved: list[tuple[str, bytes]] = []
        self.session = BrowseSession(
            tree, AtOnce(), lambda: TimeGrammar(NOW), self._save, self.copied.append
        )
        self.size = width, height
        self.explorer = Explorer(self.session, path)
        self.draw()

    def _save(self, path: str, data: bytes) -> str:
        self.saved.append((path, data))
        return f"saved {len(data)}"

    def draw(self) -> str:
        """What the screen shows; each line as wide as it is."""
        width, height = self.size
        lines = self.explorer.lines(width, height)
        assert len(lines) == height
        assert all(line.text.isprintable() for line in lines)
        return "\n".join(line.text.rstrip() for line in lines) + "\n"

    def press(self, *keys: str) -> str:
        """Press keys, drawing after each; a text that is no key's name is typed and ended by Enter."""
        for key in keys:
            if key.startswith("type "):
                for each in key.removeprefix("type "):
                    self.explorer.press(each)
                key = "enter"
            self.explorer.press(key)
            text = self.draw()
        return text


@contextmanager
def driven(
    source: Path, path: str = "", width: int = 80, height: int = 24, mask: str | None = None
) -> Iterator[Driven]:
    """An explorer of a source."""
    policy = None if mask is None else MaskPolicy(mask)
    with tree_over(source, mask=policy) as tree:
        yield Driven(tree, path, width, height)
