/* Reads values in Avro's binary form into columns, with a program made of the writer's schema and the column's.
 *
 * Twin: kafkafs/forms/arrow/typed/avro_types.py, which makes the same column of each value's JSON. A program refuses what its twin
 * refuses, and besides what only the twin reads: decimals of more than 32 bytes, maps that have a key twice.
 */
#ifndef KAC_AVRO_COLUMNS_H
#define KAC_AVRO_COLUMNS_H

#include "avro.h"
#include "columns.h"

/* kafkafs.forms.arrow.typed.avro_program.ColumnStep */
enum {
    KAC_REFUSED, KAC_NULL, KAC_BOOLEAN, KAC_NUMBER, KAC_NUMBER_AS_FLOAT, KAC_NUMBER_AS_DOUBLE, KAC_TIME, KAC_FLOAT,
    KAC_FLOAT_AS_DOUBLE, KAC_DOUBLE, KAC_STRING, KAC_BYTES, KAC_FIXED, KAC_ENUM, KAC_UNION, KAC_ARRAY, KAC_MAP,
    KAC_RECORD, KAC_DECIMAL, KAC_DURATION, KAC_TEXT, KAC_QUOTED, KAC_SKIP, KAC_CONSTANT, KAC_CONSTANT_LIST,
    KAC_CONSTANT_STRUCT
};

/* An instruction: how one type is read, and into which column. */
typedef struct {
    int32_t kind, column;
    int32_t is_long; /* the number on the wire has up to 64 bits, else 32; the decimal is fixed */
    int32_t size;    /* bytes of a value in the column, or of a fixed; whether the items of an array may have no bytes */
    int32_t first;   /* first link: fields, branches, symbols, items; the step that writes JSON */
    int32_t count;   /* links; of a decimal that is fixed, its bytes */
    int32_t cost;    /* what it takes from the purse of the JSON */
    int32_t bytes;   /* where its bytes are in the texts: of a constant; of a time or decimal the bound that it is below */
    int32_t bytes_size;
} kac_step;

/* A type inside a type: its step; of an enum its symbol. */
typedef struct {
    int32_t step, text, text_size;
} kac_link;

typedef struct {
    const kac_step *steps;
    const kac_link *links;
    const uint8_t *texts;
    kav_program json; /* writes what columns show as JSON, and reads what no column shows */
    int32_t root;
    int64_t purse;
} kac_program;

typedef struct {
    kav_run wire;
    const kac_program *program;
    kcl_columns *columns;
} kac_run;

static int kac_value(kac_run *run, const kac_step *step, int depth);

KFS_INLINE int kac_link_value_(kac_run *run, const kac_link *link, int depth) {
    return kac_value(run, run->program->steps + link->step, depth);
}

static __attribute__((noinline)) int kac_record(kac_run *run, const kac_step *step, int depth) {
    const kac_link *link = run->program->links + step->first, *end = link + step->count;
    if (depth >= KAV_DEPTH) return KAV_REFUSED;
    KAV_CHECK(kav_pay(&run->wire, step->cost));
    for (; link < end; link++) KAV_CHECK(kac_link_value_(run, link, depth + 1));
    return kcl_end_row(run->columns->columns + step->column);
}

static __attribute__((noinline)) int kac_array(kac_run *run, const kac_step *step, int depth) {
    const kac_step *item = run->program->steps + run->program->links[step->first].step;
    uint64_t count;
    if (depth >= KAV_DEPTH) return KAV_REFUSED;
    KAV_CHECK(kav_pay(&run->wire, KAV_CONTAINER_COST));
    for (;;) {
        KAV_CHECK(kav_block(&run->wire, step->size, &count));
        if (!count) return kcl_end_list(run->columns->columns + step->column);
        KAV_CHECK(kcl_pay_items(run->columns, step->column, count));
        for (; count; count--) KAV_CHECK(kac_value(run, item, depth + 1));
    }
}

/* ---- maps ------------------------------------------------------------------------------------------- */

enum { KAC_FEW_KEYS = 8 }; /* are compared one by one */

typedef struct {
    const uint8_t *starts[KAC_FEW_KEYS];
    size_t sizes[KAC_FEW_KEYS];
    unsigned count; /* of these */
    kav_keys others;
} kac_keys;

/* Keeps the key of an entry; refuses one that is there. */
static int kac_add_key_(kac_keys *keys, const uint8_t *bytes, size_t size) {
    if (KFS_LIKELY(keys->count < KAC_FEW_KEYS)) {
        for (unsigned at = 0; at < keys->count; at++)
            if (keys->sizes[at] == size && !memcmp(keys->starts[at], bytes, size)) return KAV_REFUSED;
        keys->starts[keys->count] = bytes;
        keys->sizes[keys->count++] = size;
        return KJW_OK;
    }
    if (!keys->others.used)
        for (unsigned at = 0; at < keys->count; at++)
            KAV_CHECK(kav_add_key(&keys->others, keys->starts[at], keys->sizes[at]));
    return kav_add_key(&keys->others, bytes, size);
}

static int kac_entries_(kac_run *run, const kac_step *step, int depth, kac_keys *keys) {
    kcl_column *entries = run->columns->columns + step->column + 1, *names = entries + 1;
    const kac_step *value = run->program->steps + run->program->links[step->first].step;
    uint64_t count;
    for (;;) {
        KAV_CHECK(kav_block(&run->wire, 0, &count));
        if (!count) return kcl_end_list(run->columns->columns + step->column);
        KAV_CHECK(kcl_pay_items(run->columns, step->column, count));
        for (; count; count--) {
            const uint8_t *key;
            size_t size;
            KAV_CHECK(kav_sized(&run->wire, &key, &size));
            if (!kfs_utf8_valid(key, size)) return KAV_REFUSED;
            KAV_CHECK(kac_add_key_(keys, key, size));
            KAV_CHECK(kcl_put_bytes(names, key, size));
            KAV_CHECK(kac_value(run, value, depth + 1));
            KAV_CHECK(kcl_end_row(entries));
        }
    }
}

static __attribute__((noinline)) int kac_map(kac_run *run, const kac_step *step, int depth) {
    kac_keys keys;
    if (depth >= KAV_DEPTH) return KAV_REFUSED;
    KAV_CHECK(kav_pay(&run->wire, KAV_CONTAINER_COST));
    keys.count = 0;
    memset(&keys.others, 0, sizeof(keys.others));
    const int result = kac_entries_(run, step, depth, &keys);
    free(keys.others.starts);
    free(keys.others.sizes);
    return result;
}

/* ---- decimals, durations, JSON ---------------------------------------------------------------------- */

/* Appends a two's complement number in big-endian order; refuses one that has more digits than the column's type. */
static int kac_decimal(kac_run *run, const kac_step *step, const uint8_t *bytes, size_t size) {
    enum { MOST = 32 };
    const uint8_t *bound = run->program->texts + step->bytes; /* little-endian, as many bytes as the column's values */
    const size_t width = (size_t)step->size;
    const uint8_t sign = size && bytes[0] & 0x80 ? 0xff : 0;
    uint8_t number[MOST], absolute[MOST];
    while (size > 1 && bytes[0] == sign && (bytes[1] & 0x80) == (sign & 0x80)) {
        bytes++;
        size--;
    }
    if (size > width) return KAV_REFUSED;
    memset(number, sign, sizeof(number));
    for (size_t i = 0; i < size; i++) number[i] = bytes[size - 1 - i];
    unsigned carry = 1;
    for (size_t i = 0; i < width; i++) {
        carry += (uint8_t)~number[i];
        absolute[i] = sign ? (uint8_t)carry : number[i];
        carry >>= 8;
    }
    size_t at = width - 1;
    while (at && absolute[at] == bound[at]) at--;
    if (absolute[at] >= bound[at]) return KAV_REFUSED;
    return kcl_put_fixed(run->columns->columns + step->column, number, width);
}

/* Appends the months, days and milliseconds of a duration. */
static int kac_duration(kac_run *run, const kac_step *step, const uint8_t *bytes) {
    kcl_column *whole = run->columns->columns + step->column;
    for (int i = 0; i < 3; i++) KAV_CHECK(kcl_put_fixed(whole + 1 + i, bytes + 4 * i, 4));
    return kcl_end_row(whole);
}

/* Appends the JSON of a value, or only what stands between its quotes. */
static int kac_text(kac_run *run, const kac_step *step, int depth) {
    kcl_column *column = run->columns->columns + step->column;
    const size_t before = column->data.size;
    run->wire.text = &column->data;
    KAV_CHECK(kav_value(&run->wire, run->program->json.steps + step->first, depth));
    if (step->kind == KAC_QUOTED) {
        const size_t size = column->data.size - before;
        if (size < 2) return KAV_REFUSED;
        memmove(column->data.data + before, column->data.data + before + 1, size - 2);
        column->data.size -= 2;
    }
    return kcl_end_bytes(column);
}

/* Reads a value that no column shows, with all checks: the writer's text is made and dropped. */
static int kac_skip(kac_run *run, const kac_step *step, int depth) {
    kjw_text dropped = {NULL, 0, 0};
    run->wire.text = &dropped;
    const int result = kav_value(&run->wire, run->program->json.steps + step->first, depth);
    kjw_free(&dropped);
    return result;
}

/* ---- values ----------------------------------------------------------------------------------------- */

/* Appends what the reader's schema has for a field that the writer's does not have. */
static int kac_constant(kac_run *run, const kac_step *step) {
    const uint8_t *bytes = run->program->texts + step->bytes;
    const size_t size = (size_t)step->bytes_size;
    kcl_column *column = run->columns->columns + step->column;
    KAV_CHECK(kav_pay(&run->wire, (int64_t)size));
    switch (run->columns->shapes[step->column].kind) {
    case KCL_BOOLEAN:
        return kcl_put_boolean(column, size && *bytes);
    case KCL_BYTES:
        return kcl_put_bytes(column, bytes, size);
    default:
        return kcl_put_fixed(column, bytes, size);
    }
}

static int kac_constants_(kac_run *run, const kac_step *step, int depth) {
    const kac_link *link = run->program->links + step->first, *end = link + step->count;
    kcl_column *column = run->columns->columns + step->column;
    if (depth >= KAV_DEPTH) return KAV_REFUSED;
    if (step->kind == KAC_CONSTANT_LIST) KAV_CHECK(kcl_pay_items(run->columns, step->column, (uint64_t)step->count));
    for (; link < end; link++) KAV_CHECK(kac_link_value_(run, link, depth + 1));
    return step->kind == KAC_CONSTANT_LIST ? kcl_end_list(column) : kcl_end_row(column);
}

static int kac_value(kac_run *run, const kac_step *step, int depth) {
    const uint8_t *bytes;
    size_t size;
    int64_t number;
    double wide;
    float narrow;
    for (;;) {
        kcl_column *column = run->columns->columns + step->column;
        switch (step->kind) {
        case KAC_NULL:
            return kcl_put_null(run->columns, step->column);
        case KAC_BOOLEAN:
            KAV_CHECK(kav_fixed(&run->wire, 1, &bytes));
            return kcl_put_boolean(column, *bytes == 1);
        case KAC_NUMBER:
        case KAC_TIME: {
            KAV_CHECK(kav_number(&run->wire, step->is_long, &number));
            if (step->kind == KAC_TIME) {
                int64_t bound;
                memcpy(&bound, run->program->texts + step->bytes, 8);
                if (number < 0 || number >= bound) return KAV_REFUSED;
            }
            if (step->size == 8) return kcl_put_fixed(column, &number, 8);
            const int32_t half = (int32_t)number;
            return kcl_put_fixed(column, &half, 4);
        }
        case KAC_NUMBER_AS_FLOAT:
            KAV_CHECK(kav_number(&run->wire, step->is_long, &number));
            narrow = (float)(double)number;
            return kcl_put_fixed(column, &narrow, 4);
        case KAC_NUMBER_AS_DOUBLE:
            KAV_CHECK(kav_number(&run->wire, step->is_long, &number));
            wide = (double)number;
            return kcl_put_fixed(column, &wide, 8);
        case KAC_FLOAT:
            KAV_CHECK(kav_fixed(&run->wire, 4, &bytes));
            return kcl_put_fixed(column, bytes, 4);
        case KAC_FLOAT_AS_DOUBLE:
            KAV_CHECK(kav_fixed(&run->wire, 4, &bytes));
            memcpy(&narrow, bytes, 4);
            wide = narrow;
            return kcl_put_fixed(column, &wide, 8);
        case KAC_DOUBLE:
            KAV_CHECK(kav_fixed(&run->wire, 8, &bytes));
            return kcl_put_fixed(column, bytes, 8);
        case KAC_STRING:
            KAV_CHECK(kav_sized(&run->wire, &bytes, &size));
            if (!kfs_utf8_valid(bytes, size)) return KAV_REFUSED;
            return kcl_put_bytes(column, bytes, size);
        case KAC_BYTES:
            KAV_CHECK(kav_sized(&run->wire, &bytes, &size));
            return kcl_put_bytes(column, bytes, size);
        case KAC_FIXED:
            KAV_CHECK(kav_fixed(&run->wire, (size_t)step->size, &bytes));
            if (run->columns->shapes[step->column].kind == KCL_BYTES)
                return kcl_put_bytes(column, bytes, (size_t)step->size);
            return kcl_put_fixed(column, bytes, (size_t)step->size);
        case KAC_ENUM: {
            KAV_CHECK(kav_long(&run->wire, &number));
            if (number < 0 || number >= step->count) return KAV_REFUSED;
            const kac_link *symbol = run->program->links + step->first + number;
            KAV_CHECK(kav_pay(&run->wire, symbol->text_size));
            return kcl_put_bytes(column, run->program->texts + symbol->text, (size_t)symbol->text_size);
        }
        case KAC_UNION:
            KAV_CHECK(kav_long(&run->wire, &number));
            if (number < 0 || number >= step->count) return KAV_REFUSED;
            step = run->program->steps + run->program->links[step->first + number].step;
            continue;
        case KAC_ARRAY:
            return kac_array(run, step, depth);
        case KAC_MAP:
            return kac_map(run, step, depth);
        case KAC_RECORD:
            return kac_record(run, step, depth);
        case KAC_DECIMAL:
            if (step->is_long) {
                size = (size_t)step->count;
                KAV_CHECK(kav_fixed(&run->wire, size, &bytes));
            } else
                KAV_CHECK(kav_sized(&run->wire, &bytes, &size));
            return kac_decimal(run, step, bytes, size);
        case KAC_DURATION:
            KAV_CHECK(kav_fixed(&run->wire, 12, &bytes));
            return kac_duration(run, step, bytes);
        case KAC_TEXT:
        case KAC_QUOTED:
            return kac_text(run, step, depth);
        case KAC_SKIP:
            return kac_skip(run, step, depth);
        case KAC_CONSTANT:
            return kac_constant(run, step);
        case KAC_CONSTANT_LIST:
        case KAC_CONSTANT_STRUCT:
            return kac_constants_(run, step, depth);
        default:
            return KAV_REFUSED;
        }
    }
}

/* Appends a value to the columns; the caller takes back what was begun without one. */
static int kac_read(const void *made, kcl_columns *columns, void *unused, const uint8_t *data, size_t size) {
    const kac_program *program = made;
    kac_run run = {{program->json, NULL, data, data + size, program->purse}, program, columns};
    const int result = kac_value(&run, program->steps + program->root, 0);
    (void)unused;
    if (result) return result;
    return run.wire.at == run.wire.end ? KJW_OK : KAV_REFUSED;
}

#endif
