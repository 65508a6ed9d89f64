"""A plugin of pytest: the tests use the build of the kernel that KAFKAFS_MEASURED_KERNEL names."""

from __future__ import annotations

import os
from pathlib import Path

from tests.soak import sanitized

sanitized.use({sanitized.KERNEL: Path(os.environ["KAFKAFS_MEASURED_KERNEL"])})
