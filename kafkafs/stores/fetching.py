"""The process that fetches the bytes of objects into the private files of a mirror, for all processes that read it.

Started as ``python -m kafkafs.stores.fetching FOLDER``, with a URL and options as JSON on standard input. It lists the
store once, makes the tree, prints the result as a line of JSON, and then answers on a socket until nobody uses the
folder. A request is a line ``NUMBER START END AHEAD``: when [START, END) of the object is there, the answer is a line
``ok``, ``full`` if the private files take more room than they may, or ``ERRNO TEXT``. What is between END and AHEAD is
fetched, too, without an answer; behind the end of a records file that is the start of the next one.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import shutil
import sys
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from engine.budgets import MiB
from engine.errors import STORE_FAILURES, SourceError
from engine.log.log_dirs_below import is_partition_name
from kafkafs.stores.mirror_folder import PIECE, SOCKET, Pieces, in_order, make_tree, pieces_of
from kafkafs.stores.object_client import ListedObject, ObjectClient
from kafkafs.stores.store_options import StoreOptions
from kafkafs.unpacked_folders import is_used

MOST_OBJECTS = 1_000_000
_PART = 4 * MiB
_AT_ONCE = 32
_LEFT_FREE = 256 * MiB
_MOST_BETWEEN = 10
_ROUND = 2.0
_GIVEN_UP = 10.0
"""Seconds without tries after a request that failed at each try."""
_LASTING = frozenset({errno.EREMCHG, errno.ENOMEDIUM, errno.EKEYREJECTED, errno.ENONET})
"""Errnos of objects that are not asked for again."""


class Fetcher:
    """Fetches pieces, each once, some at a time.

    Args:
        client: the store.
        objects: the objects by number.
        pieces: the private files.
        space: bytes that they may take.
    """

    def __init__(
        self, client: ObjectClient, objects: list[ListedObject], pieces: Pieces, space: int
    ) -> None:
        self._client = client
        self._objects = objects
        self._pieces = pieces
        self._space = space
        self._taken = 0
        self._used: OrderedDict[int, int] = (
            OrderedDict()
        )  # bytes there by number, longest unused first
        self._under_way: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._lost: dict[int, OSError] = {}
        self._failed_at = -_GIVEN_UP
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def have(self, number: int, start: int, end: int, ahead: int) -> str:
        """Return when [start, end) of an object is there: "full" where there is no room to read on, else "ok".

        Raises OSError.
        """
        if number in self._lost:
            raise self._lost[number]
        self._pieces.make(number)
        self._used.setdefault(number, 0)
        self._used.move_to_end(number)
        wanted = list(self._parts(number, start, end))
        size = self._objects[number].size
        if ahead > end:
            self._fetch_ahead(number, end, min(ahead, size))
            following = self._next_log(number) if ahead > size else None
            if following is not None:
                self._fetch_ahead(following, 0, ahead - size)
        failures = await asyncio.gather(*wanted, return_exceptions=True)
        for failure in failures:
            if isinstance(failure, OSError):
                raise failure
            if failure is not None:
                raise OSError(errno.ECOMM, STORE_FAILURES[errno.ECOMM])
        if self._taken > self._space:
            self._make_room(number)
        return "full" if self._taken > self._space else "ok"

    def _fetch_ahead(self, number: int, start: int, end: int) -> None:
        if self._taken > self._space:
            return
        self._pieces.make(number)
        for task in self._parts(number, start, end):
            task.add_done_callback(_seen)

    def _next_log(self, number: int) -> int | None:
        """Return the records file behind one in its folder, which has some index files between them."""
        folder, _, name = self._objects[number].key.rpartition("/")
        if not name.endswith(".log"):
            return None
        near = range(number + 1, min(number + _MOST_BETWEEN, len(self._objects)))
        logs = (each for each in near if self._objects[each].key.endswith(".log"))
        found = next(logs, None)
        is_here = found is not None and self._objects[found].key.startswith(f"{folder}/")
        return found if is_here else None

    def _parts(self, number: int, start: int, end: int) -> Iterator[asyncio.Task[None]]:
        """Yield what fetches the missing pieces of [start, end), each once."""
        base, size = self._pieces.starts[number], self._objects[number].size
        end = min(end, size)
        place, last = start // PIECE, pieces_of(end)
        seen: set[int] = set()
        while place < last:
            known = self._under_way.get((number, place))
            if known is not None:
                if id(known) not in seen:
                    seen.add(id(known))
                    yield known
                place += 1
            elif self._pieces.there[base + place]:
                place += 1
            else:
                first = place
                most = min(last, first + _PART // PIECE)
                while place < most and not self._pieces.there[base + place]:
                    if (number, place) in self._under_way:
                        break
                    place += 1
                task = asyncio.create_task(
                    self._fetch(number, first * PIECE, min(place * PIECE, size))
                )
                for each in range(first, place):
                    self._under_way[number, each] = task
                yield task

    async def _fetch(self, number: int, start: int, end: int) -> None:
        try:
            async with self._turn:
                patient = monotonic() - self._failed_at > _GIVEN_UP
                data = await self._client.read(self._objects[number], start, end, patient=patient)
            if shutil.disk_usage(os.path.dirname(self._pieces.path(number))).free < _LEFT_FREE:
                self._make_room(number)
                raise OSError(errno.ENOSR, STORE_FAILURES[errno.ENOSR])
            self._pieces.write(number, start, memoryview(data))
            self._taken += end - start
            self._used[number] = self._used.get(number, 0) + end - start
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise OSError(errno.ENOSR, STORE_FAILURES[errno.ENOSR]) from None
            if error.errno in _LASTING:
                self._lost[number] = error
            else:
                self._failed_at = monotonic()
            raise
        finally:
            for each in range(start // PIECE, pieces_of(end)):
                self._under_way.pop((number, each), None)

    def _make_room(self, but: int) -> None:
        """Remove private files that nobody has open, those first that were unused for longest."""
        busy = {number for number, _ in self._under_way}
        for number in list(self._used):
            if self._taken <= self._space // 2:
                return
            if number == but or number in busy or not self._used[number]:
                continue
            fd = os.open(self._pieces.path(number), os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._pieces.forget(number)
                os.unlink(self._pieces.path(number))
                self._taken -= self._used.pop(number)
            except BlockingIOError:
                continue
            finally:
                os.close(fd)


def _seen(task: asyncio.Task[None]) -> None:
    """Take the error of a part that nobody waits for: who reads it asks again."""
    if not task.cancelled():
        task.exception()


async def list_objects(client: ObjectClient) -> list[ListedObject]:
    """Return the objects of a source, in order: those below its prefix, or the one that it names.

    For a partition's folder the files of the log dir above belong to it.

    Raises OSError, SourceError.
    """
    found: list[ListedObject] = []
    async for batch in client.list(client.prefix):
        found += batch
        if len(found) > MOST_OBJECTS:
            raise SourceError(
                f"more than {MOST_OBJECTS:,} objects are below it", hint="name a longer prefix"
            )
    if not found and client.prefix:
        one = await client.head(client.prefix)
        found += [] if one is None else [one]
    elif is_partition_name(client.prefix.rpartition("/")[2]):
        found += await client.list_files(client.prefix.rpartition("/")[0])
    return list(in_order(found))


async def serve(folder: str, given: dict[str, Any]) -> None:
    """List the store and answer requests until nobody uses the folder."""
    url = given["url"]
    try:
        options = StoreOptions(**given["options"])
        client = ObjectClient(url, options)
        objects = await list_objects(client)
        if not objects:
            raise SourceError(f"{url}: no object is there", hint="check the bucket and the prefix")
        top = f"{folder}/tree/{urlsplit(url).netloc}"
        os.makedirs(top)
        objects, left_out = make_tree(folder, top, objects)
        fetcher = Fetcher(client, objects, Pieces(folder, objects), options.space)
        server = await asyncio.start_unix_server(
            lambda reader, writer: _answer(fetcher, reader, writer), f"{folder}/{SOCKET}"
        )
        facts: dict[str, Any] = {"objects": len(objects), "left_out": left_out}
    except SourceError as error:
        facts = {"error": error.reason, "hint": error.hint}
    except OSError as error:
        facts = {
            "error": f"{url} cannot be listed: {error.strerror or error}",
            "errno": error.errno,
        }
    print(json.dumps(facts), flush=True)  # noqa: T201  read by the process that started this one
    if "error" in facts:
        return
    async with server:
        while is_used(folder):  # noqa: ASYNC110  what other processes do gives no event
            await asyncio.sleep(_ROUND)


async def _answer(
    fetcher: Fetcher, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    with suppress(ConnectionError):
        while line := await reader.readline():
            number, start, end, ahead = map(int, line.split())
            try:
                text = await fetcher.have(number, start, end, ahead)
            except OSError as error:
                text = f"{error.errno or errno.ECOMM} {error.strerror or ''}"
            writer.write(f"{text}\n".encode())
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    wanted = json.load(sys.stdin)
    if os.fork():
        os._exit(0)  # who started this process waits for it, and outlives the other one or does not
    asyncio.run(serve(sys.argv[1], wanted))
