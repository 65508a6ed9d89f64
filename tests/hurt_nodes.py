"""Something happens to the log dirs of a whole node: side files, metadata, snapshots, folders, log dirs; by a seed."""

from __future__ import annotations

import os
import random
import shutil
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

METADATA = "__cluster_metadata-0"
OTHER_ID = "cmVjb3JkcyBvZiBsb2dzIQ"
_OFFSETS = (
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
)
_QUORUM_STATES = (
    '{"leaderId":"x","leaderEpoch":1,"votedId":-1,"data_version":0,"currentVoters":[]}',
    '{"leaderId":1,"leaderEpoch":1,"votedId":-1,"data_version":2}',
    '{"data_version":0}',
    "[]",
    "0",
    ('{"clusterId":"","leaderId":1,"leaderEpoch":9,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],'
    '"data_version":0,"x":1} trailing'),
    ('{"clusterId":"","leaderId":-1,"leaderEpoch":0,"votedId":-1,"appliedOffset":0,"currentVoters":null,'
    '"data_version":0}'),
    ('{"clusterId":null,"leaderId":-1,"leaderEpoch":0,"votedId":-1,"appliedOffset":0,"currentVoters":[],'
    '"data_version":0}'),
    ('{"clusterId":"","leaderId":-1,"leaderEpoch":1.5,"votedId":-1,"appliedOffset":0,"currentVoters":[],'
    '"data_version":0}'),
    '{"leaderId":-1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
    '{"leaderId":-1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"short","data_version":1}',
)  # fmt: skip


class HurtNode:
    """Damages one node's log dirs.

    Args:
        seed: the same does the same.
        log_dirs: in the order of `log.dirs`; the first has the metadata log.
    """

    def __init__(self, seed: int, log_dirs: Sequence[Path]) -> None:
        self.random = random.Random(seed)
        self.log_dirs = list(log_dirs)
        self.acts: list[str] = []

    def hurt(self) -> list[str]:
        """Do one to three things to the log dirs; return what was done."""
        kinds = (
            [self._offsets] * 4 + [self._quorum_state] * 2 + [self._bootstrap] * 2
            + [self._snapshot] * 3 + [self._metadata_log] * 4 + [self._lost_folder] * 4
            + [self._lost_dir] * 2 + [self._odd_folder, self._log_file, self._marker]
            + [self._topic_id, self._epochs, self._meta]
        )  # fmt: skip
        for act in self.random.sample(kinds, self.random.choice([1, 1, 1, 2, 3])):
            act()
        return self.acts

    def _did(self, path: Path, what: str) -> None:
        self.acts.append(f"{path.parent.name}/{path.name} {what}")

    def _any_dir(self) -> Path:
        return self.random.choice(self.log_dirs)

    def _folders(self, *, with_metadata: bool = False) -> list[Path]:
        return sorted(
            path
            for each in self.log_dirs
            if each.is_dir()
            for path in each.iterdir()
            if path.is_dir() and (with_metadata or path.name != METADATA) and "-" in path.name
        )

    def _spoil(self, path: Path, *, may_go: bool = True) -> None:
        """Change a file as disks, tools and people do."""
        if not path.is_file():
            return
        data = path.read_bytes()
        chance = self.random
        at = chance.randrange(len(data) + 1)
        acts: dict[str, Callable[[], object]] = {
            "zeros": lambda: path.write_bytes(bytes(len(data) or 40)),
            "empty": lambda: path.write_bytes(b""),
            "garbage": lambda: path.write_bytes(chance.randbytes(chance.choice([9, 90, 400]))),
            "cut": lambda: path.write_bytes(data[:at]),
            "zero tail": lambda: path.write_bytes(data + bytes(chance.choice([1, 512]))),
            "zeros inside": lambda: path.write_bytes(data[:at] + bytes(len(data) - at)),
            "flip": lambda: path.write_bytes(_flipped(data, chance)),
            "folder": lambda: (path.unlink(), path.mkdir()),
        }
        if may_go:
            acts["gone"] = path.unlink
        name = chance.choice(sorted(acts))
        acts[name]()
        self._did(path, name)

    # One kind each

    def _offsets(self) -> None:
        path = self._any_dir() / self.random.choice(_OFFSETS)
        if not path.parent.is_dir():
            return
        texts = ("0\n1\norders 0 x\n", "0\n-1\n", "1\n0\n", "0\n2\norders 0 5\n", "0\n0\n\n", "0")
        if self.random.random() < 0.3:
            path.write_text(self.random.choice(texts))
            self._did(path, f"says {path.read_text()!r}")
        else:
            self._spoil(path)

    def _quorum_state(self) -> None:
        path = self.log_dirs[0] / METADATA / "quorum-state"
        if path.is_file() and self.random.random() < 0.5:
            path.write_text(self.random.choice(_QUORUM_STATES))
            self._did(path, f"says {path.read_text()!r}")
        else:
            self._spoil(path)

    def _bootstrap(self) -> None:
        self._spoil(self._any_dir() / "bootstrap.checkpoint")

    def _snapshot(self) -> None:
        found = sorted((self.log_dirs[0] / METADATA).glob("*.checkpoint"))
        if found:
            self._spoil(self.random.choice(found))

    def _metadata_log(self) -> None:
        folder = self.log_dirs[0] / METADATA
        if not folder.is_dir():
            return
        if self.random.random() < 0.2:
            shutil.rmtree(folder)
            self._did(folder, "gone")
            return
        if self.random.random() < 0.15:
            kept = self.random.choice([{""}, {"", ".checkpoint"}])
            for path in folder.iterdir():
                if path.suffix not in kept and path.is_file():
                    path.unlink()
            self._did(folder, f"emptied but {sorted(kept)}")
            return
        files = sorted(path for path in folder.iterdir() if path.suffix != ".checkpoint")
        logs = [path for path in files if path.suffix == ".log"]
        chosen = self.random.choice([*files, *logs, *logs, *logs, *logs])
        if chosen.is_file() and chosen.stat().st_size <= 1 << 20:
            self._spoil(chosen)

    def _lost_folder(self) -> None:
        folders = self._folders()
        for path in self.random.sample(folders, min(len(folders), self.random.choice([1, 1, 2]))):
            shutil.rmtree(path)
            self._did(path, "gone")

    def _lost_dir(self) -> None:
        path = self.random.choice(self.log_dirs[1:] or self.log_dirs)
        if not path.is_dir():
            return
        ways = ["emptied"] if len(self.log_dirs) > 1 else []
        how = self.random.choice([*ways, "emptied but meta.properties", "new", "new id"])
        meta = path / "meta.properties"
        text = meta.read_text("latin-1") if meta.is_file() else ""
        if how != "new id":
            for each in path.iterdir():
                shutil.rmtree(each) if each.is_dir() else each.unlink()
        if how == "emptied but meta.properties":
            meta.write_text(text, "latin-1")
        if how.startswith("new") and not meta.is_dir():
            lines = [
                f"directory.id={OTHER_ID}" if line.startswith("directory.id") else line
                for line in text.splitlines()
            ]
            meta.write_text("\n".join(lines) + "\n", "latin-1")
        self._did(path, how)

    def _odd_folder(self) -> None:
        where = self._any_dir()
        name = self.random.choice(
            ["__cluster_metadata-1", "lost+found", "strange-0", "orders-7", "empty-0", "odd.txt"]
        )
        path = where / name
        if where.is_dir() and not path.exists():
            path.write_text("") if name.endswith(".txt") else path.mkdir()
            self._did(path, "added")

    def _log_file(self) -> None:
        folders = self._folders()
        if not folders:
            return
        folder = self.random.choice(folders)
        logs = sorted(folder.glob("*.log"))
        if not logs:
            return
        path = self.random.choice(logs)
        if self.random.random() < 0.3:
            added = folder / f"{self.random.choice([2**63 - 1, 2**63 - 2, 2**62]):020}.log"
            added.write_bytes(b"")
            self._did(added, "added")
        else:
            self._spoil(path, may_go=False)

    def _marker(self) -> None:
        path = self._any_dir() / ".kafka_cleanshutdown"
        if path.is_file():
            self._spoil(path)

    def _topic_id(self) -> None:
        folders = self._folders(with_metadata=True)
        if folders:
            self._spoil(self.random.choice(folders) / "partition.metadata")

    def _epochs(self) -> None:
        folders = self._folders(with_metadata=True)
        if folders:
            self._spoil(self.random.choice(folders) / "leader-epoch-checkpoint")

    def _meta(self) -> None:
        self._spoil(self._any_dir() / "meta.properties")


def link(folder: Path) -> None:
    """Move a folder away, and leave a symbolic link."""
    target = folder.parent.parent / f"moved-{folder.name}"
    shutil.move(folder, target)
    os.symlink(target, folder)


def _flipped(data: bytes, chance: random.Random) -> bytes:
    if not data:
        return struct.pack(">q", 5)
    found = bytearray(data)
    found[chance.randrange(len(found))] ^= 1 << chance.randrange(8)
    return bytes(found)
