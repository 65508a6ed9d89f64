"""Answers reach a client whole and in order, slow or not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

from engine.files.source_files import SourceRoot
from kafkafs.serve.file_slice import FileSlice, Piece, ShortFileError, size_of
from kafkafs.serve.network.exchange import Exchange
from kafkafs.serve.network.sending import Sender
from kafkafs.serve.quick import extension


@pytest.fixture
def data(tmp_path: Path) -> tuple[FileSlice, bytes]:
    """A file of 3 MB and its bytes."""
    content = os.urandom(3_000_000)
    (tmp_path / "file").write_bytes(content)
    return FileSlice(SourceRoot(str(tmp_path)).open("file"), 0, len(content)), content


@pytest.fixture(params=[Exchange, extension and extension.Exchange], ids=["python", "compiled"])
def exchange_kind(request):
    """An exchange, compiled or not."""
    if request.param is None:
        pytest.skip("the extension is not built")
    return request.param


def received(kind, pieces: tuple[Piece, ...], pause: float = 0.0) -> bytes:
    """What a client gets of an answer."""

    async def main() -> bytes:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        found = bytearray()

        async def read() -> None:
            async with await trio.open_tcp_stream("127.0.0.1", port) as client:
                await trio.sleep(pause)
                async for part in client:
                    found.extend(part)

        async with listeners[0], trio.open_nursery() as nursery:
            nursery.start_soon(read)
            async with await listeners[0].accept() as stream:
                exchange = kind(stream.socket.fileno(), bytearray(), None)
                await Sender(stream, trio.CapacityLimiter(1), 30, exchange).send(pieces)
        return bytes(found)

    return trio.run(main)


@pytest.mark.parametrize("pause", [0.0, 0.3], ids=["at once", "slow"])
def test_buffers_and_parts_of_files_arrive_in_order(data, pause, exchange_kind):
    whole, content = data
    pieces = (
        b"head",
        whole,
        b"middle",
        whole._replace(position=1_000, size=70_000),
        b"x" * 200_000,
    )
    expected = b"head" + content + b"middle" + content[1_000:71_000] + b"x" * 200_000
    assert size_of(pieces) == len(expected)
    assert received(exchange_kind, pieces, pause) == expected


def test_a_file_that_became_shorter_ends_the_connection(data, exchange_kind):
    whole, _ = data
    os.truncate(whole.file.path, 10_000)
    with pytest.raises(ExceptionGroup) as error:
        received(exchange_kind, (b"head", whole))
    assert error.group_contains(ShortFileError, match="ends at 10000")
