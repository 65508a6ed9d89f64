/* Keys, values or headers of some records gathered as Arrow columns: bytes with offsets. */
#ifndef KFS_GATHER_H
#define KFS_GATHER_H

#include "records.h"

enum { KFS_GATHER_KEY, KFS_GATHER_VALUE };

typedef struct {
    const kfs_record *records;
    size_t n;
    const int64_t *indices;
    size_t count;
    const uint8_t *arena;
    size_t arena_size;
    int field;
} kfs_gather;

static inline void kfs_gather_field(const kfs_gather *of, size_t i, int64_t *start, int32_t *size) {
    const kfs_record *record = of->records + of->indices[i];
    int is_key = of->field == KFS_GATHER_KEY;
    *start = is_key ? record->key_start : record->value_start;
    *size = is_key ? record->key_size : record->value_size;
}

/* Computes the total of bytes and the number of nulls; returns 0 if an index or a field is out of bounds. */
static int kfs_gather_size(const kfs_gather *of, int64_t *total, size_t *nulls) {
    int64_t sum = 0;
    size_t none = 0;
    for (size_t i = 0; i < of->count; i++) {
        int64_t start;
        int32_t size;
        if (of->indices[i] < 0 || of->indices[i] >= (int64_t)of->n) return 0;
        kfs_gather_field(of, i, &start, &size);
        if (size < 0) {
            none++;
            continue;
        }
        if (start < 0 || start > (int64_t)of->arena_size || size > (int64_t)of->arena_size - start) return 0;
        sum += size;
    }
    *total = sum;
    *nulls = none;
    return 1;
}

/* Fills count + 1 offsets, `total` bytes, and the validity bits if there is room for them. */
static void kfs_gather_fill(const kfs_gather *of, int64_t total, int32_t *offsets, uint8_t *data, uint8_t *bits) {
    enum { SHORT = 16 };
    int64_t at = 0;
    for (size_t i = 0; i < of->count; i++) {
        int64_t start;
        int32_t size;
        kfs_gather_field(of, i, &start, &size);
        offsets[i] = (int32_t)at;
        if (size < 0) continue;
        if (bits) bits[i >> 3] |= (uint8_t)(1 << (i & 7));
        /* Excess bytes of this copy are overwritten by the next. */
        if (size <= SHORT && at + SHORT <= total && start + SHORT <= (int64_t)of->arena_size)
            memcpy(data + at, of->arena + start, SHORT);
        else
            memcpy(data + at, of->arena + start, (size_t)size);
        at += size;
    }
    offsets[of->count] = (int32_t)at;
}

/* ---- headers: a list of keys and values for each record, null without headers ---- */

typedef struct {
    int64_t headers, key_bytes, value_bytes;
    size_t no_headers, null_values;
} kfs_header_sums;

typedef struct {
    int32_t *lists, *keys, *values; /* offsets; one more than entries */
    uint8_t *key_data, *value_data;
    uint8_t *list_bits, *value_bits; /* NULL without a null */
} kfs_header_columns;

/* Walks all headers, and fills the columns if given. Returns 0 if something is out of bounds. */
static int kfs_gather_headers(const kfs_gather *of, kfs_header_sums *sums, const kfs_header_columns *to) {
    kfs_header_sums sum = {0};
    for (size_t i = 0; i < of->count; i++) {
        if (of->indices[i] < 0 || of->indices[i] >= (int64_t)of->n) return 0;
        const kfs_record *record = of->records + of->indices[i];
        int64_t start = record->headers_start, size = record->headers_size;
        if (to) to->lists[i] = (int32_t)sum.headers;
        if (record->headers_count <= 0) {
            sum.no_headers++;
            continue;
        }
        if (start < 0 || size < 0 || start > (int64_t)of->arena_size || size > (int64_t)of->arena_size - start) return 0;
        if (to && to->list_bits) to->list_bits[i >> 3] |= (uint8_t)(1 << (i & 7));
        const uint8_t *p = of->arena + start, *end = p + size;
        for (int32_t left = record->headers_count; left > 0; left--, sum.headers++) {
            int32_t key, value;
            if (!(p = kfs_varint(p, end, &key)) || key < 0 || key > end - p) return 0;
            const uint8_t *key_at = p;
            p += key;
            if (!(p = kfs_varint(p, end, &value)) || value > end - p) return 0;
            if (to) {
                int64_t at = sum.headers;
                to->keys[at] = (int32_t)sum.key_bytes;
                to->values[at] = (int32_t)sum.value_bytes;
                memcpy(to->key_data + sum.key_bytes, key_at, (size_t)key);
                if (value >= 0 && to->value_bits) to->value_bits[at >> 3] |= (uint8_t)(1 << (at & 7));
                if (value > 0) memcpy(to->value_data + sum.value_bytes, p, (size_t)value);
            }
            sum.key_bytes += key;
            if (value > 0) sum.value_bytes += value, p += value;
            sum.null_values += value < 0;
        }
    }
    if (to) {
        to->lists[of->count] = (int32_t)sum.headers;
        to->keys[sum.headers] = (int32_t)sum.key_bytes;
        to->values[sum.headers] = (int32_t)sum.value_bytes;
    }
    *sums = sum;
    return 1;
}

#endif
