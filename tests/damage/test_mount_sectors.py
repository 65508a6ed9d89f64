"""A sample of the soak of unreadable sectors below a mount. All of it: tests/damage/mount_sectors.py."""

from __future__ import annotations

import pytest

from tests.damage.mount_sectors import main
from tests.mount.mounted import needs_fuse

pytestmark = [pytest.mark.mount, needs_fuse]


def test_a_mount_loses_exactly_the_batches_in_each_sector() -> None:
    assert main(["--seed", "31", "--sectors", "25"]) == 0
