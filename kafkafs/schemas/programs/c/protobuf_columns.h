/* Appends Protobuf messages, read into nodes, to columns.
 *
 * Twin: kafkafs/forms/arrow/typed/protobuf_types.py, which makes the same column of upb's messages. What the twin refuses, and
 * what upb has to read, is refused here.
 */
#ifndef PBC_PROTOBUF_COLUMNS_H
#define PBC_PROTOBUF_COLUMNS_H

#include "columns.h"
#include "protobuf_json.h"

/* kafkafs.forms.arrow.typed.protobuf_program.FieldStep */
enum {
    PBC_NUMBER, PBC_BOOLEAN, PBC_ENUM, PBC_BYTES, PBC_MESSAGE, PBC_TEXT, PBC_TIMESTAMP, PBC_DURATION, PBC_WRAPPER,
    PBC_LIST, PBC_MAP
};

/* An instruction: how a field, an item of it, or a message is shown in a column. */
typedef struct {
    int32_t kind, column;
    int32_t field;    /* its place among the fields of its message, by number */
    int32_t is_null;  /* what is not set is null, else it has a default */
    int32_t size;     /* bytes of a number in the column; number of an enum's default; nanoseconds of a time's unit */
    int32_t first, count; /* steps of a message's fields, of items, of a wrapped value, of a map's keys and values */
} pbc_step;

typedef struct {
    const pbc_step *steps;
    const pb_program *program;
    int64_t purse;
} pbc_program;

typedef struct {
    const pbc_step *steps;
    pb_printer printer;
    kcl_columns *columns;
} pbc_run;

static int pbc_message(pbc_run *run, const pbc_step *step, const pb_type *type, pb_node *node);

/* Appends seconds and nanoseconds in units of `size` nanoseconds, without the digits below. */
static int pbc_ticks(kcl_column *column, const pb_node *node, int is_duration, int32_t size) {
    const int64_t seconds = (int64_t)node->slots[0].bits, nanos = (int64_t)node->slots[1].bits;
    if (nanos > 999999999 || nanos < (is_duration ? -999999999 : 0)) return PB_ASK;
    if (is_duration && ((seconds > 0 && nanos < 0) || (seconds < 0 && nanos > 0))) return PB_ASK;
    const __int128 wide = (__int128)seconds * (1000000000 / size) + nanos / size;
    if (wide < INT64_MIN || wide > INT64_MAX) return PB_ASK;
    const int64_t found = (int64_t)wide;
    return kcl_put_fixed(column, &found, 8);
}

static int pbc_enum(kcl_column *column, const pb_enum *known, int32_t number) {
    const uint32_t index = pb_enum_index(known, number);
    if (index < known->count) /* without the quotes of JSON */
        return kcl_put_bytes(column, (const uint8_t *)known->names[index] + 1, known->sizes[index] - 2);
    KCL_CHECK(kjw_i64(&column->data, number));
    return kcl_end_bytes(column);
}

/* Appends one value of a field; one that is not set has no bits, and is the default. */
static int pbc_put(pbc_run *run, const pbc_step *step, const pb_field *field, const pb_slot *slot) {
    kcl_column *column = run->columns->columns + step->column;
    const pb_program *program = run->printer.program;
    switch (step->kind) {
    case PBC_NUMBER:
        if (step->size == 8) return kcl_put_fixed(column, &slot->bits, 8);
        return kcl_put_fixed(column, &slot->bits, 4);
    case PBC_BOOLEAN:
        return kcl_put_boolean(column, slot->bits != 0);
    case PBC_ENUM:
        return pbc_enum(column, program->enumeration + field->inner, (int32_t)slot->bits);
    case PBC_BYTES:
        return kcl_put_bytes(column, slot->bytes, slot->size);
    case PBC_MESSAGE:
        return pbc_message(run, step, program->type + field->inner, slot->node);
    case PBC_TEXT:
        run->printer.text = &column->data;
        KCL_CHECK(pb_put_message(&run->printer, program->type + field->inner, slot->node));
        return kcl_end_bytes(column);
    case PBC_TIMESTAMP:
    case PBC_DURATION:
        return pbc_ticks(column, slot->node, step->kind == PBC_DURATION, step->size);
    case PBC_WRAPPER:
        return pbc_put(run, run->steps + step->first, program->type[field->inner].fields, slot->node->slots);
    default:
        return PB_ASK;
    }
}

static int pbc_list(pbc_run *run, const pbc_step *step, const pb_field *field, const pb_slot *slot) {
    const pbc_step *item = run->steps + step->first;
    KCL_CHECK(kcl_pay_items(run->columns, step->column, slot->size));
    for (uint32_t at = 0; at < slot->size; at++) {
        pb_slot each = {.set = 1};
        if (field->type == PB_STRING || field->type == PB_BYTES) {
            each.bytes = slot->texts[at].bytes;
            each.size = (uint32_t)slot->texts[at].size;
        } else if (field->type == PB_MESSAGE || field->type == PB_GROUP)
            each.node = slot->nodes[at];
        else
            each.bits = slot->numbers[at];
        KCL_CHECK(pbc_put(run, item, field, &each));
    }
    return kcl_end_list(run->columns->columns + step->column);
}

static int pbc_map(pbc_run *run, const pbc_step *step, const pb_field *field, pb_slot *slot) {
    const pb_type *entry = run->printer.program->type + field->inner;
    const pbc_step *key = run->steps + step->first, *value = key + 1;
    kcl_column *entries = run->columns->columns + step->column + 1;
    if (slot->size && !pb_order(entry, slot)) return KJW_NO_MEMORY;
    KCL_CHECK(kcl_pay_items(run->columns, step->column, slot->size));
    for (uint32_t at = 0; at < slot->size; at++) {
        pb_slot *slots = slot->nodes[at]->slots;
        KCL_CHECK(pbc_put(run, key, entry->fields, slots));
        if (!slots[1].set) {
            if (entry->fields[1].type == PB_MESSAGE) return PB_ASK; /* an empty message */
            slots[1].bits = value->kind == PBC_ENUM ? (uint64_t)(int64_t)value->size : 0;
        }
        KCL_CHECK(pbc_put(run, value, entry->fields + 1, slots + 1));
        KCL_CHECK(kcl_end_row(entries));
    }
    return kcl_end_list(run->columns->columns + step->column);
}

static int pbc_message(pbc_run *run, const pbc_step *step, const pb_type *type, pb_node *node) {
    const pbc_step *part = run->steps + step->first, *end = part + step->count;
    for (; part < end; part++) {
        const pb_field *field = type->fields + part->field;
        pb_slot *slot = node->slots + part->field;
        if (part->kind == PBC_LIST)
            KCL_CHECK(pbc_list(run, part, field, slot));
        else if (part->kind == PBC_MAP)
            KCL_CHECK(pbc_map(run, part, field, slot));
        else if (part->is_null && !slot->set)
            KCL_CHECK(kcl_put_null(run->columns, part->column));
        else
            KCL_CHECK(pbc_put(run, part, field, slot));
    }
    return kcl_end_row(run->columns->columns + step->column);
}

/* Appends a message to the columns; the caller takes back what was begun without one. */
static int pbc_read(const void *made, kcl_columns *columns, void *memory, const uint8_t *data, size_t size) {
    const pbc_program *program = made;
    pbc_run run = {program->steps, {program->program, NULL, program->purse}, columns};
    pb_slot whole = {.set = 1};
    const pb_field root = {.inner = 0};
    whole.node = pb_parse(program->program, memory, 0, data, size);
    if (!whole.node) return PB_ASK;
    return pbc_put(&run, program->steps, &root, &whole);
}

#endif
