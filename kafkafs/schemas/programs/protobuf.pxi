# Protobuf.

cdef extern from "c/protobuf_json.h" nogil:
    enum:
        PB_LOW
        PB_ASK
        PB_TYPES
        PB_ENUM
        PB_GROUP
        PB_MESSAGE

    ctypedef struct pb_arena:
        pass
    ctypedef struct pb_enum:
        uint32_t count
        int is_null
        const int32_t *numbers
        const char **names
        const uint32_t *sizes
    ctypedef struct pb_field:
        uint32_t number
        uint8_t type, shape, may_lack, is_required, is_closed
        uint32_t oneof, inner
        const char *name
        uint32_t name_size
        const char *missing
        uint32_t missing_size
    ctypedef struct pb_type:
        uint32_t count, oneofs
        pb_field *fields
        uint32_t ranges
        const uint32_t *range
        uint8_t special, has_required, is_entry
        int64_t cost
        uint16_t *low
    ctypedef struct pb_program:
        uint32_t types, enums
        pb_type *type
        pb_enum *enumeration

    int pb_json(const pb_program *program, pb_arena *arena, const uint8_t *data, size_t size, int64_t purse,
                kjw_text *text)
    void pb_release(pb_arena *arena)


cdef class ProtobufProgram:
    """A program that reads messages of a type."""

    cdef pb_program program
    cdef list kept
    cdef int64_t purse

    def __init__(self, types, enums, int64_t purse):
        cdef size_t at = 0
        self.kept = []
        self.purse = purse
        if not types or purse < 0:
            raise ValueError("a program needs a type, and a purse")
        self.program.types, self.program.enums = len(types), len(enums)
        self.program.type = <pb_type *>self.zeros(len(types) * sizeof(pb_type))
        self.program.enumeration = <pb_enum *>self.zeros(len(enums) * sizeof(pb_enum))
        for at, row in enumerate(enums):
            self.fill_enum(self.program.enumeration + at, row)
        for at, row in enumerate(types):
            self.fill_type(self.program.type + at, row)

    cdef void *zeros(self, size_t size) except NULL:
        """Return memory that lives as long as the program."""
        cdef _Bytes held = _hold(bytearray(size + 1), True)
        self.kept.append(held)
        return <void *>held.data

    cdef const char *text(self, bytes text) except NULL:
        self.kept.append(text)
        return text

    cdef int fill_enum(self, pb_enum *known, row) except -1:
        cdef int32_t *numbers = <int32_t *>self.zeros(len(row.names) * sizeof(int32_t))
        cdef uint32_t *sizes = <uint32_t *>self.zeros(len(row.names) * sizeof(uint32_t))
        cdef const char **names = <const char **>self.zeros(len(row.names) * sizeof(char *))
        cdef size_t at
        known.count, known.is_null = len(row.names), row.is_null
        known.numbers, known.names, known.sizes = numbers, names, sizes
        for at, (number, name) in enumerate(sorted(row.names.items())):
            numbers[at], names[at], sizes[at] = number, self.text(name), len(name)
        return 0

    cdef int fill_type(self, pb_type *type, row) except -1:
        cdef pb_field *field
        cdef size_t at
        cdef uint32_t count = len(row.fields)
        cdef uint32_t *ranges = <uint32_t *>self.zeros(len(row.ranges) * sizeof(uint32_t))
        for at, end in enumerate(row.ranges):
            ranges[at] = end
        type.count, type.oneofs, type.ranges, type.range = count, row.oneofs, len(row.ranges) // 2, ranges
        type.special, type.has_required, type.is_entry = row.special, row.has_required, row.is_entry
        type.cost = row.cost
        type.fields = <pb_field *>self.zeros(count * sizeof(pb_field))
        for at, each in enumerate(row.fields):
            field = type.fields + at
            field.number, field.type, field.shape = each.number, each.type, each.shape
            field.may_lack, field.is_required, field.is_closed = each.may_lack, each.is_required, each.is_closed
            field.oneof, field.inner = each.oneof, each.inner
            field.name, field.name_size = self.text(each.name + each.missing), len(each.name)
            field.missing, field.missing_size = field.name + field.name_size, len(each.missing)
            if field.number < <uint32_t>PB_LOW:
                type.low[field.number] = <uint16_t>(at + 1)
            inner = self.program.enums if field.type == PB_ENUM else self.program.types
            if not 0 < field.type < PB_TYPES or field.oneof > type.oneofs or field.inner >= max(inner, 1):
                raise ValueError("a field of the program leads out of it")
        return 0

    def json(self, payload):
        """Return the JSON of a message; None if it is refused."""
        cdef _Bytes data = _hold(payload)
        cdef _Text text = _Text.__new__(_Text)
        cdef pb_arena arena
        cdef int result
        memset(&arena, 0, sizeof(arena))
        with nogil:
            result = pb_json(&self.program, &arena, data.data, data.size, self.purse, &text.text)
            pb_release(&arena)
        if result == KJW_NO_MEMORY:
            raise MemoryError
        return None if result else text.taken()

    def texts(self, arena, starts, sizes, bytes prefix, bytes suffix, Py_ssize_t enough):
        """Return the JSON of many messages, where each is, and how many were read."""
        cdef _Payloads values = _payloads(arena, starts, sizes)
        cdef _Text text = _Text.__new__(_Text)
        cdef _Bytes head = _hold(prefix), tail = _hold(suffix), out
        cdef pb_arena memory
        cdef const uint8_t *data
        cdef int64_t *places
        cdef size_t at = 0, before
        cdef int result = KJW_OK
        found = np.empty((values.count, 2), np.int64)
        out = _hold(found, True)
        places = <int64_t *>out.data
        memset(&memory, 0, sizeof(memory))
        with nogil:
            while at < values.count and (at == 0 or <Py_ssize_t>text.text.size < enough):
                before = text.text.size
                places[2 * at] = <int64_t>before
                places[2 * at + 1] = -1
                data = values.arena.data + values.starts[at]
                if values.sizes[at] >= <int64_t>head.size and not memcmp(data, head.data, head.size):
                    result = pb_json(&self.program, &memory, data + head.size, <size_t>values.sizes[at] - head.size,
                                     self.purse, &text.text)
                    if result == KJW_OK:
                        result = kjw_raw(&text.text, tail.data, tail.size)
                        places[2 * at + 1] = <int64_t>(text.text.size - before)
                    if result == KJW_NO_MEMORY:
                        break
                at += 1
            pb_release(&memory)
        if result == KJW_NO_MEMORY:
            raise MemoryError
        return text.taken(), found[:at]
