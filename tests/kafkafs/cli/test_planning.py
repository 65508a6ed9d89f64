"""`kafkafs plan` as a user meets it: what it prints, exit status, a source that stays as it was."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from engine.errors import SourceError
from kafkafs.cli import cli
from tests.fixtures_data import copy_of
from tests.open_folders import let_all_enter, share
from tests.replayed_bytes import write_metadata_log

RECORD_BYTES = 417_867
SECOND = "orders-0/00000000000000000395.log"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["plan", *arguments])


def objects(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(*arguments, "--json").stdout.splitlines()]


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    """The sample's log dir, with a metadata log."""
    made = copy_of("sample", tmp_path / "data")
    let_all_enter(made)
    write_metadata_log(made)
    return made


@pytest.fixture
def hurt(sound: Path) -> Path:
    """The same with one bit flipped, and nothing flushed since."""
    data = bytearray((sound / SECOND).read_bytes())
    data[30_000] ^= 1
    (sound / SECOND).write_bytes(data)
    (sound / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    return sound


def metadata_bytes(log_dir: Path) -> int:
    """Size of the metadata log."""
    return (log_dir / "__cluster_metadata-0" / f"{0:020}.log").stat().st_size


def test_a_sound_log_dir_is_status_0(sound: Path) -> None:
    result = run(str(sound))
    assert result.exit_code == 0
    assert result.stdout == (
        f"{sound}: 4 logs, marked as cleanly closed, planned with no recovery\n"
        "A 4.4.0 broker starts with 4 logs: the start takes no records away;"
        f" all {RECORD_BYTES + metadata_bytes(sound)} bytes of records were read, and every checksum is right\n"
    )


def test_offsets_that_a_broker_gives_again_are_said(sound: Path) -> None:
    (sound / "orders-0" / "00000000000000000790.log").unlink()
    result = run(str(sound))
    assert result.exit_code == 1
    assert (
        "  offsets 790 to 999 were assigned before (the recovery point is 1000, the high watermark is 1000,"
        " the newest producer snapshot is of offset 1000, 00000000000000000790.timeindex has an entry for"
        " offset 999 but no records file), and no records file has them:"
        " a leader assigns them to new records\n"
    ) in result.stdout
    assert "4 logs: it gives 210 offsets to other records than before\n" in result.stdout
    (log,) = (each for each in objects(str(sound)) if each.get("folder") == "orders-0")
    assert (log["harmless"], log["logEndOffset"], log["offsetsGivenAgain"]) == (False, 790, 210)


def test_a_leader_epoch_alone_shows_that_offsets_are_given_again(sound: Path) -> None:
    for path in (*sound.glob("*-checkpoint"), *sound.glob("orders-0/*0790.*")):
        path.unlink()
    for path in sound.glob("orders-0/*.snapshot"):
        path.unlink()
    epochs = sound / "orders-0" / "leader-epoch-checkpoint"
    epochs.write_text("0\n2\n0 0\n9 900\n")
    result = run(str(sound))
    assert (
        "  offsets 790 to 899 were assigned before (leader epoch 9 begins at offset 900), and no records file"
    ) in result.stdout


def test_what_nobody_read_is_not_called_whole(hurt: Path) -> None:
    result = run(str(hurt), "--no-records")
    assert "checksum" not in result.stdout
    size = metadata_bytes(hurt)
    assert (
        f"the start takes no records away; not read: {RECORD_BYTES} of {RECORD_BYTES + size} bytes of records\n"
    ) in result.stdout


def test_what_is_no_log_dir_is_not_to_be_formatted(tmp_path: Path) -> None:
    (tmp_path / "usr").mkdir()
    result = run(str(tmp_path))
    assert isinstance(result.exception, SourceError)
    assert "is not a log dir" in str(result.exception)
    assert result.stdout == ""


def test_a_release_that_nobody_knows_is_refused_with_those_that_are_known(sound: Path) -> None:
    result = run(str(sound), "--broker-version", "9.9.9")
    assert result.exit_code == 2
    assert "2.8 to 4.4 are known" in result.stderr


def test_a_crash_makes_one_bit_cost_the_rest_of_the_log(hurt: Path) -> None:
    unseen = run(str(hurt))  # after a clean stop the broker does not look
    assert unseen.exit_code == 1
    assert (
        "  the broker does not look at 1 damaged batch of 1818 bytes, and will serve errors there:\n"
        f"    {Path(SECOND).name} at byte 28659, 1818 bytes: the batch's checksum is wrong"
    ) in unseen.stdout
    assert "starts with 4 logs: it will serve 1 damaged batch as errors\n" in unseen.stdout
    result = run(str(hurt), "--unclean")
    assert result.exit_code == 1
    assert "orders-0: log start 0, log end 1000 becomes 568\n" in result.stdout
    span = "of 2023-11-14T22:42Z to 2023-11-14T23:03Z"
    assert f"  lost: 420 records at offsets 580..1000, {span}\n" in result.stdout
    size = "71,089 bytes of records files"
    assert f"  {size} go, 1,818 bytes of which are damaged\n" in result.stdout
    assert result.stdout.endswith(
        f"a start takes in all: 420 records, 420 offsets in 1 partition, {span}; {size}, 1,818 bytes of which are damaged\n"
        "lost for good here: 12 offsets in 1 partition, about 2023-11-14T22:41Z to 2023-11-14T22:42Z, before any start\n"
        f"next: kafkafs rebuild {hurt} TARGET writes all that can be read to a new log dir\n"
    )
    assert f"  {Path(SECOND).name}: truncated from 65212 to 28659 bytes\n" in result.stdout
    assert "00000000000000000790.log.deleted, deleted a minute later\n" in result.stdout


def test_json_has_each_log_each_log_dir_and_the_broker(hurt: Path) -> None:
    *logs, loss, log_dir, broker = objects(str(hurt), "--unclean")
    assert [log["kind"] for log in logs] == ["log"] * 4
    assert (loss["loss"]["firstOffset"], loss["loss"]["nextOffset"]) == (568, 580)
    (orders,) = [log for log in logs if log["folder"] == "orders-0"]
    assert (orders["logEndOffsetBefore"], orders["logEndOffset"], orders["harmless"]) == (
        1000,
        568,
        False,
    )
    lost = {
        "records": 420, "controlRecords": 0, "offsets": 420, "bytes": 71089, "damagedBytes": 1818,
        "firstTimestamp": 1_700_001_739_859, "lastTimestamp": 1_700_002_997_173,
    }  # fmt: skip
    assert orders["lost"] == {**lost, "ranges": [{"firstOffset": 580, "nextOffset": 1000}]}
    assert log_dir["marker"] is True
    assert broker == {
        "kind": "broker", "version": "4.4.0", "plannedLogs": 4, "logs": 4, "outcome": "loads",
        "reason": None, "harmless": False, "lost": {"partitions": 1, **lost}, "lostFolders": 0,
        "lossTotals": {
            "offsets": 12, "partitions": 1, "certain": True,
            "timestampBefore": 1_700_001_700_711, "timestampAfter": 1_700_001_739_859,
        },
        "forgetsTopics": False, "damagedBatches": 0, "offsetsGivenAgain": 0,
        "recordBytes": 346_778 + metadata_bytes(hurt), "unreadBytes": 0,
    }  # fmt: skip


def test_what_keeps_a_broker_from_starting_is_said_last(sound: Path) -> None:
    (sound / "lost+found").mkdir()
    result = run(str(sound))
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-2].startswith(
        "A 4.4.0 broker does not start: the folder 'lost+found' is not named like a partition's"
    )


def test_every_file_on_request(sound: Path) -> None:
    result = run(str(sound / "orders-0"), "--changed-files")
    assert result.exit_code == 0
    assert "00000000000000000790.index: preallocated, " in result.stdout


def test_usage_and_unreadable(tmp_path: Path) -> None:
    assert run(str(tmp_path), "--broker-version", "0.8").exit_code == 2
    assert run().exit_code == 2
    with pytest.raises(Exception, match="is not there"):
        CliRunner().invoke(cli, ["plan", str(tmp_path / "none")], catch_exceptions=False)


def test_the_source_stays_as_it_was_even_where_all_changes(hurt: Path) -> None:
    def seal() -> dict[str, Any]:
        found = {}
        for folder, _, files in os.walk(hurt):
            for path in (folder, *(os.path.join(folder, name) for name in files)):
                status = os.stat(path)
                found[path] = status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
        return found

    before = seal()
    for options in ((), ("--unclean",), ("--unclean", "--broker-version", "2.8.2")):
        run(str(hurt), *options)
    assert seal() == before
    for path, facts in before.items():
        os.chmod(path, 0o555 if os.path.isdir(path) else 0o444)
        assert facts
    assert run(str(hurt), "--unclean").exit_code == 1


def test_a_user_who_may_not_write_to_the_log_dir_cannot_start_a_broker_on_it(sound: Path) -> None:
    share(sound, folders=0o755, files=0o644)
    result = run(str(sound), "--broker-user", "4711")
    assert result.exit_code == 1
    assert f"the broker does not use it: {sound}" in result.stdout
    assert "4711 may not write it (" in result.stdout
    assert result.stdout.splitlines()[-1] == (
        f"next: kafkafs check --rule file-rights {sound} names the files that the broker's user may not use;"
        " plan again once it may"
    )
    assert run(str(sound)).exit_code == 0


def test_a_file_that_the_user_may_not_write_takes_its_log_dir_offline(sound: Path) -> None:
    share(sound, folders=0o777, files=0o666)
    (sound / SECOND).chmod(0o644)
    result = run(str(sound), "--broker-user", "4711")
    reason = f"AccessDeniedException: {sound / SECOND}: 4711 may not write it"
    assert f"orders-0: its log dir goes offline: {reason}" in result.stdout
    assert result.exit_code == 1


def test_an_index_that_is_opened_after_the_start_is_a_risk(sound: Path) -> None:
    share(sound, folders=0o777, files=0o666)
    (sound / "orders-0" / f"{0:020}.index").chmod(0o644)
    result = run(str(sound), "--broker-user", "4711")
    assert "may not write it" in result.stdout
    assert "the log dir goes offline once the broker looks into it" in result.stdout
    assert "A 4.4.0 broker starts with 4 logs: with the risks above" in result.stdout
    assert result.exit_code == 1


def test_a_user_that_this_machine_lacks_needs_its_number(sound: Path) -> None:
    result = run(str(sound), "--broker-user", "nobody-here")
    assert result.exit_code == 2
    assert "this machine has no user nobody-here" in result.stderr


def test_names_with_bytes_for_a_terminal_are_shown_harmless(sound: Path) -> None:
    os.mkdir(os.fsencode(sound) + b"/\x1b[31mx-0")
    result = run(str(sound), "--changed-files")
    assert "\x1b" not in result.stdout
    assert "\\x1b[31mx-0" in result.stdout


def test_a_partition_without_a_folder_is_told_with_what_it_held(sound: Path) -> None:
    shutil.rmtree(sound / "orders-0")
    result = run(str(sound))
    assert result.exit_code == 1
    assert (
        f"orders-0: there is no folder of it, and the broker makes an empty one in {sound}; it held offsets up to 999"
        " (replication-offset-checkpoint says 1000, recovery-point-offset-checkpoint says 1000); there is no other"
        " replica: the broker gives offset 0 again\n"
    ) in result.stdout
    assert "it makes 1 partition anew, from offset 0 on\n" in result.stdout
    assert "lost for good here: 1,000 offsets in 1 partition, before any start\n" in result.stdout
    assert "a start takes" not in result.stdout
    (lost,) = (each for each in objects(str(sound)) if each["kind"] == "lostFolder")
    assert (lost["topic"], lost["partition"], lost["loss"]["offsets"]) == ("orders", 0, 1000)


def test_a_metadata_log_that_is_gone_is_told(sound: Path) -> None:
    shutil.rmtree(sound / "__cluster_metadata-0")
    result = run(str(sound))
    assert result.exit_code == 1
    assert (
        "\nno metadata log here: a controller that starts here forgets every topic" in result.stdout
    )
    assert objects(str(sound))[-1]["forgetsTopics"] is True


def test_a_partition_that_is_a_link_was_not_planned_and_is_not_lost(sound: Path) -> None:
    shutil.move(sound / "orders-0", sound.parent / "moved-0")
    (sound / "orders-0").symlink_to(sound.parent / "moved-0")
    result = run(str(sound))
    assert result.exit_code == 3
    assert "makes" not in result.stdout
    assert f"kafkafs: {sound}/orders-0: a symbolic link, not followed" in result.stderr


@pytest.mark.parametrize("name", ["replication-offset-checkpoint", "cleaner-offset-checkpoint"])
def test_a_checkpoint_that_is_read_after_the_logs_takes_the_log_dir(sound: Path, name: str) -> None:
    (sound / name).write_bytes(bytes(40))
    result = run(str(sound))
    assert result.exit_code == 1
    assert f"{name} holds 40 zero bytes in place of a line" in result.stdout
    assert "broker does not start: all log dirs are offline" in result.stdout
    (sound / name).write_text("0\n1\norders 0 x\n")
    result = run(str(sound))
    assert result.exit_code == 1
    assert "with the risks above" in result.stdout
