"""Faults 83 to 98: names that Kafka would not write, links, devices, and folders that change while listed."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from engine.log.log_directory import open_source
from kafkafs.tree.tree import Tree
from tests.builders import Rec, batch, write_segment
from tests.damage.cases import BEFORE, GOOD_VALUES, START, good, log_dir
from tests.damage.reader import Look
from tests.damage.survey import MEANT, Survey

LOG = f"{0:020}.log"
SECRET = b"the secret that lies outside"


def left(found: Survey, partition: str = "t-0") -> dict[str, str]:
    """What is listed as no part of the log, and why."""
    entries = found.json(f"{partition}/state/leftovers.json")
    return {entry["file"]: entry["reason"] for entry in entries}


@pytest.mark.parametrize(
    "name",
    [
        *("foo.log", "foo.index", "foo.timeindex", "foo.snapshot", "foo.swap", "foo.cleaned"),
        *("foo.deleted", ".log", "log", "00000000000000000000", "00000000000000000000.LOG"),
        *(
            "00000000000000000000.log.cleaned",
            "00000000000000000003.log.deleted",
            "core",
            "x\ny.log",
        ),
    ],
)
def test_fault_083_strange_files_are_listed_apart(tmp_path: Path, look: Look, name: str) -> None:
    log_dir(tmp_path, BEFORE)
    (tmp_path / "t-0" / name).write_bytes(good("z", 3))
    found = look(tmp_path)
    assert found.values() == GOOD_VALUES[:6]
    assert name in left(found)
    assert found.files[f"t-0/segments/{name}"] == good("z", 3)


@pytest.mark.parametrize(
    "stem",
    [
        *("0", "+5", "-1", "٥", " 5", "5 ", "1_0", "0x5", "٠" * 20, "1" * 19, "0" * 21, "9" * 20),
        *("-0000000000000000005", "+0000000000000000005", "0000000000000000000５", "5e3", ""),
    ],
)
def test_fault_084_only_twenty_ascii_digits_are_an_offset(
    tmp_path: Path, look: Look, stem: str
) -> None:
    log_dir(tmp_path, BEFORE)
    for suffix in ("log", "index", "timeindex", "txnindex", "snapshot"):
        (tmp_path / "t-0" / f"{stem}.{suffix}").write_bytes(good("z", 5))
    found = look(tmp_path)
    assert found.values() == GOOD_VALUES[:6]
    assert found.names["t-0/records"] == [f"{0:020}.jsonl"]
    assert {f"{stem}.log", f"{stem}.snapshot"} <= set(left(found))


@pytest.mark.parametrize("base", [2**63 - 1, 2**63 - 2, 2**63 - 3])
def test_fault_084_segments_named_by_the_largest_offsets(
    tmp_path: Path, look: Look, base: int
) -> None:
    log_dir(tmp_path, BEFORE)
    for each in {base, 2**63 - 2}:
        (tmp_path / "t-0" / f"{each:020}.log").write_bytes(b"")
    found = look(tmp_path)
    assert found.values() == GOOD_VALUES[:6]


ODD_FOLDERS = [
    b"t--1",
    b"..-0",
    b"...-0",
    b"a b-0",
    "é-0".encode(),
    b"\xff\xfe-0",
    b"new\nline-0",
    b"esc\x1b[2J-0",
    b"tab\t\"quote'\\-0",
    "\u202egnp.exe-0".encode(),
    b"x" * 253 + b"-0",
    b"t-2147483647",
    b"-0",
    b"t-00",
    b"con-0",
]


@pytest.mark.parametrize("name", ODD_FOLDERS)
def test_faults_085_086_a_folder_of_any_name_is_shown_and_its_records_served(
    tmp_path: Path, look: Look, name: bytes
) -> None:
    log_dir(tmp_path, BEFORE)
    write_segment(Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)), BEFORE)
    found = look(tmp_path)
    assert found.values("t-0") == GOOD_VALUES[:6]
    shown = os.fsdecode(name)
    if shown in found.partitions:
        assert found.values(shown) == GOOD_VALUES[:6]
    else:
        named = {entry["name"] for entry in found.json("state/leftovers.json")}
        assert shown.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace") in named
    for path in ("state/leftovers.json", "state/partitions.json", "README.txt"):
        assert not set(found.files[path]) & {0x1B, 0x7F, 0xFF}, path
        assert "\u202e".encode() not in found.files[path], path


@pytest.mark.parametrize("suffix", ["delete", "future", "stray"])
def test_fault_085_folders_on_their_way_stand_apart(
    tmp_path: Path, look: Look, suffix: str
) -> None:
    log_dir(tmp_path, BEFORE)
    name = f"t-0.0123456789abcdef0123456789abcdef-{suffix}"
    write_segment(tmp_path / name, [good("z", 0)])
    found = look(tmp_path)
    assert found.values("t-0") == GOOD_VALUES[:6]
    assert found.values(name) == ["z0", "z1", "z2"]
    states = {entry["name"]: entry["state"] for entry in found.json("state/partitions.json")}
    assert states == {"t-0": "log", name: suffix}


@pytest.mark.parametrize("name", ["lost+found", "plain", "t-", "t-x", "t-٣", "t-0.id-unknown"])
def test_fault_085_folders_that_are_no_partition_are_listed(
    tmp_path: Path, look: Look, name: str
) -> None:
    log_dir(tmp_path, BEFORE)
    write_segment(tmp_path / name, [good("z", 0)])
    found = look(tmp_path)
    assert found.partitions == ["t-0"]
    assert name in {entry["name"] for entry in found.json("state/leftovers.json")}


def test_fault_085_two_folders_of_a_partition_are_both_shown(tmp_path: Path) -> None:
    log_dir(tmp_path / "one", BEFORE)
    log_dir(tmp_path / "two", [good("z", 0)])
    source = open_source([str(tmp_path / "one"), str(tmp_path / "two")])
    tree = Tree(source)
    assert list(source.partitions()) == ["t-0", "t-0@2"]
    assert text(tree, "t-0/offset/0").startswith(b'{"topic":"t"')
    assert b'"z0"' in text(tree, "t-0@2/offset/0")
    assert any("t-0@2" in problem["reason"] for problem in source.problems)


def test_fault_086_a_topic_that_no_client_may_create_is_read(tmp_path: Path, look: Look) -> None:
    topic = "y" * 250
    log_dir(tmp_path, BEFORE, name=f"{topic}-0")
    found = look(tmp_path)
    assert found.values(f"{topic}-0") == GOOD_VALUES[:6]
    assert found.records(f"{topic}-0")[0]["topic"] == topic


@pytest.mark.parametrize(
    "when", [2**63 - 1, 253_402_300_800_000, 2**53, -1, -2, -(2**63), -62_135_596_800_001]
)
def test_fault_087_times_outside_the_calendar_break_nothing(
    tmp_path: Path, look: Look, when: int
) -> None:
    far = batch([Rec(b"far", b"k", when)], 6)
    log_dir(tmp_path, [*BEFORE, far, batch([Rec(b"near", b"k", START + 7000)], 7)])
    found = look(tmp_path)
    assert found.values() == [*GOOD_VALUES[:6], "far", "near"]
    tree = Tree(open_source(str(tmp_path)))
    for path in ("t-0/offset/6", "t-0/records/00000000000000000000.jsonl", "t-0/time/2023"):
        node = tree.resolve(path)
        assert 0 <= node.attrs().mtime_ns <= 2**63 - 1
    for period in ("9999", "0001", f"{2**63 - 2}..{2**63 - 1}", "9999-12-31T23:59..", "0..1"):
        folder: Any = tree.resolve(f"t-0/time/{period}")
        for entry in folder.entries():
            attempt(tree, f"{folder.path}/{entry.name}")
    attempt(tree, f"t-0/time/{2**63 - 1}")
    attempt(tree, f"t-0/time/{2**64}")


# -- links and what is no regular file


def text(tree: Tree, path: str) -> bytes:
    node: Any = tree.resolve(path)
    content = node.open()
    try:
        data: bytes = content.read(0, content.size)
        return data
    finally:
        content.close()


def attempt(tree: Tree, path: str) -> bytes | None:
    """A file's bytes; None for a folder, a link, or what may be refused."""
    try:
        return text(tree, path) if hasattr(tree.resolve(path), "open") else None
    except MEANT:
        return None


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file outside of the source that nobody may see through it."""
    path = tmp_path / "outside"
    path.mkdir()
    write_segment(path, [batch([Rec(SECRET, b"k", START)], 0)])
    (path / "secret").write_bytes(SECRET)
    return path


PLACES = {
    "088-log": LOG,
    "088-index": f"{0:020}.index",
    "088-timeindex": f"{0:020}.timeindex",
    "088-txnindex": f"{0:020}.txnindex",
    "088-snapshot": f"{6:020}.snapshot",
    "088-epochs": "leader-epoch-checkpoint",
    "088-metadata": "partition.metadata",
    "088-stranger": "foo.txt",
}


@pytest.mark.parametrize("target", ["secret", "absolute", "dangling", "/dev/zero", "loop"])
@pytest.mark.parametrize("case", PLACES)
def test_faults_088_089_091_links_are_never_followed(
    tmp_path: Path, look: Look, secret: Path, case: str, target: str
) -> None:
    source = log_dir(tmp_path / "source", BEFORE)
    path = source / "t-0" / PLACES[case]
    path.unlink(missing_ok=True)
    lead_to = {
        "secret": f"../../outside/{LOG if case == '088-log' else 'secret'}",
        "absolute": str(secret / LOG),
        "dangling": "nowhere",
        "loop": path.name,
    }
    path.symlink_to(lead_to.get(target, target))
    found = look(source)
    assert not any(SECRET in data for data in found.files.values())
    assert "link" in left(found)[path.name]
    if case != "088-log":
        assert found.values() == GOOD_VALUES[:6]


@pytest.mark.parametrize(
    "name",
    ["u-0", "meta.properties", "log-start-offset-checkpoint", ".lock", ".kafka_cleanshutdown"],
)
def test_fault_088_links_in_the_log_dir_are_not_followed(
    tmp_path: Path, look: Look, secret: Path, name: str
) -> None:
    source = log_dir(tmp_path / "source", BEFORE)
    (source / name).symlink_to(secret if name == "u-0" else secret / "secret")
    found = look(source)
    assert found.partitions == ["t-0"]
    assert found.values() == GOOD_VALUES[:6]
    assert not any(SECRET in data for data in found.files.values())
    assert name in {entry["name"] for entry in found.json("state/leftovers.json")}


def test_fault_088_the_operators_own_path_may_be_a_link(tmp_path: Path, look: Look) -> None:
    log_dir(tmp_path / "source", BEFORE)
    (tmp_path / "way").symlink_to("source")
    assert look(tmp_path / "way").values() == GOOD_VALUES[:6]


@pytest.mark.parametrize("case", ["fifo", "socket", "device"])
@pytest.mark.parametrize(
    "name",
    [
        *("t-0/" + place for place in PLACES.values()),
        *("meta.properties", "log-start-offset-checkpoint", ".lock", "u-0"),
    ],
)
def test_fault_090_what_is_no_regular_file_is_never_waited_for(
    tmp_path: Path, look: Look, name: str, case: str
) -> None:
    source = log_dir(tmp_path, BEFORE)
    path = source / name
    path.unlink(missing_ok=True)
    if case == "fifo":
        os.mkfifo(path)
    elif case == "device":
        try:
            os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero
        except PermissionError:
            pytest.skip("only root makes devices")
    else:
        listener = socket.socket(socket.AF_UNIX)
        here = os.getcwd()
        os.chdir(path.parent)  # the name of a socket may be no longer than 107 bytes
        try:
            listener.bind(path.name)
        finally:
            os.chdir(here)
            listener.close()
    found = look(source, seconds=10)
    if not name.endswith(".log"):
        assert found.values() == GOOD_VALUES[:6]


def test_fault_092_a_hard_link_is_a_file_like_any_other(tmp_path: Path, look: Look) -> None:
    source = log_dir(tmp_path / "source", BEFORE)
    os.link(source / "t-0" / LOG, tmp_path / "elsewhere")
    assert look(source).values() == GOOD_VALUES[:6]


def test_fault_093_a_file_swapped_for_a_link_never_leads_out(tmp_path: Path, secret: Path) -> None:
    source = log_dir(tmp_path / "source", BEFORE)
    log = source / "t-0" / LOG
    aside, link = source / "aside.log", source / "link.log"
    link.symlink_to(secret / LOG)
    aside.write_bytes(log.read_bytes())
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(log, source / "kept")
            os.rename(link, log)
            os.rename(log, link)
            os.rename(source / "kept", log)

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen = 0
    try:
        for _ in range(300):
            opened = open_source(str(source))
            tree = Tree(opened)
            for path in (f"t-0/segments/{LOG}", "t-0/offset/0", f"t-0/records/{0:020}.jsonl"):
                data = attempt(tree, path) or b""
                assert SECRET not in data
                seen += bool(data)
            opened.close()
    finally:
        stop.set()
        swapper.join()
    assert seen, "nothing was ever read: the swapping proved nothing"


@pytest.mark.parametrize("name", [*PLACES.values(), f"{3:020}.log"])
def test_fault_094_a_folder_where_a_file_belongs(tmp_path: Path, look: Look, name: str) -> None:
    source = log_dir(tmp_path, BEFORE)
    path = source / "t-0" / name
    path.unlink(missing_ok=True)
    path.mkdir()
    (path / "inner").write_bytes(b"x")
    found = look(source)
    assert name in left(found)
    if name != LOG:
        assert found.values() == GOOD_VALUES[:6]


def test_fault_095_another_file_system_is_not_entered_unless_asked(tmp_path: Path) -> None:
    source = log_dir(tmp_path / "source", BEFORE)
    (source / "u-0").mkdir()
    tmpfs = ["mount", "-t", "tmpfs", "tmpfs", source / "u-0"]
    if subprocess.run(tmpfs, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount")
    try:
        write_segment(source / "u-0", [good("z", 0)])
        tree = Tree(open_source(str(source)))
        assert attempt(tree, "t-0/offset/0")
        assert attempt(tree, "u-0/offset/0") is None
        entered = Tree(open_source(str(source), cross_device=True))
        assert b'"z0"' in (attempt(entered, "u-0/offset/0") or b"")
    finally:
        subprocess.run(["umount", "-l", source / "u-0"], check=True)


def test_fault_096_no_name_in_the_tree_is_made_of_a_records_bytes(
    tmp_path: Path, look: Look
) -> None:
    keys = [b"../../etc/passwd", b"a/b", b"nul\x00", b"k" * 300, b"..", b".", b"", b"\x1b]0;x\x07"]
    hostile = [Rec(b"v", key, START + n, ((key, key),)) for n, key in enumerate(keys)]
    log_dir(tmp_path, [batch([*hostile, *hostile], 0)])
    found = look(tmp_path)
    grammar = re.compile(r"[0-9A-Za-z._-]+")
    for folder, names in found.names.items():
        assert all(grammar.fullmatch(name) for name in names), folder
        assert len(set(names)) == len(names)


# -- listings


def pages(tree: Tree, folder: str, size: int) -> Iterator[list[str]]:
    """The listing of a folder, some names at a time, each time asked anew."""
    after = 0
    while True:
        node: Any = tree.resolve(folder)
        page = list(islice(node.entries(after), size))
        if not page:
            return
        assert all(entry.cookie > after for entry in page)
        after = page[-1].cookie
        yield [entry.name for entry in page]


@pytest.mark.parametrize("folder", ["", "t-0/segments", "t-0/records", "t-0/offset"])
def test_fault_098_a_folder_that_changes_while_listed_loses_and_repeats_nothing(
    tmp_path: Path, folder: str
) -> None:
    source = log_dir(tmp_path, BEFORE)
    for number in range(40):
        log_dir(source, [good("a", 6 + 3 * number)], 6 + 3 * number)
        log_dir(source, BEFORE, name=f"stay-{number}")
    opened = open_source(str(source))
    tree = Tree(opened)
    before = {name for page in pages(tree, folder, 1000) for name in page}
    listed: list[str] = []
    for number, page in enumerate(pages(tree, folder, 7)):
        listed += page
        if folder == "":
            log_dir(source, BEFORE, name=f"add-{number}")
            log_dir(source, BEFORE, name=f"stay-{number}x-0")
        else:
            # Segments go at one end and come at the other, as retention and rolls have it.
            for path in (source / "t-0").glob(f"{[0, 6, 9, 12, 15, 18][min(number, 5)]:020}.*"):
                path.unlink()
            base = 6 + 3 * (40 + number)
            log_dir(source, [good("a", base)], base)
        opened.partitions(max_age=0)
        opened.partitions()["t-0"].view(max_age=0)
        if number > 60:
            break
    assert len(listed) == len(set(listed))
    stayed = {name for page in pages(tree, folder, 1000) for name in page} & before
    assert stayed <= set(listed)
    assert len(stayed) > 20


def test_fault_098_a_folder_of_many_names_is_listed_by_pages(tmp_path: Path) -> None:
    source = log_dir(tmp_path, BEFORE)
    for number in range(5000):
        (source / "t-0" / f"{9 + number:020}.log").touch()
    tree = Tree(open_source(str(source)))
    listed = [name for page in pages(tree, "t-0/records", 512) for name in page]
    assert len(listed) == len(set(listed)) == 5001
