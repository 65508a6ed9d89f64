/* Messages in Protobuf's wire form, read into nodes: a node has a slot for each field of its type.
 *
 * Reference: protobuf.dev/programming-guides/encoding, as `upb` reads it (google.protobuf in Python). What is read here is
 * read as upb reads it. Bytes that it refuses, and a few that it takes, are not read: the caller then asks upb, which has
 * the reason. So are messages that nest deeper than PB_DEPTH, take more memory than PB_MEMORY, or have a field in a range of
 * extensions.
 *
 * No Python, no locks. Time and memory are linear in the bytes and bounded by PB_MEMORY.
 */
#ifndef KAFKAFS_PROTOBUF_WIRE_H
#define KAFKAFS_PROTOBUF_WIRE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

#define PB_DEPTH 64
#define PB_MEMORY ((size_t)64 << 20)
#define PB_CHUNK ((size_t)64 << 10)
#define PB_FIRST_CHUNK ((size_t)4 << 10)
/* Field numbers below it are looked up in a table. */
#define PB_LOW 128

/* Types of fields: FieldDescriptorProto.Type. */
enum {
    PB_DOUBLE = 1, PB_FLOAT, PB_INT64, PB_UINT64, PB_INT32, PB_FIXED64, PB_FIXED32, PB_BOOL, PB_STRING, PB_GROUP,
    PB_MESSAGE, PB_BYTES, PB_UINT32, PB_ENUM, PB_SFIXED32, PB_SFIXED64, PB_SINT32, PB_SINT64,
};
#define PB_TYPES 19

/* Wire types. */
enum { PB_VARINT, PB_FIX64, PB_DELIMITED, PB_START, PB_END, PB_FIX32 };

static const uint8_t pb_wire_of[PB_TYPES] = {
    PB_END, PB_FIX64, PB_FIX32, PB_VARINT, PB_VARINT, PB_VARINT, PB_FIX64, PB_FIX32, PB_VARINT, PB_DELIMITED,
    PB_START, PB_DELIMITED, PB_DELIMITED, PB_VARINT, PB_VARINT, PB_FIX32, PB_FIX64, PB_VARINT, PB_VARINT,
};

/* How often a field comes. */
enum { PB_ONE, PB_MANY, PB_MAP };

/* Messages with a JSON form of their own. */
enum { PB_PLAIN, PB_ANY, PB_STRUCT, PB_VALUE, PB_LIST, PB_TIMESTAMP, PB_DURATION, PB_FIELD_MASK, PB_WRAPPER };

typedef struct {
    uint32_t count;
    int is_null; /* google.protobuf.NullValue */
    const int32_t *numbers; /* ascending */
    const char **names;     /* JSON strings */
    const uint32_t *sizes;
} pb_enum;

typedef struct {
    uint32_t number;
    uint8_t type, shape, may_lack, is_required, is_closed;
    uint32_t oneof; /* from 1; 0: none, or the only field of it */
    uint32_t inner; /* index of the message or enum */
    const char *name; /* ,"name": */
    uint32_t name_size;
    const char *missing; /* JSON of the default, behind the name */
    uint32_t missing_size;
} pb_field;

typedef struct {
    uint32_t count, oneofs;
    pb_field *fields; /* by number */
    uint32_t ranges;
    const uint32_t *range; /* first and end of each range of extensions */
    uint8_t special, has_required, is_entry;
    int64_t cost;
    uint16_t low[PB_LOW]; /* index of the field, from 1 */
} pb_type;

typedef struct {
    uint32_t types, enums;
    pb_type *type;
    pb_enum *enumeration;
} pb_program;

typedef struct pb_node pb_node;

/* A field's value. Integers are extended to 64 bits; floats and doubles are their bits. */
typedef struct {
    union {
        uint64_t bits;
        const uint8_t *bytes;
        pb_node *node;
        uint64_t *numbers;
        pb_node **nodes;
        struct pb_text *texts;
    };
    uint32_t size; /* of bytes; number of items */
    uint32_t set;  /* 1 if the field is there; room for items */
} pb_slot;

typedef struct pb_text {
    const uint8_t *bytes;
    size_t size;
} pb_text;

struct pb_node {
    uint32_t *oneofs; /* index of the field that is set, from 1 */
    pb_slot slots[];
};

/* ---- memory of one message ------------------------------------------------------------------------ */

typedef struct pb_chunk {
    struct pb_chunk *next;
    size_t size;
} pb_chunk;

typedef struct {
    pb_chunk *chunk;
    char *at, *end;
    size_t taken;
} pb_arena;

KFS_PLAIN void *pb_grow(pb_arena *arena, size_t size)
{
    const size_t usual = arena->chunk != NULL ? PB_CHUNK : PB_FIRST_CHUNK, least = size + sizeof(pb_chunk);
    const size_t room = least > usual ? least : usual;
    if (room > PB_MEMORY || arena->taken > PB_MEMORY - room)
        return NULL;
    pb_chunk *chunk = malloc(room);
    if (chunk == NULL)
        return NULL;
    chunk->next = arena->chunk;
    chunk->size = room;
    arena->chunk = chunk;
    arena->taken += room;
    arena->at = (char *)(chunk + 1) + size;
    arena->end = (char *)chunk + room;
    return chunk + 1;
}

/* Returns memory for `size` bytes; NULL if the message has had enough. */
KFS_INLINE void *pb_take(pb_arena *arena, size_t size)
{
    size = (size + 7) & ~(size_t)7;
    if (KFS_LIKELY(size <= (size_t)(arena->end - arena->at))) {
        void *found = arena->at;
        arena->at += size;
        return found;
    }
    return pb_grow(arena, size);
}

KFS_PLAIN void pb_release(pb_arena *arena)
{
    while (arena->chunk != NULL) {
        pb_chunk *next = arena->chunk->next;
        free(arena->chunk);
        arena->chunk = next;
    }
    memset(arena, 0, sizeof *arena);
}

/* Gives all memory back but the last chunk, if that is of the usual size. */
KFS_INLINE void pb_reset(pb_arena *arena)
{
    pb_chunk *kept = arena->chunk;
    if (kept == NULL)
        return;
    if (KFS_UNLIKELY(kept->next != NULL || kept->size > PB_CHUNK)) {
        pb_arena others = {kept->next, NULL, NULL, 0};
        pb_release(&others);
        kept->next = NULL;
        if (kept->size > PB_CHUNK) {
            pb_release(arena);
            return;
        }
    }
    arena->taken = kept->size;
    arena->at = (char *)(kept + 1);
    arena->end = (char *)kept + kept->size;
}

KFS_INLINE pb_node *pb_new(pb_arena *arena, const pb_type *type)
{
    const size_t slots = sizeof(pb_node) + type->count * sizeof(pb_slot), size = slots + 4 * (size_t)type->oneofs;
    pb_node *node = pb_take(arena, size);
    if (KFS_UNLIKELY(node == NULL))
        return NULL;
    memset(node, 0, size);
    node->oneofs = (uint32_t *)((char *)node + slots);
    return node;
}

/* Returns room for one item more of a repeated field. */
KFS_INLINE void *pb_append(pb_arena *arena, pb_slot *slot, size_t size)
{
    if (KFS_UNLIKELY(slot->size == slot->set)) {
        if (slot->set > UINT32_MAX / 2)
            return NULL;
        const uint32_t room = slot->set ? 2 * slot->set : 4;
        void *more = pb_take(arena, room * size);
        if (more == NULL)
            return NULL;
        if (slot->size)
            memcpy(more, slot->bytes, slot->size * size);
        slot->bytes = more;
        slot->set = room;
    }
    return (char *)slot->bytes + size * slot->size++;
}

/* ---- the wire ------------------------------------------------------------------------------------- */

/* Reads a varint of up to 10 bytes, of which the low 64 bits count; NULL if it ends early or is longer. */
KFS_INLINE const uint8_t *pb_varint(const uint8_t *p, const uint8_t *end, uint64_t *found)
{
    if (KFS_LIKELY(p < end && *p < 0x80)) {
        *found = *p;
        return p + 1;
    }
    uint64_t x = 0;
    for (unsigned shift = 0; shift < 70 && p < end; shift += 7) {
        const uint64_t byte = *p++;
        x |= (byte & 0x7f) << shift;
        if (byte < 0x80) {
            *found = x;
            return p;
        }
    }
    return NULL;
}

KFS_INLINE uint64_t pb_number(int type, uint64_t x)
{
    switch (type) {
    case PB_INT32:
    case PB_ENUM:
    case PB_SFIXED32:
        return (uint64_t)(int64_t)(int32_t)(uint32_t)x;
    case PB_UINT32:
        return (uint32_t)x;
    case PB_BOOL:
        return x != 0;
    case PB_SINT32: {
        const uint32_t y = (uint32_t)x;
        return (uint64_t)(int64_t)(int32_t)(y >> 1 ^ (0 - (y & 1)));
    }
    case PB_SINT64:
        return x >> 1 ^ (0 - (x & 1));
    default:
        return x;
    }
}

KFS_INLINE uint64_t pb_fixed(const uint8_t *p, int wire)
{
    uint64_t x = 0;
    for (int i = wire == PB_FIX64 ? 7 : 3; i >= 0; i--)
        x = x << 8 | p[i];
    return x;
}

/* Returns the index of an enum's value, or its count. */
KFS_INLINE uint32_t pb_enum_index(const pb_enum *known, int32_t number)
{
    if ((uint32_t)number < known->count && known->numbers[number] == number)
        return (uint32_t)number;
    uint32_t low = 0, high = known->count;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (known->numbers[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < known->count && known->numbers[low] == number ? low : known->count;
}

KFS_INLINE const pb_field *pb_find(const pb_type *type, uint32_t number)
{
    if (KFS_LIKELY(number < PB_LOW))
        return type->low[number] ? type->fields + type->low[number] - 1 : NULL;
    uint32_t low = 0, high = type->count;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (type->fields[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < type->count && type->fields[low].number == number ? type->fields + low : NULL;
}

/* Returns the slot of a field that is there; the other fields of its oneof are no more. */
KFS_INLINE pb_slot *pb_set(const pb_type *type, pb_node *node, const pb_field *field)
{
    const uint32_t index = (uint32_t)(field - type->fields);
    pb_slot *slot = node->slots + index;
    if (field->oneof) {
        uint32_t *known = node->oneofs + field->oneof - 1;
        if (*known != index + 1) {
            if (*known)
                memset(node->slots + *known - 1, 0, sizeof(pb_slot));
            *known = index + 1;
        }
    }
    if (field->shape == PB_ONE)
        slot->set = 1;
    return slot;
}

/* Stores a number; 0 without memory. */
KFS_INLINE int pb_store(const pb_program *program, pb_arena *arena, const pb_type *type, pb_node *node,
                        const pb_field *field, uint64_t x)
{
    x = pb_number(field->type, x);
    if (KFS_UNLIKELY(field->is_closed)) {
        const pb_enum *known = program->enumeration + field->inner;
        if (pb_enum_index(known, (int32_t)x) == known->count)
            return !type->is_entry; /* an unknown field; upb drops a map's entry with one */
    }
    pb_slot *slot = pb_set(type, node, field);
    if (field->shape == PB_ONE) {
        slot->bits = x;
        return 1;
    }
    uint64_t *item = pb_append(arena, slot, 8);
    if (item == NULL)
        return 0;
    *item = x;
    return 1;
}

KFS_PLAIN int pb_packed(const pb_program *program, pb_arena *arena, const pb_type *type, pb_node *node,
                        const pb_field *field, const uint8_t *p, const uint8_t *end)
{
    const int wire = pb_wire_of[field->type];
    uint64_t x;
    if (wire != PB_VARINT) {
        const size_t width = wire == PB_FIX64 ? 8 : 4;
        if ((size_t)(end - p) % width)
            return 0;
        for (; p < end; p += width)
            if (!pb_store(program, arena, type, node, field, pb_fixed(p, wire)))
                return 0;
        return 1;
    }
    while (p < end) {
        p = pb_varint(p, end, &x);
        if (p == NULL || !pb_store(program, arena, type, node, field, x))
            return 0;
    }
    return 1;
}

/* Reads a tag; NULL for one of more than 32 bits. */
KFS_INLINE const uint8_t *pb_tag(const uint8_t *p, const uint8_t *end, uint32_t *number, int *wire)
{
    uint64_t tag;
    const uint8_t *next = pb_varint(p, end, &tag);
    if (next == NULL || next - p > 5 || tag > UINT32_MAX)
        return NULL;
    *number = (uint32_t)tag >> 3;
    *wire = (int)(tag & 7);
    return next;
}

/* Reads the size of bytes that follow it; NULL if they are not all there, or if it has more than 5 bytes itself. */
KFS_INLINE const uint8_t *pb_size(const uint8_t *p, const uint8_t *end, uint64_t *size)
{
    const uint8_t *next = pb_varint(p, end, size);
    return next == NULL || next - p > 5 || *size > (uint64_t)(end - next) ? NULL : next;
}

/* Returns the end of an unknown field's value; NULL if it has none. */
KFS_PLAIN const uint8_t *pb_skip(const uint8_t *p, const uint8_t *end, uint32_t number, int wire, int depth)
{
    uint64_t x;
    switch (wire) {
    case PB_VARINT:
        return pb_varint(p, end, &x);
    case PB_FIX64:
        return end - p >= 8 ? p + 8 : NULL;
    case PB_FIX32:
        return end - p >= 4 ? p + 4 : NULL;
    case PB_DELIMITED:
        p = pb_size(p, end, &x);
        return p != NULL ? p + x : NULL;
    case PB_START:
        if (depth > PB_DEPTH)
            return NULL;
        while (p != NULL && p < end) {
            uint32_t inner;
            int inner_wire;
            p = pb_tag(p, end, &inner, &inner_wire);
            if (p == NULL)
                return NULL;
            if (inner_wire == PB_END)
                return inner == number ? p : NULL;
            p = pb_skip(p, end, inner, inner_wire, depth + 1);
        }
        return NULL;
    default:
        return NULL;
    }
}

/* Reads the fields of a message, or of a group up to its end tag; returns its end, or NULL. */
KFS_PLAIN const uint8_t *pb_read(const pb_program *program, pb_arena *arena, const pb_type *type, pb_node *node,
                                 const uint8_t *p, const uint8_t *end, int depth, uint32_t group)
{
    if (depth > PB_DEPTH)
        return NULL;
    while (p < end) {
        uint32_t number;
        int wire;
        uint64_t x = 0;
        p = pb_tag(p, end, &number, &wire);
        if (KFS_UNLIKELY(p == NULL || number == 0)) /* upb takes number 0 inside of an unknown group */
            return NULL;
        const pb_field *field = pb_find(type, number);
        if (KFS_LIKELY(field != NULL)) {
            const int own = pb_wire_of[field->type];
            if (KFS_LIKELY(wire == own)) {
                if (wire == PB_VARINT) {
                    p = pb_varint(p, end, &x);
                    if (KFS_UNLIKELY(p == NULL || !pb_store(program, arena, type, node, field, x)))
                        return NULL;
                    continue;
                }
                if (wire == PB_FIX64 || wire == PB_FIX32) {
                    const int width = wire == PB_FIX64 ? 8 : 4;
                    if (end - p < width || !pb_store(program, arena, type, node, field, pb_fixed(p, wire)))
                        return NULL;
                    p += width;
                    continue;
                }
                const uint8_t *stop = end;
                if (wire == PB_DELIMITED) {
                    p = pb_size(p, end, &x);
                    if (KFS_UNLIKELY(p == NULL))
                        return NULL;
                    stop = p + x;
                }
                pb_slot *slot = pb_set(type, node, field);
                if (field->type == PB_STRING || field->type == PB_BYTES) {
                    if (field->type == PB_STRING && !kfs_utf8_valid(p, (size_t)x))
                        return NULL;
                    if (field->shape == PB_ONE) {
                        slot->bytes = p;
                        slot->size = (uint32_t)x;
                    } else {
                        pb_text *item = pb_append(arena, slot, sizeof(pb_text));
                        if (item == NULL)
                            return NULL;
                        item->bytes = p;
                        item->size = (size_t)x;
                    }
                    p = stop;
                    continue;
                }
                const pb_type *inner = program->type + field->inner;
                pb_node **place = &slot->node;
                if (field->shape != PB_ONE) {
                    place = pb_append(arena, slot, sizeof(pb_node *));
                    if (place == NULL)
                        return NULL;
                    *place = NULL;
                }
                if (*place == NULL && (*place = pb_new(arena, inner)) == NULL)
                    return NULL;
                p = pb_read(program, arena, inner, *place, p, stop, depth + 1, wire == PB_START ? number : 0);
                if (p == NULL)
                    return NULL;
                continue;
            }
            if (wire == PB_DELIMITED && field->shape == PB_MANY && own != PB_START) {
                p = pb_size(p, end, &x);
                if (p == NULL || !pb_packed(program, arena, type, node, field, p, p + x))
                    return NULL;
                p += x;
                continue;
            }
        } else {
            for (uint32_t i = 0; i < type->ranges; i++)
                if (number >= type->range[2 * i] && number < type->range[2 * i + 1])
                    return NULL;
        }
        if (wire == PB_END)
            return number == group ? p : NULL;
        if (type->is_entry)
            return NULL; /* upb takes such an entry as an unknown field */
        p = pb_skip(p, end, number, wire, depth + 1);
        if (p == NULL)
            return NULL;
    }
    return group ? NULL : p;
}

/* Returns 1 if all required fields are there. */
KFS_PLAIN int pb_is_whole(const pb_program *program, const pb_type *type, const pb_node *node)
{
    if (!type->has_required)
        return 1;
    for (uint32_t i = 0; i < type->count; i++) {
        const pb_field *field = type->fields + i;
        const pb_slot *slot = node->slots + i;
        if (field->is_required && !slot->set)
            return 0;
        if (field->type != PB_MESSAGE && field->type != PB_GROUP)
            continue;
        const pb_type *inner = program->type + field->inner;
        if (field->shape == PB_ONE) {
            if (slot->set ? !pb_is_whole(program, inner, slot->node) : type->is_entry && inner->has_required)
                return 0;
        } else
            for (uint32_t k = 0; k < slot->size; k++)
                if (!pb_is_whole(program, inner, slot->nodes[k]))
                    return 0;
    }
    return 1;
}

/* Reads a whole message; NULL if upb has to. */
KFS_INLINE pb_node *pb_parse(const pb_program *program, pb_arena *arena, uint32_t root, const uint8_t *data, size_t size)
{
    const pb_type *type = program->type + root;
    pb_reset(arena);
    pb_node *node = pb_new(arena, type);
    if (node == NULL || pb_read(program, arena, type, node, data, data + size, 1, 0) == NULL)
        return NULL;
    return pb_is_whole(program, type, node) ? node : NULL;
}

#endif
