"""The bill of materials names each package and library that the products contain, with where it is from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
PINNED = [
    line
    for line in (ROOT / "scripts" / "packaging" / "bundle.txt").read_text().splitlines()
    if line and not line.startswith("#")
]


@pytest.fixture(scope="module")
def sbom() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts" / "packaging")
        import sbom

        yield sbom


def test_each_bundled_package_is_named_once(sbom: ModuleType) -> None:
    found = sbom.bill("1.2", PINNED, [("libzstd1", "1.5.4+dfsg2-5")])
    assert (found["bomFormat"], found["metadata"]["component"]["purl"]) == (
        "CycloneDX",
        "pkg:pypi/kafkafs@1.2",
    )
    purls = [each["purl"] for each in found["components"]]
    assert len(purls) == len(set(purls)) == len(PINNED) + 1
    assert {"pkg:pypi/numpy@2.4.6", "pkg:deb/debian/libzstd1@1.5.4%2Bdfsg2-5"} <= set(purls)
    assert found["dependencies"][0]["dependsOn"] == sorted(purls)


def test_the_same_system_gives_the_same_bytes(sbom: ModuleType, tmp_path: Path) -> None:
    python = Path("/usr/bin/python3.11")
    if not python.exists():
        pytest.skip("no Python of Debian 12")
    texts = [sbom.write(tmp_path, "1.2", PINNED, python).read_bytes() for _ in range(2)]
    assert texts[0] == texts[1]
    names = {each["name"] for each in json.loads(texts[0])["components"]}
    assert {"libzstd1", "liblz4-1", "libssl3", "python3.11-minimal", "numpy"} <= names
