"""The order of the tests: the deepest layer first, so that the first failure is the deepest broken thing."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
LAYERS = (
    "engine/files",
    "engine/coding",
    "engine/topics",
    "engine/record",
    "engine/columns",
    "engine/kernel",
    "engine/lines",
    "engine",
    "engine/index",
    "engine/checkpoint",
    "engine/state",
    "engine/log",
    "engine/replay",
    "engine/writing",
    "engine/broker",
    "conformance",
    "engine/check",
    "engine/plan",
    "engine/rebuild",
    "kafkafs/decode",
    "kafkafs/tree",
    "kafkafs/dump",
    "kafkafs/fuse",
    "kafkafs/mount",
    "kafkafs",
    "damage",
    "crash",
    "mount",
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


def layer_of(path: Path) -> int:
    """The place in LAYERS of the longest prefix that matches the test file's folder."""
    folder = path.parent.relative_to(TESTS).as_posix()
    fits = [name for name in LAYERS if folder == name or folder.startswith(name + "/")]
    return LAYERS.index(max(fits, key=len)) if fits else len(LAYERS)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by layer; the order inside a layer stays as the random plugin left it."""
    items.sort(key=lambda item: layer_of(item.path))
