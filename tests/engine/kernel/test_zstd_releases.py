"""engine.kernel: a corrupt zstd frame is damage if the release of libzstd that inflates it says so."""

from __future__ import annotations

import re

import pytest

from engine.coding.compression import CompressionType, decompress
from engine.columns.batch_table import Problem
from engine.errors import DecompressionError
from engine.kernel import codec_library, compiled, python as kernel_python
from tests.builders import batch
from tests.engine.kernel.kernels import decoded, facts
from tests.zstd_releases import FRAMES, RECORDS, SECTION, CorruptFrame

ZSTD = CompressionType.ZSTD
each_frame = pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: frame.flaw)


@each_frame
def test_the_reference_refuses_each(frame: CorruptFrame) -> None:
    with pytest.raises(DecompressionError):
        decompress(ZSTD, frame.data, limit=1000)
    data = batch(RECORDS, 0, ZSTD, section=frame.data)
    (problem,) = decoded(kernel_python, data).problems
    assert problem.code == Problem.DECOMPRESSION


@each_frame
def test_the_compiled_kernel_answers_as_the_installed_library(frame: CorruptFrame) -> None:
    library = codec_library(ZSTD)
    if library is None:
        pytest.skip("libzstd is not installed: the kernel has the reference's answer")
    release = tuple(map(int, re.findall(r"\d+", library)))
    columns = decoded(compiled, batch(RECORDS, 0, ZSTD, section=frame.data))
    is_refused = [each.code for each in columns.problems] == [Problem.DECOMPRESSION]
    assert is_refused is (release > frame.last_reader)
    if not is_refused and frame.content == SECTION:
        assert [(key, value) for _, _, key, value, _ in facts(columns)] == [
            (r.key, r.value) for r in RECORDS
        ]
