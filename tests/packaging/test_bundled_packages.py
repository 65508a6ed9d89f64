"""The products with their own Python hold the packages of the program and of the extras that they serve."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
BUNDLE = ROOT / "scripts" / "packaging" / "bundle.txt"
COMPILE = """
import sys
for name in ("grpc", "setuptools", "pkg_resources"):
    sys.modules[name] = None
from kafkafs.schemas.decoders.protobuf_files import link
text = 'syntax = "proto3"; import "google/type/money.proto"; message Bill { google.type.Money sum = 1; }'
print(link(text).file.message_types_by_name["Bill"].fields_by_name["sum"].message_type.full_name)
"""


def _wanted(extra: str | None) -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = project["dependencies"] if extra is None else project["optional-dependencies"][extra]
    assert found
    return list(found)


@pytest.mark.parametrize("extra", [None, "fuse", "schemas", "where"])
def test_the_bundle_has_each_package_of_an_extra_in_a_version_that_it_allows(
    extra: str | None,
) -> None:
    lines = re.findall(r"^([^#=\s]+)==(\S+)$", BUNDLE.read_text(), re.MULTILINE)
    bundled = {name.lower(): Version(version) for name, version in lines}
    for requirement in map(Requirement, _wanted(extra)):
        version = bundled.get(requirement.name.lower())
        assert version is not None, f"bundle.txt lacks {requirement}"
        assert requirement.specifier.contains(version), f"bundle.txt has {version}: {requirement}"


def test_protobuf_schemas_compile_without_the_packages_that_the_bundle_leaves_out() -> None:
    pytest.importorskip("grpc_tools")
    done = subprocess.run(
        [sys.executable, "-c", COMPILE], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.stdout == "google.type.Money\n", done.stderr
