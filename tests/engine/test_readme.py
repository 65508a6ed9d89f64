"""The example in engine/README.md does what the text says."""

import contextlib
import io
import os
import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "engine" / "README.md").read_text()


def test_the_example_of_writing_a_log_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    said = re.search(r"prints `(.*?)` .*? and `(.*?)`", TEXT)
    assert said is not None
    (tmp_path / "log-dir").mkdir()
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue().splitlines() == [said[1], said[2]]
    assert f"{0:020}.log" in os.listdir("log-dir/orders-0")
