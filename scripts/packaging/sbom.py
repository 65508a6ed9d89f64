"""A bill of materials in CycloneDX: what the .deb and the single file contain of other projects.

Packages of Python are those of bundle.txt, libraries those of Debian packages that are copied. The same sources and
the same system give the same bytes.
"""

from __future__ import annotations

import json
import re
import subprocess
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import bundle
import notices

_SPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")


def write(dist: Path, version: str, pinned: Iterable[str], python: Path) -> Path:
    """Write the bill beside the products; return its path.

    Args:
        dist: the folder of the products.
        version: version of kafkafs.
        pinned: packages of Python, NAME==VERSION.
        python: the Python of the system, which is copied.
    """
    libraries = map(notices.library_path, sorted({*notices.CODECS, *bundle.TAKEN, "libfuse3.so.3"}))
    debian = sorted({_of_debian(path) for path in (python, *libraries)})
    path = dist / f"kafkafs-{version}.cdx.json"
    text = json.dumps(bill(version, pinned, debian), indent=1, sort_keys=True)
    path.write_text(f"{text}\n", encoding="utf-8")
    return path


def bill(version: str, pinned: Iterable[str], debian: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the bill.

    Args:
        version: version of kafkafs.
        pinned: packages of Python, NAME==VERSION.
        debian: names and versions of packages of Debian.
    """
    packages = [line.partition("==")[::2] for line in pinned]
    components = [_component("pypi", _normal(name), each) for name, each in packages]
    components += [_component("deb/debian", name, each) for name, each in debian]
    product = _component("pypi", "kafkafs", version) | {"type": "application"}
    references = sorted(each["bom-ref"] for each in components)
    content = json.dumps([version, components], sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_SPACE, content)}",
        "version": 1,
        "metadata": {"component": product},
        "components": components,
        "dependencies": [{"ref": product["bom-ref"], "dependsOn": references}],
    }


def _component(kind: str, name: str, version: str) -> dict[str, Any]:
    place = f"pkg:{kind}/{name}@{version.replace('+', '%2B')}"
    return {"type": "library", "bom-ref": place, "name": name, "version": version, "purl": place}


def _normal(name: str) -> str:
    """Return the name of a package as PyPI normalizes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _of_debian(path: Path) -> tuple[str, str]:
    """Return the package of Debian that a file is of, and its version."""
    package = notices.package_of(path)
    command = ["dpkg-query", "-W", "-f", "${Version}", package]
    return package, subprocess.run(command, check=True, capture_output=True, text=True).stdout
