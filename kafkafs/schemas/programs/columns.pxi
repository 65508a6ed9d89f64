# Columns in Arrow's layout.

cdef extern from "c/avro_columns.h" nogil:
    enum:
        KCL_NULL
        KCL_BOOLEAN
        KCL_FIXED
        KCL_BYTES
        KCL_LIST
        KCL_STRUCT
        KCL_TOO_LARGE

    ctypedef struct kcl_shape:
        int32_t kind, width, end, weight
    ctypedef struct kcl_column:
        kjw_text valid, data, offsets
        int64_t rows
    ctypedef struct kcl_columns:
        const kcl_shape *shapes
        kcl_column *columns
        size_t count
        int64_t purse

    int kcl_begin(kcl_columns *columns)
    void kcl_free(kcl_columns *columns)
    int kcl_put_null(kcl_columns *columns, int32_t at)
    void kcl_truncate(kcl_columns *columns, int32_t at, int64_t rows)

    enum:
        KAC_REFUSED
        KAC_NULL
        KAC_NUMBER
        KAC_NUMBER_AS_FLOAT
        KAC_NUMBER_AS_DOUBLE
        KAC_TIME
        KAC_FLOAT
        KAC_FLOAT_AS_DOUBLE
        KAC_DOUBLE
        KAC_FIXED
        KAC_ENUM
        KAC_UNION
        KAC_ARRAY
        KAC_MAP
        KAC_RECORD
        KAC_DECIMAL
        KAC_DURATION
        KAC_TEXT
        KAC_QUOTED
        KAC_SKIP
        KAC_CONSTANT
        KAC_CONSTANT_LIST
        KAC_CONSTANT_STRUCT

    ctypedef struct kac_step:
        int32_t kind, column, is_long, size, first, count, cost, bytes, bytes_size
    ctypedef struct kac_link:
        int32_t step, text, text_size
    ctypedef struct kac_program:
        const kac_step *steps
        const kac_link *links
        const uint8_t *texts
        kav_program json
        int32_t root
        int64_t purse

    int kac_read(const void *program, kcl_columns *columns, void *memory, const uint8_t *data, size_t size)


cdef extern from "c/protobuf_columns.h" nogil:
    enum:
        PB_ONE
        PB_MAP
        PB_BOOL
        PB_STRING
        PB_BYTES
        PBC_NUMBER
        PBC_BOOLEAN
        PBC_ENUM
        PBC_BYTES
        PBC_MESSAGE
        PBC_TEXT
        PBC_TIMESTAMP
        PBC_DURATION
        PBC_WRAPPER
        PBC_LIST
        PBC_MAP

    ctypedef struct pbc_step:
        int32_t kind, column, field, is_null, size, first, count
    ctypedef struct pbc_program:
        const pbc_step *steps
        const pb_program *program
        int64_t purse

    int pbc_read(const void *program, kcl_columns *columns, void *memory, const uint8_t *data, size_t size)


ctypedef int (*_Read)(const void *program, kcl_columns *columns, void *memory, const uint8_t *data, size_t size) noexcept nogil


cdef uint8_t[1] _nothing


cdef class _Memory:
    """A part of a finished column; it owns the memory, and shows it as a read-only buffer."""

    cdef kjw_text text

    def __dealloc__(self):
        kjw_free(&self.text)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.text.data if self.text.data else _nothing, <Py_ssize_t>self.text.size, True,
                          flags)


cdef _Memory _taken(kjw_text *text):
    cdef _Memory memory = _Memory.__new__(_Memory)
    memory.text = text[0]
    memset(text, 0, sizeof(kjw_text))
    return memory


cdef class ColumnShapes:
    """The shapes of a tree of columns."""

    cdef _Bytes held
    cdef const kcl_shape *shapes
    cdef size_t count

    def __init__(self, bytes shapes):
        cdef size_t at
        cdef const kcl_shape *shape
        cdef bint is_good
        self.held = _hold(shapes)
        self.shapes = <const kcl_shape *>self.held.data
        self.count = self.held.size // sizeof(kcl_shape)
        is_good = self.count > 0 and self.shapes[0].end == <int64_t>self.count
        for at in range(self.count):
            shape = self.shapes + at
            is_good = is_good and KCL_NULL <= shape.kind <= KCL_STRUCT and shape.weight >= 0
            is_good = is_good and <int64_t>at < shape.end <= <int64_t>self.count
            if shape.kind == KCL_FIXED:
                is_good = is_good and 0 < shape.width
            if shape.kind == KCL_LIST:
                is_good = is_good and <int64_t>at + 1 < shape.end and self.shapes[at + 1].end == shape.end
            elif shape.kind == KCL_STRUCT:
                is_good = is_good and self.has_parts(at)
            else:
                is_good = is_good and shape.end == <int64_t>at + 1
        if not is_good:
            raise ValueError("the columns are no tree")

    cdef bint has_parts(self, size_t at) noexcept:
        """Return whether the parts of a structure end where it ends."""
        cdef int64_t part = <int64_t>at + 1
        while part < self.shapes[at].end:
            if self.shapes[part].end <= part:
                return False
            part = self.shapes[part].end
        return part == self.shapes[at].end

    cdef bint is_fixed(self, int32_t column, int32_t width) noexcept:
        return self.shapes[column].kind == KCL_FIXED and self.shapes[column].width == width

    cdef bint is_map(self, int32_t column) noexcept:
        """Return whether a column is a list of keys with values."""
        return (
            self.shapes[column].kind == KCL_LIST and self.shapes[column + 1].kind == KCL_STRUCT
            and column + 3 < self.shapes[column].end and self.shapes[column + 2].kind == KCL_BYTES
            and self.shapes[column + 3].end == self.shapes[column].end
        )


cdef class ColumnProgram:
    """A program that reads values into columns."""

    cdef readonly ColumnShapes shapes
    cdef const void *made
    cdef _Read run


cdef class AvroColumnProgram(ColumnProgram):
    """A program that reads values of an Avro schema into columns."""

    cdef kac_program program
    cdef _Bytes steps, links, texts
    cdef AvroProgram json

    def __init__(
        self, ColumnShapes shapes, bytes steps, bytes links, bytes texts, AvroProgram json, int32_t root, int64_t purse
    ):
        self.steps, self.links, self.texts, self.json = _hold(steps), _hold(links), _hold(texts), json
        self.shapes = shapes
        self.program.steps = <const kac_step *>self.steps.data
        self.program.links = <const kac_link *>self.links.data
        self.program.texts = self.texts.data
        self.program.json = json.program
        self.program.root, self.program.purse = root, purse
        self.made, self.run = &self.program, kac_read
        self.check()

    cdef int check(self) except -1:
        """Check that no step and no link leads out of the program, and that each step has a column of its form."""
        cdef int64_t steps = self.steps.size // sizeof(kac_step), links = self.links.size // sizeof(kac_link), at
        cdef const kac_link *link
        cdef bint is_good = 0 <= self.program.root < steps and self.program.purse >= 0
        for at in range(links):
            link = self.program.links + at
            is_good = is_good and 0 <= link.step < steps and link.text_size >= 0
            is_good = is_good and 0 <= link.text <= <int64_t>self.texts.size - link.text_size
        for at in range(steps):
            is_good = is_good and self.is_good(self.program.steps + at, links)
        if not is_good:
            raise ValueError("a step of the program leads out of it")
        return 0

    cdef bint is_good(self, const kac_step *step, int64_t links) noexcept:
        cdef int32_t kind = step.kind, column = step.column, width
        cdef ColumnShapes shapes = self.shapes
        cdef const kcl_shape *shape
        if not KAC_REFUSED <= kind <= KAC_CONSTANT_STRUCT or not 0 <= column < <int64_t>shapes.count:
            return False
        shape = shapes.shapes + column
        if step.size < 0 or step.first < 0 or step.count < 0 or step.cost < 0 or step.bytes < 0 or step.bytes_size < 0:
            return False
        if step.bytes > <int64_t>self.texts.size - step.bytes_size:
            return False
        if kind == KAC_TEXT or kind == KAC_QUOTED or kind == KAC_SKIP:
            if step.first >= <int64_t>(self.json.steps.size // sizeof(kav_step)):
                return False
            return kind == KAC_SKIP or shape.kind == KCL_BYTES
        if _links_columns(kind) and not step.first + <int64_t>step.count <= links:
            return False
        if kind == KAC_NUMBER or kind == KAC_TIME:
            if kind == KAC_TIME and step.bytes_size != 8:
                return False
            return (step.size == 4 or step.size == 8) and shapes.is_fixed(column, step.size)
        if kind == KAC_NUMBER_AS_FLOAT or kind == KAC_FLOAT:
            return shapes.is_fixed(column, 4)
        if kind == KAC_NUMBER_AS_DOUBLE or kind == KAC_FLOAT_AS_DOUBLE or kind == KAC_DOUBLE:
            return shapes.is_fixed(column, 8)
        if kind == KAC_FIXED:
            return shape.kind == KCL_BYTES or shapes.is_fixed(column, step.size)
        if kind == KAC_DECIMAL:
            return (step.size == 16 or step.size == 32) and shapes.is_fixed(column, step.size) and step.bytes_size == step.size
        if kind == KAC_DURATION:
            return shape.kind == KCL_STRUCT and shape.end == column + 4 and (
                shapes.is_fixed(column + 1, 4) and shapes.is_fixed(column + 2, 4) and shapes.is_fixed(column + 3, 4)
            )
        if kind == KAC_ARRAY:
            return step.count == 1 and shape.kind == KCL_LIST
        if kind == KAC_MAP:
            return step.count == 1 and shapes.is_map(column)
        if kind == KAC_RECORD or kind == KAC_CONSTANT_STRUCT:
            return shape.kind == KCL_STRUCT
        if kind == KAC_CONSTANT_LIST:
            return shape.kind == KCL_LIST
        if kind == KAC_CONSTANT:
            width = shape.width if shape.kind == KCL_FIXED else step.bytes_size
            return shape.kind != KCL_NULL and shape.kind < KCL_LIST and step.bytes_size == width
        if kind == KAC_REFUSED or kind == KAC_NULL or kind == KAC_UNION:
            return True
        return shape.kind == (KCL_BYTES if kind > KAC_DOUBLE else KCL_BOOLEAN)


cdef bint _links_columns(int32_t kind) noexcept:
    return KAC_ENUM <= kind <= KAC_RECORD or kind == KAC_CONSTANT_LIST or kind == KAC_CONSTANT_STRUCT


cdef class _Columns:
    """Columns that are being filled."""

    cdef ColumnShapes shapes
    cdef _Bytes held
    cdef kcl_columns columns

    def __cinit__(self, ColumnShapes shapes):
        self.shapes = shapes
        self.held = _hold(bytearray(shapes.count * sizeof(kcl_column)), True)
        self.columns.shapes = shapes.shapes
        self.columns.columns = <kcl_column *>self.held.data
        self.columns.count = shapes.count
        if kcl_begin(&self.columns):
            raise MemoryError

    def __dealloc__(self):
        kcl_free(&self.columns)

    cdef list taken(self):
        """Return the parts of each column."""
        cdef size_t at
        cdef int64_t part
        cdef kcl_column *column
        cdef const kcl_shape *shapes = self.shapes.shapes
        cdef list found = []
        for at in range(self.columns.count):
            column = self.columns.columns + at
            part = <int64_t>at + 1
            while shapes[at].kind == KCL_STRUCT and part < shapes[at].end:
                if self.columns.columns[part].rows != column.rows:
                    raise ValueError("a program fills its columns unevenly")
                part = shapes[part].end
            found.append((column.rows, _taken(&column.valid), _taken(&column.data), _taken(&column.offsets)))
        return found


def read_columns(ColumnShapes shapes, programs, which, arena, starts, sizes, int64_t purse, int64_t enough):
    """Read the first of many values into columns."""
    cdef _Payloads values = _payloads(arena, starts, sizes)
    cdef _Bytes chosen = _hold(np.ascontiguousarray(which, np.int32)), out
    cdef const int32_t *choice = <const int32_t *>chosen.data
    cdef _Columns made = _Columns.__new__(_Columns, shapes)
    cdef kcl_columns *columns = &made.columns
    cdef ColumnProgram program
    cdef const void *programs_made[64]
    cdef _Read runs[64]
    cdef int32_t count = 0
    cdef uint8_t *state
    cdef size_t at = 0
    cdef int64_t taken = 0
    cdef int result = KJW_OK
    cdef pb_arena memory
    if chosen.size != values.count * sizeof(int32_t) or len(programs) > 64 or purse < 0:
        raise ValueError("a program is stated for each value, up to 64 in all")
    for program in programs:
        if program.shapes is not shapes:
            raise ValueError("a program fills other columns")
        programs_made[count], runs[count] = program.made, program.run
        count += 1
    found = np.zeros(values.count, np.uint8)
    out = _hold(found, True)
    state = <uint8_t *>out.data
    memset(&memory, 0, sizeof(memory))
    with nogil:
        while at < values.count and (at == 0 or taken < enough):
            columns.purse = purse
            taken += shapes.shapes[0].weight
            state[at] = _IS_NULL
            if 0 <= choice[at] < count and values.sizes[at] >= 0:
                result = runs[choice[at]](programs_made[choice[at]], columns, &memory, values.arena.data + values.starts[at],
                                          <size_t>values.sizes[at])
                state[at] = _IS_READ if result == KJW_OK else _IS_TOO_LARGE if result == KCL_TOO_LARGE else _IS_REFUSED
                if result == KJW_NO_MEMORY:
                    break
                taken += values.sizes[at] + purse - columns.purse
            if state[at] != _IS_READ:
                kcl_truncate(columns, 0, <int64_t>at)
                if kcl_put_null(columns, 0):
                    result = KJW_NO_MEMORY
                    break
            at += 1
        pb_release(&memory)
    if result == KJW_NO_MEMORY:
        raise MemoryError
    return made.taken(), found[:at]


cdef enum:
    _IS_READ
    _IS_NULL
    _IS_REFUSED
    _IS_TOO_LARGE


cdef class ProtobufColumnProgram(ColumnProgram):
    """A program that reads messages of a Protobuf type into columns."""

    cdef pbc_program program
    cdef _Bytes steps
    cdef ProtobufProgram messages

    def __init__(self, ColumnShapes shapes, bytes steps, ProtobufProgram messages, int64_t purse):
        self.steps, self.messages, self.shapes = _hold(steps), messages, shapes
        self.program.steps = <const pbc_step *>self.steps.data
        self.program.program = &messages.program
        self.program.purse = purse
        self.made, self.run = &self.program, pbc_read
        if self.steps.size < sizeof(pbc_step) or purse < 0 or not self.is_message(0, 0):
            raise ValueError("a step of the program leads out of it")

    cdef bint is_message(self, int64_t at, uint32_t inner):
        """Return whether a step shows messages of a type."""
        cdef const pbc_step *step = self.program.steps + at
        cdef pb_type *type = self.messages.program.type + inner
        cdef ColumnShapes shapes = self.shapes
        cdef int64_t part
        if not 0 <= step.column < <int64_t>shapes.count:
            return False
        if step.kind == PBC_TEXT:
            return shapes.shapes[step.column].kind == KCL_BYTES
        if step.kind == PBC_TIMESTAMP or step.kind == PBC_DURATION:
            return shapes.is_fixed(step.column, 8) and type.count == 2 and step.size > 0
        if step.first <= at or step.count < 0 or step.first + <int64_t>step.count > self.count():
            return False
        if step.kind == PBC_WRAPPER:
            return step.count == 1 and type.count == 1 and self.is_value(step.first, type.fields)
        if step.kind != PBC_MESSAGE or shapes.shapes[step.column].kind != KCL_STRUCT:
            return False
        for part in range(step.first, step.first + <int64_t>step.count):
            if not 0 <= self.program.steps[part].field < <int64_t>type.count:
                return False
            if not self.is_field(part, type.fields + self.program.steps[part].field):
                return False
        return True

    cdef bint is_field(self, int64_t at, const pb_field *field):
        """Return whether a step shows a field."""
        cdef const pbc_step *step = self.program.steps + at
        cdef ColumnShapes shapes = self.shapes
        cdef pb_type *entry
        if step.kind != PBC_LIST and step.kind != PBC_MAP:
            return field.shape == PB_ONE and self.is_value(at, field)
        if step.first <= at or step.count < 1 or step.first + <int64_t>step.count > self.count():
            return False
        if not 0 <= step.column < <int64_t>shapes.count or shapes.shapes[step.column].kind != KCL_LIST:
            return False
        if step.kind == PBC_LIST:
            return step.count == 1 and field.shape != PB_ONE and self.is_value(step.first, field)
        entry = self.messages.program.type + field.inner
        return (
            step.count == 2 and field.shape == PB_MAP and entry.count == 2
            and shapes.shapes[step.column + 1].kind == KCL_STRUCT
            and entry.fields[0].type != PB_MESSAGE and entry.fields[0].shape == PB_ONE and entry.fields[1].shape == PB_ONE
            and self.is_value(step.first, entry.fields) and self.is_value(step.first + 1, entry.fields + 1)
        )

    cdef bint is_value(self, int64_t at, const pb_field *field):
        """Return whether a step shows one value of a field."""
        cdef const pbc_step *step = self.program.steps + at
        cdef ColumnShapes shapes = self.shapes
        if field.type == PB_MESSAGE or field.type == PB_GROUP:
            return self.is_message(at, field.inner)
        if not 0 <= step.column < <int64_t>shapes.count:
            return False
        if field.type == PB_ENUM or field.type == PB_STRING or field.type == PB_BYTES:
            return shapes.shapes[step.column].kind == KCL_BYTES and (
                step.kind == (PBC_ENUM if field.type == PB_ENUM else PBC_BYTES)
            )
        if field.type == PB_BOOL:
            return step.kind == PBC_BOOLEAN and shapes.shapes[step.column].kind == KCL_BOOLEAN
        return step.kind == PBC_NUMBER and (step.size == 4 or step.size == 8) and shapes.is_fixed(step.column, step.size)

    cdef int64_t count(self):
        return <int64_t>(self.steps.size // sizeof(pbc_step))
