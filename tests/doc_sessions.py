"""Sessions in the documents: read them, run them in a prepared folder, compare and rewrite their output.

A block ```console has a line `<!-- session: NAME -->` above it; NAME is a function of `PREPARATIONS`, which
makes the files of the session. In the text the folders /var/lib/kafka, /backup, /srv and /mnt stand for
folders of the prepared one. `…` in an output stands for any text, on a line of its own for any lines.

    python -m tests.doc_sessions [FILE]...     writes the real output into the documents
"""

from __future__ import annotations

import atexit
import gzip
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.builders import Rec
from tests.fixtures_data import DATA, log_dir
from tests.object_stores import ENVIRONMENT, object_store
from tests.schema_records import NOW, schema_record, tombstone, write_topic
from tests.schema_truth import schema_log_dir
from tests.tiered_folders import TieredWriter

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "kafkafs" / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"^(?:<!-- session: ([\w-]+) -->\n)?```console\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
FOLDERS = re.compile(r"(?<![\w.…/])/(?=(?:var/lib/kafka|backup|srv|mnt)\b)")
LIMIT_SECONDS = 200
NOISE = "WARNING: Using incubator modules: jdk.incubator.vector"
"""Line of the JVM that Spark starts; no option turns it off."""
PROGRESS = re.compile(
    r"kafkafs: .+ [KMGT]?i?B/s(, \d+m \d+s left)?|kafkafs \w+: \d+%, .+ tasks, \d+ running"
)
"""Line that a command or a job without a terminal prints when it takes 30 seconds, as on a busy machine."""


class Step(NamedTuple):
    """A command, and its output in the document."""

    command: str
    output: list[str]


@dataclass(frozen=True)
class Session:
    """A block of a document.

    Attributes:
        document: the file.
        line: number of the first command's line.
        preparation: name of the function that makes its files; empty if the document has none.
        steps: the commands in order.
    """

    document: Path
    line: int
    preparation: str
    steps: tuple[Step, ...]

    @property
    def name(self) -> str:
        """Place in the documents, for test names."""
        return f"{self.document.name}:{self.line}"

    @property
    def mounts(self) -> bool:
        """Whether the session mounts a file system."""
        return any(step.command.startswith("kafkafs mount") for step in self.steps)


def sessions_of(document: Path) -> list[Session]:
    """Return the sessions of a document."""
    text = document.read_text(encoding="utf-8")
    return [
        Session(
            document,
            text.count("\n", 0, found.start(2)) + 1,
            found[1] or "",
            tuple(_steps(found[2])),
        )
        for found in BLOCK.finditer(text)
    ]


def run(session: Session, folder: Path) -> Iterator[list[str]]:
    """Run a session in an empty folder; yield the output of each command, with the document's paths."""
    PREPARATIONS[session.preparation](folder)
    environment = dict(os.environ, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    environment.update(LC_ALL="C.UTF-8", TZ="UTC", HOME=str(folder), COLUMNS="120")
    try:
        for step in session.steps:
            command = FOLDERS.sub(f"{folder}/", step.command)
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=folder / "srv",
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=LIMIT_SECONDS,
                check=False,
            )
            yield output_of(done.stdout.decode().replace(str(folder), ""))
    finally:
        if session.mounts:
            subprocess.run(["fusermount3", "-uz", folder / "mnt"], check=False, capture_output=True)


def output_of(text: str) -> list[str]:
    """Return the lines of a command's output, without those that come and go with the machine."""
    return [line for line in text.splitlines() if line != NOISE and not PROGRESS.fullmatch(line)]


def matches(expected: list[str], found: list[str]) -> bool:
    """Return whether an output is the document's one, whatever the width of its columns."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "…" else re.escape(_narrow(line)).replace("…", ".*") + r"\n"
        for line in expected
    )
    return re.fullmatch(pattern, "".join(f"{_narrow(line)}\n" for line in found)) is not None


def _narrow(line: str) -> str:
    """Shorten the gaps between columns, which depend on the length of the prepared folder's path."""
    return re.sub(r"(?<=\S) {2,}", "  ", line)


def rewrite(document: Path) -> int:
    """Write the real output of each session into a document; return the number of changed sessions."""
    text = document.read_text(encoding="utf-8")
    changed = 0
    for session in sessions_of(document):
        with tempfile.TemporaryDirectory() as folder:
            outputs = list(run(session, Path(folder)))
        wrong = [
            (step, found)
            for step, found in zip(session.steps, outputs, strict=True)
            if not matches(step.output, found)
        ]
        for step, found in wrong:
            old, new = (
                "\n".join([f"$ {step.command}", *lines, ""]) for lines in (step.output, found)
            )
            text = text.replace(old, new, 1)
        changed += bool(wrong)
    document.write_text(text, encoding="utf-8")
    return changed


def _steps(block: str) -> Iterator[Step]:
    step: Step | None = None
    for line in block.splitlines():
        if line.startswith("$ "):
            if step is not None:
                yield step
            step = Step(line[2:], [])
        elif step is not None:
            step.output.append(line)
    if step is not None:
        yield step


# Preparations


def sample(folder: Path) -> None:
    """Make the log dir of the bundled sample, and empty folders."""
    for name in ("backup", "srv", "mnt"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    shutil.copytree(log_dir("sample"), folder / "var/lib/kafka/data")


def masked(folder: Path) -> None:
    """Make the log dir of the bundled sample, and beside it a policy of masks with its key."""
    sample(folder)
    (folder / "srv/mask.key").write_text("not a secret: the key of the page\n")
    (folder / "srv/mask.toml").write_text(
        'key_file = "mask.key"\n\n[[rules]]\ntopics = ["orders"]\n\n[rules.fields]\n'
        '".key" = "hash"\n".value.note" = "drop"\n".value.city" = { replace = "hidden" }\n\n'
        '[rules.headers]\ntrace-id = "hash"\n'
    )


def current(folder: Path) -> None:
    """Make the log dir of a 4.3.1 broker with all kinds of topics."""
    sample(folder)
    shutil.rmtree(folder / "var/lib/kafka/data")
    shutil.copytree(log_dir("current"), folder / "var/lib/kafka/data")


def dead_cluster(folder: Path) -> None:
    """Make the log dirs of three nodes whose leaders lost the ends of their files in a power failure."""
    (folder / "srv").mkdir()
    with tarfile.open(DATA / "dead-cluster.tar.gz") as packed:
        packed.extractall(folder / "backup", filter="data")


def _flip(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 1
    file.write_bytes(data)


def _keep_present(checkpoint: Path) -> None:
    """Remove the entries of partitions without a folder from an offset checkpoint."""
    version, _, *entries = checkpoint.read_text().splitlines()
    kept = [each for each in entries if (checkpoint.parent / "-".join(each.split()[:2])).is_dir()]
    checkpoint.write_text("\n".join([version, str(len(kept)), *kept, ""]))


def damaged(folder: Path) -> None:
    """Damage a copy of orders-0: flip a bit, change a length, remove a segment."""
    sample(folder)
    partition = folder / "backup/orders-0"
    shutil.copytree(log_dir("sample") / "orders-0", partition)
    first = partition / f"{0:020}.log"
    _flip(first, 4500)
    _flip(first, 20287 + 11)
    (partition / f"{395:020}.log").unlink()


def replicas(folder: Path) -> None:
    """Make two copies of orders-0: one with a damaged batch, and with another last record."""
    sample(folder)
    for name in ("broker-1", "broker-2"):
        shutil.copytree(log_dir("sample") / "orders-0", folder / "srv" / name / "orders-0")
    _flip(folder / f"srv/broker-2/orders-0/{0:020}.log", 6000)


def broken(folder: Path) -> None:
    """Make a log dir with one bit flipped, beside another broker's replica of it, whole."""
    sample(folder)
    for name in ("data", "replica"):
        shutil.copytree(log_dir("sample"), folder / "srv" / name)
    _flip(folder / f"srv/data/orders-0/{395:020}.log", 28800)
    _lower_recovery_point(folder / "srv/data")


def _lower_recovery_point(data: Path) -> None:
    """Set the recovery point of orders-0 as it was before the last minutes."""
    recovery_points = data / "recovery-point-offset-checkpoint"
    text = recovery_points.read_text()
    recovery_points.write_text(text.replace("orders 0 1000", "orders 0 395"))


def died(folder: Path) -> None:
    """Make the log dir of a broker that crashed, with one bit flipped, beside another broker's log dir."""
    sample(folder)
    data = folder / "var/lib/kafka/data"
    (data / ".kafka_cleanshutdown").unlink()
    _flip(data / f"orders-0/{395:020}.log", 28800)
    _lower_recovery_point(data)
    shutil.copytree(log_dir("sample"), folder / "backup/broker-2")
    for checkpoint in data.glob("*-checkpoint"):
        _keep_present(checkpoint)


def sparked(folder: Path) -> None:
    """Make a whole log dir, and one with a bit flipped."""
    sample(folder)
    for name in ("data", "hurt"):
        shutil.copytree(log_dir("sample"), folder / "srv" / name)
    for checkpoint in folder.glob("srv/*/*-checkpoint"):
        _keep_present(checkpoint)
    _flip(folder / f"srv/hurt/orders-0/{395:020}.log", 28800)


def tiered(folder: Path) -> None:
    """Make a tiered copy of orders-0, with one segment copied twice."""
    sample(folder)
    partition = log_dir("sample") / "orders-0"
    writer = TieredWriter(folder / "backup/kafka-tiered-storage")
    for base_offset in (0, 395, 395, 790):
        writer.copy(partition, base_offset)


def bucket(folder: Path) -> None:
    """Objects of Aiven's plugin, compressed and encrypted, with a flipped bit in one; the key of the others."""
    shutil.copytree(DATA / "aiven" / "both" / "backup", folder / "backup/bucket")
    log = next((folder / "backup/bucket").glob(f"*/0/{557:020}-*.log"))
    _flip(log, 9000)
    (folder / "srv/keys").mkdir(parents=True)
    shutil.copyfile(DATA / "aiven/keys/key-1.private.pem", folder / "srv/keys/key-1.pem")


def stored(folder: Path) -> None:
    """A log dir in an object store, and what reaches it."""
    running = object_store()
    store = running.__enter__()
    atexit.register(running.__exit__, None, None, None)
    store.put_folder(log_dir("sample"), "kafka")
    settings = ENVIRONMENT | {"KAFKAFS_STORE_OPTIONS": f"endpoint={store.endpoint}"}
    lines = [f"export {name}='{value}'\n" for name, value in settings.items()]
    (folder / "srv").mkdir()
    (folder / "srv/store.env").write_text("".join(lines))


def schemas(folder: Path) -> None:
    """A log dir with the topic of a registry: a reference, a soft deletion and a hard one."""
    (folder / "srv").mkdir()
    item = '{"type":"record","name":"Item","namespace":"shop","fields":[]}'
    order = '{"type":"record","name":"Order","namespace":"shop","fields":[%s]}'
    reference = {"name": "shop.Item", "subject": "items-value", "version": 1}
    records = [
        schema_record("items-value", 1, 1, item),
        schema_record(
            "orders-value",
            1,
            2,
            order % '{"name":"item","type":"Item"}',
            references=[reference],
            timestamp=NOW + 1000,
        ),
        schema_record(
            "orders-value", 2, 3, order % '{"name":"id","type":"long"}', timestamp=NOW + 2000
        ),
        schema_record("items-value", 1, 1, item, deleted=True, timestamp=NOW + 3000),
        tombstone("orders-value", 2, NOW + 4000),
    ]
    write_topic(folder / "var" / "lib" / "kafka" / "data", records)


def typed(folder: Path) -> None:
    """A log dir with topics whose keys and values carry no schema, and a mapping of their types."""
    (folder / "srv").mkdir()
    (folder / "srv" / "types.toml").write_text(
        """[topics.orders]
key = { type = "int64" }
value = { type = "gzip/json" }

[topics.clicks]
value = { type = "cbor" }

[topics."*-changelog"]
key = { type = "windowed-store/string" }
value = { type = "int64" }
"""
    )
    window = (1_700_000_000_000).to_bytes(8, "big") + bytes(4)
    topics = {
        "orders": [
            Rec(
                gzip.compress(b'{"id":%d,"city":"%s"}' % (each, city), mtime=0),
                each.to_bytes(8, "big"),
            )
            for each, city in ((41, b"Oslo"), (42, b"Lagos"))
        ],
        "clicks": [
            Rec(bytes.fromhex("a2626964182a647061676565 2f63617274"), b"u1"),
            Rec(b"?", b"u2"),
        ],
        "app-clicks-changelog": [Rec((12).to_bytes(8, "big"), b"u1" + window)],
    }
    for topic, records in topics.items():
        write_topic(folder / "var/lib/kafka/data", records, name=f"{topic}-0")


def registered(folder: Path) -> None:
    """A log dir with the topic of a registry, and topics of its serializers."""
    (folder / "srv").mkdir()
    (folder / "var/lib/kafka").mkdir(parents=True)
    shutil.copytree(schema_log_dir("schemas-confluent"), folder / "var/lib/kafka/data")


PREPARATIONS: dict[str, Callable[[Path], None]] = {
    each.__name__: each
    for each in (
        sample,
        current,
        damaged,
        replicas,
        broken,
        died,
        sparked,
        tiered,
        bucket,
        stored,
        schemas,
        registered,
        typed,
        masked,
        dead_cluster,
    )
}


if __name__ == "__main__":
    for path in [Path(word).resolve() for word in sys.argv[1:]] or DOCUMENTS:
        print(f"{path.relative_to(ROOT)}: {rewrite(path)} sessions changed")
