"""What people have in hand: each opens as one partition, or is refused with a sentence that helps."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.fixtures_data import log_dir, truth_records

SAMPLE = log_dir("sample")
PARTITION = SAMPLE / "orders-0"
FIRST = min(PARTITION.glob("*.log"))
RECORDS = truth_records("sample", "orders-0")
NAME_ONE = "name one of its files"
KEY = (RECORDS[0].key or b"").decode()
IN_FIRST = int(sorted(PARTITION.glob("*.log"))[1].stem)


class Source(NamedTuple):
    """What a person has, and how it opens: its topic, or the words of the refusal."""

    make: Callable[[Path], Path]
    topic: str | None
    records: int = 0
    refusal: str = ""
    number: int = 0


def one_file(name: str) -> Callable[[Path], Path]:
    """Make a segment of a partition under another name."""

    def make(folder: Path) -> Path:
        (folder / "mail").mkdir()
        shutil.copy(FIRST, folder / "mail" / name)
        return folder / "mail" / name

    return make


def _link(folder: Path) -> Path:
    (folder / "link").symlink_to(FIRST)
    return folder / "link"


def _renamed_folder(folder: Path) -> Path:
    return Path(shutil.copytree(PARTITION, folder / "copy of Monday"))


def _folder(folder: Path) -> Path:
    return Path(shutil.copytree(PARTITION, folder / "orders-0"))


def _above(folder: Path) -> Path:
    shutil.copytree(SAMPLE, folder / "kafka" / "data-0" / "kafka-log0")
    return folder / "kafka"


def _brokers(folder: Path) -> Path:
    shutil.copytree(SAMPLE, folder / "brokers" / "kafka-1")
    return folder / "brokers"


def _tree(*names: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        for name in names:
            path = folder / "other" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x" * 100)
        return folder / "other"

    return make


def _image(position: int, magic: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        data = bytearray(200_000)
        data[position : position + len(magic)] = magic
        (folder / "sda1.img").write_bytes(data)
        return folder / "sda1.img"

    return make


SOURCES = {
    "a renamed file": Source(one_file("payments.log"), "payments", IN_FIRST),
    "a file called like a partition": Source(
        one_file("payments-7.log"), "payments", IN_FIRST, number=7
    ),
    "a segment in any folder": Source(one_file(FIRST.name), "mail", IN_FIRST),
    "a carved file": Source(one_file("f00123.dat"), "f00123.dat", IN_FIRST),
    "a link": Source(_link, "orders", IN_FIRST),
    "a renamed folder": Source(_renamed_folder, "copy_of_Monday", len(RECORDS)),
    "a partition's folder": Source(_folder, "orders", len(RECORDS)),
    "a folder above log dirs": Source(_above, None, refusal="log dirs below it: "),
    "log dirs called like partitions": Source(_brokers, None, refusal="log dirs below it: "),
    "ZooKeeper": Source(
        _tree("version-2/log.1", "version-2/snapshot.0"), None, refusal="ZooKeeper"
    ),
    "Redpanda": Source(
        _tree("redpanda/controller/0_0/0-1-v1.log", "kafka/orders/0_12/0-1-v1.log"),
        None,
        refusal="Redpanda",
    ),
    "BookKeeper": Source(_tree("current/0.log", "current/lastMark"), None, refusal="BookKeeper"),
    "Pulsar": Source(_tree("bookkeeper/a", "metadata/b"), None, refusal="Pulsar"),
    "Kafka Streams": Source(_tree("0_0/rocksdb/store/CURRENT"), None, refusal="Kafka Streams"),
    "RocksDB": Source(_tree("CURRENT", "MANIFEST-000004", "000003.log"), None, refusal="RocksDB"),
    "an XFS image": Source(_image(0, b"XFSB"), None, refusal="mount it first"),
    "an ext4 image": Source(_image(1080, b"\x53\xef"), None, refusal="mount it first"),
    "a device": Source(lambda _: Path("/dev/loop0"), None, refusal="mount it first"),
    "renamed files in a folder": Source(_tree("a.log", "b.log"), None, refusal=NAME_ONE),
    "photographs": Source(
        _tree("a.jpg"), None, refusal="is not a log dir|contains no file of a log directory"
    ),
}


@pytest.fixture(params=SOURCES)
def at_hand(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Source]:
    """Each kind, made anew, and how it opens."""
    found = SOURCES[request.param]
    path = found.make(tmp_path)
    if not path.exists():
        pytest.skip(f"no {path} here")
    return path, found


def controllers_dir(folder: Path) -> Path:
    """The log dir of a KRaft controller, which has no log but that of the metadata."""
    path = folder / "controller"
    shutil.copytree(log_dir("current") / "__cluster_metadata-0", path / "__cluster_metadata-0")
    shutil.copy(log_dir("current") / "meta.properties", path)
    return path
