from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.files.stores import STORES
from kafkafs import unpacked_folders
from kafkafs.stores import mirror
from tests.fixtures_data import log_dir
from tests.object_stores import ENVIRONMENT, ObjectStore, object_store


@pytest.fixture(scope="package")
def running_store() -> Iterator[ObjectStore]:
    with object_store() as store:
        store.put_folder(log_dir("sample"), "logdir")
        yield store


@pytest.fixture
def store(running_store: ObjectStore, tmp_path: Path) -> Iterator[ObjectStore]:
    """The store, of which nothing is known yet."""
    with reading(running_store, tmp_path):
        yield running_store


@pytest.fixture(scope="package")
def known_store(
    running_store: ObjectStore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ObjectStore]:
    """The store, listed by the first test that uses it."""
    with reading(running_store, tmp_path_factory.mktemp("known")):
        yield running_store


@contextmanager
def reading(store: ObjectStore, folder: Path) -> Iterator[None]:
    (folder / "tmp").mkdir()
    store.forget()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tempfile, "tempdir", str(folder / "tmp"))
        patched.setattr(STORES, "mirrors", [])
        patched.setattr(mirror._STATE, "known", {})
        for name, value in ENVIRONMENT.items():
            patched.setenv(name, value)
        patched.setenv("KAFKAFS_STORE_OPTIONS", f"endpoint={store.endpoint}")
        before = dict(unpacked_folders._LOCKS)
        try:
            yield
        finally:
            store.forget()
            for target in unpacked_folders._LOCKS.keys() - before.keys():
                unpacked_folders.let_go(target)
