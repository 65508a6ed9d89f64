"""numpy, imported at its first use: its import takes longer than a whole short command.

Modules that single look-ups import take `np` and `npt` from here, and use them in functions only: a line that runs
at import would import numpy at once. Modules of bulk work import numpy itself.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

__all__ = ["np", "npt"]

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np = ModuleType("numpy")
    npt = ModuleType("numpy.typing")

    def _import_numpy(name: str) -> object:
        """Give `np` all names of numpy; called by Python for the first name that it lacks."""
        import numpy

        vars(np).update(vars(numpy))
        return getattr(numpy, name)

    np.__getattr__ = _import_numpy
