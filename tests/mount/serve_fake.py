"""A daemon over the tree in memory: python serve_fake.py SOURCE MOUNTPOINT [OPTION,…]."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from kafkafs.fuse.source_usage import Usage
from kafkafs.mount import daemon, session
from kafkafs.mount.mounting import MountOptions, parse_options
from kafkafs.mount.status import DaemonStatus
from kafkafs.tree.node import Directory
from tests.mount.fake_tree import Bytes, StatusFolder, example


class Served:
    """The example tree with the daemon's own files, as the real tree shows them."""

    def __init__(self, status: DaemonStatus) -> None:
        self.tree = example()
        self.tree.children[".kafkafs"] = StatusFolder(".kafkafs", status)

    def root(self) -> Directory:
        return self.tree

    def usage(self) -> Usage:
        return Usage(size=12_345_678, free=1 << 20, available=1 << 16, files=42, free_files=7)

    def rescan(self) -> None:
        self.tree.children["rescanned"] = Bytes("rescanned", b"yes\n")

    def facts(self) -> dict[str, object]:
        return {"partitions": 7}

    def problems(self) -> Sequence[dict[str, object]]:
        return ()

    def close(self) -> None:
        pass


def opener(paths: Sequence[str], options: MountOptions, status: DaemonStatus) -> Served:
    if options.values == "hex":  # a way to make the start fail
        raise ZeroDivisionError("a start that fails in no foreseen way")
    return Served(status)


if __name__ == "__main__":
    source, mountpoint, *options = sys.argv[1:]
    if user := os.environ.get("RUN_AS_USER"):
        assert (
            session is not None
        )  # imported early: the interpreter may lie where only root can read
        os.setgroups([])
        os.setgid(int(user))
        os.setuid(int(user))
    sys.exit(daemon.run([source], mountpoint, parse_options(options), opener=opener))
