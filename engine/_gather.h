/* Keys or values of some records as one run of bytes with bounds between them, as Arrow lays out binary columns. */
#ifndef KFS_GATHER_H
#define KFS_GATHER_H

#include "_records.h"

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

/* The bytes of all together and how many are null; 0 when an index or a field lies outside. */
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

/* Fills count + 1 offsets, `total` bytes, and the bits of those that are not null if there is room for bits. */
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
        /* What is copied too much here, the next one overwrites. */
        if (size <= SHORT && at + SHORT <= total && start + SHORT <= (int64_t)of->arena_size)
            memcpy(data + at, of->arena + start, SHORT);
        else
            memcpy(data + at, of->arena + start, (size_t)size);
        at += size;
    }
    offsets[of->count] = (int32_t)at;
}

#endif
