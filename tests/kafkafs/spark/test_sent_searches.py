"""Searches as executors get them: whatever a search can have is sent, and finds there what it finds here."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import MISSING, fields
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from engine.lines.record_line import LineOptions
from engine.log.log_directory import LogSource, open_source
from kafkafs.cli import cli
from kafkafs.cli.printing.grep_output import GrepOutput
from kafkafs.decode.key_counts import KeyCounts, counted, search_for_keys
from kafkafs.decode.searching.search import Search
from tests.builders import Rec
from tests.fixtures_data import log_dir
from tests.kafkafs.masked_source import POLICY, write_source, written_policy
from tests.schema_records import write_topic
from tests.schema_truth import schema_log_dir

if TYPE_CHECKING:
    from kafkafs.schemas.store import SchemaStore

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from kafkafs.spark.executors import _Pickler, _Unpickler

CURRENT = str(log_dir("current"))
CONFLUENT = str(schema_log_dir("schemas-confluent"))
MAPPING = """
[topics.zipped]
key = { type = "int64" }
value = { type = "gzip/json" }
[topics.bare]
value = { file = "long.avsc" }
"""
SEARCHES = [
    ["a", CURRENT],
    ["-v", "-i", "-w", "Lagos", "--committed", CURRENT, "--field", "value"],
    ["(?=a)a", CURRENT, "orders-0/offset/100..300"],
    ["-e", "Lagos", "-e", "k1.*7", "-c", CURRENT],
    ["--deleted", "a", CURRENT, "--values", "base64"],
    ["--deleted-all", "a", CURRENT, "--topic", "compacted,doomed"],
    ["--format", "%t %p %o %k\\n", "Oslo", CURRENT],
    ["--where", '.offset > 3 and (.key // "" | test("1"))', CURRENT],
    ["a", CURRENT, "--topic", "__consumer_offsets,__transaction_state,__cluster_metadata"],
    ["e", CONFLUENT],
    ["e", CONFLUENT, "--schemas", "none"],
    ["city", "TYPED", "--schemas", "MAPPING"],
    ["7", "TYPED", "--schemas", "MAPPING", "--topic", "bare"],
    ["g", "TYPED", "--topic", "primary.checkpoints.internal"],
    ["--where", "true", "MASKED", "--mask", "POLICY"],
]  # fmt: skip


class Sent:
    """What one process sends to another: bytes, and the schemas that all tasks share."""

    def __init__(self) -> None:
        self.shared: list[Any] = []

    def share(self, store: SchemaStore) -> int:
        self.shared.append(SimpleNamespace(value=pickle.dumps(store)))
        return len(self.shared) - 1

    def copied(self, each: Any, source: LogSource) -> Any:
        data = io.BytesIO()
        _Pickler(data, self.share).dump(each)
        return _Unpickler(data.getvalue(), source, self.shared).load()


def found(search: Search) -> list[Any]:
    return [each for part in search.parts() for each in search.results(*part)]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Sources with types and with a mask, and the files of these."""
    folder = tmp_path_factory.mktemp("sent")
    zipped = Rec(gzip.compress(b'{"city":"Oslo"}'), struct.pack(">q", 42))
    write_topic(folder / "typed", [zipped], name="zipped-0")
    write_topic(folder / "typed", [Rec(b"\x0e", b"k")], name="bare-0")
    key = b"\0\1g" + b"\0\1t" + struct.pack(">i", 3)
    mirrored = Rec(struct.pack(">hqq", 0, 9, 8) + b"\0\0", key)
    write_topic(folder / "typed", [mirrored], name="primary.checkpoints.internal-0")
    (folder / "types.toml").write_text(MAPPING)
    (folder / "long.avsc").write_text('"long"')
    write_source(folder / "masked")
    return {
        "TYPED": str(folder / "typed"),
        "MAPPING": str(folder / "types.toml"),
        "MASKED": str(folder / "masked"),
        "POLICY": written_policy(folder, POLICY),
    }


def searches_of(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], look: Callable[[Search, LogSource], None]
) -> None:
    """Look at the searches of a command while it has its source open; the source is opened a second time."""

    def instead(_: GrepOutput, made: list[Search], *__: object) -> None:
        path = next(each for each in arguments if Path(each).is_dir())
        assert made
        with closing(open_source(path)) as there:
            for search in made:
                look(search, there)

    monkeypatch.setattr(GrepOutput, "run", instead)
    done = CliRunner().invoke(cli, ["grep", *arguments])
    assert done.exception is None, repr(done.exception)


def check_sent(search: Search, there: LogSource) -> None:
    copy: Search = Sent().copied(search, there)
    assert copy.view is not search.view
    assert found(copy) == found(search)
    if copy.where is not None:
        copy.where.__exit__()


@pytest.mark.parametrize("arguments", SEARCHES, ids=" ".join)
def test_a_search_that_is_sent_finds_the_same(
    monkeypatch: pytest.MonkeyPatch, names: dict[str, str], arguments: list[str]
) -> None:
    searches_of(monkeypatch, [names.get(each, each) for each in arguments], check_sent)


def test_counts_of_keys_that_are_sent_are_the_same() -> None:
    with closing(open_source(CURRENT)) as here, closing(open_source(CURRENT)) as there:
        for log in here.partitions().values():
            search = search_for_keys(log.view(), None)
            assert keys(Sent().copied(search, there)) == keys(search)


def test_all_that_a_search_can_have_is_sent_here(
    monkeypatch: pytest.MonkeyPatch, names: dict[str, str]
) -> None:
    had = {"shows_control"}  # of counts of keys

    def take(search: Search, _: LogSource) -> None:
        had.update(set_fields(search), set_fields(search.options))

    for arguments in SEARCHES:
        searches_of(monkeypatch, [names.get(each, each) for each in arguments], take)
    assert had == {
        each.name for kind in (Search, LineOptions) for each in fields(kind) if each.init
    }


def keys(search: Search) -> list[Any]:
    """What is counted of a search's parts."""

    def shown(each: Any) -> Any:
        return each.frequent if isinstance(each, KeyCounts) else each

    return [shown(each) for part in search.parts() for each in counted((search, *part))]


def set_fields(each: Search | LineOptions) -> Iterator[str]:
    """The names of the fields that are not as they are by default."""
    for one in fields(each):
        if one.init and (one.default is MISSING or getattr(each, one.name) != one.default):
            yield one.name
