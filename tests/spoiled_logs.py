"""What a crash, a full disk or a careless hand leaves of a partition's folder."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

from engine.budgets import DEFAULT_BUDGETS
from engine.files.source_files import SourceRoot
from engine.record.log_input_stream import walk_batches


class Spoiler:
    """Damages a closed or killed log's folder where a broker repairs it: at its end and beside its batches.

    Args:
        seed: the same does the same.
        folder: is changed.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = random.Random(seed)
        self.folder = folder

    def spoil(self) -> list[str]:
        """Do none to three things; their names."""
        acts: list[Callable[[], object]] = [
            self._cut_the_last_batches,
            self._flip_a_bit_near_the_end,
            self._add_zeros,
            self._add_noise,
            self._remove_an_index,
            self._cut_an_index,
            self._overwrite_an_index,
            self._remove_a_snapshot,
            self._spoil_a_snapshot,
            self._leave_an_index_without_a_log,
            self._leave_unfinished_files,
            self._remove_the_epochs,
        ]
        chosen = self.random.sample(acts, self.random.randrange(4))
        for act in chosen:
            act()
        return [act.__name__ for act in chosen]

    def _one(self, *endings: str) -> Path | None:
        found = [path for path in sorted(self.folder.iterdir()) if path.suffix in endings]
        return self.random.choice(found) if found else None

    def _last_log(self) -> Path:
        return max(self.folder.glob("*.log"))

    def _cut_the_last_batches(self) -> None:
        log = self._last_log()
        data = log.read_bytes().rstrip(b"\0")
        log.write_bytes(data[: max(0, len(data) - self.random.choice([1, 7, 60, 200]))])

    def _flip_a_bit_near_the_end(self) -> None:
        log = self._last_log()
        data = bytearray(log.read_bytes())
        used = len(data.rstrip(b"\0"))
        # Any magic above 2 is 2 to Kafka, and unknown to us.
        places = sorted(set(range(max(0, used - 150), used)) - set(_magics(data)))
        if places:
            data[self.random.choice(places)] ^= 1 << self.random.randrange(8)
            log.write_bytes(data)

    def _add_zeros(self) -> None:
        with self._last_log().open("ab") as file:
            file.write(bytes(self.random.choice([3, 61, 5000])))

    def _add_noise(self) -> None:
        with self._last_log().open("ab") as file:
            file.write(self.random.randbytes(self.random.choice([3, 61, 500])))

    def _remove_an_index(self) -> None:
        # Where only the time index is gone, a broker goes on with an empty one; the engine makes it again.
        if found := self._one(".index"):
            found.unlink()
            if self.random.random() < 0.5:
                found.with_suffix(".timeindex").unlink(missing_ok=True)

    def _cut_an_index(self) -> None:
        if found := self._one(".index", ".timeindex", ".txnindex"):
            data = found.read_bytes()[:2000]
            found.write_bytes(data[: self.random.randrange(len(data) + 1)])

    def _overwrite_an_index(self) -> None:
        if found := self._one(".index", ".timeindex"):
            # Noise that passes a broker's sanity check would lead its readers astray.
            found.write_bytes(self.random.choice([b"\0", b"\xff"]) * 24)

    def _remove_a_snapshot(self) -> None:
        if found := self._one(".snapshot"):
            found.unlink()

    def _spoil_a_snapshot(self) -> None:
        if found := self._one(".snapshot"):
            data = bytearray(found.read_bytes())
            data[self.random.randrange(2, len(data))] ^= 0xFF
            found.write_bytes(data)

    def _leave_an_index_without_a_log(self) -> None:
        for ending in (".index", ".timeindex", ".txnindex"):
            (self.folder / f"{self.random.randrange(5, 999):020}{ending}").write_bytes(bytes(24))

    def _leave_unfinished_files(self) -> None:
        log = self._last_log()
        for ending in self.random.sample([".cleaned", ".swap", ".deleted"], 1):
            for suffix in (".log", ".index", ".timeindex"):
                source = log.with_suffix(suffix)
                if source.exists():
                    data = source.read_bytes().rstrip(b"\0") if suffix == ".log" else b""
                    (self.folder / (source.name + ending)).write_bytes(data)

    def _remove_the_epochs(self) -> None:
        (self.folder / "leader-epoch-checkpoint").unlink(missing_ok=True)


def remove_end_begun_too_early(folder: Path) -> None:
    """Remove an empty last segment that begins above the end of the one before it, unless it is the first.

    After a crash our loading removes it, since the end of the one before may never have reached the device.
    Kafka's keeps it, and offsets between the two are missing from then on.
    """
    *others, last = sorted(folder.glob("*.log"))
    if not others or last.stat().st_size:
        return
    with SourceRoot(str(folder)) as root, root.open_fresh(others[-1].name) as file:
        ends = [batch.next_offset for batch in walk_batches(file, 0, file.size(), DEFAULT_BUDGETS)]
    if ends and ends[-1] < int(last.stem):
        for suffix in (".log", ".index", ".timeindex", ".txnindex"):
            last.with_suffix(suffix).unlink(missing_ok=True)


def _magics(data: bytes | bytearray) -> Iterator[int]:
    """Where the batches have their magic."""
    position = 0
    while position + 17 <= len(data):
        yield position + 16
        position += 12 + max(int.from_bytes(data[position + 8 : position + 12], "big"), 5)
