"""Messages of Kafka's protocol, read and written by the declarations of engine.topics.message.schema.

A declaration is turned into plans, one for each version, at its first use. What is odd, such as bytes that do not
parse, text that is not UTF-8 or a number that is out of its range, is left to engine.topics.message, which tells why.
"""

cdef enum:
    BOOL_KIND
    INT8_KIND
    INT16_KIND
    UINT16_KIND
    INT32_KIND
    UINT32_KIND
    INT64_KIND
    FLOAT64_KIND
    UUID_KIND
    STRING_KIND
    BYTES_KIND
    STRUCT_KIND

cdef int64_t MOST_VARINT = 2147483647
cdef int LONGEST_STRING = 32767
cdef const char *UUID_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
cdef int8_t _uuid_digits[256]


cdef int _fill_uuid_digits() except -1:
    cdef int i
    memset(_uuid_digits, -1, 256)
    for i in range(64):
        _uuid_digits[<uint8_t>UUID_LETTERS[i]] = <int8_t>i
    return 0


_fill_uuid_digits()


class _Odd(Exception):
    """Something that is left to Python."""


cdef object _odd = _Odd()


cdef class _FieldPlan:
    """A field in one version. `default` is shared; `absent` makes it anew where it can be changed."""

    cdef object name, default, absent
    cdef int kind
    cdef bint is_array, is_in, nullable
    cdef int64_t tag
    cdef _StructPlan inner


cdef class _StructPlan:
    """The fields of a structure in one version, in their order.

    `defaults` are by name, `tags` are fields by tag, and `tagged` those of this version in the order of their tags.
    """

    cdef list fields, tagged
    cdef dict defaults, tags
    cdef bint flexible


cdef dict _message_plans = {}
cdef dict _kinds = {}


cdef _StructPlan _message_plan(message, int version):
    cdef tuple key = (message, version)
    cdef object found = _message_plans.get(key)
    if found is None:
        if not message.knows(version):
            raise _odd
        found = _struct_plan(message.fields, version, message.is_flexible(version))
        _message_plans[key] = found
    return <_StructPlan>found


cdef _StructPlan _struct_plan(fields, int version, bint flexible):
    from engine.topics.message.schema import Array, Scalar, Struct

    cdef _StructPlan plan = _StructPlan.__new__(_StructPlan)
    cdef _FieldPlan made
    if not _kinds:
        for number, name in enumerate(("BOOL", "INT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "FLOAT64",
                                       "UUID", "STRING", "BYTES")):
            _kinds[Scalar[name]] = number
    plan.fields, plan.tagged, plan.flexible = [], [], flexible
    plan.defaults, plan.tags = {}, {}
    for field in fields:
        made = _FieldPlan.__new__(_FieldPlan)
        made.name, made.nullable, made.is_in = field.name, field.nullable, field.is_in(version)
        made.tag = -1 if field.tag is None else field.tag
        made.default = field.absent()
        made.absent = _absent(made.default, field)
        made.is_array = isinstance(field.type, Array)
        kind = field.type.element if made.is_array else field.type
        if isinstance(kind, Struct):
            made.kind, made.inner = STRUCT_KIND, _struct_plan(kind.fields, version, flexible)
        else:
            made.kind = _kinds[kind]
        plan.fields.append(made)
        plan.defaults[made.name] = made.default
        if made.tag >= 0:
            plan.tags[made.tag] = made
            if made.is_in:
                plan.tagged.append(made)
    plan.tagged.sort(key=_tag_of)
    return plan


def _absent(default, field):
    """Return what makes a default that can be changed; None for one that cannot."""
    if not isinstance(default, (list, dict)):
        return None
    parts = default.values() if isinstance(default, dict) else default
    return field.absent if any(isinstance(part, (list, dict)) for part in parts) else default.copy


def _tag_of(_FieldPlan plan):
    return plan.tag


# ---- read ---------------------------------------------------------------------------------------

cdef struct _Message:
    const uint8_t *data
    Py_ssize_t size
    Py_ssize_t at
    int64_t elements


def read_message(message, int version, buffer, Py_ssize_t position=0, *, int64_t most_elements=MOST_VARINT):
    """Return the fields of the message at a position, and the position after it."""
    cdef bytes data = buffer if type(buffer) is bytes else bytes(buffer)
    cdef _Message of
    cdef dict fields
    of.data, of.size, of.at, of.elements = <const uint8_t *><const char *>data, len(data), position, most_elements
    try:
        if not 0 <= position <= of.size:
            raise _odd
        fields = _read_struct(_message_plan(message, version), &of)
        return fields, of.at
    except (_Odd, UnicodeDecodeError):
        pass
    from engine.topics.message.decoding import CountedBytes, read_message as read

    return read(message, version, CountedBytes.of(data, most_elements), position)


cdef int _need(_Message *of, int64_t size) except -1:
    if size < 0 or size > of.size - of.at:
        raise _odd
    return 0


cdef int64_t _read_big(_Message *of, int size) except? -1:
    """Read a signed number of some bytes."""
    cdef uint64_t value = 0
    cdef int i
    _need(of, size)
    for i in range(size):
        value = value << 8 | of.data[of.at + i]
    of.at += size
    return <int64_t>(value << (64 - 8 * size)) >> (64 - 8 * size)


cdef int64_t _read_varint(_Message *of) except -1:
    """Read an unsigned varint of at most five bytes that is an int32."""
    cdef int64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while shift < 35:
        _need(of, 1)
        byte = of.data[of.at]
        of.at += 1
        value |= <int64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            if value > MOST_VARINT:
                break
            return value
        shift += 7
    raise _odd


cdef int64_t _read_length(_Message *of, bint flexible, int size) except? -2:
    """Read a length or a count; -1 is null."""
    cdef int64_t length = _read_varint(of) - 1 if flexible else _read_big(of, size)
    return length if length >= 0 else -1


cdef dict _read_struct(_StructPlan plan, _Message *of):
    cdef dict values = plan.defaults.copy()
    cdef _FieldPlan field
    for field in plan.fields:
        if field.is_in and field.tag < 0:
            values[field.name] = _read_field(field, plan.flexible, of)
        elif field.absent is not None:
            values[field.name] = field.absent()
    if plan.flexible:
        _read_tags(plan, values, of)
    return values


cdef int _read_tags(_StructPlan plan, dict values, _Message *of) except -1:
    cdef int64_t count = _read_varint(of), tag, size
    cdef _FieldPlan field
    while count:
        count -= 1
        tag, size = _read_varint(of), _read_varint(of)
        found = plan.tags.get(tag)
        if found is None:
            _need(of, size)
            of.at += <Py_ssize_t>size
            continue
        field = <_FieldPlan>found
        if not field.is_in:
            raise _odd
        values[field.name] = _read_field(field, True, of)
    return 0


cdef object _read_field(_FieldPlan field, bint flexible, _Message *of):
    cdef int64_t count
    cdef list values
    if not field.is_array:
        if field.nullable and field.kind == STRUCT_KIND:
            # The mark of null is a negative byte in an ordinary field, a zero in a tagged one.
            if _read_big(of, 1) < 0 if field.tag < 0 else not _read_varint(of):
                return None
        return _read_value(field, flexible, field.nullable, of)
    count = _read_length(of, flexible, 4)
    if count < 0:
        if not field.nullable:
            raise _odd
        return None
    of.elements -= count
    if of.elements < 0:
        raise _odd
    _need(of, count)
    values = []
    while count:
        count -= 1
        values.append(_read_value(field, flexible, False, of))
    return values


cdef object _read_value(_FieldPlan field, bint flexible, bint nullable, _Message *of):
    cdef int64_t size
    cdef uint64_t bits
    cdef double number
    cdef const char *start
    cdef int kind = field.kind
    if kind == STRUCT_KIND:
        return _read_struct(field.inner, of)
    if kind == INT32_KIND:
        return <int32_t>_read_big(of, 4)
    if kind == INT64_KIND:
        return _read_big(of, 8)
    if kind == INT16_KIND:
        return <int16_t>_read_big(of, 2)
    if kind == INT8_KIND:
        return <int8_t>_read_big(of, 1)
    if kind == STRING_KIND or kind == BYTES_KIND:
        size = _read_length(of, flexible, 2 if kind == STRING_KIND else 4)
        if size < 0:
            if not nullable:
                raise _odd
            return None
        _need(of, size)
        start = <const char *>of.data + of.at
        of.at += <Py_ssize_t>size
        if kind == BYTES_KIND:
            return PyBytes_FromStringAndSize(start, <Py_ssize_t>size)
        if size > LONGEST_STRING:
            raise _odd
        return PyUnicode_DecodeUTF8(start, <Py_ssize_t>size, NULL)
    if kind == BOOL_KIND:
        return _read_big(of, 1) != 0
    if kind == UUID_KIND:
        return _read_uuid(of)
    if kind == UINT16_KIND:
        return <uint16_t>_read_big(of, 2)
    if kind == UINT32_KIND:
        return <uint32_t>_read_big(of, 4)
    bits = <uint64_t>_read_big(of, 8)
    memcpy(&number, &bits, 8)
    return number


cdef str _read_uuid(_Message *of):
    cdef char text[24]
    cdef uint32_t three
    cdef int i
    cdef const uint8_t *p
    _need(of, 16)
    p = of.data + of.at
    for i in range(6):
        three = <uint32_t>p[3 * i] << 16
        if i < 5:
            three |= <uint32_t>p[3 * i + 1] << 8 | p[3 * i + 2]
        text[4 * i] = UUID_LETTERS[three >> 18]
        text[4 * i + 1] = UUID_LETTERS[three >> 12 & 63]
        text[4 * i + 2] = UUID_LETTERS[three >> 6 & 63]
        text[4 * i + 3] = UUID_LETTERS[three & 63]
    of.at += 16
    return PyUnicode_DecodeUTF8(text, 22, NULL)


# ---- write --------------------------------------------------------------------------------------

cdef class _Pieces:
    """A message that is written: the bytes since the last piece, and the pieces before them."""

    cdef kfs_bytes bytes
    cdef list pieces

    def __dealloc__(self):
        free(self.bytes.data)

    cdef int flush(self) except -1:
        if self.bytes.size or not self.pieces:
            self.pieces.append(PyByteArray_FromStringAndSize(<char *>self.bytes.data, <Py_ssize_t>self.bytes.size))
            self.bytes.size = 0
        return 0


def write_message(message, int version, values, bytes head=b""):
    """Return a message: the buffers of its bytes, and between them the bytes that are elsewhere."""
    cdef _Pieces to = _Pieces.__new__(_Pieces)
    to.pieces = []
    try:
        _append(&to.bytes, head)
        _write_struct(_message_plan(message, version), values, to)
        to.flush()
        return to.pieces
    except (_Odd, OverflowError, TypeError, UnicodeEncodeError):
        pass
    from engine.topics.message.encoding import write_message as write

    return write(message, version, values, head)


cdef int _put_big(_Pieces to, uint64_t value, int size) except -1:
    cdef uint8_t *p
    cdef int i
    if not kfs_reserve(&to.bytes, <size_t>size):
        raise MemoryError
    p = to.bytes.data + to.bytes.size
    for i in range(size):
        p[i] = <uint8_t>(value >> 8 * (size - 1 - i))
    to.bytes.size += <size_t>size
    return 0


cdef int _varint_into(uint8_t *p, uint64_t value) noexcept:
    cdef int size = 0
    while value >= 0x80:
        p[size] = <uint8_t>(value | 0x80)
        size += 1
        value >>= 7
    p[size] = <uint8_t>value
    return size + 1


cdef int _put_varint(_Pieces to, uint64_t value) except -1:
    if not kfs_reserve(&to.bytes, 10):
        raise MemoryError
    to.bytes.size += <size_t>_varint_into(to.bytes.data + to.bytes.size, value)
    return 0


cdef int _put_length(_Pieces to, int64_t length, bint flexible, int size) except -1:
    """Put a length or a count; -1 is null."""
    if flexible:
        return _put_varint(to, <uint64_t>(length + 1))
    if length >> (8 * size - 1) > 0:
        raise _odd
    return _put_big(to, <uint64_t>length, size)


cdef int _put_memory(_Pieces to, const void *data, Py_ssize_t size) except -1:
    if not kfs_reserve(&to.bytes, <size_t>size):
        raise MemoryError
    if size:
        memcpy(to.bytes.data + to.bytes.size, data, <size_t>size)
    to.bytes.size += <size_t>size
    return 0


cdef int _write_struct(_StructPlan plan, given, _Pieces to) except -1:
    cdef _FieldPlan field
    cdef dict values
    if type(given) is not dict:
        raise _odd
    values = <dict>given
    for field in plan.fields:
        if not field.is_in or field.tag >= 0:
            continue
        value = values.get(field.name, _odd)
        if value is _odd:
            value = field.default  # which is only read
        _write_field(field, plan.flexible, value, to)
    if plan.flexible:
        _write_tags(plan, values, to)
    return 0


cdef int _write_tags(_StructPlan plan, dict values, _Pieces to) except -1:
    cdef _FieldPlan field
    cdef list differing = None
    cdef uint8_t sizes[20]
    cdef size_t start, size, moved
    for field in plan.tagged:
        value = values.get(field.name, _odd)
        if value is not _odd and value != field.default:
            if differing is None:
                differing = []
            differing.append((field, value))
    if differing is None:
        return _put_varint(to, 0)
    _put_varint(to, <uint64_t>len(differing))
    for field, value in differing:
        # The size stands before the bytes, and is known after them.
        start = to.bytes.size
        before = len(to.pieces)
        _write_field(field, True, value, to)
        if len(to.pieces) != before:
            raise _odd
        size = to.bytes.size - start
        moved = <size_t>_varint_into(sizes, <uint64_t>field.tag)
        moved += <size_t>_varint_into(sizes + moved, size)
        if not kfs_reserve(&to.bytes, moved):
            raise MemoryError
        memmove(to.bytes.data + start + moved, to.bytes.data + start, size)
        memcpy(to.bytes.data + start, sizes, moved)
        to.bytes.size += moved
    return 0


cdef int _write_field(_FieldPlan field, bint flexible, value, _Pieces to) except -1:
    if field.is_array:
        if value is None:
            return _put_length(to, -1, flexible, 4)
        if type(value) is not list:
            value = list(value)
        _put_length(to, len(<list>value), flexible, 4)
        for each in <list>value:
            _write_value(field, flexible, each, to)
        return 0
    if field.kind == STRUCT_KIND and field.nullable:
        _put_big(to, 1 if value is not None else 0xFF if field.tag < 0 else 0, 1)
        if value is None:
            return 0
    return _write_value(field, flexible, value, to)


cdef int _write_value(_FieldPlan field, bint flexible, value, _Pieces to) except -1:
    cdef int kind = field.kind
    cdef Py_ssize_t size
    cdef const char *text
    cdef double number
    cdef uint64_t bits
    if kind == STRUCT_KIND:
        return _write_struct(field.inner, value, to)
    if kind <= INT64_KIND:
        return _write_number(kind, value, to)
    if kind == STRING_KIND:
        if value is None:
            return _put_length(to, -1, flexible, 2)
        if type(value) is not str:
            raise _odd
        text = PyUnicode_AsUTF8AndSize(value, &size)
        _put_length(to, size, flexible, 2)
        return _put_memory(to, text, size)
    if kind == BYTES_KIND:
        return _write_bytes(flexible, value, to)
    if kind == UUID_KIND:
        return _write_uuid(value, to)
    number = value
    memcpy(&bits, &number, 8)
    return _put_big(to, bits, 8)


cdef int _write_number(int kind, value, _Pieces to) except -1:
    cdef int64_t number
    cdef int size
    if not isinstance(value, int):
        raise _odd
    number = value
    if kind == INT32_KIND:
        size = 4
    elif kind == INT64_KIND:
        return _put_big(to, <uint64_t>number, 8)
    elif kind == INT16_KIND:
        size = 2
    elif kind == INT8_KIND:
        size = 1
    else:
        size = 1 if kind == BOOL_KIND else 2 if kind == UINT16_KIND else 4
        if number >> 8 * size:
            raise _odd
        return _put_big(to, <uint64_t>number, size)
    if number >> (8 * size - 1) not in (0, -1):
        raise _odd
    return _put_big(to, <uint64_t>number, size)


cdef int _write_bytes(bint flexible, value, _Pieces to) except -1:
    cdef int64_t total = 0
    cdef _Bytes held
    if value is None:
        return _put_length(to, -1, flexible, 4)
    parts = value if isinstance(value, tuple) else (value,)
    for part in parts:
        total += len(part) if isinstance(part, (bytes, bytearray, memoryview)) else part.size
    _put_length(to, total, flexible, 4)
    for part in parts:
        if isinstance(part, (bytes, bytearray, memoryview)):
            held = _hold(part)
            _put_memory(to, held.data, <Py_ssize_t>held.size)
        elif part.size:
            to.flush()
            to.pieces.append(part)
    return 0


cdef int _write_uuid(value, _Pieces to) except -1:
    cdef Py_ssize_t size
    cdef const char *text
    cdef uint8_t found[18]
    cdef int8_t digit
    cdef uint32_t bits = 0
    cdef int i
    if type(value) is not str:
        raise _odd
    text = PyUnicode_AsUTF8AndSize(value, &size)
    if size != 22:
        raise _odd
    for i in range(24):
        digit = _uuid_digits[<uint8_t>text[i]] if i < 22 else 0
        if digit < 0:
            raise _odd
        bits = bits << 6 | <uint32_t>digit
        if i % 4 == 3:
            found[i // 4 * 3], found[i // 4 * 3 + 1], found[i // 4 * 3 + 2] = bits >> 16 & 255, bits >> 8 & 255, bits & 255
            bits = 0
    return _put_memory(to, found, 16)
