"""The order of the tests: the deepest layer first, so that the first failure is the deepest broken thing."""

import gc
import os
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
LAYERS = (
    "engine/files",
    "engine/coding",
    "engine/topics/message",
    "engine/topics",
    "engine/record",
    "engine/record/encoding",
    "engine/disk",
    "engine/lines",
    "engine/kernel",
    "engine",
    "engine/index",
    "engine/checkpoint",
    "engine/rights",
    "engine/state",
    "engine/log/segment",
    "engine/log/tiered",
    "engine/log",
    "engine/replicas",
    "engine/replay/groups",
    "engine/replay",
    "engine/cut",
    "engine/verdict",
    "engine/check/rules",
    "engine/check/batches",
    "engine/check/files",
    "engine/check/replicas",
    "engine/check",
    "engine/writing",
    "engine/writing/index",
    "engine/writing/checkpoint",
    "engine/writing/state",
    "engine/writing/segment",
    "engine/writing/log",
    "engine/usage",
    "engine/plan/overlay",
    "engine/plan/loading",
    "engine/plan",
    "engine/broker/append",
    "engine/broker/log",
    "engine/broker/raft",
    "engine/broker/cleaning",
    "engine/broker/log_dirs",
    "engine/broker",
    "conformance",
    "engine/rebuild/assembly",
    "engine/rebuild",
    "engine/recover/metadata",
    "engine/recover/coordinators",
    "engine/recover",
    "engine/erase",
    "kafkafs/schemas/decoders",
    "kafkafs/schemas/types",
    "kafkafs/schemas",
    "kafkafs/schemas/files",
    "kafkafs/masking",
    "kafkafs/stores",
    "kafkafs/decode/searching",
    "kafkafs/decode",
    "kafkafs/forms/arrow/typed",
    "kafkafs/forms/arrow",
    "kafkafs/forms",
    "kafkafs/tree",
    "kafkafs/tree/partition",
    "kafkafs/tree/root",
    "kafkafs/dump/entries",
    "kafkafs/dump/records",
    "kafkafs/dump",
    "kafkafs/fuse/pyfuse3_patches",
    "kafkafs/fuse",
    "kafkafs/export",
    "kafkafs/mount",
    "kafkafs/report",
    "kafkafs/browse",
    "kafkafs/api",
    "kafkafs/serve/coordinator",
    "kafkafs/serve",
    "kafkafs/records/conditions",
    "kafkafs/records",
    "kafkafs/spark/source/options",
    "kafkafs/spark/source/planning",
    "kafkafs/spark/source",
    "kafkafs/spark/streaming",
    "kafkafs/spark/sink",
    "kafkafs/spark/jobs/files",
    "kafkafs/spark/jobs",
    "kafkafs/spark",
    "kafkafs/cli/printing",
    "kafkafs/cli",
    "kafkafs/faces",
    "kafkafs/docs",
    "kafkafs",
    "damage",
    "crash",
    "disasters",
    "mount",
    "soak",
    "kafka",
)

settings.register_profile(
    "quick",
    max_examples=50,
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
settings.register_profile(
    "deep", max_examples=5000, deadline=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@cache
def layer_of(path: Path) -> int:
    """The place in LAYERS of the longest prefix that matches the test file's folder."""
    folder = path.parent.relative_to(TESTS).as_posix()
    fits = [name for name in LAYERS if folder == name or folder.startswith(name + "/")]
    return LAYERS.index(max(fits, key=len)) if fits else len(LAYERS)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect without the garbage collector, and let it leave alone afterwards what there is: it would look at each
    test thousands of times."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by layer; the order inside a layer stays as the random plugin left it."""
    items.sort(key=lambda item: layer_of(item.path))


@pytest.fixture(autouse=True, scope="module")
def _few_descriptors() -> Iterator[None]:
    """Close what tests have left to the garbage collector: `select`, also py4j's, takes no descriptor above 1,023.

    Commands that run in this process leave their sources to the end of a process.
    """
    yield
    if len(os.listdir("/proc/self/fd")) > 200:
        gc.collect()
