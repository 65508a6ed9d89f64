"""Exit statuses of the commands and of the daemon."""

from __future__ import annotations

from typing import Final

EXIT_FINDINGS: Final = 1
"""The data has errors, or nothing matched."""
EXIT_USAGE: Final = 2
EXIT_CANNOT_READ: Final = 3
"""Some or all of the source could not be read."""
EXIT_INTERRUPTED: Final = 130
EXIT_CRASHED: Final = 1
"""The daemon ended because of a bug."""
