"""What Kafka's CleanShutdownFileHandlerTest asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.broker.checkpoint.clean_shutdown_file import CleanShutdownFile
from engine.checkpoint.clean_shutdown import read_clean_shutdown
from engine.files.source_files import SourceRoot


@pytest.mark.conformance("CleanShutdownFileHandlerTest.testCleanShutdownFileNonExist")
def test_clean_shutdown_file_non_exist(tmp_path: Path) -> None:
    file = tmp_path / ".kafka_cleanshutdown"
    file.write_text('{"version":0,"brokerEpoch":10}')
    with SourceRoot(str(tmp_path)) as root:
        shutdown = read_clean_shutdown(root)
        assert shutdown is not None
        assert shutdown.broker_epoch == 10
        file.unlink()
        assert read_clean_shutdown(root) is None


@pytest.mark.conformance(
    "CleanShutdownFileHandlerTest.testCleanShutdownFileCanParseWithUnknownFields"
)
def test_clean_shutdown_file_can_parse_with_unknown_fields(tmp_path: Path) -> None:
    text = '{"version":0,"brokerEpoch":10,"unknown":123}'
    (tmp_path / ".kafka_cleanshutdown").write_text(text)
    with SourceRoot(str(tmp_path)) as root:
        assert read_clean_shutdown(root) == (0, 10)


@pytest.mark.conformance("CleanShutdownFileHandlerTest.testCleanShutdownFileBasic")
def test_clean_shutdown_file_basic(tmp_path):
    file = CleanShutdownFile(tmp_path)
    file.write(10)
    assert file.exists()
    assert file.read() == 10
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":10}'
    file.delete()
    assert not file.exists()


def test_a_file_that_is_not_there_or_says_nothing_has_no_epoch(tmp_path):
    file = CleanShutdownFile(tmp_path)
    file.write(10, 0)
    file.delete()
    file.delete()
    assert file.read() is None
    for content in (b"", b"{", b"[]", b'{"version":0}'):
        (tmp_path / ".kafka_cleanshutdown").write_bytes(content)
        assert file.exists()
        assert file.read() is None
    (tmp_path / ".kafka_cleanshutdown").write_bytes(b'{"version":0,"brokerEpoch":10,"unknown":123}')
    assert file.read() == 10
