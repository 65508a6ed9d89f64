# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=True
"""The compiled kernel: what bulk reading and look-ups spend their time on, without the GIL.

Signatures and results are those of engine.kernel_python, which is the reference; the work is in the C
headers beside this file. Use it through engine.kernel.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.buffer cimport (
    PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer,
)
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

import numpy as np

from engine.budgets import DEFAULT_BUDGETS
from engine.record.batch_table import BatchProblem
from engine.record.columns import RECORD_DTYPE, Columns, describe
from engine.record.framing import frame_error
from engine.record.payload import inflate


cdef extern from "_kernel.h" nogil:
    ctypedef struct kfs_row:
        int64_t position
        int8_t magic

    ctypedef struct kfs_record:
        int64_t offset

    ctypedef struct kfs_bytes:
        uint8_t *data
        size_t size
        size_t capacity

    ctypedef struct kfs_codec_contexts:
        pass

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

    ctypedef struct kfs_run:
        const uint8_t *buf
        size_t size
        int64_t start_position
        const kfs_row *rows
        kfs_limits limits
        kfs_codec_contexts *contexts
        kfs_bytes arena
        kfs_bytes records
        int copy

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
    uint32_t kfs_crc32(const uint8_t *p, size_t n)
    uint32_t kfs_xxh32(const uint8_t *p, size_t n)
    void kfs_codecs_init(int allowed)
    void kfs_contexts_free(kfs_codec_contexts *contexts)
    int kfs_reserve(kfs_bytes *bytes, size_t more)
    int kfs_walk(const uint8_t *buf, size_t n, size_t start, int64_t file_position, int64_t largest,
                 int check_crc, kfs_row *rows, size_t capacity, size_t *filled, size_t *consumed)
    int64_t kfs_find_batch(const uint8_t *buf, size_t n, size_t start, int64_t min_offset, int64_t largest)
    int kfs_locate(int fd, int64_t position, int64_t end, int64_t target, int64_t largest,
                   uint8_t *scratch, size_t capacity, kfs_location *found)
    int64_t kfs_floor_slot(const uint8_t *buf, int64_t count, size_t entry_size, size_t key_offset,
                           int key_is_i64, int64_t target)
    int kfs_any_compressed(const kfs_row *rows, int32_t first, int32_t last)
    int kfs_decode_rows(kfs_run *run, int32_t first, int32_t last, size_t enough, int32_t *row_index,
                        kfs_payload *payload, kfs_problem *problem)
    int kfs_read_inflated(kfs_run *run, int32_t row_index, size_t start, size_t size, int partial,
                          kfs_problem *problem)


cdef extern from "errno.h" nogil:
    int errno


DEF ROW_SIZE = 80
DEF RECORD_SIZE = 64
DEF KEPT_BLOCKS = 8
DEF KEPT_WORKERS = 8
DEF LARGEST_KEPT = 8 << 20
"""Memory up to this size is kept for the next call: fresh pages cost more than filling them."""
DEF ALL_CODECS = 0x1F


cdef int64_t LARGEST_BATCH = DEFAULT_BUDGETS.batch_bytes
cdef object EMPTY = np.empty(0, RECORD_DTYPE)

kfs_checksums_init()
kfs_codecs_init(ALL_CODECS)


# ---- memory that outlives a call ---------------------------------------------------------------

cdef kfs_bytes _kept_blocks[KEPT_BLOCKS]
cdef int _kept_block_count = 0


cdef void _take_block(kfs_bytes *into) noexcept:
    """Memory of an earlier call, or none yet. Under the GIL, as all that touches what is kept."""
    global _kept_block_count
    if _kept_block_count:
        _kept_block_count -= 1
        into[0] = _kept_blocks[_kept_block_count]
    else:
        into.data = NULL
        into.capacity = 0
    into.size = 0


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
    """Memory that arrays and views share; given back when the last of them is gone."""

    cdef kfs_bytes bytes

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.bytes.data, <Py_ssize_t>self.bytes.size, 1, flags)

    def __dealloc__(self):
        _give_block(&self.bytes)


# ---- what one call works with ------------------------------------------------------------------

ctypedef struct worker:
    kfs_codec_contexts contexts[2]  # the struct's size is unknown here: see _kernel.h
