"""`--format` prints what `kcat -f` prints, byte for byte."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from kafkafs.cli import cli
from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic, producer
from tests.kafka.conftest import SEED

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
TOPIC = "formatted"
BYTES = (
    None,
    b"",
    b"k",
    "Zürich".encode(),
    b"\x00\xff\x00",
    b"%s %k\\n",
    b"line\nline",
    b"a" * 70_000,
)
HEADERS = ([], [("a", b"1")], [("a", None), ("b", b""), ("é", b"\xff,=")], [("z", b"cut\x00off")])
FORMATS = (
    r"%s\n",
    r"%t [%p] at offset %o: key %k: %s\n",
    r"%K %S %T|%h|\t%%\r",
    "%R%R%s",
    r"\x0a\x41bc\x0x41g\65\101\0x42\\%o\q\xff",
    r"\%k\%s\x7",
    r"%o\0129\x9999999999999999999999",
    "Zürich %s ☃",
)


class Written:
    """A running broker with one partition of records, and its log dir."""

    def __init__(self, broker: Broker) -> None:
        self.bootstrap = broker.bootstrap
        self.log_dir = broker.log_dir

    def kcat(self, form: str) -> bytes:
        """What kcat prints."""
        command = ["kcat", "-C", "-q", "-b", self.bootstrap, "-t", TOPIC, "-p", "0"]
        command += ["-o", "beginning", "-e", "-X", "isolation.level=read_uncommitted", "-f", form]
        return subprocess.run(command, capture_output=True, timeout=60, check=True).stdout


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    chosen = random.Random(SEED)
    with Broker(tmp_path_factory.mktemp("kcat")) as broker:
        create_topic(broker.bootstrap, TOPIC)
        client = producer(broker.bootstrap, transactional_id="kcat")
        client.init_transactions(30)
        client.begin_transaction()  # its marker is a record that consumers do not see
        for number, value in enumerate(BYTES * 3):
            client.produce(
                TOPIC,
                value,
                chosen.choice(BYTES),
                0,
                headers=HEADERS[number % len(HEADERS)],
                timestamp=1_700_000_000_000 + number,
            )
        client.commit_transaction(30)
        yield Written(broker)


def ours(command: str, *arguments: str) -> bytes:
    done = CliRunner().invoke(cli, [command, *arguments])
    assert done.exit_code == 0, done.stderr
    return done.stdout_bytes


@pytest.mark.parametrize("form", FORMATS)
def test_cat_prints_the_bytes_of_kcat(written: Written, form: str) -> None:
    expected = written.kcat(form)
    assert len(expected) > len(BYTES) * 3
    assert ours("cat", str(written.log_dir), f"{TOPIC}-0", "--format", form) == expected


def test_grep_prints_the_bytes_of_kcat_for_each_record(written: Written) -> None:
    form = r"%o %k %s %h\n"
    found = ours("grep", "-v", "no such text", str(written.log_dir), f"{TOPIC}-0", "--format", form)
    assert found == written.kcat(form)
