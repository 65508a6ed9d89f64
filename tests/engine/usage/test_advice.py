"""What may be deleted without a loss is named, and what must stay, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import LimitExceededError
from engine.log.log_directory import open_source
from engine.replay.cluster import ClusterReplay
from engine.usage.source_usage import source_usage
from tests.fixtures_data import copy_of

BASE = "00000000000000000000"


@pytest.mark.parametrize(
    ("path", "kind", "may_go", "words"),
    [
        (f"orders-0/{BASE}.log.deleted", "deleted", True, "took it out of its log"),
        (f"orders-0/{BASE}.log.cleaned", "cleaned", True, "an unfinished compaction"),
        (f"orders-0/{BASE}.index.swap", "swap", False, "it is the segment"),
        (f"old-0.0123456789abcdef0123456789abcdef-delete/{BASE}.log", "-delete", True, "deleted topic"),
        (f"orders-0.0123456789abcdef0123456789abcdef-stray/{BASE}.log", "-stray", False, "only copy"),
        (f"orders-0.0123456789abcdef0123456789abcdef-future/{BASE}.log", "-future", False, "goes on"),
        (f"gone-0.0123456789abcdef0123456789abcdef-future/{BASE}.log", "-future", False, "lost its log"),
        ("remote-log-index-cache/1_x.index", "tieredCache", True, "fetches them again"),
    ],
)  # fmt: skip
def test_each_kind_is_judged(
    tmp_path: Path, path: str, kind: str, may_go: bool, words: str
) -> None:
    home = copy_of("sample", tmp_path / "data")
    made = home / path
    made.parent.mkdir(exist_ok=True)
    made.write_bytes(b"x" * 5000)
    source = open_source([str(home)])
    found = {each.kind: each for each in source_usage(source, 0, {}).advice}
    source.close()
    assert set(found) == {kind}
    assert found[kind].may_go is may_go
    assert words in found[kind].reason
    assert found[kind].total.apparent >= 5000


def test_a_log_dir_without_leftovers_gets_no_advice(tmp_path: Path) -> None:
    source = open_source([str(copy_of("sample", tmp_path / "data"))])
    assert source_usage(source, 0, {}).advice == []
    source.close()


def test_metadata_that_cannot_be_replayed_leaves_the_bytes_and_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: ClusterReplay) -> None:
        raise LimitExceededError("it takes too much memory", limit="replayed_bytes")

    monkeypatch.setattr(ClusterReplay, "image", fail)
    source = open_source([str(copy_of("current", tmp_path))])
    found = source_usage(source, 0, {})
    source.close()
    assert found.total.allocated
    assert found.predictions
    assert not found.has_metadata
    [note] = found.notes
    assert note.startswith("the topics' own configurations are unknown: it takes too much memory")
