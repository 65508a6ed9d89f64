"""What a tiered copy holds: by its manifest, by its offset index, or by all of its batches."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from engine.files.folder_entries import EntryKind, SourceEntry
from engine.files.source_files import SourceRoot
from engine.log.log_directory import open_source
from engine.log.tiered.copies import TieredCopy, choose, cut_position, encoding_of, read_copy
from engine.log.tiered.folders import candidates, is_number
from engine.units import EpochEntry
from tests.builders import Rec, batch, offset_index
from tests.engine.log.folders import LogWriter, offsets_of
from tests.tiered_folders import TOPIC_ID, TieredWriter, aiven_manifest, segment_id

BASE = 10


def batches(*epochs: int, base: int = BASE) -> list[bytes]:
    """One batch of two records for each epoch."""
    return [
        batch([Rec(b"v" * 30)] * 2, base + 2 * number, leader_epoch=epoch)
        for number, epoch in enumerate(epochs)
    ]


class Copy:
    """The files of one copy in a folder."""

    def __init__(self, folder: Path, data: bytes, base: int = BASE, name: str = "copy") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.base, self.name = folder, base, name
        self.files: dict[str, str] = {}
        self.add(".log", data)
        self.add(".snapshot", b"")

    def add(self, suffix: str, data: bytes) -> None:
        (self.folder / f"{self.name}{suffix}").write_bytes(data)
        self.files[suffix] = f"{self.name}{suffix}"

    def manifest(self, **facts: object) -> None:
        self.add(".rsm-manifest", json.dumps(facts).encode())

    def read(self) -> TieredCopy:
        with SourceRoot(str(self.folder)) as root:
            found = read_copy(root, self.base, self.files)
        assert isinstance(found, TieredCopy)
        return found

    @property
    def encoding(self) -> str | None:
        with SourceRoot(str(self.folder)) as root:
            return encoding_of(root, self.base, self.files[".log"])


def described(
    size: int, last: object = 13, epochs: object = None, **more: object
) -> dict[str, object]:
    epochs = {"0": BASE, "3": 12} if epochs is None else epochs
    return {**aiven_manifest(size, last, BASE, epochs), **more}


# Contents


@pytest.mark.parametrize("index", [None, "each batch", "wrong", "unreadable"])
def test_a_copy_has_the_offsets_and_epochs_of_its_batches(
    tmp_path: Path, index: str | None
) -> None:
    made = batches(0, 0, 3, 3, 5)
    copy = Copy(tmp_path, b"".join(made))
    size = len(made[0])
    if index == "each batch":
        copy.add(".index", offset_index([(BASE + 2 * n + 1, n * size) for n in range(1, 5)], BASE))
    elif index == "wrong":
        copy.add(".index", offset_index([(BASE + 3, size), (BASE + 9, 4 * size + 3)], BASE))
    elif index == "unreadable":
        copy.files[".index"] = "not-there.index"
    found = copy.read()
    assert (found.next_offset, found.last_epoch, found.is_whole) == (BASE + 10, 5, True)
    known = (EpochEntry(0, BASE), EpochEntry(3, BASE + 4), EpochEntry(5, BASE + 8))
    # From the last entry of the index on the copy is read, so that its first epochs are not known.
    assert found.epochs == (() if index == "each batch" else known)
    assert found.end == found.next_offset


def test_a_copy_without_a_good_batch_has_its_base_offset_only(tmp_path: Path) -> None:
    found = Copy(tmp_path, b"rubbish" * 30).read()
    assert (found.next_offset, found.last_epoch, found.epochs) == (BASE, -1, ())
    assert (found.end, found.is_whole) == (BASE + 1, False)


def test_epochs_below_zero_are_none(tmp_path: Path) -> None:
    found = Copy(tmp_path, b"".join(batches(-1, -1))).read()
    assert (found.last_epoch, found.epochs, found.next_offset) == (-1, (), BASE + 4)


@pytest.mark.parametrize("rubbish", [b"", b"\xfe", batches(0)[0][:-1]])
def test_a_copy_is_whole_if_it_ends_with_a_good_batch_and_its_last_file_is_there(
    tmp_path: Path, rubbish: bytes
) -> None:
    copy = Copy(tmp_path, b"".join(batches(0, 0)) + rubbish)
    assert copy.read().is_whole is (not rubbish)
    del copy.files[".snapshot"]
    assert not copy.read().is_whole


def test_offsets_that_go_back_do_not_shorten_a_copy(tmp_path: Path) -> None:
    data = b"".join([*batches(0, 0, 0), *batches(0)])
    assert Copy(tmp_path, data).read().next_offset == BASE + 6


# Manifests


def test_a_manifest_of_the_same_size_is_believed(tmp_path: Path) -> None:
    data = b"".join(batches(0, 0))
    copy = Copy(tmp_path, data)
    copy.manifest(**described(len(data)))
    found = copy.read()
    assert (found.next_offset, found.last_epoch, found.is_whole) == (14, 3, True)
    assert found.epochs == (EpochEntry(0, BASE), EpochEntry(3, 12))


@pytest.mark.parametrize(
    "facts",
    [
        described(1),
        described(0, last=BASE - 1),
        described(0, last=2**63 - 1),
        described(0, last="x"),
        described(0, last=None),
        described(0, epochs={}),
        described(0, epochs=[1]),
        described(0, epochs={"a": 1}),
        {"remoteLogSegmentMetadata": 7},
        {},
        {"chunkIndex": [], "remoteLogSegmentMetadata": {}},
    ],
)
def test_a_manifest_that_cannot_be_of_the_copy_is_not_believed(
    tmp_path: Path, facts: dict[str, object]
) -> None:
    data = b"".join(batches(2, 2))
    copy = Copy(tmp_path, data)
    if facts.get("chunkIndex") == described(0)["chunkIndex"]:
        facts = {**facts, "chunkIndex": described(len(data))["chunkIndex"]}
    copy.manifest(**facts)
    found = copy.read()
    assert found.fault or facts == described(1)
    assert (found.next_offset, found.epochs) == (BASE + 4, (EpochEntry(2, BASE),))


@pytest.mark.parametrize(("last", "next_offset"), [(BASE, BASE + 1), (2**63 - 2, 2**63 - 1)])
def test_a_manifest_may_state_any_end_from_the_base_offset_on(
    tmp_path: Path, last: int, next_offset: int
) -> None:
    data = batches(0)[0]
    copy = Copy(tmp_path, data)
    copy.manifest(**described(len(data), last=last))
    assert copy.read().next_offset == next_offset


@pytest.mark.parametrize("data", [b"[1]", b"{", b"\xff", b"[" * 100_000, b"7"])
def test_a_manifest_that_is_no_object_is_as_good_as_empty(tmp_path: Path, data: bytes) -> None:
    copy = Copy(tmp_path, b"".join(batches(0)))
    copy.add(".rsm-manifest", data)
    assert copy.read().next_offset == BASE + 2
    assert copy.encoding is None


# Encodings


def test_without_a_manifest_the_first_bytes_tell_how_a_copy_is_encoded(tmp_path: Path) -> None:
    good = batches(0)[0]
    for data, encoding in (
        (good, None),
        (good[:16], None),
        (b"", None),
        (b"\x28\xb5\x2f\xfd" + good, "it is compressed by chunks"),
        (b"\x07" + good, "no batch is at its start: it is encrypted, or damaged there"),
        (
            good[:16] + b"\x03" + good[17:],
            "no batch is at its start: it is encrypted, or damaged there",
        ),
        (good[:16] + b"\x00" + good[17:], None),
    ):
        copy = Copy(tmp_path, data)
        assert copy.encoding == encoding


# Choice


def copies_of(tmp_path: Path, *made: tuple[int, list[int]]) -> tuple[SourceRoot, list[TieredCopy]]:
    """Copies by base offset and the epochs of their batches."""
    tmp_path.mkdir(exist_ok=True)
    root = SourceRoot(str(tmp_path))
    found = []
    for number, (base, epochs) in enumerate(made):
        copy = Copy(tmp_path, b"".join(batches(*epochs, base=base)), base, f"copy{number}")
        found.append(copy.read())
    return root, found


def chosen_of(root: SourceRoot, copies: list[TieredCopy]) -> list[tuple[str, int]]:
    return [(each.copy.path, each.end) for each in choose(root, copies).chosen]


def test_no_copies_are_no_log(tmp_path: Path) -> None:
    root, _ = copies_of(tmp_path)
    choice = choose(root, [])
    assert (choice.chosen, choice.newest, choice.reasons) == ([], None, {})


def test_copies_one_after_the_other_are_all_the_log(tmp_path: Path) -> None:
    root, copies = copies_of(tmp_path, (0, [0, 0]), (4, [0, 1]), (8, [1, 2]))
    assert chosen_of(root, copies) == [("copy0.log", 4), ("copy1.log", 8), ("copy2.log", 12)]
    assert not any(each.is_cut for each in choose(root, copies).chosen)


def test_a_copy_that_goes_on_in_another_lineage_is_cut_where_it_begins_to(tmp_path: Path) -> None:
    """The newest copy has epochs 0 and 2; the other wrote epoch 1 at offsets 4 to 7."""
    root, copies = copies_of(tmp_path, (0, [0, 0, 1, 1]), (4, [2, 2]))
    choice = choose(root, copies)
    assert choice.newest is copies[1]
    assert chosen_of(root, copies) == [("copy0.log", 4), ("copy1.log", 8)]
    assert [each.is_cut for each in choice.chosen] == [True, False]


def test_a_copy_of_another_lineage_from_its_start_on_is_left_out_with_the_reason(
    tmp_path: Path,
) -> None:
    root, copies = copies_of(tmp_path, (0, [3, 3]), (0, [2, 2]), (4, [3]))
    choice = choose(root, copies)
    assert chosen_of(root, copies) == [("copy0.log", 4), ("copy2.log", 6)]
    assert choice.reasons == {
        "copy1.log": "another lineage of leader epochs: offset 0 is of epoch 3 in the log"
    }


def test_epochs_before_those_of_the_newest_copy_come_from_the_copies_before_it(
    tmp_path: Path,
) -> None:
    """An epoch that goes on in the next copy begins in the one before."""
    root, copies = copies_of(tmp_path, (0, [0, 1, 1]), (6, [1, 4]), (2, [9]))
    newest = choose(root, copies).newest
    assert newest is copies[2]
    root, copies = copies_of(tmp_path / "b", (0, [0, 1, 1]), (6, [1, 4]), (2, [3, 3]))
    choice = choose(root, copies)
    assert chosen_of(root, copies) == [("copy0.log", 6), ("copy1.log", 10)]
    assert "offset 2 is of epoch 1 in the log" in choice.reasons["copy2.log"]


def test_a_checkpoint_that_cannot_be_read_leaves_the_epochs_of_the_batches(tmp_path: Path) -> None:
    root, copies = copies_of(tmp_path, (0, [0, 1]), (4, [1]))
    for data in (None, b"rubbish"):
        path = tmp_path / "copy0.leader_epoch_checkpoint"
        if data is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(data)
        files = {**copies[0].files, ".leader_epoch_checkpoint": path.name}
        one = TieredCopy(0, files, 4, 1, True, copies[0].epochs)
        assert chosen_of(root, [one, copies[1]]) == [("copy0.log", 4), ("copy1.log", 6)]
        bare = TieredCopy(0, files, 4, 1, True)
        assert chosen_of(root, [bare]) == [("copy0.log", 4)]


def test_of_two_copies_of_the_same_offsets_the_whole_one_is_the_log(tmp_path: Path) -> None:
    root, (first, second) = copies_of(tmp_path, (0, [0, 0]), (0, [0, 0]))
    for is_whole in (True, False):
        one = TieredCopy(0, first.files, 4, 0, is_whole, first.epochs)
        two = TieredCopy(0, second.files, 4, 0, not is_whole, second.epochs)
        choice = choose(root, [one, two])
        kept, other = ("copy0", "copy1") if is_whole else ("copy1", "copy0")
        assert [each.copy.path for each in choice.chosen] == [f"{kept}.log"]
        assert choice.reasons == {
            f"{other}.log": f"a further copy of offsets 0 to 3, which {kept}.log holds too"
        }


@pytest.mark.parametrize("end", range(1, 9))
@pytest.mark.parametrize("with_index", [False, True])
def test_a_cut_copy_ends_before_the_first_batch_of_the_other(
    tmp_path: Path, end: int, with_index: bool
) -> None:
    made = batches(0, 0, 0, 0, base=0)
    size = len(made[0])
    copy = Copy(tmp_path, b"".join(made), 0)
    if with_index:
        copy.add(".index", offset_index([(2 * n + 1, n * size) for n in range(1, 4)]))
    with SourceRoot(str(tmp_path)) as root:
        chosen = choose(root, [read_copy(root, 0, copy.files)]).chosen[0]
        position = cut_position(root, chosen._replace(end=end))
    assert position == -(-end // 2) * size


# Folders


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        *(("0", True), ("7", True), ("10", True), ("2147483647", True), ("2147483648", False)),
        *(
            ("00", False),
            ("01", False),
            ("", False),
            ("-1", False),
            ("1a", False),
            ("\u0661", False),
        ),
        *(("10000000000", False), ("99999999999", False)),
    ],
)
def test_a_partitions_number_is_decimal_without_leading_zeros(name: str, is_one: bool) -> None:
    assert is_number(name or "x") is is_one


def test_only_folders_with_names_of_tiered_storage_are_looked_into() -> None:
    local, topic = f"orders-0-{TOPIC_ID}", f"orders-{TOPIC_ID}"
    names = [local, topic, "orders-0", "7", f"orders{TOPIC_ID}", "x" * 30]
    entries = [SourceEntry(name, EntryKind.DIRECTORY) for name in names]
    entries.append(SourceEntry(topic, EntryKind.FILE))
    assert candidates("/copies", entries) == [local, topic]
    assert candidates(f"/copies/{topic}", entries) == [local, topic, "7"]


def test_a_topic_folder_with_and_without_numbers_is_told_apart(tmp_path: Path) -> None:
    """`<topic>-<number>-<id>` may be a partition of LocalTieredStorage, or a topic of Aiven's plugin."""
    writer = LogWriter(tmp_path / "log", "orders-0")
    writer.append_records(b"v")
    one = TieredWriter(tmp_path / "copies", "orders-0")
    one.copy(writer.folder, 0)
    below = tmp_path / "copies" / f"orders-1-{TOPIC_ID}" / "5"
    below.mkdir(parents=True)
    for file in one.folder.iterdir():
        (below / file.name).write_bytes(file.read_bytes())
    (tmp_path / "copies" / "notes").mkdir()
    source = open_source(str(tmp_path / "copies"))
    assert list(source.partitions()) == ["orders-0", "orders-1-5"]
    assert [(each.name, each.kind) for each in source.others] == [("notes", EntryKind.DIRECTORY)]


def test_of_two_topics_of_one_name_one_without_records_is_older(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "log", "orders-0")
    writer.append_records(b"v")
    other = "A" + TOPIC_ID[1:]
    for topic_id in (TOPIC_ID, other):
        TieredWriter(tmp_path / topic_id, "orders-0", topic_id).copy(writer.folder, 0)
    for empty, full in ((TOPIC_ID, other), (other, TOPIC_ID)):
        root = tmp_path / f"copies of {full}"
        for topic_id in (empty, full):
            folder = tmp_path / topic_id / f"orders-0-{topic_id}"
            target = root / folder.name
            target.mkdir(parents=True)
            for file in folder.iterdir():
                if topic_id == full or file.suffix != ".log":
                    (target / file.name).write_bytes(file.read_bytes())
        partitions = open_source(str(root)).partitions()
        assert list(partitions) == ["orders-0", f"orders-0.{empty_name(empty)}-stray"]
        assert partitions["orders-0"].view().topic_id == full


def empty_name(topic_id: str) -> str:
    """The topic id as the name of a stray folder has it."""
    from engine.files.file_names import FolderState, folder_name
    from engine.units import TopicPartition

    name = folder_name(TopicPartition("orders", 0), FolderState.STRAY, topic_id)
    return name.removeprefix("orders-0.").removesuffix("-stray")


# The files as they are shown


def test_a_shown_partition_metadata_has_the_time_of_the_folder(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "log", "orders-0")
    writer.append_records(b"v")
    tiered = TieredWriter(tmp_path / "copies", "orders-0")
    tiered.copy(writer.folder, 0)
    os.utime(tiered.folder, (1_000, 1_000))
    (root,) = open_source(str(tmp_path / "copies")).roots
    status = root.stat("orders-0/partition.metadata")
    assert (status.st_mtime, status.st_mode & 0o777) == (1_000, 0o444)
    file = root.open_fresh("orders-0/partition.metadata")
    with pytest.raises(OSError, match="not permitted"):
        os.write(file.fd, b"changed")


def test_bytes_behind_the_cut_of_a_copy_are_not_there(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "log", "orders-0")
    for epoch in (0, 0, 1, 1):
        writer.append_records(b"v" * 40, leader_epoch=epoch)
    size = writer.records_file.stat().st_size // 4
    later = LogWriter(tmp_path / "later", "orders-0", base_offset=2)
    later.append_records(b"w", leader_epoch=2)
    tiered = TieredWriter(tmp_path / "copies", "orders-0")
    tiered.copy(writer.folder, 0, epochs=[(0, 0), (1, 2)])
    tiered.copy(later.folder, 2, epochs=[(0, 0), (2, 2)])
    (root,) = open_source(str(tmp_path / "copies")).roots
    name = f"orders-0/{0:020}.log"
    assert root.stat(name).st_size == 2 * size
    file = root.open_fresh(name)
    assert (file.size(), file.stat().st_size) == (2 * size, 2 * size)
    whole = writer.records_file.read_bytes()
    assert file.read_at(0, 4 * size) == whole[: 2 * size]
    assert file.read_at(size, 4 * size) == whole[size : 2 * size]
    assert file.read_at(2 * size, 10) == file.read_at(3 * size, 10) == b""
    buffer = bytearray(4 * size)
    assert file.read_into(buffer, size) == size
    assert buffer[:size] == whole[size : 2 * size]
    assert not any(buffer[size:])
    assert file.read_into(buffer, 3 * size) == 0
    assert segment_id(1) in str(file.path)


def test_closing_a_source_of_copies_closes_all_its_folders(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "log", "orders-0")
    writer.append_records(b"v")
    TieredWriter(tmp_path / "copies", "orders-0").copy(writer.folder, 0)
    source = open_source(str(tmp_path / "copies"))
    assert source.partitions()["orders-0"].view().log_end_offset == 1
    (root,) = source.roots
    source.close()
    with pytest.raises(ValueError, match="is closed"):
        root.list_apart(f"orders-0-{TOPIC_ID}")


def test_a_copy_that_no_other_overlaps_any_more_is_shown_whole(tmp_path: Path) -> None:
    """A broker deletes the copies of a segment in any order."""
    writer = LogWriter(tmp_path / "log", "orders-0")
    for epoch in (0, 0, 1, 1):
        writer.append_records(b"v" * 40, leader_epoch=epoch)
    later = LogWriter(tmp_path / "later", "orders-0", base_offset=2)
    later.append_records(b"w", leader_epoch=2)
    tiered = TieredWriter(tmp_path / "copies", "orders-0")
    tiered.copy(writer.folder, 0, epochs=[(0, 0), (1, 2)])
    other = tiered.copy(later.folder, 2, epochs=[(0, 0), (2, 2)])
    log = open_source(str(tmp_path / "copies")).partitions()["orders-0"]
    assert (log.view().log_end_offset, len(log.view())) == (3, 2)
    for file in tiered.folder.glob(f"{other.stem}*"):
        file.unlink()
    assert log.view(max_age=0).log_end_offset == 4
    assert offsets_of(log.view()) == [0, 1, 2, 3]


def test_an_empty_folder_with_the_name_of_a_partition_is_shown_as_one(tmp_path: Path) -> None:
    """`<topic>-<number>-<id>` without copies; a folder `<topic>-<id>` without numbers is none."""
    writer = LogWriter(tmp_path / "log", "orders-0")
    writer.append_records(b"v")
    one = TieredWriter(tmp_path / "copies", "orders-0")
    one.copy(writer.folder, 0)
    for name in (f"orders-1-{TOPIC_ID}", f"notes-{TOPIC_ID}"):
        (tmp_path / "copies" / name).mkdir()
    source = open_source(str(tmp_path / "copies"))
    assert list(source.partitions()) == ["orders-0", "orders-1"]
    assert [each.name for each in source.others] == [f"notes-{TOPIC_ID}"]


def test_a_partition_metadata_that_is_made_up_leads_to_the_folder(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "log", "orders-0")
    writer.append_records(b"v")
    tiered = TieredWriter(tmp_path / "copies", "orders-0")
    log = tiered.copy(writer.folder, 0)
    (root,) = open_source(str(tmp_path / "copies")).roots
    folder = tiered.folder.name
    assert root.real("orders-0/partition.metadata") == folder
    assert root.real("orders-0") == folder
    assert root.real(f"orders-0/{0:020}.log") == f"{folder}/{log.name}"
    assert root.real("orders-0/notes.txt") == f"{folder}/notes.txt"


def test_a_records_file_alone_is_partition_0_of_a_topic_called_like_it(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"".join(batches(0, base=0)))
    (log,) = open_source(str(tmp_path / "a.log")).partitions().values()
    assert (log.topic_partition, log.is_named) == (("a", 0), False)
