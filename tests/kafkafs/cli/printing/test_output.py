"""Standard output that ends early or takes nothing, and the exit status of grep."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kafkafs.cli import COMMANDS, main
from tests.fixtures_data import DATA, copy_of, log_dir

CURRENT = str(log_dir("current"))
KAFKAFS = [sys.executable, "-m", "kafkafs"]
PRINTING = (
    ("cat", CURRENT, "orders-0/records/00000000000000000000.jsonl"),
    ("check", CURRENT, "--json", "--topic", "orders"),
    ("dump", f"{CURRENT}/orders-0"),
    ("dump", f"{CURRENT}/orders-0", "--json"),
    ("du", CURRENT),
    ("grep", ".", CURRENT, "orders-0"),
    ("head", CURRENT, "orders-0"),
    ("tail", CURRENT, "orders-0"),
    ("tail", "-f", CURRENT, "orders-0"),
    ("groups", CURRENT),
    ("ls", CURRENT),
    ("offsets", CURRENT),
    ("plan", f"{CURRENT}/orders-0"),
    ("rebuild", "--dry-run", "--topic", "orders", CURRENT),
    ("topics", CURRENT),
    ("transactions", CURRENT),
    ("--help",),
)
ORDERS = f"{CURRENT}/orders-0"
WRITING = {
    "browse": (CURRENT,),
    "cat": (CURRENT, "orders-0/offset/35"),
    "check": (ORDERS,),
    "completion": ("bash",),
    "cp": ("--help",),
    "dump": (ORDERS,),
    "diff": (CURRENT, "--at", "@0"),
    "du": (CURRENT,),
    "erase": ("--plan", "--topic", "orders", "--key", "k341", CURRENT),
    "export": (ORDERS, "TARGET", "--format", "jsonl"),
    "get": (CURRENT, "orders", "k341", "--quiet"),
    "grep": (".", ORDERS),
    "groups": (CURRENT,),
    "head": (CURRENT, "orders-0"),
    "help": ("tree",),
    "ls": (CURRENT,),
    "mount": ("--help",),
    "offsets": (CURRENT,),
    "plan": (ORDERS,),
    "rebuild": (ORDERS, "TARGET"),
    "recover": ("--help",),
    "report": (ORDERS, "--output", "-", "--quiet"),
    "schemas": (str(DATA / "schemas-confluent" / "data"),),
    "serve": ("--help",),
    "spark": ("--help",),
    "sql": ("select count(*) from orders", ORDERS),
    "stats": (ORDERS,),
    "tail": (CURRENT, "orders-0", "-f"),
    "top": ("--help",),
    "topics": (CURRENT,),
    "transactions": (CURRENT,),
    "umount": ("--help",),
}
"""Arguments of each command with which it writes something."""


@pytest.mark.parametrize("arguments", PRINTING, ids=lambda each: each[0])
def test_a_closed_pipe_ends_a_command_as_it_ends_cat(arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*KAFKAFS, *arguments], stdout=writer, stderr=subprocess.PIPE, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")


def test_head_gets_its_lines_and_grep_ends_quietly() -> None:
    command = [*KAFKAFS, "grep", ".", CURRENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as grep:
        assert grep.stdout is not None
        assert grep.stderr is not None
        assert grep.stdout.readline().startswith(b'{"topic":')
        grep.stdout.close()
        assert (grep.wait(60), grep.stderr.read()) == (-signal.SIGPIPE, b"")


FAILING = [
    *((command, ">/dev/full", "No space left on device") for command in sorted(COMMANDS)),
    # Before any command starts, a closed output is made one that fails at the first write.
    *((command, ">&-", "standard output is closed") for command in ("cat", "check", "grep", "head", "ls", "rebuild", "tail")),
]  # fmt: skip


@pytest.mark.parametrize(("command", "output", "reason"), FAILING)
def test_an_output_that_takes_nothing_is_one_line_and_status_3_in_every_command(
    command: str, output: str, reason: str, tmp_path: Path
) -> None:
    arguments = [each.replace("TARGET", str(tmp_path / "target")) for each in WRITING[command]]
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {output}', "sh", *KAFKAFS, command, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    said = f"kafkafs: cannot write the output: {reason}\n"
    assert (done.returncode, done.stderr) == (3, said)


@pytest.mark.parametrize("output", [">/dev/full", ">&-"])
def test_a_command_that_writes_nothing_needs_no_output(output: str, tmp_path: Path) -> None:
    words = [*KAFKAFS, "cp", CURRENT, "orders-0/offset/3.value", str(tmp_path / "value")]
    done = subprocess.run(["sh", "-c", f'"$@" {output}', "sh", *words], stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "value").read_bytes()


@pytest.mark.parametrize("output", [">/dev/full", ">&-"])
def test_findings_that_could_not_be_written_are_status_3(output: str, damaged: str) -> None:
    words = [*KAFKAFS, "check", damaged, "--topic", "orders"]
    assert subprocess.run(words, stdout=subprocess.DEVNULL).returncode == 1
    done = subprocess.run(["sh", "-c", f'"$@" {output}', "sh", *words], stderr=subprocess.PIPE)
    assert done.returncode == 3


@pytest.fixture
def damaged(tmp_path: Path) -> str:
    """A log dir with one wrong byte in orders-0."""
    source = copy_of("current", tmp_path, ["orders-0", "recoded-zstd-0"])
    log = min((source / "orders-0").glob("*.log"))
    with open(log, "r+b") as file:
        file.seek(400)
        byte = file.read(1)
        file.seek(400)
        file.write(bytes([byte[0] ^ 1]))
    return str(source)


def grep(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as left:
        main(["grep", *arguments])
    return int(left.value.code or 0), capsys.readouterr().err


def test_grep_is_3_where_a_part_was_not_searched(
    capsys: pytest.CaptureFixture[str], damaged: str
) -> None:
    for pattern in (".", "nothing-has-this"):
        status, error = grep(capsys, pattern, damaged)
        assert status == 3
        assert error.endswith("kafkafs: not all was searched: 1 damaged place\n")
    status, error = grep(capsys, "nothing-has-this", damaged, "-c", "--json")
    assert status == 3
    assert error.startswith('{"error":{')


def test_grep_is_0_or_1_where_all_was_searched(
    capsys: pytest.CaptureFixture[str], damaged: str
) -> None:
    assert grep(capsys, ".", damaged, "recoded-zstd-0") == (0, "")
    assert grep(capsys, "nothing-has-this", damaged, "recoded-zstd-0") == (1, "")


def test_grep_q_is_0_as_soon_as_a_record_matches(
    capsys: pytest.CaptureFixture[str], damaged: str
) -> None:
    assert grep(capsys, "-q", ".", damaged)[0] == 0
    assert grep(capsys, "-q", "nothing-has-this", damaged)[0] == 3
