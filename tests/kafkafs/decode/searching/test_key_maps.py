"""Look-ups of many keys: a map answers as searches do, and only while it can know."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.budgets import MiB
from engine.errors import DamagedFileError
from engine.kernel import LineOptions
from engine.log.log_directory import open_source
from engine.log.partition_log import PartitionLog
from engine.log.view.log_view import LogView
from kafkafs.decode.failures import Cancelled
from kafkafs.decode.searching import key_maps
from kafkafs.decode.searching.key_maps import KeyMaps
from kafkafs.decode.searching.key_search import KeyFindings, KeySearch
from kafkafs.records.conditions.wanted_keys import KeyOfBytes
from tests.builders import Producer, Rec, batch, end_marker
from tests.fixtures_data import WITH_TRUTH, log_dir, truth_partitions, truth_records
from tests.kafkafs.built_logs import BuiltLog, after_a_tick

MANY = 20_000


def record(key: bytes | None, offset: int, value: bytes | None = b"v") -> bytes:
    return batch([Rec(value, key=key)], offset)


class Looked:
    """Look-ups in a log, which count the searches."""

    def __init__(self, log: PartitionLog, maps: KeyMaps | None = None) -> None:
        self.log = log
        self.maps = maps or KeyMaps(64 * MiB)
        self.searches = 0

    def search(self, view: LogView, key: bytes) -> KeySearch:
        topic, partition = view.partition
        start, end = view.log_start_offset, view.log_end_offset
        options = LineOptions(topic, partition, from_offset=start, to_offset=end)
        return KeySearch(view, KeyOfBytes(key), options)

    def find(self, key: bytes, cancelled: bool = False) -> KeyFindings:
        search = self.search(self.log.view(0.0), key)
        newest = search.newest

        def counted(*given: object) -> KeyFindings:
            self.searches += 1
            return newest(*given)  # type: ignore[arg-type]

        search.newest = counted  # type: ignore[method-assign]
        return self.maps.newest(self.log, search, lambda: cancelled)

    def offsets(self, *keys: bytes) -> list[int | None]:
        return [self.find(key).offset for key in keys]


@pytest.fixture
def built(tmp_path: Path) -> BuiltLog:
    log = BuiltLog(tmp_path)
    log.segment([record(b"a", 0), record(b"b", 1)], 0)
    log.segment([record(b"a", 2), record(b"c", 3)], 2)
    return log


@pytest.fixture
def looked(built: BuiltLog) -> Iterator[Looked]:
    source = open_source(str(built.log_dir))
    yield Looked(source.partitions()["orders-0"])
    source.close()


def made(looked: Looked) -> Looked:
    """Look up a key without a record, which reads all, and another: there is a map then."""
    assert looked.offsets(b"none", b"nobody") == [None, None]
    assert looked.searches == 1
    return looked


@pytest.mark.parametrize("kind", WITH_TRUTH)
def test_a_map_finds_the_last_record_of_each_key_that_a_consumer_got(kind: str) -> None:
    asked = 0
    source = open_source(str(log_dir(kind)))
    for name in truth_partitions(kind):
        newest = {each.key: each.offset for each in truth_records(kind, name)}
        newest.pop(None, None)
        looked = Looked(source.partitions()[name])
        looked.offsets(b"no such key", b"nor this")
        searches = looked.searches
        for key, offset in newest.items():
            assert key is not None
            assert looked.find(key).offset == offset
            asked += 1
        assert looked.searches == searches
    source.close()
    assert asked > 10


def test_a_search_that_has_read_all_is_followed_by_look_ups_without_one(looked: Looked) -> None:
    assert looked.offsets(b"c", b"none") == [3, None]
    assert looked.searches == 2
    assert looked.offsets(b"a", b"b", b"c", b"none", b"x") == [2, 1, 3, None, None]
    assert looked.searches == 2
    assert looked.find(b"none").size == 0


def test_keys_near_the_log_end_are_searched_for_until_the_searches_have_read_as_much_as_the_log_has(
    looked: Looked,
) -> None:
    """Each search reads the newest of two equal segments."""
    for _ in range(5):
        assert looked.offsets(b"c") == [3]
    assert looked.searches == 2


def test_a_record_that_is_appended_later_is_found_without_a_search(
    looked: Looked, built: BuiltLog
) -> None:
    made(looked)
    built.append(record(b"b", 4), record(b"d", 5))
    after_a_tick()
    assert looked.offsets(b"a", b"b", b"c", b"d") == [2, 4, 3, 5]
    built.segment([record(b"a", 6)], 6)
    after_a_tick()
    assert looked.offsets(b"a", b"b", b"e") == [6, 4, None]
    assert looked.searches == 1


def test_more_keys_than_the_first_table_holds_are_all_found(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    log.segment([batch([Rec(b"", key=b"%d" % number) for number in range(MANY)])], 0)
    source = open_source(str(tmp_path))
    looked = made(Looked(source.partitions()["orders-0"]))
    assert looked.offsets(*(b"%d" % number for number in range(0, MANY, 97))) == list(
        range(0, MANY, 97)
    )
    assert looked.searches == 1
    assert looked.maps.size == 32768 * 24
    source.close()


def test_keys_that_do_not_fit_are_searched_for(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    log.segment([batch([Rec(b"", key=b"%d" % number) for number in range(MANY)])], 0)
    source = open_source(str(tmp_path))
    looked = Looked(source.partitions()["orders-0"], KeyMaps(MiB // 4))
    assert looked.offsets(b"none", b"5", b"19999") == [None, 5, 19999]
    assert looked.searches == 3
    assert looked.maps.size < 1000
    source.close()


def test_the_maps_of_partitions_that_were_asked_longest_ago_are_dropped(tmp_path: Path) -> None:
    for number in range(3):
        BuiltLog(tmp_path, f"orders-{number}").segment([record(b"k", number)], number)
    source = open_source(str(tmp_path))
    maps = KeyMaps(2 * 4096 * 24)
    logs = [Looked(log, maps) for log in source.partitions().values()]
    for each in logs:
        made(each)
    assert maps.size == 2 * 4096 * 24
    assert [each.find(b"k").offset for each in reversed(logs)] == [2, 1, 0]
    assert [each.searches for each in logs] == [2, 1, 1]
    source.close()


def test_compaction_and_truncation_make_a_new_map(looked: Looked, built: BuiltLog) -> None:
    made(looked)
    built.compact(0, record(b"x", 1))
    built.active.write_bytes(record(b"a", 2))
    after_a_tick()
    assert looked.offsets(b"x", b"b", b"c", b"a") == [1, None, None, 2]
    assert looked.offsets(b"x", b"b", b"c", b"a") == [1, None, None, 2]


def test_a_record_below_the_log_start_is_not_found(looked: Looked, built: BuiltLog) -> None:
    made(looked)
    assert looked.offsets(b"b") == [1]
    for path in built.folder.glob(f"{0:020}.*"):
        path.unlink()
    after_a_tick()
    assert looked.offsets(b"b", b"a") == [None, 2]


def test_keys_of_control_records_and_null_keys_are_not_in_a_map(tmp_path: Path) -> None:
    producer = Producer(id=1, epoch=0, sequence=0)
    marker = end_marker(2, producer=producer, commit=True)
    first = batch([Rec(b"v", key=b"k"), Rec(b"v")], producer=producer, transactional=True)
    BuiltLog(tmp_path).segment([first, marker], 0)
    source = open_source(str(tmp_path))
    looked = made(Looked(source.partitions()["orders-0"]))
    assert looked.offsets(b"k", bytes.fromhex("00000001"), b"") == [0, None, None]
    source.close()


def test_two_keys_with_one_md5_are_told_apart_by_their_records(
    looked: Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(looked)
    monkeypatch.setattr(key_maps.HashedOffsetMap, "get", lambda _map, _key: 3)
    assert looked.offsets(b"c", b"a", b"z") == [3, 2, None]
    assert looked.searches == 3


def damage(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_only_keys_after_damage_come_from_a_map(looked: Looked, built: BuiltLog) -> None:
    built.append(record(b"d", 4))
    damage(built.active, len(record(b"a", 2)) + 65)  # the batch with c
    looked.offsets(b"none", b"none")
    searches = looked.searches
    found = looked.find(b"d")
    assert (found.offset, found.places, looked.searches) == (4, 0, searches)
    for key, offset in ((b"a", 2), (b"b", 1), (b"c", None), (b"none", None)):
        found = looked.find(key)
        assert (found.offset, found.places) == (offset, 1)
    assert looked.searches == searches + 4


def test_keys_before_a_batch_that_does_not_decode_whole_are_searched_for(
    looked: Looked, built: BuiltLog
) -> None:
    built.append(batch([Rec(b"v", key=b"d")], 4, record_count=7), record(b"e", 5))
    looked.offsets(b"none", b"none")
    searches = looked.searches
    assert looked.find(b"e").offset == 5
    assert looked.searches == searches
    assert (looked.find(b"d").offset, looked.searches) == (4, searches + 1)
    assert (looked.find(b"b").offset, looked.searches) == (1, searches + 2)


def test_damage_at_the_log_end_leaves_all_to_searches(looked: Looked, built: BuiltLog) -> None:
    made(looked)
    with open(built.active, "ab") as file:
        file.write(record(b"d", 4)[:-3])
    after_a_tick()
    source = open_source(str(built.log_dir))
    again = Looked(source.partitions()["orders-0"])
    for key, offset in ((b"c", 3), (b"none", None), (b"c", 3), (b"none", None)):
        found = again.find(key)
        assert (found.offset, found.places) == (offset, 1)
    source.close()


def test_a_log_with_nothing_but_damage_has_no_map(tmp_path: Path) -> None:
    BuiltLog(tmp_path).segment([], 0).write_bytes(b"\xfe" * 5000)
    source = open_source(str(tmp_path))
    looked = Looked(source.partitions()["orders-0"])
    for _ in range(3):
        assert looked.find(b"k").places == 1
    source.close()


def test_a_cancelled_look_up_leaves_the_keys_that_were_put(looked: Looked) -> None:
    assert looked.offsets(b"none") == [None]
    with pytest.raises(Cancelled):
        looked.find(b"a", cancelled=True)
    assert looked.offsets(b"a", b"b", b"c", b"none") == [2, 1, 3, None]
    assert looked.searches == 1


def test_many_threads_get_the_same_answers_while_the_log_grows(
    looked: Looked, built: BuiltLog
) -> None:
    made(looked)
    answers: list[list[int | None]] = []

    def ask() -> None:
        answers.extend(looked.offsets(b"a", b"b") for _ in range(5))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    built.append(record(b"d", 4))
    for thread in threads:
        thread.join()
    assert answers == [[2, 1]] * 20
    assert looked.offsets(b"d") == [4]


def test_an_unreadable_batch_of_the_record_is_left_to_a_search(
    looked: Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(looked)

    def refuse(self: LogView, offset: int) -> None:
        raise DamagedFileError("gone bad", path=self.name, position=offset)

    monkeypatch.setattr(LogView, "record", refuse)
    assert looked.find(b"a").offset == 2
    assert looked.searches == 2
