"""The Python in the pages on Spark: no example uses a name that it does not have."""

from __future__ import annotations

import ast
import builtins
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures_data import log_dir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGES = sorted((Path(__file__).parents[3] / "kafkafs/docs/spark").glob("*.md"))
EXAMPLES = [
    code
    for page in PAGES
    for code in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
]


def of_spark() -> list[str]:
    return [code for code in EXAMPLES if "spark" in code]


@pytest.mark.parametrize("code", of_spark(), ids=lambda code: code.splitlines()[-1])
def test_each_name_in_an_example_is_one_that_it_has(code: str) -> None:
    tree = ast.parse(code)
    known = set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            known |= {(each.asname or each.name).partition(".")[0] for each in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            known.add(node.id)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert used - known == set()


def test_the_example_of_writing_writes(spark: SparkSession, tmp_path: Path) -> None:
    (code,) = [each for each in of_spark() if "kafkafs.spark.write(" in each]
    code = code.replace("/var/lib/kafka/data", str(log_dir("sample")))
    for name in ("lagos", "wide"):
        code = code.replace(f'"{name}"', f'"{tmp_path / name}"')
    exec(code, {})
    assert (tmp_path / "lagos" / "orders-0").is_dir()
    assert len(list((tmp_path / "wide").glob("orders-by-key-*"))) == 6
