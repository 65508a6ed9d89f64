# Avro.

cdef extern from "c/avro.h" nogil:
    ctypedef struct kav_step:
        int32_t kind
        int32_t size
        int32_t first
        int32_t count

    ctypedef struct kav_link:
        int32_t step
        int32_t text
        int32_t text_size

    ctypedef struct kav_program:
        const kav_step *steps
        const kav_link *links
        const uint8_t *texts

    enum:
        KAV_BIG_DECIMAL
        KAV_TIME
        KAV_TIMESTAMP
        KAV_LOCAL_TIMESTAMP
        KAV_ARRAY
        KAV_MAP
        KAV_ENUM
        KAV_RECORD

    int kav_json(const kav_program *program, const uint8_t *data, size_t size, int64_t purse, kjw_text *text,
                 size_t *left)


cdef class AvroProgram:
    """A program that reads values of an Avro schema."""

    cdef kav_program program
    cdef _Bytes steps, links, texts_held
    cdef int64_t purse

    def __init__(self, bytes steps, bytes links, bytes texts, int64_t purse):
        self.steps, self.links, self.texts_held = _hold(steps), _hold(links), _hold(texts)
        self.program.steps = <const kav_step *>self.steps.data
        self.program.links = <const kav_link *>self.links.data
        self.program.texts = self.texts_held.data
        self.purse = purse
        self.check()

    cdef int check(self) except -1:
        """Check that no step and no link leads out of the program."""
        cdef size_t steps = self.steps.size // sizeof(kav_step), links = self.links.size // sizeof(kav_link), at
        cdef const kav_step *step
        cdef const kav_link *link
        cdef bint is_good = steps > 0 and self.purse >= 0
        for at in range(steps):
            step = self.program.steps + at
            is_good = is_good and 0 <= step.kind <= KAV_BIG_DECIMAL and step.size >= 0
            is_good = is_good and 0 <= step.first <= <int64_t>links and step.count >= 0
            if step.kind == KAV_TIME or step.kind == KAV_TIMESTAMP or step.kind == KAV_LOCAL_TIMESTAMP:
                is_good = is_good and step.size <= 9
            if _has_links(step.kind):
                is_good = is_good and step.count <= <int64_t>links - step.first
            if step.kind == KAV_ARRAY or step.kind == KAV_MAP:
                is_good = is_good and step.count == 1
        for at in range(links):
            link = self.program.links + at
            is_good = is_good and 0 <= link.step < <int64_t>steps and link.text_size >= 0
            is_good = is_good and 0 <= link.text <= <int64_t>self.texts_held.size - link.text_size
        if not is_good:
            raise ValueError("a step of the program leads out of it")
        return 0

    def json(self, payload):
        """Return the JSON of a value and the number of bytes behind it; None if it is refused."""
        cdef _Bytes data = _hold(payload)
        cdef _Text text = _Text.__new__(_Text)
        cdef size_t left
        cdef int result
        with nogil:
            result = kav_json(&self.program, data.data, data.size, self.purse, &text.text, &left)
        if result == KJW_NO_MEMORY:
            raise MemoryError
        return None if result else (text.taken(), left)

    def texts(self, arena, starts, sizes, bytes suffix, Py_ssize_t enough):
        """Return the JSON of many values, where each is, and how many were read."""
        cdef _Payloads values = _payloads(arena, starts, sizes)
        cdef _Text text = _Text.__new__(_Text)
        cdef _Bytes tail = _hold(suffix), out
        cdef int64_t *places
        cdef size_t at = 0, left, before
        cdef int result = KJW_OK
        found = np.empty((values.count, 2), np.int64)
        out = _hold(found, True)
        places = <int64_t *>out.data
        with nogil:
            while at < values.count and (at == 0 or <Py_ssize_t>text.text.size < enough):
                before = text.text.size
                places[2 * at] = <int64_t>before
                places[2 * at + 1] = -1
                if values.sizes[at] >= 0:
                    result = kav_json(&self.program, values.arena.data + values.starts[at], <size_t>values.sizes[at],
                                      self.purse, &text.text, &left)
                    if result == KJW_OK and left:
                        text.text.size = before
                    elif result == KJW_OK:
                        result = kjw_raw(&text.text, tail.data, tail.size)
                        places[2 * at + 1] = <int64_t>(text.text.size - before)
                    if result == KJW_NO_MEMORY:
                        break
                at += 1
        if result == KJW_NO_MEMORY:
            raise MemoryError
        return text.taken(), found[:at]


cdef bint _has_links(int32_t kind) noexcept:
    return KAV_ENUM <= kind <= KAV_RECORD
