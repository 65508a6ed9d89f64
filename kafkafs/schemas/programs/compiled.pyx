# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=True
"""Runs programs of schemas over many values; compiled.pyi documents the functions, the work is in the headers in c/."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from engine.arrays import np


cdef extern from "c/json_writer.h" nogil:
    ctypedef struct kjw_text:
        uint8_t *data
        size_t size

    enum:
        KJW_OK
        KJW_NO_MEMORY
        KJW_LEAST_POWER
        KJW_LAST_POWER

    int kjw_raw(kjw_text *text, const void *bytes, size_t size)
    int kjw_double(kjw_text *text, double number)
    int kjw_float(kjw_text *text, float number)
    void kjw_set_power(int exponent, uint64_t high, uint64_t low)
    void kjw_free(kjw_text *text)


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


cdef class _Text:
    """JSON text in memory that grows."""

    cdef kjw_text text

    def __dealloc__(self):
        kjw_free(&self.text)

    cdef bytes taken(self):
        return PyBytes_FromStringAndSize(<const char *>self.text.data, <Py_ssize_t>self.text.size)


cdef class _Payloads:
    """Values in a buffer, by their starts and sizes; all lie inside it."""

    cdef _Bytes arena, starts_held, sizes_held
    cdef const int64_t *starts
    cdef const int64_t *sizes
    cdef size_t count


cdef _Payloads _payloads(arena, starts, sizes):
    cdef _Payloads made = _Payloads.__new__(_Payloads)
    cdef size_t at
    made.arena = _hold(arena)
    made.starts_held = _hold(np.ascontiguousarray(starts, np.int64))
    made.sizes_held = _hold(np.ascontiguousarray(sizes, np.int64))
    made.starts, made.sizes = <const int64_t *>made.starts_held.data, <const int64_t *>made.sizes_held.data
    made.count = made.starts_held.size // sizeof(int64_t)
    if made.sizes_held.size != made.starts_held.size:
        raise ValueError("the starts are not as many as the sizes")
    for at in range(made.count):
        if made.sizes[at] < 0:
            continue
        if not 0 <= made.starts[at] <= <int64_t>made.arena.size:
            raise ValueError("a value begins outside of the buffer")
        if made.sizes[at] > <int64_t>made.arena.size - made.starts[at]:
            raise ValueError("a value ends outside of the buffer")
    return made


def set_powers():
    """Compute the powers of ten that print doubles."""
    for exponent in range(KJW_LEAST_POWER, KJW_LAST_POWER + 1):
        if exponent >= 0:
            power = 10 ** exponent
            shift = 128 - power.bit_length()
            bits = power << shift if shift >= 0 else -(-power >> -shift)
        else:
            power = 10 ** -exponent
            bits = -(-(1 << (127 + power.bit_length())) // power)
            if bits >> 128:
                bits = -(-(1 << (126 + power.bit_length())) // power)
        kjw_set_power(exponent, bits >> 64, bits & 0xFFFFFFFFFFFFFFFF)


set_powers()


def float_text(number, bint is_double=True):
    """Return the JSON of a double, or of a float of 32 bits."""
    cdef _Text text = _Text.__new__(_Text)
    if (kjw_double(&text.text, number) if is_double else kjw_float(&text.text, number)) != KJW_OK:
        raise MemoryError
    return text.taken()


cdef enum:
    _MOST_CHOSEN = 512  # bytes of the chosen headers of a record


cdef bint _varint(const uint8_t **at, const uint8_t *end, int32_t *number) noexcept nogil:
    """Read a zigzag varint; return whether it is there, and not too long."""
    cdef uint32_t raw = 0
    cdef int shift = 0
    while at[0] < end and shift < 35:
        raw |= <uint32_t>(at[0][0] & 0x7f) << shift
        at[0] += 1
        if not at[0][-1] & 0x80:
            number[0] = <int32_t>(raw >> 1) ^ -<int32_t>(raw & 1)
            return True
        shift += 7
    return False


cdef int _chosen(const uint8_t *at, const uint8_t *end, const uint8_t **names, const size_t *name_sizes, int count,
                 uint8_t *out) noexcept nogil:
    """Write which of some headers are there, with their values; return the bytes written, -1 if there is no place for them."""
    cdef int32_t size, name
    cdef const uint8_t *key
    cdef int taken = 0
    while at < end:
        if not _varint(&at, end, &size) or size < 0 or size > end - at:
            return -1
        key = at
        at += size
        for name in range(count):
            if name_sizes[name] == <size_t>size and not memcmp(key, names[name], <size_t>size):
                break
        else:
            name = -1
        if not _varint(&at, end, &size) or size > end - at:
            return -1
        if name >= 0:
            if taken + 1 + <int64_t>sizeof(int32_t) + size > _MOST_CHOSEN:
                return -1
            out[taken] = <uint8_t>name
            memcpy(out + taken + 1, &size, sizeof(int32_t))
            taken += 1 + <int>sizeof(int32_t)
            if size > 0:
                memcpy(out + taken, at, <size_t>size)
                taken += size
        if size > 0:
            at += size
    return taken


def header_groups(arena, starts, sizes, names, int most):
    """Put records with the same values of some headers into groups."""
    cdef _Payloads headers = _payloads(arena, starts, sizes)
    cdef _Bytes out, held
    cdef int32_t group, count = 0
    cdef int32_t *groups
    cdef size_t at
    cdef int name_count = 0, taken
    cdef const uint8_t *begin
    cdef const uint8_t *name_bytes[16]
    cdef size_t name_sizes[16]
    cdef size_t firsts[64]
    cdef int known_sizes[64]
    cdef uint8_t chosen[_MOST_CHOSEN]
    cdef uint8_t known[64 * _MOST_CHOSEN]
    cdef list names_held = []
    if len(names) > 16 or not 0 < most <= 64:
        raise ValueError("up to 16 names and up to 64 groups")
    for name in names:
        held = _hold(name)
        names_held.append(held)
        name_bytes[name_count], name_sizes[name_count] = held.data, held.size
        name_count += 1
    result = np.empty(headers.count, np.int32)
    out = _hold(result, True)
    groups = <int32_t *>out.data
    with nogil:
        for at in range(headers.count):
            groups[at] = -1
            if headers.sizes[at] <= 0:
                continue
            begin = headers.arena.data + headers.starts[at]
            taken = _chosen(begin, begin + headers.sizes[at], name_bytes, name_sizes, name_count, chosen)
            if not taken:
                continue
            groups[at] = -2
            if taken < 0:
                continue
            for group in range(count):
                if known_sizes[group] == taken and not memcmp(known + group * _MOST_CHOSEN, chosen, <size_t>taken):
                    groups[at] = group
                    break
            if groups[at] == -2 and count < most:
                memcpy(known + count * _MOST_CHOSEN, chosen, <size_t>taken)
                known_sizes[count], firsts[count] = taken, at
                groups[at] = count
                count += 1
    return result, [firsts[group] for group in range(count)]


def prefix_groups(arena, starts, sizes, prefixes, int most):
    """Put values with the same first bytes into groups."""
    cdef _Payloads values = _payloads(arena, starts, sizes)
    cdef _Bytes out, held
    cdef int32_t group, count = 0
    cdef int32_t *groups
    cdef size_t at, length, kind, kinds = 0
    cdef const uint8_t *bytes_
    cdef const uint8_t *magics[16]
    cdef size_t magic_sizes[16]
    cdef int64_t lengths[16]
    cdef size_t firsts[64]
    cdef list magics_held = []
    if len(prefixes) > 16 or not 0 < most <= 64:
        raise ValueError("up to 16 prefixes and up to 64 groups")
    for magic, size in prefixes:
        held = _hold(magic)
        if not 0 < held.size <= <size_t>size:
            raise ValueError("a prefix is longer than what counts")
        magics_held.append(held)
        magics[kinds], magic_sizes[kinds], lengths[kinds] = held.data, held.size, size
        kinds += 1
    result = np.empty(values.count, np.int32)
    out = _hold(result, True)
    groups = <int32_t *>out.data
    with nogil:
        for at in range(values.count):
            groups[at] = -1
            bytes_ = values.arena.data + values.starts[at]
            for kind in range(kinds):
                if values.sizes[at] < lengths[kind] or memcmp(bytes_, magics[kind], magic_sizes[kind]):
                    continue
                length = <size_t>lengths[kind]
                groups[at] = -2
                for group in range(count):
                    if not memcmp(values.arena.data + values.starts[firsts[group]], bytes_, length):
                        groups[at] = group
                        break
                if groups[at] == -2 and count < most:
                    firsts[count] = at
                    groups[at] = count
                    count += 1
                break
    return result, [firsts[group] for group in range(count)]


include "avro.pxi"
include "protobuf.pxi"
include "columns.pxi"
