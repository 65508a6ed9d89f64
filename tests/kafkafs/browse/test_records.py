"""The pages of a partition have what `cat` has, whichever way they are turned."""

from __future__ import annotations

import json
import random
import re
import tracemalloc
from pathlib import Path

import pytest

from engine.coding.compression import CompressionType
from engine.errors import KafkaStorageError
from kafkafs.browse.json_shape import members, pretty
from kafkafs.browse.record_pages import MOST_LINE, PageItem, RecordPages
from kafkafs.records.conditions.pattern import Query
from kafkafs.tree.tree import Tree
from tests import builders
from tests.builders import Rec
from tests.fixtures_data import copy_of, log_dir, partitions
from tests.kafkafs.built_logs import BuiltLog, batches_of, content_of, text_batch, tree_over
from tests.random_logs import random_log
from tests.spoiled_logs import Spoiler


def by_cat(tree: Tree, name: str) -> list[bytes]:
    """The lines of a whole partition in the tree."""
    return content_of(tree.resolve(f"{name}/offset/0..")).splitlines()


def pages_of(tree: Tree, name: str) -> RecordPages:
    return RecordPages(tree, tree.source.partitions()[name])


def forwards(pages: RecordPages, count: int) -> list[PageItem]:
    found: list[PageItem] = []
    at = 0
    while more := pages.forward(at, count, {each.key for each in found[-count:]}):
        found += more
        at = more[-1].offset
    return found


def backwards(pages: RecordPages, count: int) -> list[PageItem]:
    found: list[PageItem] = []
    at = pages.bounds[1]
    while more := pages.backward(at, count, {each.key for each in found[:count]}):
        found[:0] = more
        at = more[0].offset
    return found


def texts(items: list[PageItem]) -> list[bytes]:
    return [item.line for item in items]


WHOLE = [
    (kind, name) for kind in ("sample", "crashed", "current", "legacy") for name in partitions(kind)
]


@pytest.mark.parametrize(("kind", "name"), WHOLE)
def test_pages_forwards_and_backwards_are_what_cat_prints(kind: str, name: str) -> None:
    with tree_over(log_dir(kind)) as tree:
        try:
            expected = by_cat(tree, name)
        except (KafkaStorageError, LookupError):
            pytest.skip("the tree has no lines of it")
        pages = pages_of(tree, name)
        expected = [line[:MOST_LINE] for line in expected]
        assert texts(forwards(pages, 97)) == expected
        assert texts(backwards(pages, 97)) == expected


@pytest.mark.parametrize("seed", range(12))
def test_pages_of_random_logs_are_what_cat_prints(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)

    def records(count: int) -> list[Rec]:
        return [
            Rec(chance.randbytes(chance.choice((0, 9, 300))), b"k%d" % at) for at in range(count)
        ]

    BuiltLog(tmp_path).segment([random_log(chance, records)], 0)
    with tree_over(tmp_path) as tree:
        expected, pages = by_cat(tree, "orders-0"), pages_of(tree, "orders-0")
        for count in 1, chance.randint(2, 9), 1000:
            assert texts(forwards(pages, count)) == expected
            assert texts(backwards(pages, count)) == expected


@pytest.mark.parametrize("seed", range(12))
def test_pages_of_spoiled_logs_have_each_record_and_each_damaged_place(
    seed: int, tmp_path: Path
) -> None:
    data = copy_of("sample", tmp_path / "data")
    Spoiler(seed, data / "orders-0").spoil()
    with tree_over(data) as tree:
        lines = [json.loads(line) for line in by_cat(tree, "orders-0")]
        expected = [line["offset"] for line in lines if "error" not in line]
        pages = pages_of(tree, "orders-0")
        for found in forwards(pages, 60), backwards(pages, 60):
            assert [each.offset for each in found if each.damage is None] == expected
            if any("error" in line for line in lines):
                assert any(each.damage for each in found)


def test_a_page_behind_a_hole_that_compaction_left_is_full(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    log.segment([text_batch(0, 3), text_batch(2_000_000, 3), text_batch(90_000_000, 3)], 0)
    log.cleaned_to(90_000_003)
    with tree_over(tmp_path) as tree:
        pages = pages_of(tree, "orders-0")
        assert [each.offset for each in pages.forward(1, 4)] == [1, 2, 2_000_000, 2_000_001]
        assert [each.offset for each in pages.backward(90_000_001, 3)] == [
            2_000_001,
            2_000_002,
            90_000_000,
        ]


def test_a_page_of_a_large_log_reads_only_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = BuiltLog(tmp_path)
    for segment in range(40):
        log.segment(batches_of(50, 100, first=segment * 5000, size=200), segment * 5000)
    from engine.files import source_files

    read = [0]
    original = source_files.SourceFile.read_at

    def counted(self: source_files.SourceFile, position: int, size: int) -> bytes:
        read[0] += size
        return original(self, position, size)

    with tree_over(tmp_path) as tree:
        pages = pages_of(tree, "orders-0")
        assert len(pages.forward(150_000, 40)) == len(pages.backward(150_000, 40)) == 40
        monkeypatch.setattr(source_files.SourceFile, "read_at", counted)
        tracemalloc.start()
        try:
            for at in (7, 100_003, 199_000):
                assert [each.offset for each in pages.forward(at, 40)] == list(range(at, at + 40))
                pages.backward(at, 40)
            assert tracemalloc.get_traced_memory()[1] < 16 << 20
        finally:
            tracemalloc.stop()
        assert 0 < read[0] < tree.source.partitions()["orders-0"].view().size // 2


def test_a_line_of_many_bytes_is_cut_and_says_so(tmp_path: Path) -> None:
    big = Rec(b"x" * (3 * MOST_LINE), b"big")
    BuiltLog(tmp_path).segment(
        [builders.batch([big, Rec(b"small", b"k")], 0, CompressionType.ZSTD)], 0
    )
    with tree_over(tmp_path) as tree:
        first, second = pages_of(tree, "orders-0").forward(0, 5)
        assert (first.offset, len(first.line), first.is_whole) == (0, MOST_LINE, False)
        assert (second.offset, second.is_whole) == (1, True)
        assert members(first.line.decode())["key"] == '"big"'


@pytest.mark.parametrize(
    "pattern", ["Lagos", "Z.rich", r'"id":9\d\d,', "no such text", "(?<=Osl)o"]
)
def test_a_search_finds_each_record_that_grep_finds(pattern: str) -> None:
    with tree_over(log_dir("sample")) as tree:
        pages = pages_of(tree, "orders-0")
        query = Query.compile(pattern)
        ours: list[int] = []
        back: list[int] = []
        at: int | None = 0
        while (at := result_of(pages.find(query, at))) is not None:
            ours.append(at)
            at += 1
        at = pages.bounds[1]
        while (at := result_of(pages.find_before(query, at))) is not None:
            back.append(at)
        lines = [json.loads(line) for line in by_cat(tree, "orders-0")]
        raw = {
            each["offset"]: tree.resolve(f"orders-0/offset/{each['offset']}.value")
            for each in lines
        }
        expected = [
            offset
            for offset, node in raw.items()
            if re.search(pattern, content_of(node).decode("utf-8", "replace"))
        ]
        assert ours == back[::-1] == expected


def result_of(steps: object) -> int | None:
    while True:
        try:
            next(steps)  # type: ignore[call-overload]
        except StopIteration as end:
            found: int | None = end.value
            return found


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        '{"a":[1,[],{"b":{}}],"c":"{[,]}\\"","d":1.10,"e":12345678901234567890}',
        "[" * 300 + "]" * 300,
    ],
)
def test_pretty_json_is_the_same_json(text: str) -> None:
    lines = list(pretty(text))
    assert "".join(each.strip() for each in lines).replace(": ", ":") == text


def test_members_keep_numbers_as_they_are_written() -> None:
    line = (
        '{"offset":1,"value":{"n":1.10,"big":'
        + "9" * 5000
        + '},"headers":[{"key":"k","value":null}]}'
    )
    assert members(line)["headers"] == '[{"key":"k","value":null}]'
    assert members(line)["value"].startswith('{"n":1.10,"big":999')
    deep = '{"offset":1,"value":' + "[" * 100_000
    assert members(deep)["offset"] == "1"
