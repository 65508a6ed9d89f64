/* Reads values in Avro's binary form with a program made of a schema, and writes their JSON.
 *
 * Twin: kafkafs/schemas/decoders/avro_reader.py, which has the words for what is refused here. A program refuses what its
 * twin refuses, and besides what only the twin reads: big decimals, maps that have a key twice.
 */
#ifndef KAV_AVRO_H
#define KAV_AVRO_H

#include "json_writer.h"

/* kafkafs.schemas.decoders.avro_program.StepKind */
enum {
    KAV_NULL, KAV_BOOLEAN, KAV_INT, KAV_LONG, KAV_FLOAT, KAV_DOUBLE, KAV_BYTES, KAV_STRING, KAV_FIXED, KAV_ENUM,
    KAV_UNION, KAV_ARRAY, KAV_MAP, KAV_RECORD, KAV_DATE, KAV_TIME, KAV_TIMESTAMP, KAV_LOCAL_TIMESTAMP,
    KAV_DECIMAL_BYTES, KAV_DECIMAL_FIXED, KAV_UUID_FIXED, KAV_DURATION, KAV_BIG_DECIMAL
};

/* An instruction: how one type is read. */
typedef struct {
    int32_t kind;
    int32_t is_long; /* the number has up to 64 bits, else 32 */
    int32_t size;    /* bytes of a fixed; digits after the point of a time or decimal */
    int32_t first;   /* first link: a record's fields, a union's branches, an enum's symbols, the items or values */
    int32_t count;   /* links; of a decimal that is fixed, its bytes */
    int32_t cost;    /* what a record takes from the purse */
} kav_step;

/* A type inside a type: its step, and its JSON: of a field the name with what stands around it, of an enum its symbol. */
typedef struct {
    int32_t step, text, text_size, cost;
} kav_link;

enum { KAV_DEPTH = 128, KAV_ITEM_COST = 4, KAV_CONTAINER_COST = 64 }; /* decoders/limits.py */

typedef struct {
    const kav_step *steps;
    const kav_link *links;
    const uint8_t *texts;
} kav_program;

typedef struct {
    kav_program program;
    kjw_text *text;
    const uint8_t *at, *end;
    int64_t purse;
} kav_run;

enum { KAV_REFUSED = 16 }; /* behind the results of json_writer.h */

#define KAV_CHECK(done)                      \
    do {                                     \
        const int result_ = (done);          \
        if (KFS_UNLIKELY(result_)) return result_; \
    } while (0)

/* ---- numbers ---------------------------------------------------------------------------------------- */

static __attribute__((noinline)) int kav_large_number_(kav_run *run, uint64_t *number) {
    const uint8_t *p = run->at;
    uint64_t found = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (p == run->end) return KAV_REFUSED;
        const uint8_t byte = *p++;
        if (shift == 63 && byte > 1) return KAV_REFUSED;
        found |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *number = found;
            run->at = p;
            return KJW_OK;
        }
    }
    return KAV_REFUSED;
}

KFS_INLINE int kav_long(kav_run *run, int64_t *number) {
    uint64_t found;
    if (KFS_LIKELY(run->at < run->end && *run->at < 0x80))
        found = *run->at++;
    else
        KAV_CHECK(kav_large_number_(run, &found));
    *number = (int64_t)(found >> 1) ^ -(int64_t)(found & 1);
    return KJW_OK;
}

KFS_INLINE int kav_number(kav_run *run, int is_long, int64_t *number) {
    const uint8_t *start = run->at;
    KAV_CHECK(kav_long(run, number));
    if (!is_long && (run->at - start > 5 || *number != (int32_t)*number)) return KAV_REFUSED;
    return KJW_OK;
}

/* Finds bytes behind their size, and goes to their end. */
KFS_INLINE int kav_sized(kav_run *run, const uint8_t **bytes, size_t *size) {
    int64_t stated;
    KAV_CHECK(kav_long(run, &stated));
    if (stated < 0 || stated > run->end - run->at) return KAV_REFUSED;
    *bytes = run->at;
    *size = (size_t)stated;
    run->at += stated;
    return KJW_OK;
}

KFS_INLINE int kav_pay(kav_run *run, int64_t cost) {
    run->purse -= cost;
    return run->purse < 0 ? KAV_REFUSED : KJW_OK;
}

/* ---- logical types ---------------------------------------------------------------------------------- */

/* Writes a two's complement number in big-endian order, with its point before the last `scale` digits. */
static int kav_decimal(kav_run *run, const uint8_t *bytes, size_t size, int32_t scale) {
    unsigned __int128 number = size && bytes[0] & 0x80 ? ~(unsigned __int128)0 : 0;
    uint8_t digits[48];
    size_t n = sizeof(digits);
    if (size > 16) return KAV_REFUSED;
    for (size_t i = 0; i < size; i++) number = number << 8 | bytes[i];
    const int is_negative = (int)(number >> 127);
    if (is_negative) number = 0 - number;
    while (number > UINT64_MAX) {
        digits[--n] = (uint8_t)('0' + (int)(number % 10));
        number /= 10;
    }
    for (uint64_t left = (uint64_t)number; left; left /= 10) digits[--n] = (uint8_t)('0' + left % 10);
    const size_t count = sizeof(digits) - n, after = (size_t)scale;
    kjw_text *text = run->text;
    if (!kjw_room(text, count + after + 8)) return KJW_NO_MEMORY;
    uint8_t *dst = text->data + text->size;
    *dst++ = '"';
    if (is_negative) *dst++ = '-';
    if (count > after) {
        memcpy(dst, digits + n, count - after);
        dst += count - after;
        n += count - after;
    } else {
        *dst++ = '0';
    }
    if (after) {
        const size_t shown = sizeof(digits) - n;
        *dst++ = '.';
        memset(dst, '0', after - shown);
        memcpy(dst + after - shown, digits + n, shown);
        dst += after;
    }
    *dst++ = '"';
    text->size = (size_t)(dst - text->data);
    return KJW_OK;
}

static int kav_uuid(kjw_text *text, const uint8_t *bytes) {
    if (!kjw_room(text, 38)) return KJW_NO_MEMORY;
    uint8_t *dst = text->data + text->size;
    *dst++ = '"';
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) *dst++ = '-';
        *dst++ = (uint8_t)kfs_hex_digits_[bytes[i] >> 4];
        *dst++ = (uint8_t)kfs_hex_digits_[bytes[i] & 15];
    }
    *dst++ = '"';
    text->size += 38;
    return KJW_OK;
}

static int kav_duration(kjw_text *text, const uint8_t *bytes) {
    static const char *const names[3] = {"{\"months\":", ",\"days\":", ",\"milliseconds\":"};
    for (int i = 0; i < 3; i++) {
        const uint8_t *p = bytes + 4 * i;
        const uint32_t part = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        KAV_CHECK(kjw_raw(text, names[i], strlen(names[i])));
        KAV_CHECK(kjw_i64(text, part));
    }
    return kjw_char(text, '}');
}

/* ---- values of values ------------------------------------------------------------------------------- */

static int kav_value(kav_run *run, const kav_step *step, int depth);

static __attribute__((noinline)) int kav_record(kav_run *run, const kav_step *step, int depth) {
    const kav_link *link = run->program.links + step->first, *end = link + step->count;
    if (depth >= KAV_DEPTH) return KAV_REFUSED;
    KAV_CHECK(kav_pay(run, step->cost));
    if (link == end) return kjw_raw(run->text, "{}", 2);
    for (; link < end; link++) {
        KAV_CHECK(kjw_raw(run->text, run->program.texts + link->text, (size_t)link->text_size));
        KAV_CHECK(kav_value(run, run->program.steps + link->step, depth + 1));
    }
    return kjw_char(run->text, '}');
}

/* Reads the number of items in a block, and checks that as many can follow. */
static int kav_block(kav_run *run, int is_empty, uint64_t *count) {
    int64_t stated;
    KAV_CHECK(kav_long(run, &stated));
    *count = stated < 0 ? 0 - (uint64_t)stated : (uint64_t)stated;
    if (stated < 0) KAV_CHECK(kav_long(run, &stated)); /* the size of the block, which Java does not check */
    if (!is_empty && *count > (uint64_t)(run->end - run->at)) return KAV_REFUSED;
    if (*count > (uint64_t)run->purse) return KAV_REFUSED;
    return kav_pay(run, (int64_t)*count * KAV_ITEM_COST);
}

static __attribute__((noinline)) int kav_array(kav_run *run, const kav_step *step, int depth) {
    const kav_step *item = run->program.steps + run->program.links[step->first].step;
    uint64_t count;
    if (depth >= KAV_DEPTH) return KAV_REFUSED;
    KAV_CHECK(kav_pay(run, KAV_CONTAINER_COST));
    KAV_CHECK(kjw_char(run->text, '['));
    for (int is_first = 1;;) {
        KAV_CHECK(kav_block(run, step->size, &count));
        if (!count) return kjw_char(run->text, ']');
        for (; count; count--, is_first = 0) {
            if (!is_first) KAV_CHECK(kjw_char(run->text, ','));
            KAV_CHECK(kav_value(run, item, depth + 1));
        }
    }
}

/* The keys of a map so far, by their hash: an open table of positions, 0 for a free slot. */
typedef struct {
    const uint8_t **starts;
    size_t *sizes;
    size_t slots, used;
} kav_keys;

static inline uint64_t kav_hash_(const uint8_t *bytes, size_t size) {
    uint64_t hash = 0x9e3779b97f4a7c15u ^ size;
    for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash ^ hash >> 29;
}

/* Puts a key into a slot; refuses one that is there, and one that takes many steps to place. */
static int kav_put_key_(kav_keys *keys, const uint8_t *bytes, size_t size) {
    enum { MOST_STEPS = 256 };
    size_t at = kav_hash_(bytes, size) & (keys->slots - 1);
    for (int steps = 0; steps < MOST_STEPS; steps++, at = (at + 1) & (keys->slots - 1)) {
        if (!keys->starts[at]) {
            keys->starts[at] = bytes;
            keys->sizes[at] = size;
            keys->used++;
            return KJW_OK;
        }
        if (keys->sizes[at] == size && !memcmp(keys->starts[at], bytes, size)) return KAV_REFUSED;
    }
    return KAV_REFUSED;
}

static int kav_add_key(kav_keys *keys, const uint8_t *bytes, size_t size) {
    if (2 * keys->used >= keys->slots) {
        kav_keys more = {NULL, NULL, keys->slots ? 4 * keys->slots : 16, 0};
        int result = KJW_OK;
        more.starts = calloc(more.slots, sizeof(*more.starts));
        more.sizes = calloc(more.slots, sizeof(*more.sizes));
        if (!more.starts || !more.sizes) result = KJW_NO_MEMORY;
        for (size_t i = 0; !result && i < keys->slots; i++)
            if (keys->starts[i]) result = kav_put_key_(&more, keys->starts[i], keys->sizes[i]);
        free(keys->starts);
        free(keys->sizes);
        *keys = more;
        KAV_CHECK(result);
    }
    return kav_put_key_(keys, bytes, size);
}

static int kav_entries_(kav_run *run, const kav_step *value, int depth, kav_keys *keys) {
    uint64_t count;
    for (int is_first = 1;;) {
        KAV_CHECK(kav_block(run, 0, &count));
        if (!count) return kjw_char(run->text, '}');
        for (; count; count--, is_first = 0) {
            const uint8_t *key;
            size_t size;
            KAV_CHECK(kav_sized(run, &key, &size));
            KAV_CHECK(kav_add_key(keys, key, size));
            if (!is_first) KAV_CHECK(kjw_char(run->text, ','));
            KAV_CHECK(kjw_string(run->text, key, size));
            KAV_CHECK(kjw_char(run->text, ':'));
            KAV_CHECK(kav_value(run, value, depth + 1));
        }
    }
}

static __attribute__((noinline)) int kav_map(kav_run *run, const kav_step *step, int depth) {
    kav_keys keys = {NULL, NULL, 0, 0};
    if (depth >= KAV_DEPTH) return KAV_REFUSED;
    KAV_CHECK(kav_pay(run, KAV_CONTAINER_COST));
    KAV_CHECK(kjw_char(run->text, '{'));
    int result = kav_entries_(run, run->program.steps + run->program.links[step->first].step, depth, &keys);
    free(keys.starts);
    free(keys.sizes);
    return result;
}

static int kav_fixed(kav_run *run, size_t size, const uint8_t **bytes) {
    if (size > (size_t)(run->end - run->at)) return KAV_REFUSED;
    *bytes = run->at;
    run->at += size;
    return KJW_OK;
}

static int kav_value(kav_run *run, const kav_step *step, int depth) {
    const uint8_t *bytes;
    size_t size;
    int64_t number;
    for (;;) {
        switch (step->kind) {
        case KAV_NULL:
            return kjw_raw(run->text, "null", 4);
        case KAV_BOOLEAN:
            KAV_CHECK(kav_fixed(run, 1, &bytes));
            return *bytes == 1 ? kjw_raw(run->text, "true", 4) : kjw_raw(run->text, "false", 5);
        case KAV_INT:
        case KAV_LONG:
            KAV_CHECK(kav_number(run, step->kind == KAV_LONG, &number));
            return kjw_i64(run->text, number);
        case KAV_FLOAT: {
            float value;
            KAV_CHECK(kav_fixed(run, 4, &bytes));
            memcpy(&value, bytes, 4);
            return kjw_float(run->text, value);
        }
        case KAV_DOUBLE: {
            double value;
            KAV_CHECK(kav_fixed(run, 8, &bytes));
            memcpy(&value, bytes, 8);
            return kjw_double(run->text, value);
        }
        case KAV_STRING:
            KAV_CHECK(kav_sized(run, &bytes, &size));
            return kjw_string(run->text, bytes, size);
        case KAV_BYTES:
            KAV_CHECK(kav_sized(run, &bytes, &size));
            return kjw_base64(run->text, bytes, size);
        case KAV_FIXED:
            KAV_CHECK(kav_fixed(run, (size_t)step->size, &bytes));
            return kjw_base64(run->text, bytes, (size_t)step->size);
        case KAV_ENUM: {
            KAV_CHECK(kav_long(run, &number));
            if (number < 0 || number >= step->count) return KAV_REFUSED;
            const kav_link *symbol = run->program.links + step->first + number;
            KAV_CHECK(kav_pay(run, symbol->cost));
            return kjw_raw(run->text, run->program.texts + symbol->text, (size_t)symbol->text_size);
        }
        case KAV_UNION:
            KAV_CHECK(kav_long(run, &number));
            if (number < 0 || number >= step->count) return KAV_REFUSED;
            step = run->program.steps + run->program.links[step->first + number].step;
            continue;
        case KAV_ARRAY:
            return kav_array(run, step, depth);
        case KAV_MAP:
            return kav_map(run, step, depth);
        case KAV_RECORD:
            return kav_record(run, step, depth);
        case KAV_DATE:
            KAV_CHECK(kav_number(run, 0, &number));
            return kjw_date(run->text, number);
        case KAV_TIME:
            KAV_CHECK(kav_number(run, step->is_long, &number));
            return kjw_time(run->text, number, (unsigned)step->size);
        case KAV_TIMESTAMP:
        case KAV_LOCAL_TIMESTAMP:
            KAV_CHECK(kav_number(run, 1, &number));
            return kjw_timestamp(run->text, number, (unsigned)step->size, step->kind == KAV_TIMESTAMP);
        case KAV_DECIMAL_BYTES:
            KAV_CHECK(kav_sized(run, &bytes, &size));
            return kav_decimal(run, bytes, size, step->size);
        case KAV_DECIMAL_FIXED:
            KAV_CHECK(kav_fixed(run, (size_t)step->count, &bytes));
            return kav_decimal(run, bytes, (size_t)step->count, step->size);
        case KAV_UUID_FIXED:
            KAV_CHECK(kav_fixed(run, 16, &bytes));
            return kav_uuid(run->text, bytes);
        case KAV_DURATION:
            KAV_CHECK(kav_fixed(run, 12, &bytes));
            return kav_duration(run->text, bytes);
        default:
            return KAV_REFUSED;
        }
    }
}

/* Appends the JSON of a value; *left is the number of bytes behind it. Without a value the text is as before. */
static int kav_json(const kav_program *program, const uint8_t *data, size_t size, int64_t purse, kjw_text *text,
                    size_t *left) {
    kav_run run = {*program, text, data, data + size, purse};
    const size_t before = text->size;
    const int result = kav_value(&run, program->steps, 0);
    if (result) text->size = before;
    *left = (size_t)(run.end - run.at);
    return result;
}

#endif
