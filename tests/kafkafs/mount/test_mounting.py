"""Mount options, and the checks that need no mount."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.budgets import DEFAULT_BUDGETS
from kafkafs.mount import mounting
from kafkafs.mount.mount_helper import parse_helper_args
from kafkafs.mount.mounting import (
    MountError,
    MountOptions,
    check_mountpoint,
    fuse_options,
    parse_options,
    shown_source,
)

DEFAULT = MountOptions()

OPTIONS = [
    ("", {}),
    ("allow_other", {"allow_other": True}),
    ("allow-other,snapshot", {"allow_other": True, "snapshot": True}),
    ("snapshot=false", {"snapshot": False}),
    ("nosnapshot", {"snapshot": False}),
    ("workers=6", {"workers": 6}),
    ("read_ahead_kb=128", {"read_ahead_kb": 128}),
    ("attr_timeout=0", {"attr_timeout": 0.0}),
    ("attr_timeout=2.5", {"attr_timeout": 2.5}),
    ("loop=stock,values=base64", {"loop": "stock", "values": "base64"}),
    (r"log_file=/a\,b", {"log_file": "/a,b"}),
    ("ro,nosuid,nodev,noexec,noatime,defaults,auto,noauto,user,nofail,_netdev", {}),
    ("x-systemd.automount,x-gvfs-show,comment=systemd.automount", {}),
    ("dev,suid,exec", {}),
    ("fg", {"foreground": True}),
    ("replace_dead,auto_unmount", {"replace_dead": True, "auto_unmount": True}),
    ("max_read=4096", {}),
]


@pytest.mark.parametrize(("text", "changed"), OPTIONS)
def test_options_are_understood(text: str, changed: dict[str, object]) -> None:
    options = parse_options(text)
    for name in MountOptions.__slots__:
        assert getattr(options, name) == changed.get(name, getattr(DEFAULT, name)), name


def test_several_arguments_and_a_base_add_up() -> None:
    base = parse_options("workers=3")
    options = parse_options(["snapshot", "debug,allow_other"], base)
    assert (options.workers, options.snapshot, options.debug, options.allow_other) == (
        3, True, True, True,
    )  # fmt: skip


def test_budgets_go_by_their_names() -> None:
    options = parse_options("cached_bytes=256M,open_files=100")
    assert options.budgets.cached_bytes == 256 << 20
    assert options.budgets.open_files == 100
    assert options.budgets.batch_bytes == DEFAULT_BUDGETS.batch_bytes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rw", "read-only"),
        ("no_such_thing", "unknown mount option 'no_such_thing'"),
        ("workers", "needs a value"),
        ("workers=0", "workers cannot be '0'"),
        ("workers=-1", "workers cannot be '-1'"),
        ("workers=1_0", "workers cannot be '1_0'"),
        ("workers=٣", "workers cannot be"),
        ("cached_bytes=lots", "cached_bytes cannot be 'lots'"),
        ("attr_timeout=nan", "attr_timeout cannot be 'nan'"),
        ("attr_timeout=-1", "attr_timeout cannot be '-1'"),
        ("loop=quick", "loop is one of fast, stock"),
        ("snapshot=maybe", "snapshot cannot be 'maybe'"),
        ("noworkers", "workers cannot be 'false'"),
    ],
)
def test_bad_options_are_named(text: str, message: str) -> None:
    with pytest.raises(MountError, match=message) as caught:
        parse_options(text)
    assert caught.value.usage


def test_libfuse_gets_safe_options_and_never_max_read() -> None:
    options = fuse_options(["/data"], parse_options("max_read=4096"))
    assert {"ro", "nosuid", "nodev", "noexec", "noatime", "default_permissions"} <= options
    assert "fsname=kafkafs:/data" in options
    assert "subtype=kafkafs" in options
    assert not any(option.startswith(("max_read", "allow")) for option in options)
    assert "allow_other" in fuse_options(["/data"], parse_options("allow_other"))


def test_a_source_is_shown_in_characters_that_end_no_option() -> None:
    assert shown_source(["/a b,c=ü"]) == "kafkafs:/a%20b%2Cc%3D%C3%BC"
    assert shown_source(["/d1", "/d2"]) == "kafkafs:/d1+/d2"


HELPER_CALLS = [
    (["/data", "/mnt"], (["/data"], "/mnt", {})),
    (
        ["/data", "/mnt", "-o", "ro,allow_other,dev,suid"],
        (["/data"], "/mnt", {"allow_other": True}),
    ),
    (["/data", "/mnt", "-o", "rw,allow_other"], (["/data"], "/mnt", {"allow_other": True})),
    (["kafkafs:/data", "/mnt", "-n", "-s"], (["/data"], "/mnt", {})),
    (["/data", "/mnt", "-sv", "-N", "1234", "-t", "fuse.kafkafs"], (["/data"], "/mnt", {})),
    (["-osnapshot", "/data", "/mnt"], (["/data"], "/mnt", {"snapshot": True})),
    (["/d1", "/d2", "/dev/fd/3"], (["/d1", "/d2"], "/dev/fd/3", {})),
    (["/data", "/mnt", "-f"], (["/data"], "/mnt", {"dry_run": True})),
]


@pytest.mark.parametrize(("argv", "expected"), HELPER_CALLS)
def test_what_mount_says_is_understood(
    argv: list[str], expected: tuple[list[str], str, dict[str, object]]
) -> None:
    sources, mountpoint, options = parse_helper_args(argv)
    assert (sources, mountpoint) == expected[:2]
    for name in MountOptions.__slots__:
        assert getattr(options, name) == expected[2].get(name, getattr(DEFAULT, name)), name


@pytest.mark.parametrize("argv", [[], ["/data"], ["/data", "/mnt", "-o"], ["/data", "/mnt", "-Q"]])
def test_a_wrong_helper_call_is_refused(argv: list[str]) -> None:
    with pytest.raises(MountError) as caught:
        parse_helper_args(argv)
    assert caught.value.usage


def test_a_missing_device_is_named_with_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyfuse3")
    monkeypatch.setattr(mounting.os.path, "exists", lambda path: path != "/dev/fuse")
    with pytest.raises(MountError, match=r"/dev/fuse is missing: modprobe fuse"):
        mounting.check_machine(DEFAULT)


def test_a_missing_pyfuse3_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounting.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        MountError, match=r"pyfuse3, .* apt install python3\.\d+-dev .* pip install"
    ):
        mounting.check_machine(DEFAULT)


def test_a_missing_fusermount_is_named_for_those_who_need_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("pyfuse3")
    monkeypatch.setattr(mounting.os.path, "exists", lambda path: True)
    monkeypatch.setattr(mounting.shutil, "which", lambda name: None)
    monkeypatch.setattr(mounting.os, "geteuid", lambda: 1000)
    with pytest.raises(MountError, match="fusermount3 is missing: apt install fuse3"):
        mounting.check_machine(DEFAULT)


def test_allow_other_is_refused_where_fusermount_would(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("pyfuse3")
    (tmp_path / "fuse.conf").write_text("# user_allow_other\n")
    monkeypatch.setattr(mounting, "FUSE_CONF", str(tmp_path / "fuse.conf"))
    monkeypatch.setattr(mounting.os.path, "exists", lambda path: True)
    monkeypatch.setattr(mounting.os, "access", lambda path, mode: True)
    monkeypatch.setattr(mounting.shutil, "which", lambda name: "/usr/bin/" + name)
    monkeypatch.setattr(mounting.os, "geteuid", lambda: 1000)
    options = parse_options("allow_other")
    with pytest.raises(MountError, match="user_allow_other"):
        mounting.check_machine(options)
    (tmp_path / "fuse.conf").write_text("user_allow_other\n")
    mounting.check_machine(options)


def test_an_empty_folder_apart_from_the_source_is_a_mountpoint(tmp_path: Path) -> None:
    for name in ("source", "mnt"):
        (tmp_path / name).mkdir()
    path = check_mountpoint(str(tmp_path / "mnt"), [str(tmp_path / "source")], DEFAULT)
    assert path == str((tmp_path / "mnt").resolve())


def test_fault_097_a_source_that_is_a_file_keeps_its_folder_free(tmp_path: Path) -> None:
    (tmp_path / "orders-0" / "mnt").mkdir(parents=True)
    log = tmp_path / "orders-0" / "00000000000000000000.log"
    log.write_bytes(b"")
    with pytest.raises(MountError, match="inside the source"):
        check_mountpoint(str(tmp_path / "orders-0" / "mnt"), [str(log)], DEFAULT)
