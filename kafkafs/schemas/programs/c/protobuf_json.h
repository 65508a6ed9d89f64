/* Protobuf messages, read into nodes, as ProtoJSON.
 *
 * Reference and twin: kafkafs/schemas/decoders/protobuf_json.py, which must agree byte for byte. Where the twin refuses a
 * message, or where an Any holds one, PB_ASK is returned: the twin then has the text or the reason.
 */
#ifndef KAFKAFS_PROTOBUF_JSON_H
#define KAFKAFS_PROTOBUF_JSON_H

#include "json_writer.h"
#include "protobuf_wire.h"

enum { PB_ASK = KJW_NOT_UTF8 };

#define PB_CONTAINER_COST 64

typedef struct {
    const pb_program *program;
    kjw_text *text;
    int64_t purse;
} pb_printer;

#define PB_TRY(call)                          \
    do {                                      \
        const int result_ = (call);           \
        if (KFS_UNLIKELY(result_)) return result_; \
    } while (0)

static int pb_put_message(pb_printer *printer, const pb_type *type, const pb_node *node);

KFS_INLINE int pb_pay(pb_printer *printer, int64_t cost)
{
    printer->purse -= cost;
    return printer->purse < 0 ? PB_ASK : KJW_OK;
}

/* Writes an integer of 64 bits, which is a string. */
KFS_INLINE int pb_put_quoted(kjw_text *text, uint64_t bits, int is_signed)
{
    if (!kjw_room(text, KFS_I64_BOUND + 4)) return KJW_NO_MEMORY;
    text->data[text->size++] = '"';
    PB_TRY(is_signed ? kjw_i64(text, (int64_t)bits) : kjw_u64(text, bits));
    return kjw_char(text, '"');
}

KFS_INLINE int pb_put_number(pb_printer *printer, const pb_field *field, uint64_t bits)
{
    kjw_text *text = printer->text;
    switch (field->type) {
    case PB_DOUBLE: {
        double number;
        memcpy(&number, &bits, 8);
        return kjw_double(text, number);
    }
    case PB_FLOAT: {
        const uint32_t half = (uint32_t)bits;
        float number;
        memcpy(&number, &half, 4);
        return kjw_float(text, number);
    }
    case PB_INT64:
    case PB_SINT64:
    case PB_SFIXED64:
        return pb_put_quoted(text, bits, 1);
    case PB_UINT64:
    case PB_FIXED64:
        return pb_put_quoted(text, bits, 0);
    case PB_BOOL:
        return bits ? kjw_raw(text, "true", 4) : kjw_raw(text, "false", 5);
    case PB_ENUM: {
        const pb_enum *known = printer->program->enumeration + field->inner;
        if (known->is_null) return kjw_raw(text, "null", 4);
        const uint32_t index = pb_enum_index(known, (int32_t)bits);
        if (index < known->count) return kjw_raw(text, known->names[index], known->sizes[index]);
        return kjw_i64(text, (int64_t)bits);
    }
    default:
        return kjw_i64(text, (int64_t)bits);
    }
}

/* Writes one item of a field of a type with bytes, or of a message. */
KFS_INLINE int pb_put_bytes(pb_printer *printer, const pb_field *field, const uint8_t *bytes, size_t size)
{
    return field->type == PB_STRING ? kjw_string(printer->text, bytes, size) : kjw_base64(printer->text, bytes, size);
}

KFS_INLINE int pb_put_one(pb_printer *printer, const pb_field *field, const pb_slot *slot)
{
    switch (field->type) {
    case PB_STRING:
    case PB_BYTES:
        return pb_put_bytes(printer, field, slot->bytes, slot->size);
    case PB_MESSAGE:
    case PB_GROUP:
        return pb_put_message(printer, printer->program->type + field->inner, slot->node);
    default:
        return pb_put_number(printer, field, slot->bits);
    }
}

static int pb_put_many(pb_printer *printer, const pb_field *field, const pb_slot *slot)
{
    kjw_text *text = printer->text;
    PB_TRY(kjw_char(text, '['));
    for (uint32_t i = 0; i < slot->size; i++) {
        if (i) PB_TRY(kjw_char(text, ','));
        switch (field->type) {
        case PB_STRING:
        case PB_BYTES:
            PB_TRY(pb_put_bytes(printer, field, slot->texts[i].bytes, slot->texts[i].size));
            break;
        case PB_MESSAGE:
        case PB_GROUP:
            PB_TRY(pb_put_message(printer, printer->program->type + field->inner, slot->nodes[i]));
            break;
        default:
            PB_TRY(pb_put_number(printer, field, slot->numbers[i]));
        }
    }
    return kjw_char(text, ']');
}

/* ---- maps ----------------------------------------------------------------------------------------- */

/* Compares the keys of two entries; those of an entry without one are 0 or empty. */
KFS_INLINE int pb_compare_keys(int type, const pb_slot *a, const pb_slot *b)
{
    switch (type) {
    case PB_STRING: {
        const uint32_t size = a->size < b->size ? a->size : b->size;
        const int found = size ? memcmp(a->bytes, b->bytes, size) : 0;
        return found ? found : (a->size > b->size) - (a->size < b->size);
    }
    case PB_UINT64:
    case PB_FIXED64:
        return (a->bits > b->bits) - (a->bits < b->bits);
    default:
        return ((int64_t)a->bits > (int64_t)b->bits) - ((int64_t)a->bits < (int64_t)b->bits);
    }
}

/* Sorts the entries of a map by key, merging runs; of equal keys the last is left. Returns their number. `spare` has
 * room for `count` entries. */
static uint32_t pb_sort_entries(int type, pb_node **entries, pb_node **spare, uint32_t count)
{
    for (uint32_t width = 1; width < count; width = width > count / 2 ? count : 2 * width) {
        for (uint32_t start = 0; start < count;) {
            const uint32_t middle = count - start > width ? start + width : count;
            const uint32_t stop = count - middle > width ? middle + width : count;
            uint32_t a = start, b = middle, n = start;
            while (a < middle || b < stop)
                if (b == stop ||
                    (a < middle && pb_compare_keys(type, entries[a]->slots, entries[b]->slots) <= 0))
                    spare[n++] = entries[a++];
                else
                    spare[n++] = entries[b++];
            start = stop;
        }
        memcpy(entries, spare, count * sizeof *entries);
    }
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (i && pb_compare_keys(type, entries[left - 1]->slots, entries[i]->slots) == 0) left--;
        entries[left++] = entries[i];
    }
    return left;
}

/* Puts the entries of a map in order, once for each key; 0 without memory. */
static int pb_order(const pb_type *entry, pb_slot *slot)
{
    int is_ordered = 1;
    const int type = entry->fields[0].type;
    for (uint32_t i = 1; i < slot->size && is_ordered; i++)
        is_ordered = pb_compare_keys(type, slot->nodes[i - 1]->slots, slot->nodes[i]->slots) < 0;
    if (is_ordered) return 1;
    pb_node **spare = malloc(slot->size * sizeof *spare);
    if (!spare) return 0;
    slot->size = pb_sort_entries(type, slot->nodes, spare, slot->size);
    free(spare);
    return 1;
}

static int pb_put_key(pb_printer *printer, const pb_field *key, const pb_slot *slot)
{
    kjw_text *text = printer->text;
    if (key->type == PB_STRING) return kjw_string(text, slot->bytes, slot->size);
    if (key->type == PB_BOOL) return slot->bits ? kjw_raw(text, "\"true\"", 6) : kjw_raw(text, "\"false\"", 7);
    return pb_put_quoted(text, slot->bits, key->type != PB_UINT64 && key->type != PB_FIXED64);
}

static int pb_put_map(pb_printer *printer, const pb_field *field, pb_slot *slot, int64_t cost)
{
    kjw_text *text = printer->text;
    const pb_type *entry = printer->program->type + field->inner;
    const pb_field *value = entry->fields + 1;
    if (!pb_order(entry, slot)) return KJW_NO_MEMORY;
    PB_TRY(pb_pay(printer, cost * slot->size));
    PB_TRY(kjw_char(text, '{'));
    for (uint32_t i = 0; i < slot->size; i++) {
        const pb_slot *slots = slot->nodes[i]->slots;
        if (i) PB_TRY(kjw_char(text, ','));
        PB_TRY(pb_put_key(printer, entry->fields, slots));
        PB_TRY(kjw_char(text, ':'));
        if (slots[1].set)
            PB_TRY(pb_put_one(printer, value, slots + 1));
        else if (value->type == PB_MESSAGE)
            return PB_ASK; /* an empty message */
        else
            PB_TRY(kjw_raw(text, value->missing, value->missing_size));
    }
    return kjw_char(text, '}');
}

/* ---- well-known types ----------------------------------------------------------------------------- */

/* Writes a fraction of a second with 0, 3, 6 or 9 digits. */
static int pb_put_fraction(kjw_text *text, uint32_t nanos)
{
    if (nanos == 0) return KJW_OK;
    if (!kjw_room(text, 10)) return KJW_NO_MEMORY;
    const unsigned digits = nanos % 1000000 == 0 ? 3 : nanos % 1000 == 0 ? 6 : 9;
    text->data[text->size] = '.';
    kjw_put_padded_(text->data + text->size + 1, nanos / (digits == 3 ? 1000000u : digits == 6 ? 1000u : 1u), digits);
    text->size += 1 + digits;
    return KJW_OK;
}

static int pb_put_timestamp(kjw_text *text, int64_t seconds, int64_t nanos)
{
    if (seconds < -62135596800 || seconds > 253402300799 || nanos < 0 || nanos > 999999999) return PB_ASK;
    if (!kjw_room(text, 40)) return KJW_NO_MEMORY;
    int64_t day = seconds / 86400, of_day = seconds % 86400;
    if (of_day < 0) {
        of_day += 86400;
        day--;
    }
    uint8_t *dst = text->data + text->size;
    dst[0] = '"';
    kfs_put_date(dst + 1, day);
    dst[11] = 'T';
    text->size += 12 + kjw_put_clock_(dst + 12, (uint32_t)of_day, 0, 0);
    PB_TRY(pb_put_fraction(text, (uint32_t)nanos));
    return kjw_raw(text, "Z\"", 2);
}

static int pb_put_duration(kjw_text *text, int64_t seconds, int64_t nanos)
{
    if (seconds < -315576000000 || seconds > 315576000000 || nanos < -999999999 || nanos > 999999999 ||
        (nanos < 0 && seconds > 0) || (nanos > 0 && seconds < 0))
        return PB_ASK;
    const int is_negative = seconds < 0 || nanos < 0;
    PB_TRY(is_negative ? kjw_raw(text, "\"-", 2) : kjw_char(text, '"'));
    PB_TRY(kjw_i64(text, is_negative ? -seconds : seconds));
    PB_TRY(pb_put_fraction(text, (uint32_t)(is_negative ? -nanos : nanos)));
    return kjw_raw(text, "s\"", 2);
}

/* Writes paths of names in lower case with underscores; the twin has those that are not. */
static int pb_put_field_mask(kjw_text *text, const pb_slot *paths)
{
    PB_TRY(kjw_char(text, '"'));
    for (uint32_t i = 0; i < paths->size; i++) {
        const pb_text path = paths->texts[i];
        if (!kjw_room(text, path.size + 1)) return KJW_NO_MEMORY;
        if (i) text->data[text->size++] = ',';
        for (size_t k = 0; k < path.size; k++) {
            uint8_t c = path.bytes[k];
            if (c == '_') {
                if (++k == path.size || path.bytes[k] < 'a' || path.bytes[k] > 'z') return PB_ASK;
                c = path.bytes[k] - 32;
            } else if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.'))
                return PB_ASK;
            text->data[text->size++] = c;
        }
    }
    return kjw_char(text, '"');
}

static int pb_put_value(pb_printer *printer, const pb_type *type, const pb_node *node)
{
    if (node->oneofs[0] == 0) return PB_ASK;
    const uint32_t index = node->oneofs[0] - 1;
    const pb_field *field = type->fields + index;
    const pb_slot *slot = node->slots + index;
    if (field->type == PB_ENUM) return kjw_raw(printer->text, "null", 4);
    if (field->type == PB_DOUBLE) {
        double number;
        memcpy(&number, &slot->bits, 8);
        if (!isfinite(number)) return PB_ASK;
    }
    return pb_put_one(printer, field, slot);
}

static int pb_put_special(pb_printer *printer, const pb_type *type, const pb_node *node)
{
    kjw_text *text = printer->text;
    const pb_slot *slots = node->slots;
    switch (type->special) {
    case PB_STRUCT:
        PB_TRY(pb_pay(printer, PB_CONTAINER_COST));
        return pb_put_map(printer, type->fields, (pb_slot *)slots, 0);
    case PB_LIST:
        PB_TRY(pb_pay(printer, PB_CONTAINER_COST));
        return pb_put_many(printer, type->fields, slots);
    case PB_VALUE:
        return pb_put_value(printer, type, node);
    case PB_TIMESTAMP:
        return pb_put_timestamp(text, (int64_t)slots[0].bits, (int64_t)slots[1].bits);
    case PB_DURATION:
        return pb_put_duration(text, (int64_t)slots[0].bits, (int64_t)slots[1].bits);
    case PB_FIELD_MASK:
        return pb_put_field_mask(text, slots);
    case PB_WRAPPER:
        if (slots[0].set) return pb_put_one(printer, type->fields, slots);
        return kjw_raw(text, type->fields[0].missing, type->fields[0].missing_size);
    default: /* an Any */
        return slots[0].size == 0 && slots[1].size == 0 ? kjw_raw(text, "{}", 2) : PB_ASK;
    }
}

/* ---- messages ------------------------------------------------------------------------------------- */

/* Writes a message; what is written is part of the text only if KJW_OK is returned. */
static int pb_put_message(pb_printer *printer, const pb_type *type, const pb_node *node)
{
    kjw_text *text = printer->text;
    if (type->special) return pb_put_special(printer, type, node);
    PB_TRY(pb_pay(printer, type->cost));
    const size_t start = text->size;
    for (uint32_t i = 0; i < type->count; i++) {
        const pb_field *field = type->fields + i;
        const pb_slot *slot = node->slots + i;
        const int is_there = field->shape == PB_ONE ? slot->set != 0 : slot->size != 0;
        if (!is_there) {
            if (!field->may_lack) PB_TRY(kjw_raw(text, field->name, field->name_size + field->missing_size));
            continue;
        }
        PB_TRY(kjw_raw(text, field->name, field->name_size));
        if (field->shape == PB_ONE)
            PB_TRY(pb_put_one(printer, field, slot));
        else if (field->shape == PB_MANY)
            PB_TRY(pb_put_many(printer, field, slot));
        else
            PB_TRY(pb_put_map(printer, field, (pb_slot *)slot, PB_CONTAINER_COST));
    }
    if (text->size == start) return kjw_raw(text, "{}", 2);
    text->data[start] = '{'; /* instead of the first comma */
    return kjw_char(text, '}');
}

/* Appends the JSON of a message of the program's first type to the text; PB_ASK and nothing if the twin has to. */
static int pb_json(const pb_program *program, pb_arena *arena, const uint8_t *data, size_t size, int64_t purse,
                   kjw_text *text)
{
    const size_t start = text->size;
    pb_node *node = pb_parse(program, arena, 0, data, size);
    if (node == NULL) return PB_ASK;
    pb_printer printer = {program, text, purse};
    const int result = pb_put_message(&printer, program->type, node);
    if (result) text->size = start;
    return result;
}

#endif
