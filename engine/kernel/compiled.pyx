# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=True
"""The compiled kernel: the inner loops of bulk reading and look-ups, without the GIL.

Signatures and results are those of engine.kernel.python, which is the reference; the work is in the C
headers in c/. Use it through engine.kernel. What only Python can do is imported where it is called.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.buffer cimport (
    PyBUF_READ, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.bytearray cimport PyByteArray_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memmove, memset

import os

from engine.arrays import np
from engine.budgets import DEFAULT_BUDGETS
from engine.columns.batch_facts import RunFacts
from engine.columns.batch_summary import SUMMARY_ROW, AppendFacts, SummaryResult
from engine.columns.batch_table import BATCH_ROW, KEPT_ROW, BatchProblem
from engine.columns.columns import RECORD_ROW, Columns, describe
from engine.record.attributes import COMPRESSION_MASK, CONTROL_MASK
from engine.columns.framing import frame_error
from engine.lines.lines_result import NO_BOUND, LinesResult
from engine.columns.payload import inflate


cdef extern from "c/kernel.h" nogil:
    ctypedef struct kfs_row:
        int64_t position
        int64_t base_offset
        int64_t last_offset
        int64_t max_timestamp
        int64_t producer_id
        int32_t size
        int32_t leader_epoch
        int16_t attributes
        int8_t magic

    ctypedef struct kfs_record:
        int64_t key_start
        int64_t value_start
        int64_t headers_start
        int32_t headers_size

    ctypedef struct kfs_bytes:
        uint8_t *data
        size_t size
        size_t capacity

    ctypedef struct kfs_codec_contexts:
        void *zstd
        void *deflate

    ctypedef struct kfs_problem:
        int reason
        int index
        int64_t stated
        int64_t found

    ctypedef struct kfs_limits:
        int64_t inflated
        int32_t records
        int32_t headers

    ctypedef struct kfs_payload:
        const uint8_t *data
        size_t size
        int codec

    ctypedef struct kfs_needle:
        const uint8_t *bytes
        size_t size
        int fold

    ctypedef struct kfs_marks:
        uint8_t *first

    ctypedef struct kfs_run:
        const uint8_t *buf
        size_t size
        int64_t start_position
        const kfs_row *rows
        kfs_limits limits
        kfs_codec_contexts *contexts
        kfs_bytes *arena
        kfs_bytes *records
        int copy
        const kfs_needle *needle
        const kfs_marks *marks

    ctypedef struct kfs_location:
        int64_t position
        int64_t base_offset
        int64_t last_offset
        int64_t index
        int32_t size
        int magic
        int stop

    enum:
        KFS_OK
        KFS_NEEDS_PYTHON
        KFS_NO_MEMORY
        KFS_BAD_TABLE
        KFS_LOCATE_NONE
        KFS_LOCATE_FOUND
        KFS_LOCATE_ERRNO

    void kfs_checksums_init()
    uint32_t kfs_crc32c(const uint8_t *p, size_t n)
    uint32_t kfs_crc32c_by_table(const uint8_t *p, size_t n)
    uint32_t kfs_crc32(const uint8_t *p, size_t n)
    uint32_t kfs_xxh32(const uint8_t *p, size_t n)
    void kfs_codecs_init()
    const char *kfs_codec_library(int codec, const char **version)
    int kfs_no_libraries
    void kfs_contexts_free(kfs_codec_contexts *contexts)
    int kfs_reserve(kfs_bytes *bytes, size_t more)
    int kfs_walk(const uint8_t *buf, size_t n, size_t start, int64_t file_position, int64_t largest,
                 int check_crc, kfs_row *rows, size_t capacity, size_t *filled, size_t *consumed)
    size_t kfs_good_rows(const kfs_row *rows, size_t first, size_t count)
    int64_t kfs_usual_batches(const uint8_t *buf, size_t n)
    int kfs_frame(const uint8_t *p, size_t n, int64_t largest, int32_t *size)
    void kfs_fill_row(const uint8_t *p, int32_t size, int64_t position, kfs_row *row)
    int64_t kfs_find_batch(const uint8_t *buf, size_t n, size_t start, int64_t min_offset, int64_t largest)
    int kfs_locate(int fd, int64_t position, int64_t end, int64_t target, int64_t largest,
                   uint8_t *scratch, size_t capacity, int flags, kfs_location *found)
    ctypedef struct kfs_header_walk:
        int64_t position, end, following, part_stop, start, stop, most_bytes, most_records
        int32_t odd
        int64_t batches, records
    int kfs_count_headers(int fd, kfs_header_walk *walk, int64_t most_batches)
    int64_t kfs_floor_slot(const uint8_t *buf, int64_t count, size_t entry_size, size_t key_offset,
                           int key_is_i64, int64_t target)
    const uint8_t *kfs_find(const uint8_t *hay, size_t n, const kfs_needle *needle)
    void kfs_keep_marked(kfs_run *run, const uint8_t *base, size_t arena, size_t records)
    int kfs_any_compressed(const kfs_row *rows, int32_t first, int32_t last)
    int kfs_decode_rows(kfs_run *run, int32_t first, int32_t last, size_t enough, int32_t *row_index,
                        kfs_payload *payload, kfs_problem *problem)
    int kfs_read_batch(int fd, int64_t position, int64_t end, int64_t offset, int64_t largest, kfs_bytes *bytes,
                       const uint8_t **at, kfs_row *row)
    int kfs_read_one(int fd, int64_t position, int64_t end, int64_t offset, int64_t largest,
                     const kfs_limits *limits, kfs_codec_contexts *contexts, kfs_bytes *bytes,
                     kfs_bytes *inflated, kfs_row *row, kfs_record *out, const uint8_t **base)
    int kfs_add_header_key(kfs_marks *marks, const uint8_t *key, size_t size)

    ctypedef struct kfs_line_options:
        uint8_t *prefix
        size_t prefix_size
        int64_t log_start
        int64_t from_ "from"
        int64_t to
        int mode
        int committed
        int measure
        size_t enough
        size_t most
        const kfs_marks *marks

    ctypedef struct kfs_lines:
        kfs_bytes *text
        size_t size
        size_t records
        size_t next_record
        int full
        int large

    enum:
        KFS_CONTROL_ROW
        KFS_LARGE_ROW
        KFS_MARKED_ROW
        KFS_LONGEST_PREFIX
        KFS_AS_NONE

    int kfs_put_rows(kfs_run *run, const uint8_t *fates, int32_t first, int32_t last, size_t first_record,
                     const kfs_line_options *options, kfs_lines *lines, int32_t *row_index,
                     kfs_payload *payload, kfs_problem *problem)
    int kfs_put_records(const kfs_run *run, const kfs_row *row, int fate, size_t first,
                        const kfs_line_options *options, kfs_lines *lines)
    int kfs_read_line(int fd, int64_t position, int64_t end, int64_t offset, int64_t largest,
                      const kfs_limits *limits, kfs_codec_contexts *contexts, kfs_bytes *bytes, kfs_bytes *inflated,
                      const kfs_line_options *options, kfs_lines *lines, int64_t *timestamp)
    ctypedef struct kfs_place:
        pass
    ctypedef struct kfs_field_texts:
        const uint8_t *text
        size_t size
        const kfs_place *places
    ctypedef struct kfs_columns:
        const uint8_t *arena
        size_t size
        const kfs_record *records
        size_t count
        const kfs_row *rows
        size_t row_count
        const kfs_field_texts *texts

    int kfs_put_columns(const kfs_columns *columns, const uint8_t *fates, int fate, size_t *at,
                        const kfs_line_options *options, kfs_lines *lines)
    int kfs_read_good_rows(int fd, int64_t start, int64_t end, int64_t least_offset, int64_t largest, kfs_bytes *file,
                           kfs_row *rows, size_t count)
    int kfs_how_shown(const uint8_t *src, size_t len, int mode)
    size_t kfs_put_piece(uint8_t *dst, const uint8_t *src, size_t len, int encoding, size_t most, size_t *at,
                         int *in_string)
    ctypedef struct kfs_dump:
        const kfs_row *rows
        const kfs_record *records
        size_t count
        const uint8_t *arena
        size_t arena_size
        int64_t from_ "from"
        int64_t upto
        int shape

    int kfs_dump_rows(const kfs_dump *dump, int32_t first, int32_t last, size_t *next, kfs_bytes *text)
    int kfs_search_rows(kfs_run *run, int32_t first, int32_t last, int32_t mask_start, const kfs_needle *needle,
                        uint8_t *mask, int32_t *row_index, kfs_payload *payload)
    ctypedef struct kfs_automaton:
        const uint32_t *next
        const uint8_t *accepts_end
        size_t states

    ctypedef struct kfs_query:
        int fields
        kfs_needle needle
        const kfs_automaton *automaton
        const uint8_t *end

    int kfs_automaton_open(kfs_automaton *automaton)
    int kfs_match_records(const kfs_query *query, const uint8_t *arena, size_t size, const kfs_record *records,
                          size_t n, uint8_t *mask)
    int kfs_read_inflated(kfs_run *run, int32_t row_index, size_t start, size_t size, int partial,
                          kfs_problem *problem)
    int64_t kfs_put_keys(uint8_t *slots, size_t count, int64_t *taken, int64_t limit, const kfs_record *records,
                         size_t n, const uint8_t *arena, size_t size, int64_t start_offset, int64_t *latest)
    int kfs_move_slots(const uint8_t *slots, size_t count, uint8_t *to, size_t room)
    int kfs_offsets_of(uint8_t *slots, size_t count, const kfs_record *records, size_t n,
                       const uint8_t *arena, size_t size, int64_t *offsets)
    enum:
        KFS_GATHER_KEY
        KFS_GATHER_VALUE

    ctypedef struct kfs_gather:
        const kfs_record *records
        size_t n
        const int64_t *indices
        size_t count
        const uint8_t *arena
        size_t arena_size
        int field

    int kfs_gather_size(const kfs_gather *of, int64_t *total, size_t *nulls)
    void kfs_gather_fill(const kfs_gather *of, int64_t total, int32_t *offsets, uint8_t *data, uint8_t *bits)

    ctypedef struct kfs_header_sums:
        int64_t headers
        int64_t key_bytes
        int64_t value_bytes
        size_t no_headers
        size_t null_values

    ctypedef struct kfs_header_columns:
        int32_t *lists
        int32_t *keys
        int32_t *values
        uint8_t *key_data
        uint8_t *value_data
        uint8_t *list_bits
        uint8_t *value_bits

    int kfs_gather_headers(const kfs_gather *of, kfs_header_sums *sums, const kfs_header_columns *to)
    int kfs_encode_records(const kfs_record *records, size_t n, const uint8_t *kept, const uint8_t *arena,
                           size_t size, int64_t base_offset, int64_t base_timestamp, kfs_bytes *out)

    ctypedef struct kfs_kept:
        int32_t size

    ctypedef struct kfs_keeping:
        const kfs_record *records
        size_t count
        const uint8_t *kept
        const uint8_t *arena
        size_t arena_size
        int64_t delete_horizon
        int64_t upper_bound

    int kfs_keep_rows(const kfs_run *run, int32_t first, int32_t last, const kfs_keeping *of, kfs_kept *made,
                      int32_t *stopped, kfs_bytes *out)

    ctypedef struct kfs_summary:
        int64_t first_offset
        int64_t last_offset
        int64_t smallest_timestamp
        int64_t largest_timestamp
        int32_t count
        int32_t without_key
        int32_t descents

    int kfs_record_facts(kfs_run *run, int64_t largest, kfs_summary *out, int64_t *bytes)

    void kfs_summarize(const kfs_bytes *records, size_t inflated, kfs_summary *out)
    int kfs_summarize_rows(kfs_run *run, int32_t first, int32_t last, kfs_summary *summaries, int32_t *row_index,
                           kfs_payload *payload, kfs_problem *problem)


cdef extern from "errno.h" nogil:
    int errno


cdef enum:
    ROW_SIZE = 80
    RECORD_SIZE = 64
    SMALLEST_SCRATCH = 256
    SLOT_SIZE = 24
    MOST_RECORDS = 0x7FFFFFFF  # that a batch can state
    # Memory up to this size is reused by the next call: fresh pages cost more than filling them.
    LARGEST_KEPT = 4 << 20
    KEPT_BLOCKS = 4
    KEPT_WORKERS = 4
    # Room beyond the expected size of a text: a line is written where its longest form would fit.
    SPARE = 64 << 10

cdef int64_t LARGEST_BATCH = DEFAULT_BUDGETS.batch_bytes
cdef int64_t LARGEST_FRAME = (1 << 31) - 1
cdef int COMPRESSION_BITS = COMPRESSION_MASK
cdef int64_t LEAST_OFFSET = -(1 << 63), MOST_OFFSET = (1 << 63) - 1

kfs_checksums_init()
kfs_codecs_init()


# ---- memory that outlives a call ---------------------------------------------------------------

cdef kfs_bytes _kept_blocks[KEPT_BLOCKS]
cdef int _kept_block_count = 0


cdef void _take_block(kfs_bytes *into) noexcept:
    """Return memory kept from an earlier call, or empty memory. Needs the GIL, which guards kept memory."""
    global _kept_block_count
    if _kept_block_count:
        _kept_block_count -= 1
        into[0] = _kept_blocks[_kept_block_count]
    else:
        into.data = NULL
        into.capacity = 0
    into.size = 0


cdef void _take_block_of(kfs_bytes *into, size_t size) noexcept:
    """Return kept memory of at least `size` bytes, but not more than twice as much, or empty memory."""
    global _kept_block_count
    cdef int i
    for i in range(_kept_block_count):
        if size <= _kept_blocks[i].capacity <= 2 * size:
            into[0] = _kept_blocks[i]
            into.size = 0
            _kept_block_count -= 1
            _kept_blocks[i] = _kept_blocks[_kept_block_count]
            return


cdef void _fit_block(kfs_bytes *block) noexcept:
    """Return the memory beyond twice the bytes of a block: a long line needed it only while it was written."""
    cdef size_t room = block.size + SPARE
    cdef void *data
    if block.capacity > 2 * room:
        data = realloc(block.data, room)
        if data != NULL:
            block.data, block.capacity = <uint8_t *>data, room


cdef void _give_block(kfs_bytes *block) noexcept:
    global _kept_block_count
    if block.data != NULL:
        if block.capacity <= LARGEST_KEPT and _kept_block_count < KEPT_BLOCKS:
            _kept_blocks[_kept_block_count] = block[0]
            _kept_block_count += 1
        else:
            free(block.data)
    memset(block, 0, sizeof(kfs_bytes))


cdef class _Block:
    """Memory shared by arrays and views; kept for reuse when the last of them is gone."""

    cdef kfs_bytes bytes

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.bytes.data, <Py_ssize_t>self.bytes.size, 1, flags)

    def __dealloc__(self):
        _give_block(&self.bytes)


# ---- state of one call --------------------------------------------------------------------------

cdef class _Worker:
    """Codec contexts and scratch memory of one call at a time; idle ones are kept in a list."""

    cdef kfs_codec_contexts contexts
    cdef kfs_bytes arena, records, text, file

    def __dealloc__(self):
        kfs_contexts_free(&self.contexts)
        free(self.arena.data)
        free(self.records.data)
        free(self.text.data)
        free(self.file.data)


cdef list _idle_workers = []


cdef _Worker _take_worker():
    return <_Worker>_idle_workers.pop() if _idle_workers else _Worker.__new__(_Worker)


cdef void _trim(kfs_bytes *bytes) noexcept:
    bytes.size = 0
    if bytes.capacity > LARGEST_KEPT:
        free(bytes.data)
        bytes.data = NULL
        bytes.capacity = 0


cdef void _give_worker(_Worker worker):
    _trim(&worker.arena)
    _trim(&worker.records)
    _trim(&worker.text)
    _trim(&worker.file)
    if len(_idle_workers) < KEPT_WORKERS:
        _idle_workers.append(worker)


cdef int _append(kfs_bytes *to, bytes more) except -1:
    cdef size_t size = <size_t>len(more)
    if not kfs_reserve(to, size):
        raise MemoryError
    if size:
        memcpy(to.data + to.size, <const char *>more, size)
        to.size += size
    return 0


cdef class _Bytes:
    """A buffer, held while its memory is read."""

    cdef Py_buffer view
    cdef const uint8_t *data
    cdef size_t size

    def __dealloc__(self):
        PyBuffer_Release(&self.view)


cdef _Bytes _hold(source, bint writable=False):
    cdef _Bytes held = _Bytes.__new__(_Bytes)
    PyObject_GetBuffer(source, &held.view, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
    held.data = <const uint8_t *>held.view.buf
    held.size = <size_t>held.view.len
    return held


cdef _Bytes _hold_needle(needle, bint fold, kfs_needle *into):
    cdef _Bytes held = _hold(bytes(needle).lower() if fold else needle)
    into.bytes, into.size, into.fold = held.data, held.size, fold
    return held


cdef int _set_limits(kfs_limits *limits, budgets) except -1:
    limits.inflated = budgets.inflated_bytes
    limits.records = min(<int64_t>budgets.records_per_batch, MOST_RECORDS)
    limits.headers = min(<int64_t>budgets.headers_per_record, MOST_RECORDS)
    return 0


cdef class _Run:
    """Rows of a batch table that are being read, with their buffer."""

    cdef kfs_run run
    cdef _Bytes buffer, table, needle_bytes
    cdef kfs_needle needle
    cdef kfs_marks marks
    cdef _Worker worker
    cdef list problems

    cdef int open(self, buffer, table, Py_ssize_t first, Py_ssize_t last, int64_t start_position,
                  budgets) except -1:
        self.buffer = _hold(buffer)
        self.table = _hold(table)
        if self.table.size % ROW_SIZE:
            raise ValueError("the batch table's rows have another size")
        if not 0 <= first <= last <= <Py_ssize_t>(self.table.size // ROW_SIZE):
            raise ValueError(f"rows {first} to {last} are not in the batch table")
        self.run.buf = self.buffer.data
        self.run.size = self.buffer.size
        self.run.start_position = start_position
        self.run.rows = <const kfs_row *>self.table.data
        _set_limits(&self.run.limits, budgets)
        self.problems = []
        self.worker = _take_worker()
        self.run.contexts = &self.worker.contexts
        self.run.arena = &self.worker.arena
        self.run.records = &self.worker.records
        return 0

    def __dealloc__(self):
        if self.worker is not None:
            _give_worker(self.worker)

    cdef int attend(self, int reason, int32_t row, kfs_payload *payload, kfs_problem *problem) except -1:
        """Handle a row that the C code could not finish: note its problem, or inflate it in Python."""
        cdef size_t before, start
        cdef int again, partial
        cdef bint has_needle
        if reason == KFS_NO_MEMORY:
            raise MemoryError
        if reason == KFS_BAD_TABLE:
            raise ValueError(f"row {row} of the batch table is outside the buffer")
        if reason != KFS_NEEDS_PYTHON:
            self.problems.append(
                describe(row, reason, problem.index, problem.stated, problem.found))
            return 0
        inflated, trouble = self.inflate(row, payload)
        has_needle = trouble is not None or self.holds(inflated)
        if not has_needle and self.run.marks == NULL:
            return 0
        _append(self.run.arena, inflated)
        start = self.run.arena.size - <size_t>len(inflated)
        before = self.run.records.size
        partial = trouble is not None
        with nogil:
            again = kfs_read_inflated(
                &self.run, row, start, self.run.arena.size - start, partial, problem)
        if again == KFS_NO_MEMORY:
            raise MemoryError
        if trouble is not None:
            decoded = (self.run.records.size - before) // RECORD_SIZE
            self.problems.append(BatchProblem(row, trouble[0], decoded, trouble[1]))
        elif again:
            self.problems.append(
                describe(row, again, problem.index, problem.stated, problem.found))
        elif not has_needle:
            kfs_keep_marked(&self.run, self.run.arena.data, start, before)
        return 0

    cdef int seek(self, needle, bint fold, marks=None) except -1:
        """Decode only rows with a needle in the bytes of their records, or with a record that has marks."""
        if marks is not None:
            _set_marks(&self.marks, marks)
            self.run.marks = &self.marks
        self.needle_bytes = _hold_needle(needle, fold, &self.needle)
        self.run.needle = &self.needle if self.needle.size else NULL
        return 0

    cdef bint holds(self, inflated):
        cdef _Bytes held = _hold(inflated)
        return self.run.needle == NULL or kfs_find(held.data, held.size, self.run.needle) != NULL

    cdef tuple inflate(self, int32_t row, kfs_payload *payload):
        data = PyBytes_FromStringAndSize(<const char *>payload.data, <Py_ssize_t>payload.size)
        return inflate(
            payload.codec, data, limit=self.run.limits.inflated, magic=self.run.rows[row].magic)


# ---- batches -----------------------------------------------------------------------------------

def walk(buffer, table, Py_ssize_t start, int64_t file_position, bint check_crc, *, int64_t largest=LARGEST_BATCH):
    """Fill `table` with the whole batches from buffer[start] on; return (rows, bytes consumed, `Stop`)."""
    cdef _Bytes source = _hold(buffer)
    cdef _Bytes rows = _hold(table, True)
    cdef size_t filled, consumed
    cdef int stop
    if rows.size % ROW_SIZE:
        raise ValueError("the batch table's rows have another size")
    if not 0 <= start <= <Py_ssize_t>source.size:
        raise ValueError(f"byte {start} is not in the buffer")
    with nogil:
        stop = kfs_walk(source.data, source.size, <size_t>start, file_position, largest, check_crc,
                        <kfs_row *>rows.data, rows.size // ROW_SIZE, &filled, &consumed)
    return filled, consumed, stop


def good_rows(table, Py_ssize_t first_row, Py_ssize_t last_row):
    """Return the end of the good batches from `first_row` on with ascending offsets."""
    cdef _Bytes rows = _hold(table)
    if not 0 <= first_row <= last_row <= <Py_ssize_t>(rows.size // ROW_SIZE):
        raise ValueError(f"rows {first_row} to {last_row} are not in the batch table")
    return kfs_good_rows(<const kfs_row *>rows.data, <size_t>first_row, <size_t>last_row)


def batch_facts(buffer):
    """Return facts about the whole batches of a buffer, None if anything about them is unusual."""
    cdef _Bytes held = _hold(buffer)
    cdef kfs_row row
    cdef int64_t used, at = 0, first = 0, newest = -1, epoch = 0
    cdef int32_t size = 0, largest = 0
    cdef int codec = 0, bits = 0
    cdef bint has_producer = False
    cdef list heads = [], epochs = []
    with nogil:
        used = kfs_usual_batches(held.data, held.size)
    if used < 0:
        return None
    while at < used:
        kfs_frame(held.data + at, <size_t>(used - at), LARGEST_FRAME, &size)
        kfs_fill_row(held.data + at, size, at, &row)
        heads.append((row.last_offset, row.max_timestamp, size))
        if not epochs:
            first = row.base_offset
        if not epochs or row.leader_epoch != epoch:
            epoch = row.leader_epoch
            epochs.append((epoch, row.base_offset))
        newest, largest = max(newest, row.max_timestamp), max(largest, size)
        codec = row.attributes & COMPRESSION_BITS or codec
        bits |= row.attributes
        has_producer |= row.producer_id > -1
        at += size
    return tuple.__new__(RunFacts, (
        used, largest, first, row.last_offset, newest, codec, bits, has_producer, heads, epochs))


def find_batch(buffer, Py_ssize_t start, int64_t file_position, int64_t min_offset, *,
               int64_t largest=LARGEST_BATCH):
    """Return the index of the next provable batch, or -1."""
    cdef _Bytes source = _hold(buffer)
    cdef int64_t at
    if start < 0:
        raise ValueError(f"byte {start} is not in the buffer")
    with nogil:
        at = kfs_find_batch(source.data, source.size, <size_t>start, min_offset, largest)
    return at


def locate(int fd, int64_t position, int64_t end, int64_t target, scratch, *, int64_t largest=LARGEST_BATCH):
    """Locate the first batch from `position` on with a last offset at or above `target`."""
    cdef _Bytes room = _hold(scratch, True)
    cdef kfs_location found
    cdef int result, error = 0
    if room.size < SMALLEST_SCRATCH:
        raise ValueError("the scratch buffer needs 256 bytes or more")
    with nogil:
        result = kfs_locate(fd, position, end, target, largest, <uint8_t *>room.data, room.size, 0, &found)
        if result == KFS_LOCATE_ERRNO:
            error = errno
    if result == KFS_LOCATE_FOUND:
        return (found.position, found.size, found.base_offset, found.last_offset, found.magic, found.index)
    if result == KFS_LOCATE_NONE:
        return None
    if result == KFS_LOCATE_ERRNO:
        raise OSError(error, os.strerror(error))
    raise frame_error(found.stop, found.position, found.size, found.magic)


def count_headers(int fd, int64_t position, int64_t end, int64_t following, int64_t part_stop, wanted, int32_t odd,
                  int64_t most, *, budgets=DEFAULT_BUDGETS):
    """Count records by headers alone; return (batches, records, position, next offset, why the walk ended)."""
    cdef kfs_header_walk walk
    cdef int stop
    memset(&walk, 0, sizeof(kfs_header_walk))
    walk.position, walk.end, walk.following, walk.part_stop = position, end, following, part_stop
    walk.start, walk.stop = wanted
    walk.odd = odd
    walk.most_bytes, walk.most_records = budgets.batch_bytes, budgets.records_per_batch
    with nogil:
        stop = kfs_count_headers(fd, &walk, most)
    return walk.batches, walk.records, walk.position, walk.following, stop


def floor_slot(buffer, int64_t count, Py_ssize_t entry_size, Py_ssize_t key_offset_in_entry, bint key_is_i64,
               int64_t target):
    """Return the largest slot with a key at or below `target`, or -1."""
    cdef _Bytes source = _hold(buffer)
    cdef Py_ssize_t key_size = 8 if key_is_i64 else 4
    if not (0 <= key_offset_in_entry <= entry_size - key_size and count <= <int64_t>source.size // entry_size):
        raise ValueError("the slots are outside the buffer")
    return kfs_floor_slot(source.data, count, entry_size, key_offset_in_entry, key_is_i64, target)


# ---- records -----------------------------------------------------------------------------------

def decode(buffer, table, Py_ssize_t first_row, Py_ssize_t last_row, *, int64_t start_position,
           budgets=DEFAULT_BUDGETS, Py_ssize_t enough=64 << 20, needle=b"", bint fold=False, marks=None):
    """Return the records of rows [first_row, last_row) as columns."""
    cdef _Run state = _Run.__new__(_Run)
    cdef _Block arena = _Block.__new__(_Block)
    cdef _Block records = _Block.__new__(_Block)
    cdef int32_t row = <int32_t>first_row, stopped = row
    cdef kfs_payload payload
    cdef kfs_problem problem
    cdef int reason
    state.open(buffer, table, first_row, last_row, start_position, budgets)
    state.seek(needle, fold, marks)
    state.run.copy = kfs_any_compressed(state.run.rows, row, <int32_t>last_row)
    if state.run.copy:
        _take_block(&arena.bytes)
    _take_block(&records.bytes)
    state.run.arena = &arena.bytes
    state.run.records = &records.bytes
    while row < last_row and <Py_ssize_t>(arena.bytes.size + records.bytes.size) < enough:
        with nogil:
            reason = kfs_decode_rows(
                &state.run, row, <int32_t>last_row, <size_t>enough, &stopped, &payload, &problem)
        row = stopped
        if reason:
            state.attend(reason, row, &payload, &problem)
            row += 1
    dtype = RECORD_ROW.dtype
    found = np.frombuffer(records, dtype) if records.bytes.size else np.empty(0, dtype)
    return Columns(found, memoryview(arena if state.run.copy else buffer), state.problems, row)


def summarize(buffer, table, *, int64_t start_position, budgets=DEFAULT_BUDGETS):
    """Return summaries of the records of a table's batches."""
    cdef _Run state = _Run.__new__(_Run)
    cdef int32_t row = 0, last = <int32_t>len(table)
    cdef kfs_payload payload
    cdef kfs_problem problem
    cdef int reason
    found = np.empty(last, SUMMARY_ROW.dtype)
    cdef _Bytes held = _hold(found, True)
    cdef kfs_summary *summaries = <kfs_summary *>held.data
    state.open(buffer, table, 0, last, start_position, budgets)
    while row < last:
        with nogil:
            reason = kfs_summarize_rows(&state.run, row, last, summaries, &row, &payload, &problem)
        if reason:
            state.attend(reason, row, &payload, &problem)
            kfs_summarize(state.run.records, state.run.arena.size, summaries + row)
            row += 1
    return SummaryResult(found, state.problems)


def record_facts(batch, *, budgets=DEFAULT_BUDGETS):
    """Return facts about the records of a batch of magic 2, None if anything about it is unusual."""
    cdef _Bytes data = _hold(batch)
    cdef _Worker worker
    cdef kfs_run run
    cdef kfs_summary found
    cdef int64_t size, largest = budgets.batch_bytes
    cdef int fine
    memset(&run, 0, sizeof(run))
    _set_limits(&run.limits, budgets)
    worker = _take_worker()
    run.buf, run.size = data.data, data.size
    run.contexts, run.arena, run.records = &worker.contexts, &worker.arena, &worker.records
    try:
        with nogil:
            fine = kfs_record_facts(&run, largest, &found, &size)
    finally:
        _give_worker(worker)
    if not fine:
        from engine.columns.record_facts import record_facts as record_facts_in_python

        return record_facts_in_python(batch, budgets=budgets)
    return tuple.__new__(AppendFacts, (
        found.count, found.first_offset, found.last_offset, found.smallest_timestamp, found.largest_timestamp,
        found.without_key, found.descents, size))


def read_batch(int fd, int64_t position, int64_t end, int64_t offset, *, int64_t largest=LARGEST_BATCH):
    """Return the first batch from `position` on that reaches an offset, its position and its row; None if unusual."""
    cdef _Worker worker = _take_worker()
    cdef kfs_row row
    cdef const uint8_t *at
    cdef int found
    try:
        with nogil:
            found = kfs_read_batch(fd, position, end, offset, largest, &worker.file, &at, &row)
        if found == KFS_NO_MEMORY:
            raise MemoryError
        if found != KFS_LOCATE_FOUND:
            return None
        rows = PyBytes_FromStringAndSize(<const char *>&row, sizeof(row))
        return PyBytes_FromStringAndSize(<const char *>at, row.size), row.position, rows
    finally:
        _give_worker(worker)


def read_record(
    int fd, int64_t position, int64_t end, int64_t offset, *, int64_t largest=LARGEST_BATCH, budgets=DEFAULT_BUDGETS
):
    """Return the record with exactly this offset alone, as columns; None if unusual."""
    cdef _Worker worker
    cdef kfs_limits limits
    cdef kfs_row batch
    cdef kfs_record record
    cdef const uint8_t *base
    cdef int64_t start
    cdef int found
    largest = min(largest, <int64_t>budgets.batch_bytes)
    _set_limits(&limits, budgets)
    worker = _take_worker()
    try:
        with nogil:
            found = kfs_read_one(fd, position, end, offset, largest, &limits, &worker.contexts,
                                 &worker.file, &worker.arena, &batch, &record, &base)
        if found == KFS_LOCATE_FOUND:
            start = record.key_start
            arena = PyBytes_FromStringAndSize(
                <const char *>base + start, record.headers_start + record.headers_size - start)
            record.key_start = 0
            record.value_start -= start
            record.headers_start -= start
            row = PyBytes_FromStringAndSize(<const char *>&record, sizeof(record))
            return Columns(np.frombuffer(row, RECORD_ROW.dtype), memoryview(arena), [], 1)
    finally:
        _give_worker(worker)
    if found == KFS_NO_MEMORY:
        raise MemoryError
    if found == KFS_NEEDS_PYTHON:
        from engine.kernel.python import read_record as read_record_in_python

        return read_record_in_python(fd, position, end, offset, largest=largest, budgets=budgets)
    return None


# ---- record lines ------------------------------------------------------------------------------

_MARKED = object()
"""What `_Lines.odd_row` returns for a row that is left to a decoder."""


cdef int _set_marks(kfs_marks *to, marks) except -1:
    cdef bytes first = marks.first_bytes, key
    memset(to, 0, sizeof(kfs_marks))
    for byte in first:
        to.first[<uint8_t>byte] = 1
    for key in marks.header_keys:
        if not kfs_add_header_key(to, <const uint8_t *><const char *>key, <size_t>len(key)):
            raise ValueError("the marks have too many or too long keys of headers")
    return 0


cdef int _set_line_options(kfs_line_options *to, options) except -1:
    cdef bytes prefix = options.prefix
    to.prefix_size = <size_t>len(prefix)
    if to.prefix_size > KFS_LONGEST_PREFIX:
        raise ValueError("the topic's name is too long")
    memcpy(to.prefix, <const char *>prefix, to.prefix_size)
    to.log_start = options.log_start_offset
    to.from_ = options.from_offset
    to.to = options.to_offset
    to.mode = options.mode
    to.committed = options.committed
    to.marks = NULL
    return 0


cdef class _Lines:
    """Writer of record lines for the rows of a run."""

    cdef _Run state
    cdef kfs_line_options options
    cdef kfs_marks marks
    cdef kfs_lines lines
    cdef const uint8_t *fates
    cdef object python_options, python_fates
    cdef _Bytes fates_bytes
    cdef _Block block

    cdef int open(self, _Run state, options, fates, bint measure, Py_ssize_t enough, Py_ssize_t most) except -1:
        self.state = state
        self.python_options, self.python_fates = options, fates
        _set_line_options(&self.options, options)
        if options.decoder is not None and options.decoder.marks is not None:
            _set_marks(&self.marks, options.decoder.marks)
            self.options.marks = &self.marks
        self.options.measure = measure
        self.options.enough = <size_t>enough if enough > 0 else 0
        self.options.most = <size_t>most if most > 0 else 0
        if fates is not None:
            self.fates_bytes = _hold(fates)
            if self.fates_bytes.size < state.table.size // ROW_SIZE:
                raise ValueError("the fates are fewer than the rows")
            self.fates = self.fates_bytes.data
        self.lines.text = &state.worker.text
        return 0

    cdef int write_into(self, _Block block, size_t size) except -1:
        """Write the text into memory that becomes the result; about `size` bytes."""
        self.block = block
        self.lines.text = &block.bytes
        _take_block_of(&block.bytes, size)
        if not kfs_reserve(&block.bytes, size):
            raise MemoryError
        return 0

    cdef object write(self, buffer, table, int32_t *row, int32_t last, size_t first_record, budgets):
        """Write the lines of rows from *row on; *row is then after the last one begun. Return its problem, or None."""
        cdef _Run state = self.state
        cdef int32_t stopped
        cdef kfs_payload payload
        cdef kfs_problem problem
        cdef int reason
        found = None
        if self.options.most:
            state.run.limits.inflated = min(state.run.limits.inflated, <int64_t>self.options.most)
            state.run.limits.records = min(state.run.limits.records, <int64_t>(self.options.most // RECORD_SIZE))
        while row[0] < last and found is None and not self.lines.full:
            with nogil:
                reason = kfs_put_rows(&state.run, self.fates, row[0], last, first_record, &self.options, &self.lines,
                                      &stopped, &payload, &problem)
            if stopped != row[0]:
                row[0], first_record = stopped, 0
            if not reason:
                continue
            if reason == KFS_LARGE_ROW:
                self.lines.full = self.lines.large = 1
                self.lines.next_record = first_record
            elif reason == KFS_MARKED_ROW:
                found = self.marked_rows(buffer, table, row, last, first_record, budgets)
                first_record = 0
                continue
            elif reason == KFS_CONTROL_ROW:
                found = self.control_row(buffer, table, row[0], first_record, budgets)
            else:
                found = self.odd_row(reason, row[0], first_record, &payload, &problem)
                if found is _MARKED:
                    found = self.marked_rows(buffer, table, row, last, first_record, budgets)
                    first_record = 0
                    continue
            if not self.lines.full:
                row[0] += 1
                first_record = 0
        return found

    cdef object result(self, Py_ssize_t rows, problem):
        text = None
        if not self.options.measure:
            text = PyBytes_FromStringAndSize(<const char *>self.lines.text.data, <Py_ssize_t>self.lines.text.size)
        return LinesResult(text, self.lines.size, rows, problem, self.lines.records,
                           self.lines.next_record if self.lines.full else 0, bool(self.lines.large))

    cdef object marked_rows(self, buffer, table, int32_t *row, int32_t last, size_t first_record, budgets):
        """Write the lines of rows from *row on in Python, as long as they have records to decode; return their problem."""
        from engine.lines.decoded_lines import decoded_lines

        result = decoded_lines(
            decode, column_lines, buffer, table, row[0], last, start_position=self.state.run.start_position,
            options=self.python_options, fates=self.python_fates, measure=self.options.measure, budgets=budgets,
            enough=<object>self.options.enough - <object>self.lines.size, first_record=first_record,
            most=self.options.most)
        if result.text is not None:
            _append(self.lines.text, result.text)
        self.lines.size += <size_t>result.size
        self.lines.records += <size_t>result.records
        self.lines.full = result.is_large or result.next_record > 0
        self.lines.large = result.is_large
        self.lines.next_record = <size_t>result.next_record
        row[0] += <int32_t>result.rows_done
        return result.problem

    cdef object control_row(self, buffer, table, int32_t row, size_t first_record, budgets):
        """Write the lines of a control batch in Python; return its problem, or None."""
        from engine.kernel.python import lines as lines_in_python

        result = lines_in_python(
            buffer, table, row, row + 1, start_position=self.state.run.start_position,
            options=self.python_options, fates=self.python_fates, measure=self.options.measure,
            budgets=budgets, enough=self.options.enough - self.lines.size, first_record=first_record)
        if result.text is not None:
            _append(self.lines.text, result.text)
        self.lines.size += <size_t>result.size
        self.lines.records += <size_t>result.records
        self.lines.full = result.rows_done == 0
        self.lines.next_record = result.next_record
        return result.problem

    cdef size_t columns_in_python(self, table, columns, int fate, size_t at) except? 0:
        """Write the lines of decoded records of a batch in Python; return where the next batch begins."""
        from engine.lines.line_writer import column_lines as column_lines_in_python

        others = np.flatnonzero(columns.row[at:] != columns.row[at])
        cdef size_t stop = at + <size_t>others[0] if len(others) else <size_t>len(columns)
        result = column_lines_in_python(
            table, Columns(columns.table[:stop], columns.arena, [], 0), options=self.python_options,
            fates=self.python_fates, fate=fate, first_record=at, measure=self.options.measure,
            enough=max(<object>self.options.enough - <object>self.lines.size, 0), most=self.options.most)
        if result.text is not None:
            _append(self.lines.text, result.text)
        self.lines.size += <size_t>result.size
        self.lines.records += <size_t>result.records
        self.lines.full, self.lines.large = not result.rows_done, result.is_large
        self.lines.next_record = <size_t>result.next_record
        return stop

    cdef object odd_row(self, int reason, int32_t row, size_t first_record, kfs_payload *payload,
                        kfs_problem *problem):
        """Write the lines of a row that the C code could not finish; return its problem, or None."""
        cdef int fate = self.fates[row] if self.fates != NULL else 0
        cdef _Run state = self.state
        state.problems = []
        state.attend(reason, row, payload, problem)
        with nogil:
            reason = kfs_put_records(
                &state.run, state.run.rows + row, fate, first_record, &self.options, &self.lines)
        if reason == KFS_MARKED_ROW:
            return _MARKED
        if reason:
            raise MemoryError
        return state.problems[0] if state.problems and not self.lines.full else None


def read_line(int fd, int64_t position, int64_t end, int64_t offset, options, *, int64_t most,
              budgets=DEFAULT_BUDGETS):
    """Return the line of the record with exactly this offset, and its timestamp; None if anything is unusual."""
    cdef kfs_line_options wanted
    cdef kfs_limits limits
    cdef kfs_lines out
    cdef _Worker worker
    cdef int64_t timestamp, largest = min(most, <int64_t>budgets.batch_bytes)
    cdef int found
    cdef kfs_marks marks
    _set_line_options(&wanted, options)
    if options.decoder is not None:
        if options.decoder.marks is None:
            return None
        _set_marks(&marks, options.decoder.marks)
        wanted.marks = &marks
    wanted.measure, wanted.enough, wanted.most = 0, 1, <size_t>most
    _set_limits(&limits, budgets)
    limits.inflated = min(limits.inflated, most)
    memset(&out, 0, sizeof(out))
    worker = _take_worker()
    out.text = &worker.text
    try:
        with nogil:
            found = kfs_read_line(fd, position, end, offset, largest, &limits, &worker.contexts, &worker.file,
                                  &worker.arena, &wanted, &out, &timestamp)
        if found == KFS_LOCATE_FOUND:
            text = PyBytes_FromStringAndSize(<const char *>worker.text.data, <Py_ssize_t>worker.text.size)
            return text, timestamp
    finally:
        _give_worker(worker)
    if found == KFS_NO_MEMORY:
        raise MemoryError
    if found == KFS_NEEDS_PYTHON:
        from engine.kernel.python import read_line as read_line_in_python

        return read_line_in_python(fd, position, end, offset, options, most=most, budgets=budgets)
    return None


def lines(buffer, table, Py_ssize_t first_row, Py_ssize_t last_row, *, int64_t start_position, options,
          fates=None, bint measure=False, budgets=DEFAULT_BUDGETS, Py_ssize_t enough=NO_BOUND, Py_ssize_t first_record=0,
          Py_ssize_t most=0):
    """Return the record lines of rows [first_row, last_row), up to the first row with a problem."""
    cdef _Run state = _Run.__new__(_Run)
    cdef _Lines out = _Lines.__new__(_Lines)
    cdef int32_t row = <int32_t>first_row
    state.open(buffer, table, first_row, last_row, start_position, budgets)
    if options.decoder is not None and options.decoder.marks is None:
        from engine.lines.decoded_lines import decoded_lines

        return decoded_lines(decode, column_lines, buffer, table, first_row, last_row, start_position=start_position,
                             options=options, fates=fates, measure=measure, budgets=budgets, enough=enough,
                             first_record=first_record, most=most)
    out.open(state, options, fates, measure, enough, most)
    problem = out.write(buffer, table, &row, <int32_t>last_row, <size_t>max(first_record, 0), budgets)
    return out.result(row - first_row, problem)


def read_lines(int fd, int64_t start, int64_t end, Py_ssize_t rows, Py_ssize_t size, *, options, int64_t least_offset=-1,
               fates=None, budgets=DEFAULT_BUDGETS, Py_ssize_t most=0):
    """Return the record lines of the bytes [start, end) of a file; None if unusual."""
    cdef _Run state = _Run.__new__(_Run)
    cdef _Lines out = _Lines.__new__(_Lines)
    cdef _Worker worker
    cdef _Bytes filled
    cdef int32_t row = 0
    cdef int64_t largest = budgets.batch_bytes
    cdef bint is_good
    if (options.decoder is not None and options.decoder.marks is None) or not 0 <= start <= end:
        return None
    table = bytearray(rows * ROW_SIZE)
    filled = _hold(table, True)
    state.open(b"", table, 0, rows, start, budgets)
    worker = state.worker
    with nogil:
        is_good = kfs_read_good_rows(fd, start, end, least_offset, largest, &worker.file, <kfs_row *>filled.data,
                                     <size_t>rows)
    if not is_good:
        return None
    state.run.buf, state.run.size = worker.file.data, <size_t>(end - start)
    out.open(state, options, fates, False, NO_BOUND, most)
    out.write_into(_Block.__new__(_Block), <size_t>size + SPARE)
    buffer = PyMemoryView_FromMemory(<char *>worker.file.data, end - start, PyBUF_READ)
    problem = out.write(buffer, table, &row, <int32_t>rows, 0, budgets)
    if problem is not None or out.lines.full or out.lines.size != <size_t>size:
        return None
    _fit_block(&out.block.bytes)
    return memoryview(out.block).toreadonly()


def column_lines(table, columns, *, options, fates=None, int fate=0, Py_ssize_t first_record=0,
                 bint measure=False, Py_ssize_t enough=NO_BOUND, Py_ssize_t most=0, texts=None):
    """Return the record lines of decoded records, from `first_record` on."""
    cdef kfs_field_texts shown
    cdef _Bytes text, places
    cdef _Bytes rows = _hold(table), records = _hold_records(columns), arena = _hold(columns.arena)
    cdef _Lines out = _Lines.__new__(_Lines)
    cdef _Run state = _Run.__new__(_Run)
    cdef kfs_columns of
    cdef size_t at = <size_t>max(first_record, 0)
    cdef int reason
    if rows.size % ROW_SIZE:
        raise ValueError("the batch table's rows have another size")
    of.arena, of.size = arena.data, arena.size
    of.records, of.count = <const kfs_record *>records.data, records.size // RECORD_SIZE
    of.rows, of.row_count = <const kfs_row *>rows.data, rows.size // ROW_SIZE
    of.texts = NULL
    if texts is not None:
        text, places = _hold(texts.text), _hold(texts.places)
        if places.size < 2 * of.count * sizeof(int64_t) * 2:
            raise ValueError("the texts are fewer than the records")
        shown.text, shown.size, shown.places = text.data, text.size, <const kfs_place *>places.data
        of.texts = &shown
    elif options.decoder is not None and options.decoder.marks is None:
        from engine.lines.line_writer import column_lines as column_lines_in_python

        return column_lines_in_python(table, columns, options=options, fates=fates, fate=fate,
                                      first_record=first_record, measure=measure, enough=enough, most=most)
    state.open(b"", table, 0, 0, 0, DEFAULT_BUDGETS)
    out.open(state, options, fates, measure, enough, most)
    while at < of.count and not out.lines.full:
        with nogil:
            reason = kfs_put_columns(&of, out.fates, fate, &at, &out.options, &out.lines)
        if reason == KFS_CONTROL_ROW or reason == KFS_MARKED_ROW:
            at = out.columns_in_python(table, columns, fate, at)
        elif reason == KFS_NO_MEMORY:
            raise MemoryError
        elif reason:
            raise ValueError("a field is outside the arena, or a row outside the batch table")
    return out.result(not out.lines.full, None)


def how_shown(data, int mode):
    """Return how a field's bytes are shown: a `Shown`."""
    cdef _Bytes source = _hold(data)
    cdef int found
    with nogil:
        found = kfs_how_shown(source.data, source.size, mode)
    return found


def text_piece(data, Py_ssize_t start, Py_ssize_t most, int shown, bint in_string=False, bint measure=False):
    """Return the JSON of about `most` bytes of a field from `start` on: (text, size, next start, in a string)."""
    cdef _Bytes source = _hold(data)
    cdef _Worker worker
    cdef size_t at = <size_t>start, size
    cdef int inside = in_string
    if not 0 <= start <= <Py_ssize_t>source.size or most < 16 or not 0 <= shown < KFS_AS_NONE:
        raise ValueError("no such piece")
    if measure:
        with nogil:
            size = kfs_put_piece(NULL, source.data, source.size, shown, <size_t>most, &at, &inside)
        text = None
    else:
        worker = _take_worker()
        try:
            if not kfs_reserve(&worker.text, 6 * (<size_t>most + 16) + 2):
                raise MemoryError
            with nogil:
                size = kfs_put_piece(worker.text.data, source.data, source.size, shown, <size_t>most, &at, &inside)
            text = b"" if size == <size_t>-1 else PyBytes_FromStringAndSize(
                <const char *>worker.text.data, <Py_ssize_t>size)
        finally:
            _give_worker(worker)
    if size == <size_t>-1:
        raise ValueError("the bytes are not of this encoding")
    return text, size, at, bool(inside)


# ---- dumps -------------------------------------------------------------------------------------

def dump_rows(table, Py_ssize_t first_row, Py_ssize_t last_row, columns, *, int shape,
              int64_t from_offset=LEAST_OFFSET, int64_t upto_offset=MOST_OFFSET, Py_ssize_t first_record=0):
    """Return DumpLogSegments' text of rows [first_row, last_row), and the next record to show."""
    cdef _Bytes rows = _hold(table), records, arena
    cdef _Worker worker
    cdef kfs_dump dump
    cdef size_t next_record = <size_t>max(first_record, 0)
    cdef int result
    if rows.size % ROW_SIZE:
        raise ValueError("the batch table's rows have another size")
    if not 0 <= first_row <= last_row <= <Py_ssize_t>(rows.size // ROW_SIZE):
        raise ValueError(f"rows {first_row} to {last_row} are not in the batch table")
    memset(&dump, 0, sizeof(dump))
    dump.rows = <const kfs_row *>rows.data
    dump.shape, dump.from_, dump.upto = shape, from_offset, upto_offset
    if columns is not None:
        records, arena = _hold_records(columns), _hold(columns.arena)
        dump.records, dump.count = <const kfs_record *>records.data, records.size // RECORD_SIZE
        dump.arena, dump.arena_size = arena.data, arena.size
    worker = _take_worker()
    try:
        with nogil:
            result = kfs_dump_rows(&dump, <int32_t>first_row, <int32_t>last_row, &next_record, &worker.text)
        if result == KFS_NO_MEMORY:
            raise MemoryError
        if result:
            raise ValueError("a field is outside the arena")
        return PyBytes_FromStringAndSize(<const char *>worker.text.data, <Py_ssize_t>worker.text.size), next_record
    finally:
        _give_worker(worker)


# ---- search --------------------------------------------------------------------------------------

def contains(buffer, table, Py_ssize_t first_row, Py_ssize_t last_row, needle, *, int64_t start_position,
             bint fold=False, budgets=DEFAULT_BUDGETS):
    """Return for each of the rows [first_row, last_row) whether it may hold the needle, as uint8."""
    cdef _Run state = _Run.__new__(_Run)
    cdef _Bytes marks
    cdef int32_t row = <int32_t>first_row, stopped
    cdef kfs_payload payload
    cdef int reason
    state.open(buffer, table, first_row, last_row, start_position, budgets)
    state.seek(needle, fold)
    mask = np.zeros(last_row - first_row, np.uint8)
    marks = _hold(mask, True)
    while row < last_row:
        with nogil:
            reason = kfs_search_rows(&state.run, row, <int32_t>last_row, <int32_t>first_row, &state.needle,
                                     <uint8_t *>marks.data, &stopped, &payload)
        row = stopped
        if reason == KFS_BAD_TABLE:
            raise ValueError(f"row {row} of the batch table is outside the buffer")
        if reason:
            inflated, trouble = state.inflate(row, &payload)
            mask[row - first_row] = trouble is not None or state.holds(inflated)
            row += 1
    return mask


def matching(columns, int fields, needle=b"", *, bint fold=False, automaton=None):
    """Return for each record whether a field holds the needle and is accepted by the automaton, as uint8."""
    cdef _Bytes records = _hold_records(columns), arena = _hold(columns.arena), marks, sought, following, ends
    cdef kfs_query query
    cdef kfs_automaton machine
    cdef int fine
    query.fields, query.automaton, query.end = fields, NULL, arena.data + arena.size
    sought = _hold_needle(needle, fold, &query.needle)
    if automaton is not None:
        following, ends = _hold(automaton.following), _hold(automaton.accepts_end)
        machine.next, machine.states = <const uint32_t *>following.data, ends.size
        machine.accepts_end = ends.data
        query.automaton = &machine
        if following.size != 1024 * ends.size or not kfs_automaton_open(&machine):
            raise ValueError("a state of the automaton does not exist")
    mask = np.zeros(len(columns), np.uint8)
    marks = _hold(mask, True)
    with nogil:
        fine = kfs_match_records(&query, arena.data, arena.size, <const kfs_record *>records.data,
                                 records.size // RECORD_SIZE, <uint8_t *>marks.data)
    if not fine:
        raise ValueError("a field is outside the arena")
    return mask


# ---- compaction ----------------------------------------------------------------------------------

cdef _Bytes _hold_slots(slots):
    cdef _Bytes held = _hold(slots, True)
    if held.size < SLOT_SIZE or held.size % SLOT_SIZE:
        raise ValueError("the slots have another size")
    return held


cdef _Bytes _hold_records(columns):
    cdef _Bytes held = _hold(columns.table)
    if held.size != <size_t>len(columns) * RECORD_SIZE:
        raise ValueError("the columns' records have another size")
    return held


def put_keys(slots, int64_t taken, int64_t limit, columns, int64_t start_offset):
    """Put keys and their offsets into a table; return (records processed, used slots, last offset or -1)."""
    cdef _Bytes table = _hold_slots(slots), records = _hold_records(columns), arena = _hold(columns.arena)
    cdef int64_t seen, latest = -1
    with nogil:
        seen = kfs_put_keys(<uint8_t *>table.data, table.size // SLOT_SIZE, &taken, limit,
                            <const kfs_record *>records.data, records.size // RECORD_SIZE, arena.data, arena.size,
                            start_offset, &latest)
    if seen < 0:
        raise ValueError("a key is outside the arena")
    return seen, taken, latest


def move_slots(slots, to):
    """Move the used slots of a table to an empty one."""
    cdef _Bytes table = _hold_slots(slots), room = _hold_slots(to)
    cdef int fine
    with nogil:
        fine = kfs_move_slots(<const uint8_t *>table.data, table.size // SLOT_SIZE, <uint8_t *>room.data,
                              room.size // SLOT_SIZE)
    if not fine:
        raise ValueError("the table has no room for the slots")


def offsets_of(slots, columns):
    """Return the number in a table for each record's key, -1 without one."""
    cdef _Bytes table = _hold_slots(slots), records = _hold_records(columns), arena = _hold(columns.arena)
    cdef _Bytes room
    cdef int fine
    found = np.empty(len(columns), np.int64)
    room = _hold(found, True)
    with nogil:
        fine = kfs_offsets_of(<uint8_t *>table.data, table.size // SLOT_SIZE, <const kfs_record *>records.data,
                              records.size // RECORD_SIZE, arena.data, arena.size, <int64_t *>room.data)
    if not fine:
        raise ValueError("a key is outside the arena")
    return found


def encode_records(columns, kept, int64_t base_offset, int64_t base_timestamp):
    """Return the kept records as bytes of magic 2."""
    cdef _Bytes records = _hold_records(columns), arena = _hold(columns.arena)
    cdef _Bytes marks = _hold(kept.astype(np.uint8))
    cdef _Worker worker
    cdef int result
    if marks.size != records.size // RECORD_SIZE:
        raise ValueError(f"{len(kept)} marks for {len(columns)} records")
    worker = _take_worker()
    try:
        with nogil:
            result = kfs_encode_records(<const kfs_record *>records.data, marks.size, marks.data, arena.data,
                                        arena.size, base_offset, base_timestamp, &worker.arena)
        if result == KFS_NO_MEMORY:
            raise MemoryError
        if result:
            raise ValueError("a field is outside the arena")
        return PyBytes_FromStringAndSize(<const char *>worker.arena.data, <Py_ssize_t>worker.arena.size)
    finally:
        _give_worker(worker)


def keep_records(buffer, table, Py_ssize_t first_row, Py_ssize_t last_row, columns, kept, *, int64_t start_position,
                 int64_t delete_horizon, int64_t upper_bound):
    """Return rows with the records that are kept, as bytes, as a table, and the row that the caller must do."""
    cdef _Run state = _Run.__new__(_Run)
    cdef _Bytes records = _hold_records(columns), arena = _hold(columns.arena)
    cdef _Bytes marks = _hold(kept.astype(np.uint8)), rows
    cdef kfs_keeping of
    cdef int32_t stopped = <int32_t>first_row
    cdef int result
    state.open(buffer, table, first_row, last_row, start_position, DEFAULT_BUDGETS)
    if marks.size != records.size // RECORD_SIZE:
        raise ValueError(f"{len(kept)} marks for {len(columns)} records")
    made = np.zeros(last_row - first_row + 1, KEPT_ROW.dtype)
    rows = _hold(made, True)
    of.records, of.count = <const kfs_record *>records.data, marks.size
    of.kept, of.arena, of.arena_size = marks.data, arena.data, arena.size
    of.delete_horizon, of.upper_bound = delete_horizon, upper_bound
    with nogil:
        result = kfs_keep_rows(&state.run, <int32_t>first_row, <int32_t>last_row, &of, <kfs_kept *>rows.data, &stopped,
                               &state.worker.text)
    if result == KFS_NO_MEMORY:
        raise MemoryError
    if result:
        raise ValueError("a row is outside the buffer, or a field outside the arena")
    text = PyBytes_FromStringAndSize(<const char *>state.worker.text.data, <Py_ssize_t>state.worker.text.size)
    return text, made[:stopped - first_row], stopped


# ---- for tests -----------------------------------------------------------------------------------

def checksum(str name, data):
    """Return a checksum of the kernel: "crc32c", "crc32c by table", "crc32" or "xxh32"."""
    cdef _Bytes source = _hold(data)
    if name == "crc32c by table":
        return kfs_crc32c_by_table(source.data, source.size)
    if name == "crc32c":
        return kfs_crc32c(source.data, source.size)
    if name == "crc32":
        return kfs_crc32(source.data, source.size)
    return kfs_xxh32(source.data, source.size)


def codec_library(int codec):
    """Return the name and the version of the C library that inflates a codec; None when it was not found."""
    cdef const char *version
    cdef const char *found = kfs_codec_library(codec, &version)
    if found == NULL:
        return None
    return found.decode() if version == NULL else f"{found.decode()} {version.decode()}"


def use_libraries(bint use):
    """Set whether to call the codecs' C libraries; without them each payload is inflated in Python."""
    global kfs_no_libraries
    kfs_no_libraries = not use


cdef class _Gather:
    """Some of the records of columns, with their bytes held meanwhile."""

    cdef kfs_gather of
    cdef _Bytes records, arena, places

    cdef int open(self, columns, indices) except -1:
        self.records, self.arena = _hold_records(columns), _hold(columns.arena)
        self.places = _hold(np.ascontiguousarray(indices, np.int64))
        self.of.records = <const kfs_record *>self.records.data
        self.of.n = self.records.size // RECORD_SIZE
        self.of.indices, self.of.count = <const int64_t *>self.places.data, self.places.size // 8
        self.of.arena, self.of.arena_size = self.arena.data, self.arena.size
        return 0


def gather(columns, indices, str field):
    """Return keys or values of some records as (validity bits or None, int32 offsets, bytes)."""
    cdef _Gather state = _Gather.__new__(_Gather)
    cdef kfs_gather *of = &state.of
    cdef int64_t total
    cdef size_t nulls
    cdef int fine
    cdef uint8_t *bits = NULL
    if field not in ("key", "value"):
        raise ValueError(f"no field {field!r} of bytes")
    state.open(columns, indices)
    of.field = KFS_GATHER_KEY if field == "key" else KFS_GATHER_VALUE
    with nogil:
        fine = kfs_gather_size(of, &total, &nulls)
    if not fine:
        raise ValueError(f"a {field} is outside the arena")
    if total > MOST_RECORDS:
        raise ValueError(f"{total} bytes of {field}s do not fit into one column")
    offsets, data = _room(4 * (of.count + 1)), _room(total)
    valid = bytes((of.count + 7) // 8) if nulls else None
    cdef int32_t *to = <int32_t *><char *>offsets
    cdef uint8_t *into = <uint8_t *><char *>data
    if nulls:
        bits = <uint8_t *><char *>valid
    with nogil:
        kfs_gather_fill(of, total, to, into, bits)
    return valid, offsets, data


cdef object _room(int64_t size):
    return PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)


def gather_headers(columns, indices):
    """Return headers of some records as (validity bits or None, int32 offsets, keys, values)."""
    cdef _Gather state = _Gather.__new__(_Gather)
    cdef kfs_gather *of = &state.of
    cdef kfs_header_sums sums
    cdef kfs_header_columns to
    cdef int fine
    state.open(columns, indices)
    memset(&to, 0, sizeof(kfs_header_columns))
    with nogil:
        fine = kfs_gather_headers(of, &sums, NULL)
    if not fine:
        raise ValueError("a header is outside the arena")
    if max(sums.headers, sums.key_bytes, sums.value_bytes) > MOST_RECORDS:
        raise ValueError(f"{sums.headers} headers do not fit into one column")
    lists, keys = _room(4 * (of.count + 1)), _room(4 * (sums.headers + 1))
    values = _room(4 * (sums.headers + 1))
    key_data, value_data = _room(sums.key_bytes), _room(sums.value_bytes)
    list_bits = bytes((of.count + 7) // 8) if sums.no_headers else None
    value_bits = bytes((sums.headers + 7) // 8) if sums.null_values else None
    to.lists, to.keys, to.values = <int32_t *><char *>lists, <int32_t *><char *>keys, <int32_t *><char *>values
    to.key_data, to.value_data = <uint8_t *><char *>key_data, <uint8_t *><char *>value_data
    if list_bits is not None:
        to.list_bits = <uint8_t *><char *>list_bits
    if value_bits is not None:
        to.value_bits = <uint8_t *><char *>value_bits
    with nogil:
        kfs_gather_headers(of, &sums, &to)
    return list_bits, lists, (None, keys, key_data), (value_bits, values, value_data)


# ---- messages -----------------------------------------------------------------------------------

include "messages.pxi"
