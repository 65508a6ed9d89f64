"""What a start costs, in modules: a command imports what it needs, and no command more than its share."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest
from click.testing import CliRunner

from kafkafs.cli import cli
from tests.fixtures_data import log_dir

LIST = """
import sys
sys.argv = ["kafkafs", *sys.argv[1:]]
from kafkafs.cli import main
try:
    main()
except SystemExit:
    print(*sys.modules, sep="\\n", file=sys.stderr)
"""


def modules(*arguments: object) -> set[str]:
    """The modules that a run of the command has imported at its end."""
    command = [sys.executable, "-c", LIST, *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, check=True)
    return set(run.stderr.decode().splitlines())


def ours(found: set[str]) -> set[str]:
    return {name for name in found if name.split(".")[0] in ("engine", "kafkafs")}


@pytest.mark.parametrize("command", [[], ["cat"], ["check"], ["mount"], ["umount"]])
def test_help_imports_no_engine(command: list[str]) -> None:
    found = modules(*command, "--help")
    assert not {"numpy", "trio", "pyfuse3", "engine.kernel", "logging", "rich"} & found
    assert len(ours(found)) <= 45


LOOK_UPS = [
    ["cat", "orders-0/offset/35"],
    ["ls"],
    ["ls", "orders-0/offset/35"],
    ["offsets"],
]


@pytest.mark.parametrize("asked", LOOK_UPS, ids=" ".join)
def test_a_look_up_imports_no_numpy_no_replay_and_no_mount(asked: list[str]) -> None:
    found = modules(asked[0], log_dir("sample"), *asked[1:])
    assert (
        not {"numpy", "trio", "pyfuse3", "rich", "concurrent.futures", "engine.replay.source_state"}
        & found
    )
    assert not any(
        name.startswith(("engine.check.", "engine.writing.", "kafkafs.dump")) for name in found
    )
    assert len(ours(found)) <= 216


def test_a_list_of_topics_to_browse_imports_nothing_that_reads_records() -> None:
    found = modules("browse", log_dir("sample"))
    assert not {"numpy", "rich", "kafkafs.browse.record_pages"} & found
    assert not any(name.startswith(("engine.check.", "kafkafs.decode.searching")) for name in found)
    assert len(ours(found)) <= 258


@pytest.mark.parametrize(
    "asked",
    [["dump", "--print-data-log"], ["dump", "--json"], ["cat", "-t", "orders"]],
    ids=" ".join,
)
def test_a_small_text_imports_nothing_for_several_cores(asked: list[str]) -> None:
    found = modules(asked[0], log_dir("sample"), *asked[1:], "-j", "4")
    assert not {"concurrent.futures", "engine.workers", "engine.processes"} & found


def test_bulk_work_imports_numpy_and_a_look_up_after_it_uses_it() -> None:
    code = """
import sys, kafkafs
with kafkafs.open(sys.argv[1]) as tree:
    line = tree.read("orders-0/offset/35")
    assert "numpy" not in sys.modules
    assert line in tree.read("orders-0/records/00000000000000000000.jsonl")
    assert "numpy" in sys.modules
    assert tree.read("orders-0/offset/35") == line
"""
    subprocess.run([sys.executable, "-c", code, str(log_dir("sample"))], check=True)


HELPER = """
import gc, sys
sys.argv = ["mount.kafkafs", "/data", "/mnt", "-o", "ro"]
from kafkafs.cli.daemons import mounting
mounting.mount_as_helper = lambda words: sys.exit(0 if gc.isenabled() else 9)
from kafkafs.__main__ import main
main()
"""


def test_a_daemon_of_mount_collects_garbage() -> None:
    assert subprocess.run([sys.executable, "-c", HELPER], check=False).returncode == 0


def test_a_command_within_another_program_leaves_its_objects_to_the_collector() -> None:
    before = gc.get_freeze_count()
    assert CliRunner().invoke(cli, ["ls", str(log_dir("sample"))]).exit_code == 0
    assert gc.get_freeze_count() <= before
    assert gc.isenabled()


def test_the_checks_before_a_mount_need_no_fuse_library() -> None:
    code = "import sys, kafkafs.mount.daemon; print(*sys.modules, sep='\\n')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert not {"trio", "pyfuse3", "numpy"} & set(run.stdout.decode().splitlines())


def test_the_exit_status_and_the_output_survive_the_quick_end() -> None:
    for arguments, status, start in (
        (["cat", log_dir("sample"), "orders-0/offset/35"], 0, b'{"topic":"orders"'),
        (["cat", log_dir("sample"), "no-such-0/offset/35"], 3, b""),
        (["cat"], 2, b""),
    ):
        command = [sys.executable, "-m", "kafkafs", *map(str, arguments)]
        run = subprocess.run(command, capture_output=True, check=False)
        assert run.returncode == status, run.stderr
        assert run.stdout.startswith(start)
