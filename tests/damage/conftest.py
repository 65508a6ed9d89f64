"""Surveys for the tests of this folder, with either kernel, and proof that the source stays as it was."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.damage.reader import Look, Reader
from tests.damage.survey import Survey
from tests.kafkafs.faces.hostile import contradictions
from tests.kafkafs.faces.shared_mount import SharedMount
from tests.mount.mounted import obstacle

MOST_BYTES = 4 << 20


@pytest.fixture(scope="session")
def reader() -> Iterator[Reader]:
    running = Reader()
    yield running
    running.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Both kernels for the modules whose faults are the kernel's."""
    if "look" in metafunc.fixturenames:
        kernels = getattr(metafunc.module, "KERNELS", ["compiled"])
        metafunc.parametrize("look", kernels, indirect=True)


@pytest.fixture(scope="session")
def shared_mount(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedMount | None]:
    """Takes the logs of all small sources, which a mount shows at the end: it has to say what the tree says."""
    if obstacle():
        yield None
        return
    shared = SharedMount(tmp_path_factory.mktemp("shared"))
    yield shared
    differing = list(shared.contradictions())
    assert not differing, "\n".join(differing[:5])


@pytest.fixture
def look(
    request: pytest.FixtureRequest,
    reader: Reader,
    shared_mount: SharedMount | None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Look:
    """Reads a source whole; nothing of it may contradict itself but for the kinds in `but_for`, and all faces say one thing."""

    def read(source: Path, *, but_for: tuple[str, ...] = (), **options: Any) -> Survey:
        before = fingerprint(source)
        found = reader.survey(source, which=request.param, **options)
        assert fingerprint(source) == before, "the source was changed"
        wrong = [each for each in found.wrong if not each.startswith(but_for or ("-",))]
        assert not wrong, "\n".join(wrong[:5])
        if request.param == "compiled" and not options and is_small(source):
            room = tmp_path_factory.mktemp("faces")
            differing = list(contradictions(source, room, shared_mount))
            assert not differing, "\n".join(differing[:5])
        return found

    read.kernel = request.param  # type: ignore[attr-defined]
    return read


def is_small(source: Path) -> bool:
    """Whether a source is a log dir that every face may read in no time."""
    sizes = (each.lstat().st_size for each in source.rglob("*"))
    return source.is_dir() and sum(sizes) < MOST_BYTES


def fingerprint(source: Path) -> list[tuple[Any, ...]]:
    """Everything below a folder that reading must leave alone."""
    found: list[tuple[Any, ...]] = []
    for folder, _, names in os.walk(os.fsencode(source)):
        for name in [b"", *names]:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            facts = (path, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            data = b""
            if os.path.isfile(path) and not os.path.islink(path) and status.st_blocks < 64 << 11:
                with open(path, "rb") as file:
                    data = file.read(32 << 20)
            found.append((*facts, hashlib.sha256(data).hexdigest()))
    return sorted(found)
