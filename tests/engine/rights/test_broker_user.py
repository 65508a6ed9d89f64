"""What a mode or an access list lets a user do: the kernel's own answer, asked as that user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random
from struct import pack

import pytest

from engine.errors import SourceError
from engine.rights.broker_user import ACCESS_LIST, BrokerUser, Right, owner_of, user_named
from tests.open_folders import let_all_enter

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
USERS = (
    BrokerUser("owner", 4001, frozenset({5001})),
    BrokerUser("member", 4002, frozenset({5001, 5002})),
    BrokerUser("stranger", 4003, frozenset({5009})),
)
ASK = """
import json, os, sys
uid, groups, paths = json.load(sys.stdin)
os.setgroups(groups)
os.setresgid(groups[0], groups[0], groups[0])
os.setresuid(uid, uid, uid)
print(json.dumps([[os.access(path, bit) for bit in (os.R_OK, os.W_OK, os.X_OK)] for path in paths]))
"""


def granted(user: BrokerUser, paths: list[Path]) -> list[list[bool]]:
    """What the kernel lets a user do with folders: read, write, enter."""
    asked = json.dumps([user.uid, sorted(user.groups), [str(path) for path in paths]])
    ran = subprocess.run(
        [sys.executable, "-c", ASK], input=asked, capture_output=True, check=True, text=True
    )
    answer: list[list[bool]] = json.loads(ran.stdout)
    return answer


def access_list(random: Random, mode: int) -> bytes:
    """An access list with named users and groups; its mask is the mode's bits of the group."""
    entries = [(0x01, mode >> 6 & 7, 0xFFFFFFFF)]
    entries += [(0x02, random.randrange(8), uid) for uid in (4002, 4003) if random.random() < 0.4]
    entries.append((0x04, random.randrange(8), 0xFFFFFFFF))
    entries += [(0x08, random.randrange(8), gid) for gid in (5002, 5009) if random.random() < 0.5]
    entries.append((0x10, mode >> 3 & 7, 0xFFFFFFFF))
    entries.append((0x20, mode & 7, 0xFFFFFFFF))
    return pack("<I", 2) + b"".join(pack("<HHI", *entry) for entry in entries)


def _listed(path: Path) -> bytes:
    try:
        return os.getxattr(path, ACCESS_LIST)
    except OSError:
        return b""


@needs_root
def test_what_a_user_may_do_is_what_the_kernel_lets_it_do(tmp_path: Path) -> None:
    random = Random(7)
    let_all_enter(tmp_path)
    paths = []
    for number in range(300):
        path = tmp_path / str(number)
        path.mkdir()
        mode = random.randrange(0o1000)
        path.chmod(mode)
        if random.random() < 0.5:
            with suppress(OSError):  # of a file system without access lists
                os.setxattr(path, ACCESS_LIST, access_list(random, mode))
        os.chown(path, random.choice((4001, 4009)), random.choice((5001, 5002, 5003)))
        paths.append(path)
    for user in USERS:
        for path, answer in zip(paths, granted(user, paths), strict=True):
            for right, is_granted in zip(
                (Right.READ, Right.WRITE, Right.EXECUTE), answer, strict=True
            ):
                missing = user.missing(path.stat(), right, lambda path=path: _listed(path))
                assert (not missing) == is_granted, (
                    user,
                    right,
                    oct(path.stat().st_mode),
                    _listed(path),
                )


def test_nothing_holds_up_root(tmp_path: Path) -> None:
    tmp_path.chmod(0)
    assert not user_named("root").missing(tmp_path.stat(), Right(7), bytes)
    tmp_path.chmod(0o700)


def test_a_user_is_named_or_numbered_and_one_that_this_machine_lacks_needs_its_number(
    tmp_path: Path,
) -> None:
    assert user_named("0") == user_named("root")
    assert user_named("3999999") == BrokerUser("3999999", 3_999_999, frozenset())
    with pytest.raises(SourceError, match="this machine has no user kafka-of-elsewhere"):
        user_named("kafka-of-elsewhere")
    assert owner_of(tmp_path.stat()).uid == os.getuid()
