"""Texts that belong to the program: declarations of formats, and tables of facts."""

from __future__ import annotations

from pkgutil import get_data


def package_text(package: str, name: str) -> str:
    """Return a text file of a package, which may be in a folder or in a zip file.

    Args:
        package: name of the package.
        name: path of the file below the package's folder, with `/`.

    Raises:
        OSError: there is no such file.
    """
    data = get_data(package, name)
    if data is None:
        raise FileNotFoundError(f"{name} of the package {package}")
    return data.decode()
