"""Real objects of Aiven's plugin, and damage in each of their parts; tests/data/README.md says what they are."""

from __future__ import annotations

import hashlib
import json
import shutil
from base64 import b64encode
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from zstandard import compress

import kafkafs
from engine.check.log_dir_check import SourceCheck
from engine.check.rules.finding import Finding
from engine.columns.batch_table import BatchRows
from engine.errors import SourceError
from engine.files.source_files import SourceRoot
from engine.log.log_directory import LogSource, open_source
from engine.log.segment.scan import BatchRun
from engine.log.source_identity import paths_below
from engine.log.tiered.chunk_index import ChunkIndex, SizesError, variable_chunks
from engine.log.tiered.copies import open_decoded
from engine.log.tiered.data_keys import VARIABLE
from engine.log.tiered.manifest import SegmentManifest, parse_manifest
from kafkafs.api.consumer_record import ConsumerRecord
from tests.builders import Rec, batch
from tests.fixtures_data import DATA, log_dir
from tests.tiered_folders import KEYS, aiven_copy, coded_sizes

AIVEN = DATA / "aiven"
TRUTH: dict[str, dict[str, Any]] = json.loads((AIVEN / "truth.json").read_text())
BOTH = "both/tx-0"


def findings(source: LogSource) -> list[Finding]:
    return [event for event in SourceCheck(source).run() if isinstance(event, Finding)]


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    files = (f"key-{number}={KEYS}/key-{number}.private.pem" for number in (1, 2))
    monkeypatch.setenv(VARIABLE, ",".join(files))


def bucket_of(name: str) -> Path:
    """The folder of a copied partition's topic."""
    kind, partition = name.split("/")
    [folder] = (AIVEN / kind).glob(f"*/**/{partition.removesuffix('-0')}-{'?' * 22}")
    return folder


def digest(records: Iterable[ConsumerRecord]) -> str:
    found = hashlib.sha256()
    for each in records:
        headers = [(key, coded(value)) for key, value in each.headers]
        row = [each.offset, each.timestamp, coded(each.key), coded(each.value), headers]
        found.update(json.dumps([*row, each.leader_epoch]).encode())
    return found.hexdigest()


def coded(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def batches_of(path: Path) -> list[tuple[int, int, int, int]]:
    """Base and last offset, start and end of each batch of a copy's only segments, in order."""
    view = next(iter(open_source(str(path)).partitions().values())).view()
    found = []
    for segment in map(view.segment_at, range(len(view.base_offsets))):
        for item in segment.scan():
            assert isinstance(item, BatchRun)
            headers: BatchRows = item.headers
            found += [
                (each.base_offset, each.last_offset, each.position, each.position + each.size)
                for each in headers
            ]
    return found


@pytest.mark.parametrize("name", TRUTH)
def test_a_reader_gets_what_a_consumer_read_from_the_broker(name: str) -> None:
    truth = TRUTH[name]
    with kafkafs.open(bucket_of(name)) as source:
        (partition,) = source.partitions()
        assert (partition.start, partition.end) == (0, truth["end"])
        assert digest(partition.records()) == truth["sha256"]
        committed = partition.records(isolation="read_committed")
        assert digest(committed) == truth["sha256.committed"]
    view = next(iter(open_source(str(bucket_of(name))).partitions().values())).view()
    for time, offset in truth["forTimes"].items():
        found = view.offset_for_time(int(time))
        assert found is not None
        assert found.offset == offset


@pytest.mark.parametrize("name", TRUTH)
def test_the_check_finds_nothing_and_all_indexes_are_there(name: str) -> None:
    source = open_source(str(bucket_of(name)))
    assert findings(source) == []
    (log,) = source.partitions().values()
    view = log.view()
    for place in range(len(view.base_offsets)):
        segment = view.segment_at(place)
        assert segment.offset_index().last_entry.offset > segment.base_offset
        assert segment.time_index().last_entry.timestamp > 0
    is_transactional = name.endswith("tx-0")
    assert any(len(each) for each in transaction_indexes(view)) is is_transactional


def transaction_indexes(view: Any) -> Iterator[Any]:
    for place in range(len(view.base_offsets)):
        try:
            index = view.segment_at(place).transaction_index()
            len(index)
        except FileNotFoundError:
            continue
        yield index


@pytest.mark.parametrize("name", ["both/tx-0", "rotated/orders-0"])
def test_each_offset_is_found_by_the_index_as_by_a_scan(name: str) -> None:
    with kafkafs.open(bucket_of(name)) as source:
        (partition,) = source.partitions()
        for each in list(partition.records())[::29]:
            assert next(partition.records(each.offset, each.offset + 1)) == each


# Damage


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the encrypted and compressed objects of `tx`: the folder of its topic."""
    folder = bucket_of(BOTH)
    return Path(shutil.copytree(folder, tmp_path / folder.name))


def objects(copy: Path, number: int = 0) -> tuple[Path, SegmentManifest]:
    """The .log of a segment, and its manifest."""
    log = sorted(copy.rglob("*.log"))[number]
    beside = log.with_suffix(".rsm-manifest")
    return log, parse_manifest(beside.read_bytes(), path="")


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 4
    path.write_bytes(data)


def records_of(path: Path) -> dict[int, ConsumerRecord]:
    with kafkafs.open(path) as source:
        (partition,) = source.partitions()
        return {each.offset: each for each in partition.records(on_corrupt="skip")}


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("part", ["iv", "bytes", "tag"])
def test_a_flipped_bit_in_a_chunk_is_damage_at_the_chunk_and_the_rest_is_served(
    copy: Path, part: str, number: int
) -> None:
    whole, batches = records_of(copy), batches_of(copy)
    log, manifest = objects(copy)
    chunk = manifest.chunks.chunk(number)
    flip(log, chunk.position + {"iv": 3, "bytes": chunk.length // 2, "tag": chunk.length - 1}[part])
    with kafkafs.open(copy) as source, pytest.raises(Exception, match="its tag is wrong"):
        list(next(iter(source.partitions())).records())
    served = records_of(copy)
    touched = [
        (first, last)
        for first, last, start, end in batches
        if first < manifest.end_offset and start < chunk.start + chunk.size and end > chunk.start
    ]
    gone = {offset for first, last in touched for offset in range(first, last + 1)}
    assert served == {offset: each for offset, each in whole.items() if offset not in gone}
    errors = [each for each in findings(open_source(str(copy))) if each.severity == "error"]
    assert {each.file for each in errors} == {str(log)}
    named = f"chunk {number}, {chunk.length} bytes at byte {chunk.position} of the object"
    assert any(named in each.sentence and "tag is wrong" in each.sentence for each in errors)


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot", ".txnindex"])
def test_a_flipped_bit_in_an_index_is_named_and_every_record_is_served(
    copy: Path, suffix: str
) -> None:
    whole = records_of(copy)
    log, manifest = objects(copy, 1)
    section = manifest.sections[suffix]
    flip(log.with_suffix(".indexes"), section.position + section.size // 2)
    assert records_of(copy) == whole
    found = findings(open_source(str(copy)))
    named = f"the {suffix} at byte {section.position} is damaged: its tag is wrong"
    assert any(named in each.sentence for each in found)
    assert {each.file for each in found} == {str(log.with_suffix(".indexes"))}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text: text[: len(text) // 2], "the manifest is not JSON"),
        (lambda text: text.replace('"version":"1"', '"version":"9"'), "version of the manifest"),
        (lambda text: text.replace('"variable"', '"vbriable"'), "chunkIndex.type of the manifest"),
        (lambda text: text.replace('"aad":"', '"aad":"!'), "encryption.aad of the manifest"),
        (None, "it has no manifest, which is written last"),
    ],
)
def test_a_damaged_or_missing_manifest_is_an_error_of_the_check(
    copy: Path,
    change: Any,
    sentence: str,
) -> None:
    log, manifest = objects(copy, 1)
    beside = log.with_suffix(".rsm-manifest")
    if change is None:
        beside.unlink()
    else:
        text = beside.read_text()
        assert change(text) != text
        beside.write_text(change(text))
    errors = [each for each in findings(open_source(str(copy))) if each.severity == "error"]
    assert [(each.rule, each.file) for each in errors] == [("file-unreadable", str(log))]
    assert sentence in errors[0].sentence
    served = records_of(copy)
    assert 0 < len(served) < TRUTH[BOTH]["records"]
    assert max(served) < manifest.start_offset


@pytest.mark.parametrize("key_id", ["key-2", "a-key"])
def test_a_data_key_that_is_damaged_or_under_another_pair_is_told(copy: Path, key_id: str) -> None:
    log, _ = objects(copy)
    beside = log.with_suffix(".rsm-manifest")
    beside.write_text(beside.read_text().replace("key-1:", f"{key_id}:"))
    error = next(each for each in findings(open_source(str(copy))) if each.severity == "error")
    expected = {
        "key-2": "does not open the data key: another pair than key-2 of the manifest",
        "a-key": "it is encrypted under key a-key, which is not given (given: key-1, key-2)",
    }
    assert expected[key_id] in error.sentence


def test_swapped_chunks_are_found_though_tags_and_checksums_of_both_are_right(
    tmp_path: Path,
) -> None:
    """No tag covers the place of a chunk, no checksum the base offset of a batch."""
    partition = tmp_path / "log" / "orders-0"
    partition.mkdir(parents=True)
    made = [batch([Rec(b"v" * 50)] * 2, 2 * number) for number in range(6)]
    (partition / f"{0:020}.log").write_bytes(b"".join(made))
    size = len(made[0])
    log = aiven_copy(tmp_path / "bucket", partition, 0, chunk_size=size, key_id="key-1")
    stored, length = log.read_bytes(), size + 28
    swapped = [stored[at : at + length] for at in (0, 2 * length, length)]
    log.write_bytes(b"".join(swapped) + stored[3 * length :])
    found = findings(open_source(str(tmp_path / "bucket")))
    errors = {(each.rule, each.file) for each in found if each.severity == "error"}
    assert errors == {("offset-duplicate", str(log))}
    whole, served = records_of(partition), records_of(tmp_path / "bucket")
    assert served.items() <= whole.items()
    assert len(served) >= 10


def test_an_object_that_is_cut_serves_the_chunks_that_are_there(copy: Path) -> None:
    whole = records_of(copy)
    log, manifest = objects(copy)
    chunk = manifest.chunks.chunk(2)
    log.write_bytes(log.read_bytes()[: chunk.position + 100])
    served = records_of(copy)
    assert served.items() <= whole.items()
    assert max(each for each in served if each <= manifest.end_offset) > 0
    sentences = [each.sentence for each in findings(open_source(str(copy)))]
    assert any(f"it is cut: expected {chunk.length} bytes, found 100" in each for each in sentences)


# Copies that are not whole


def test_a_manifest_without_its_log_is_a_deletion_at_the_start_and_a_loss_elsewhere(
    tmp_path: Path,
) -> None:
    for number, rule in ((0, "tiered-copy"), (1, "file-unreadable")):
        copy = Path(shutil.copytree(bucket_of(BOTH), tmp_path / f"{number}" / bucket_of(BOTH).name))
        log, manifest = objects(copy, number)
        log.unlink()
        offsets = f"its .log, with the offsets {manifest.start_offset} to {manifest.end_offset}"
        found = [each for each in findings(open_source(str(copy))) if offsets in each.sentence]
        assert [each.rule for each in found] == [rule]
        assert records_of(copy)


def test_an_unfinished_copy_beside_a_whole_one_of_its_offsets_is_set_aside(copy: Path) -> None:
    whole = records_of(copy)
    log, _ = objects(copy)
    again = log.with_name(log.name[:21] + "A" * 22 + ".log")
    again.write_bytes(log.read_bytes()[:5000])
    assert records_of(copy) == whole
    found = [each for each in findings(open_source(str(copy))) if each.file == str(again)]
    assert "its copy was not finished" in found[0].sentence


# Prefixes


def test_a_prefix_before_the_names_of_topics_is_none_of_their_names(tmp_path: Path) -> None:
    folder = bucket_of("plain/tx-0")
    copied = shutil.copytree(folder, tmp_path / "bucket" / f"prod-{folder.name}")
    for path in (tmp_path / "bucket", copied, copied / "0"):
        (log,) = open_source(str(path)).partitions().values()
        assert log.name == "tx-0"
        assert log.view().log_end_offset == TRUTH["plain/tx-0"]["end"]


def test_a_folder_above_the_prefix_names_the_copies_below_it(tmp_path: Path) -> None:
    folder = bucket_of("plain/tx-0")
    shutil.copytree(folder, tmp_path / "prod" / "eu" / folder.name)
    with pytest.raises(SourceError, match=f"log dirs below it: {tmp_path}/prod/eu$"):
        open_source(str(tmp_path))
    assert paths_below(str(tmp_path)) == [f"{tmp_path}/prod/eu"]


# Keys


def test_without_the_key_the_tree_sizes_offsets_and_times_are_shown(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = open_source(str(copy)).partitions()["tx-0"].view()
    expected = sound.base_offsets, sound.log_end_offset, sound.max_timestamp
    sizes = [sound.segment_at(place).size for place in range(2)]
    monkeypatch.delenv(VARIABLE)
    source = open_source([str(copy), str(log_dir("current"))])
    view = source.partitions()["tx-0"].view()
    assert (view.base_offsets, view.log_end_offset) == expected[:2]
    times = [view.segment_at(place).max_timestamp.timestamp for place in range(2)]
    assert times == [objects(copy, number)[1].max_timestamp for number in range(2)]
    assert [view.segment_at(place).size for place in range(2)] == sizes
    local = source.partitions()["orders-0"].view()
    assert local.batch(35) is not None
    with pytest.raises(Exception, match="--tiered-key key-1"):
        view.batch(35)
    for item in view.segment_at(0).scan():
        assert not isinstance(item, BatchRun)
    (line,) = map(str, source.unread())
    assert "it is encrypted under key key-1, which is not given" in line


def test_segments_of_a_key_that_is_given_are_read_beside_those_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = bucket_of("rotated/orders-0")
    whole = records_of(folder)
    monkeypatch.setenv(VARIABLE, f"key-2={KEYS}/key-2.private.pem")
    served = records_of(folder)
    assert served.items() < whole.items()
    assert min(served) == 1406


# Other shapes of objects


@pytest.mark.parametrize("chunk_size", [100, 4096, 1 << 22])
@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize("key_id", ["", "key-2"])
def test_chunks_of_any_size_are_read(
    tmp_path: Path, chunk_size: int, is_compressed: bool, key_id: str
) -> None:
    partition = log_dir("current") / "orders-0"
    for number, base_offset in enumerate((0, 395, 790)):
        aiven_copy(
            tmp_path,
            partition,
            base_offset,
            number=number,
            chunk_size=chunk_size,
            is_compressed=is_compressed,
            key_id=key_id,
        )
    assert records_of(tmp_path) == records_of(partition)
    assert [each for each in findings(open_source(str(tmp_path))) if each.severity != "note"] == []


@pytest.mark.parametrize("sizes", [[], [7], [5, 9], [300, 70_000, 12], [400] * 9])
def test_sizes_of_chunks_are_read_as_they_are_written(sizes: list[int]) -> None:
    chunk = 100_000
    index = variable_chunks(chunk, chunk * len(sizes), compress(coded_sizes(sizes)))
    assert [index.chunk(number).length for number in range(len(sizes))] == sizes
    assert index.object_size == sum(sizes)


@pytest.mark.parametrize("data", [b"", b"no frame", compress(b"\0\0\0\3"), compress(bytes(99))])
def test_sizes_that_cannot_be_are_refused(data: bytes) -> None:
    with pytest.raises(SizesError):
        variable_chunks(10, 25, data)
    assert isinstance(variable_chunks(10, 0, compress(bytes(4))), ChunkIndex)


def test_a_dump_shows_the_batches_of_an_encrypted_copy() -> None:
    folder = bucket_of(BOTH) / "0"
    with SourceRoot(str(folder)) as root:
        name = min(folder.glob("*.log")).name
        with open_decoded(root, name) as file:
            assert file.size() == objects(bucket_of(BOTH))[1].chunks.file_size
            assert file.read_at(0, 8) == bytes(8)
        with open_decoded(root, name.replace(".log", ".indexes")) as file:
            assert file.fd >= 0
