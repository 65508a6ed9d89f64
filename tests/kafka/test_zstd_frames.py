"""Kafka inflates corrupt zstd frames as the release of libzstd does that it comes with."""

import subprocess
from pathlib import Path

import pytest

from tests.kafka import jars
from tests.kafka.conftest import why_not
from tests.zstd_releases import FRAMES

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]
SOURCE = Path(__file__).with_name("ZstdFrames.java")


def kafka_answers(version: str) -> list[str]:
    """The answer to each frame."""
    return subprocess.run(
        jars.java_command(version, str(SOURCE)),
        input="".join(f"{frame.data.hex()}\n" for frame in FRAMES),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()


@pytest.mark.parametrize(
    ("version", "libzstd"),
    [(jars.CURRENT, (1, 5, 7)), (jars.PREVIOUS, (1, 5, 6)), (jars.LEGACY, (1, 4, 9))],
)
def test_kafka_reads_a_corrupt_frame_if_its_library_does(
    version: str, libzstd: tuple[int, ...]
) -> None:
    (jar,) = jars.jars(version).glob("zstd-jni-*.jar")
    assert jar.name.startswith(f"zstd-jni-{'.'.join(map(str, libzstd))}-")
    found = dict(zip((frame.flaw for frame in FRAMES), kafka_answers(version), strict=True))
    assert found == {
        frame.flaw: frame.content.hex() if libzstd <= frame.last_reader else "refused"
        for frame in FRAMES
    }
