# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=True
"""The quick way of Fetch; compiled.pyi documents it, the system calls are in c/exchange.h."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc

import os

from engine import kernel
from kafkafs.serve.file_slice import FileSlice, ShortFileError


cdef extern from "batches.h" nogil:
    ctypedef struct kfs_location:
        int64_t position
        int64_t base_offset
        int32_t size

    enum:
        KFS_LOCATE_FOUND
        KFS_LOCATE_ERRNO

    uint32_t kfs_be32(const uint8_t *p)
    int kfs_locate(int fd, int64_t position, int64_t end, int64_t target, int64_t largest,
                   uint8_t *scratch, size_t capacity, int flags, kfs_location *found)


cdef extern from "c/exchange.h" nogil:
    ctypedef struct kfx_part:
        const uint8_t *data
        int file
        int64_t position
        size_t size

    ctypedef struct kfx_patience:
        int32_t left_out
        int32_t failures

    enum:
        KFX_DONE
        KFX_NO_ROOM
        KFX_SHORT

    enum:
        RWF_NOWAIT

    enum:
        KFX_ROOM
        KFX_ROOM_MS

    void kfx_enter()
    void kfx_leave()
    int64_t kfx_now()
    int kfx_send(int client, kfx_part *parts, size_t count, size_t *place, int room_ms)
    int64_t kfx_receive(int client, uint8_t *to, size_t size, int pause_ms, int may_look, kfx_patience *patience)


cdef extern from "c/poller.h" nogil:
    ctypedef struct kfx_member:
        int is_wanted, found, number, has_request
        size_t got, count, place
        kfx_part *parts
        uint8_t *room

    ctypedef struct kfx_poller:
        kfx_member *members

    enum:
        KFX_READY
        KFX_CAME
        KFX_FAILED
        KFX_SHORT_FILE

    enum:
        EPOLLIN

    int kfx_open_poller(kfx_poller *poller, uint32_t size)
    void kfx_close_poller(kfx_poller *poller)
    void kfx_free_poller(kfx_poller *poller)
    int64_t kfx_add(kfx_poller *poller, int client, kfx_part *parts, size_t count, int has_request)
    void kfx_let_go(kfx_poller *poller, uint32_t number)
    int kfx_take(kfx_poller *poller, uint32_t number)
    int kfx_arm(kfx_poller *poller, uint32_t number, uint32_t events)
    int kfx_take_ready(kfx_poller *poller, uint32_t *mine)
    int kfx_advance_all(kfx_poller *poller, uint32_t *mine, int count)
    int kfx_is_cached(int file, int64_t position, int64_t size)


cdef enum:
    FETCH = 1
    FIRST_FLEXIBLE = 12
    FIRST_WITH_IDS = 13
    LARGEST_REQUEST = 65536  # bytes of the largest request that is received here
    MOST_ANSWERED = 1000  # requests that a poller answers before the event loop counts them
    NO_EPOCH = -1
    NO_SESSION = -1
    COMMITTED = 1

cdef double GRACE = 0.05  # seconds
cdef object _no_aborted = []


cdef class _Held:
    """A buffer, held while it is sent."""

    cdef Py_buffer view

    def __cinit__(self, buffer):
        PyObject_GetBuffer(buffer, &self.view, PyBUF_SIMPLE)

    def __dealloc__(self):
        PyBuffer_Release(&self.view)


cdef class Scratch:
    """Memory for headers of batches, for one thread."""

    cdef uint8_t room[KFX_ROOM]
    cdef bint may_read

    def __init__(self, *, bint may_read=True):
        self.may_read = may_read


cdef class ReadyPartition:
    """What is known of a partition."""

    cdef double until
    cdef bint is_left
    cdef int64_t start, end, stable
    cdef int64_t epoch
    cdef list segments

    def __init__(self, double until, int64_t start, int64_t end):
        self.until, self.start, self.end = until, start, end
        self.epoch = NO_EPOCH
        self.segments = []

    def know_epoch(self, int64_t epoch):
        self.epoch = epoch

    def add(self, ReadySegment segment, int64_t stable):
        cdef list segments = self.segments.copy()  # threads may be searching it
        cdef Py_ssize_t place = _place_of(segments, segment.base_offset)
        self.stable = stable
        if place and (<ReadySegment>segments[place - 1]).base_offset == segment.base_offset:
            segments[place - 1] = segment
        else:
            segments.insert(place, segment)
        self.segments = segments

    cdef ReadySegment segment_of(self, int64_t offset):
        """Return the segment that may hold an offset; None if nothing is known of it."""
        cdef list segments = self.segments
        cdef Py_ssize_t place = _place_of(segments, offset)
        cdef ReadySegment found
        if not place:
            return None
        found = <ReadySegment>segments[place - 1]
        return found if offset < found.next_base else None

    cdef tuple records(
        self, tuple wanted, int64_t left, bint is_committed, bint min_one_batch, double now, Scratch scratch
    ):
        """Return the part of a file for a consumer, perhaps none; None if Python has to tell."""
        cdef int64_t offset = wanted[0], most = min(<int64_t>wanted[1], left), epoch = wanted[2], last_epoch = wanted[3]
        cdef ReadySegment segment
        if not self.start <= offset <= self.end or most < 0:
            return None
        if now >= self.until and (not self.is_left or now >= self.until + GRACE):
            self.is_left = True  # Python looks at the partition for one client; the others go on meanwhile
            return None
        if (epoch >= 0 and epoch != self.epoch) or last_epoch >= 0:
            return None
        if is_committed and self.stable != self.end:
            return None
        if offset == self.end:
            return () if self.segments else None  # without any the last stable offset is not known
        segment = self.segment_of(offset)
        if segment is None or (is_committed and not segment.is_committed):
            return None
        found = segment.slice(offset, most, min_one_batch, scratch)
        if found is None or (is_committed and not found):
            return None
        return (found,) if found else ()

    cdef dict answer(self, tuple records, bint is_committed):
        """Return the answer for a partition, without its number."""
        return {
            "highWatermark": self.end,
            "lastStableOffset": self.stable,
            "logStartOffset": self.start,
            "abortedTransactions": _no_aborted if is_committed else None,
            "records": records,
        }


cdef Py_ssize_t _place_of(list segments, int64_t offset) noexcept:
    """Return the number of segments that start at or below an offset."""
    cdef Py_ssize_t low = 0, high = len(segments), middle
    while low < high:
        middle = (low + high) >> 1
        if (<ReadySegment>segments[middle]).base_offset <= offset:
            low = middle + 1
        else:
            high = middle
    return low


cdef class ReadySegment:
    """A proven part of a segment."""

    cdef object files, file
    cdef int64_t base_offset, next_base, end, good_start, good_end, largest
    cdef bint is_committed

    def __init__(self, files, file, int64_t next_base, int64_t end, tuple good, int64_t largest, bint is_committed):
        self.files, self.file = files, file
        self.base_offset, self.next_base, self.end = files.base_offset, next_base, end
        self.good_start, self.good_end = good
        self.largest, self.is_committed = largest, is_committed

    cdef object slice(self, int64_t offset, int64_t most, bint min_one_batch, Scratch scratch):
        """Return the part of the file for a consumer, an empty tuple for none, and None if Python has to tell."""
        cdef int64_t position, size, base, stop
        cdef kfs_location found
        cdef uint8_t *room
        cdef int fd, result
        opened = self.files.opened
        if opened is None:
            return None
        file = opened.file
        if file is not self.file() or file.unreadable is not None:
            return None
        opened.was_used = True
        hints = opened.hints
        known = hints.known_position(offset)
        if known is None:
            if not scratch.may_read:
                return None
            kfx_leave()  # to read the index may take long
            known = hints.position(offset)
        position = known
        fd, room = opened.fd, scratch.room
        # Headers are mostly in the page cache: to let other threads have the GIL costs more than to read them.
        result = kfs_locate(fd, position, self.end, offset, self.largest, room, KFX_ROOM, RWF_NOWAIT, &found)
        if result == KFS_LOCATE_ERRNO and scratch.may_read:
            with nogil:
                kfx_leave()
                result = kfs_locate(fd, position, self.end, offset, self.largest, room, KFX_ROOM, 0, &found)
        if result != KFS_LOCATE_FOUND:
            return None
        position, size, base = found.position, found.size, found.base_offset
        if base > offset or not self.good_start <= position < self.good_end:
            return None
        if min_one_batch:
            most = max(most, size)
        if position + max(most, 1) > self.good_end < self.end:
            return None
        if most < size:
            return ()
        stop = min(position + most, self.end)
        return tuple.__new__(FileSlice, (file, position, stop - position))


cdef class QuickFetches:
    """Answers requests of which all is known."""

    cdef object request, response, session_of
    cdef dict by_name, by_id
    cdef int64_t most_elements, most_bytes
    cdef Py_ssize_t most_repeats
    cdef list versions

    def __init__(self, request, response, session_of, dict by_name, dict by_id, *, int64_t most_elements,
                 int64_t most_bytes, Py_ssize_t most_repeats):
        self.request, self.response, self.session_of = request, response, session_of
        self.by_name, self.by_id = by_name, by_id
        self.most_elements, self.most_bytes, self.most_repeats = most_elements, most_bytes, most_repeats
        self.versions = [request.knows(version) for version in range(64)]

    def answer(self, bytes frame, Scratch scratch):
        begun = []
        try:
            pieces = self.pieces(frame, scratch, begun)
        except Exception:
            pieces = None  # Python meets the same fault, and has the words for it
        return pieces, begun[0] if begun and pieces is None else None

    cdef list pieces(self, bytes frame, Scratch scratch, list begun):
        """Return the pieces of an answer; None if Python has to make it, with a session that was changed in `begun`."""
        cdef const uint8_t *p = <const uint8_t *><const char *>frame
        cdef Py_ssize_t size = len(frame), at
        cdef int version
        cdef bint has_ids
        cdef dict fields, wanted, answer
        cdef list responses
        if size < 10 or p[0] << 8 | p[1] != FETCH:
            return None
        version = p[2] << 8 | p[3]
        if version >= 64 or not self.versions[version]:
            return None
        at = 10 + max(0, <int16_t>(p[8] << 8 | p[9]))
        if version >= FIRST_FLEXIBLE:
            if at >= size or p[at]:
                return None
            at += 1
        fields = kernel.read_message(self.request, version, frame, at, most_elements=self.most_elements)[0]
        if self.may_repeat(fields):
            return None
        has_ids = version >= FIRST_WITH_IDS
        answer = {}
        session = None
        if fields["sessionId"] or fields["sessionEpoch"] != NO_SESSION:
            session = self.session_of(fields, has_ids=has_ids)
            begun.append(session)
            wanted = dict(session.wanted)  # an error has none, and is left to Python
            answer["sessionId"] = session.id
        else:
            wanted = _wanted(fields, has_ids)
        responses = self.responses(fields, wanted, session, has_ids, scratch)
        if responses is None:
            return None
        answer["responses"] = responses
        head = b"\0\0\0\0" + frame[4:8] + (b"\0" if version >= FIRST_FLEXIBLE else b"")
        pieces = kernel.write_message(self.response, version, answer, head)
        size = _size_of(pieces) - 4
        p = <const uint8_t *><const char *>(<bytearray>pieces[0])
        for at in range(4):
            (<uint8_t *>p)[at] = <uint8_t>(size >> (24 - 8 * at))
        return pieces

    cdef bint may_repeat(self, dict fields) except -1:
        """Return whether an array is so large that Python has to look for the same elements in it."""
        for topics in (fields["topics"], fields["forgottenTopicsData"]):
            if len(<list>topics) > self.most_repeats:
                return True
            for topic in <list>topics:
                if len(<list>(<dict>topic)["partitions"]) > self.most_repeats:
                    return True
        return False

    cdef list responses(self, dict fields, dict wanted, session, bint has_ids, Scratch scratch):
        """Return the answers by topic; None if Python has to tell."""
        cdef int64_t left = min(<int64_t>fields["maxBytes"], self.most_bytes), size, read = 0
        cdef bint is_committed = fields["isolationLevel"] == COMMITTED
        cdef dict known = self.by_id if has_ids else self.by_name
        cdef double now = <double>kfx_now() / 1e9
        cdef str name = "topicId" if has_ids else "topic"
        cdef list found = [], responses = [], partitions = None
        cdef tuple records
        cdef dict answer
        for key, each in wanted.items():
            look = known.get(key)
            if look is None:
                return None
            records = (<ReadyPartition?>look.ready).records(
                <tuple>each, left, is_committed, not read, now, scratch)
            if records is None:
                return None
            if records:
                size = (<tuple>records[0])[2]
                read += size
                left = max(left - size, 0)
            found.append((key, look.ready, records))
        if wanted and read < min(<int64_t>fields["minBytes"], <int64_t>fields["maxBytes"]):
            return None
        last = None
        for key, ready, records in found:
            answer = (<ReadyPartition>ready).answer(records, is_committed)
            if session is not None:
                size = (<tuple>records[0])[2] if records else 0
                if not session.shows(key, answer["highWatermark"], answer["logStartOffset"], size):
                    continue
            topic, number = <tuple>key
            if topic != last:
                partitions = []
                responses.append({name: topic, "partitions": partitions})
                last = topic
            answer["partitionIndex"] = number
            partitions.append(answer)
        return responses


cdef dict _wanted(dict fields, bint has_ids):
    """Return what a request without a session asks of each partition."""
    cdef dict wanted = {}, each
    for topic in <list>fields["topics"]:
        title = (<dict>topic)["topicId" if has_ids else "topic"]
        for partition in <list>(<dict>topic)["partitions"]:
            each = <dict>partition
            wanted[title, each["partition"]] = (
                each["fetchOffset"], each["partitionMaxBytes"], each["currentLeaderEpoch"], each["lastFetchedEpoch"])
    return wanted


cdef Py_ssize_t _size_of(list pieces) except -1:
    """Return the bytes of pieces together."""
    cdef Py_ssize_t size = 0
    for piece in pieces:
        size += <Py_ssize_t>(<tuple>piece)[2] if type(piece) is FileSlice else len(piece)
    return size


cdef class _Outgoing:
    """An answer while it is sent."""

    cdef list pieces, held
    cdef kfx_part *parts
    cdef size_t count, place

    def __dealloc__(self):
        free(self.parts)

    cdef int set(self, pieces) except -1:
        """Take the pieces of an answer, instead of those before."""
        cdef size_t number = 0
        cdef kfx_part *part
        cdef _Held buffer
        self.forget()
        self.parts = <kfx_part *>malloc(len(pieces) * sizeof(kfx_part) + 1)
        if self.parts == NULL:
            raise MemoryError
        for piece in pieces:
            part = self.parts + number
            if type(piece) is FileSlice:
                part.data = NULL
                part.file = piece.file.fd
                part.position, part.size = piece.position, piece.size
            else:
                buffer = _Held(piece)
                self.held.append(buffer)
                part.data = <const uint8_t *>buffer.view.buf
                part.position, part.size = 0, <size_t>buffer.view.len
            number += 1
        self.pieces, self.count = list(pieces), number
        return 0

    cdef forget(self):
        free(self.parts)
        self.parts = NULL
        self.pieces, self.held = [], []
        self.count = self.place = 0

    cdef list left(self):
        """Return the pieces that were not sent."""
        if self.place >= self.count:
            return []
        piece = self.pieces[self.place]
        cdef kfx_part *part = self.parts + self.place
        if type(piece) is FileSlice:
            rest = FileSlice(piece.file, part.position, part.size)
        else:
            rest = memoryview(piece)[part.position :]
        return [rest, *self.pieces[self.place + 1 :]]

    cdef short_file(self):
        """Return the error for a file that ended."""
        return ShortFileError.of(self.pieces[self.place], self.parts[self.place].position)

    cdef bint is_cached(self) noexcept:
        """Return whether all files' parts can be sent without reading a disk."""
        cdef size_t number
        for number in range(self.count):
            if self.parts[number].data == NULL and not kfx_is_cached(
                    self.parts[number].file, self.parts[number].position, <int64_t>self.parts[number].size):
                return False
        return True


cdef class Exchange:
    """Sends answers and receives requests of one client."""

    cdef int client
    cdef bytearray received
    cdef Scratch scratch
    cdef QuickFetches quick
    cdef kfx_patience patience
    cdef uint8_t *room
    cdef _Outgoing outgoing

    def __init__(self, int client, bytearray received, QuickFetches quick):
        self.client, self.received, self.quick = client, received, quick
        self.outgoing = _Outgoing()

    def run(self, pieces, double end, int pause_ms, bint may_look, list answered):
        try:
            return self.turn(pieces, end, pause_ms, may_look, answered)
        finally:
            kfx_leave()
            self.outgoing.forget()

    cdef tuple turn(self, pieces, double end, int pause_ms, bint may_look, list answered):
        cdef uint8_t room[KFX_ROOM]
        cdef int64_t start, got = 0, last = <int64_t>(end * 1e9)
        cdef bytes frame
        if self.scratch is None:
            self.scratch = Scratch()
        while True:
            # A request is received without the GIL in between, which other threads would have to be asked for.
            self.room = NULL if self.received else room
            left = self.send(pieces, last, pause_ms, may_look, &got)
            if left or (self.room != NULL and not self.take(room, got)):
                return left, None
            frame = self.frame()
            while frame is None:
                if kfx_now() > last or len(self.received) > LARGEST_REQUEST:
                    return left, None
                with nogil:
                    kfx_leave()
                    got = kfx_receive(self.client, room, KFX_ROOM, pause_ms, may_look, &self.patience)
                if not self.take(room, got):
                    return left, None
                frame = self.frame()
            if self.quick is None or kfx_now() > last:
                return left, None
            start = kfx_now()
            pieces, begun = self.quick.answer(frame, self.scratch)
            if pieces is None:
                return left, begun
            del self.received[: 4 + len(frame)]
            answered.append((kfx_now() - start, _size_of(pieces), False))

    cdef bint take(self, const uint8_t *room, int64_t got) except -1:
        """Take bytes that were received; return False if none came."""
        if got < 0:
            raise OSError(-got, os.strerror(-got))
        if got:
            self.received += PyBytes_FromStringAndSize(<const char *>room, <Py_ssize_t>got)
        return got > 0

    cdef bytes frame(self):
        """Return the next request if all its bytes have come."""
        cdef const uint8_t *p
        cdef Py_ssize_t size = len(self.received)
        cdef int32_t length
        if size < 4:
            return None
        p = <const uint8_t *><const char *>self.received
        length = <int32_t>kfs_be32(p)
        if length < 0 or length > size - 4:
            return None
        return PyBytes_FromStringAndSize(<const char *>p + 4, length)

    cdef list send(self, pieces, int64_t last, int pause_ms, bint may_look, int64_t *got):
        """Send pieces, and receive into `room` if there is one; return pieces that are left when the client has no room."""
        cdef _Outgoing outgoing = self.outgoing
        cdef int result
        outgoing.set(pieces)
        with nogil:
            kfx_leave()
            result = kfx_send(self.client, outgoing.parts, outgoing.count, &outgoing.place, KFX_ROOM_MS)
            got[0] = 0
            if result == KFX_DONE and self.room != NULL and kfx_now() <= last:
                got[0] = kfx_receive(self.client, self.room, KFX_ROOM, pause_ms, may_look, &self.patience)
                if got[0] > 0:
                    kfx_enter()
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        if result == KFX_SHORT:
            raise outgoing.short_file()
        return outgoing.left()


cdef class Member:
    """A client of a poller."""

    cdef Exchange exchange
    cdef list answered
    cdef object done
    cdef uint32_t number
    cdef bint is_out


cdef class Poller:
    """Serves many clients with few threads."""

    cdef kfx_poller poller
    cdef dict members

    def __cinit__(self, uint32_t most):
        cdef int number = kfx_open_poller(&self.poller, most)
        if number:
            raise OSError(number, os.strerror(number))
        self.members = {}

    def __dealloc__(self):
        kfx_free_poller(&self.poller)

    def __len__(self):
        return len(self.members)

    def close(self):
        kfx_close_poller(&self.poller)

    def add(self, Exchange exchange, pieces, list answered, done):
        cdef Member member = Member()
        cdef int64_t number
        member.exchange, member.answered, member.done = exchange, answered, done
        exchange.outgoing.set(pieces)
        # Threads may send at once; before they look for the member, they wait for the GIL.
        number = kfx_add(&self.poller, exchange.client, exchange.outgoing.parts, exchange.outgoing.count,
                         exchange.frame() is not None)
        if number < 0:
            return None
        member.number = <uint32_t>number
        self.members[number] = member
        return member

    def take_back(self, Member member):
        if member.is_out or not kfx_take(&self.poller, member.number):
            return None
        return self.leave(member)

    def work(self):
        cdef uint32_t mine[KFX_READY]
        cdef Scratch scratch = Scratch(may_read=False)
        cdef int count
        with nogil:
            while True:
                count = kfx_take_ready(&self.poller, mine)
                if count < 0:
                    break
                while count:
                    count = kfx_advance_all(&self.poller, mine, count)
                    if count:
                        kfx_enter()
                        with gil:
                            count = self.answer_all(mine, count, scratch)
                        kfx_leave()

    cdef int answer_all(self, uint32_t *mine, int count, Scratch scratch) noexcept:
        """Answer clients' requests; return how many have an answer to send, which come first."""
        cdef int each, left = 0
        cdef Member member
        for each in range(count):
            member = self.members[mine[each]]
            try:
                if self.answer(member, self.poller.members + member.number, scratch):
                    mine[left] = member.number
                    left += 1
            except Exception as error:
                self.give_back(member, None, error)
        return left

    cdef bint answer(self, Member member, kfx_member *found, Scratch scratch) except -1:
        """Answer a client's request, or give the client back; return whether there is an answer to send."""
        cdef Exchange exchange = member.exchange
        cdef bytes frame
        cdef int64_t start
        if found.found == KFX_FAILED:
            raise OSError(found.number, os.strerror(found.number))
        if found.found == KFX_SHORT_FILE:
            exchange.outgoing.place = found.place
            raise exchange.outgoing.short_file()
        if found.found == KFX_CAME:
            exchange.take(found.room, <int64_t>found.got)
        frame = exchange.frame()
        if found.found != KFX_CAME or found.is_wanted or len(exchange.received) > LARGEST_REQUEST or (
                frame is None and not kfx_arm(&self.poller, member.number, EPOLLIN)):
            self.give_back(member, None, None)
            return False
        if frame is None:
            return False
        start = kfx_now()
        pieces, begun = exchange.quick.answer(frame, scratch)
        if pieces is None:
            self.give_back(member, begun, None)
            return False
        del exchange.received[: 4 + len(frame)]
        member.answered.append((kfx_now() - start, _size_of(pieces), False))
        exchange.outgoing.set(pieces)
        found.parts, found.count, found.place = exchange.outgoing.parts, exchange.outgoing.count, 0
        if not exchange.outgoing.is_cached():
            self.give_back(member, None, None)
            return False
        found.has_request = exchange.frame() is not None
        if len(member.answered) >= MOST_ANSWERED:
            found.is_wanted = True
        return True

    cdef give_back(self, Member member, begun, error):
        member.done(self.leave(member), begun, error)

    cdef list leave(self, Member member):
        """Take off a client that the caller has; return what was not sent of its answer."""
        cdef _Outgoing outgoing = member.exchange.outgoing
        outgoing.place = self.poller.members[member.number].place
        left = outgoing.left()
        outgoing.forget()
        member.is_out = True
        del self.members[member.number]
        kfx_let_go(&self.poller, member.number)
        return left
