"""What Kafka's CleanShutdownFileHandlerTest asks of writing."""

from __future__ import annotations

import pytest

from engine.writing.checkpoint.clean_shutdown_file import CleanShutdownFile


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
