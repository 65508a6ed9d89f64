/* Log compaction on columns: keys into a table of hashes, and records back into bytes.
 *
 * A slot of the table has a key's MD5, 16 bytes, and its offset, big-endian; all zeros is empty.
 * engine/coding/hashed_slots.py says which slots belong to a hash.
 */
#ifndef KFS_COMPACTION_H
#define KFS_COMPACTION_H

#include "records.h"

enum { KFS_SLOT = 24, KFS_DIGEST = 16, KFS_LAST_PROBE = KFS_DIGEST - 4 };

/* ---- MD5 ---- */

static const uint32_t kfs_md5_sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};
static const uint8_t kfs_md5_shifts[16] = {7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21};

static void kfs_md5_block(uint32_t state[4], const uint8_t *p) {
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], words[16];
    for (int i = 0; i < 16; i++) words[i] = kfs_le32(p + 4 * i);
#pragma GCC unroll 64
    for (int i = 0; i < 64; i++) {
        uint32_t mixed;
        int word;
        if (i < 16) mixed = (b & c) | (~b & d), word = i;
        else if (i < 32) mixed = (d & b) | (~d & c), word = (5 * i + 1) & 15;
        else if (i < 48) mixed = b ^ c ^ d, word = (3 * i + 5) & 15;
        else mixed = c ^ (b | ~d), word = (7 * i) & 15;
        int shift = kfs_md5_shifts[(i >> 4) * 4 + (i & 3)];
        uint32_t sum = a + mixed + kfs_md5_sines[i] + words[word];
        a = d, d = c, c = b;
        b += sum << shift | sum >> (32 - shift);
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
}

static void kfs_md5(const uint8_t *p, size_t n, uint8_t digest[KFS_DIGEST]) {
    uint32_t state[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    uint8_t tail[128] = {0};
    uint64_t bits = (uint64_t)n * 8;
    for (; n >= 64; p += 64, n -= 64) kfs_md5_block(state, p);
    size_t padded = n < 56 ? 64 : 128;
    if (n) memcpy(tail, p, n);
    tail[n] = 0x80;
    for (int i = 0; i < 8; i++) tail[padded - 8 + i] = (uint8_t)(bits >> (8 * i));
    kfs_md5_block(state, tail);
    if (padded == 128) kfs_md5_block(state, tail + 64);
    for (int i = 0; i < KFS_DIGEST; i++) digest[i] = (uint8_t)(state[i >> 2] >> (8 * (i & 3)));
}

/* ---- the table ---- */

/* Finds the slot of a hash, or the empty slot for it (see *found); NULL without either. */
static uint8_t *kfs_find_slot(uint8_t *slots, size_t count, const uint8_t *digest, int *found) {
    static const uint8_t empty[KFS_DIGEST];
    for (size_t attempt = 0; attempt < count + KFS_LAST_PROBE; attempt++) {
        size_t at = attempt < KFS_LAST_PROBE ? attempt : KFS_LAST_PROBE;
        size_t probe = (kfs_be32(digest + at) & 0x7fffffff) + (attempt - at);
        uint8_t *slot = slots + probe % count * KFS_SLOT;
        *found = memcmp(slot, digest, KFS_DIGEST) == 0;
        if (*found || memcmp(slot, empty, KFS_DIGEST) == 0) return slot;
    }
    return NULL;
}

static inline int kfs_key_lies_in(const kfs_record *record, size_t size) {
    return record->key_start >= 0 && (uint64_t)record->key_start <= size &&
           (uint64_t)record->key_size <= size - (uint64_t)record->key_start;
}

/* ---- the hashes of several keys at once ---- */

enum { KFS_LANES = 8, KFS_SHORT_KEY = 55 }; /* a longer key has more than one block */

typedef uint32_t kfs_lanes __attribute__((vector_size(4 * KFS_LANES)));

/* One record with a key in each lane. */
typedef struct {
    size_t records[KFS_LANES];
    uint8_t digests[KFS_LANES][KFS_DIGEST];
    int count;
} kfs_keys;

#define KFS_MD5_OF_LANES(WORDS, STATE)                                                                            \
    do {                                                                                                          \
        kfs_lanes a = STATE[0], b = STATE[1], c = STATE[2], d = STATE[3];                                         \
        _Pragma("GCC unroll 64") for (int i = 0; i < 64; i++) {                                                   \
            kfs_lanes mixed = i < 16 ? (b & c) | (~b & d) : i < 32 ? (d & b) | (~d & c) : i < 48 ? b ^ c ^ d : c ^ (b | ~d); \
            int word = i < 16 ? i : i < 32 ? (5 * i + 1) & 15 : i < 48 ? (3 * i + 5) & 15 : (7 * i) & 15;         \
            int shift = kfs_md5_shifts[(i >> 4) * 4 + (i & 3)];                                                   \
            kfs_lanes sum = a + mixed + kfs_md5_sines[i] + WORDS[word];                                           \
            a = d, d = c, c = b;                                                                                  \
            b += sum << shift | sum >> (32 - shift);                                                              \
        }                                                                                                         \
        STATE[0] += a, STATE[1] += b, STATE[2] += c, STATE[3] += d;                                               \
    } while (0)

static void kfs_md5_lanes(const kfs_lanes words[16], kfs_lanes state[4]) { KFS_MD5_OF_LANES(words, state); }

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void kfs_md5_lanes_avx2(const kfs_lanes words[16], kfs_lanes state[4]) {
    KFS_MD5_OF_LANES(words, state);
}
#else
#define kfs_md5_lanes_avx2 kfs_md5_lanes
#endif

/* Hashes the keys of short records: one block each, padded as MD5 asks. */
static void kfs_md5_of_short(const kfs_record *records, const uint8_t *arena, kfs_keys *keys) {
    union {
        kfs_lanes lanes[16];
        uint32_t words[16][KFS_LANES];
    } block;
    union {
        kfs_lanes lanes[4];
        uint32_t words[4][KFS_LANES];
    } state;
    static const uint32_t start[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    for (int lane = 0; lane < keys->count; lane++) {
        const kfs_record *record = records + keys->records[lane];
        uint8_t padded[64] = {0};
        size_t size = (size_t)record->key_size;
        memcpy(padded, arena + record->key_start, size);
        padded[size] = 0x80;
        padded[56] = (uint8_t)(size << 3);
        padded[57] = (uint8_t)(size >> 5);
        for (int word = 0; word < 16; word++) block.words[word][lane] = kfs_le32(padded + 4 * word);
    }
    for (int lane = keys->count; lane < KFS_LANES; lane++)
        for (int word = 0; word < 16; word++) block.words[word][lane] = 0;
    for (int i = 0; i < 4; i++)
        for (int lane = 0; lane < KFS_LANES; lane++) state.words[i][lane] = start[i];
    (kfs_has_avx2 ? kfs_md5_lanes_avx2 : kfs_md5_lanes)(block.lanes, state.lanes);
    for (int lane = 0; lane < keys->count; lane++)
        for (int i = 0; i < KFS_DIGEST; i++)
            keys->digests[lane][i] = (uint8_t)(state.words[i >> 2][lane] >> (8 * (i & 3)));
}

/* Hashes the next keys of records at `start_offset` or above, from *at on, and fetches their slots into the cache;
 * returns 0 for a bad table. A long key comes alone. */
static int kfs_next_keys(const uint8_t *slots, size_t count, const kfs_record *records, size_t n, size_t *at,
                         int64_t start_offset, const uint8_t *arena, size_t size, kfs_keys *keys) {
    keys->count = 0;
    for (; *at < n && keys->count < KFS_LANES; ++*at) {
        const kfs_record *record = records + *at;
        if (record->key_size < 0 || record->offset < start_offset) continue;
        if (!kfs_key_lies_in(record, size)) return 0;
        if (record->key_size > KFS_SHORT_KEY) {
            if (keys->count) break;
            keys->records[keys->count++] = (*at)++;
            kfs_md5(arena + record->key_start, (size_t)record->key_size, keys->digests[0]);
            goto fetch;
        }
        keys->records[keys->count++] = *at;
    }
    if (keys->count) kfs_md5_of_short(records, arena, keys);
fetch:
    for (int key = 0; key < keys->count; key++)
        __builtin_prefetch(slots + (kfs_be32(keys->digests[key]) & 0x7fffffff) % count * KFS_SLOT);
    return 1;
}

/* Puts keys while fewer than `limit` slots are used; returns the number of records processed, -1 for a bad
 * table. The next keys are hashed while the slots of the last ones arrive. */
static int64_t kfs_put_keys(uint8_t *slots, size_t count, int64_t *taken, int64_t limit, const kfs_record *records,
                            size_t n, const uint8_t *arena, size_t size, int64_t start_offset, int64_t *latest) {
    kfs_keys both[2], *keys = both, *next = both + 1, *swap;
    size_t at = 0;
    int found;
    if (!kfs_next_keys(slots, count, records, n, &at, start_offset, arena, size, keys)) return -1;
    for (; keys->count; swap = keys, keys = next, next = swap) {
        if (!kfs_next_keys(slots, count, records, n, &at, start_offset, arena, size, next)) return -1;
        for (int key = 0; key < keys->count; key++) {
            const kfs_record *record = records + keys->records[key];
            uint8_t *slot = *taken < limit ? kfs_find_slot(slots, count, keys->digests[key], &found) : NULL;
            if (slot == NULL) return (int64_t)keys->records[key];
            if (!found) {
                memcpy(slot, keys->digests[key], KFS_DIGEST);
                *taken += 1;
            }
            uint64_t offset = __builtin_bswap64((uint64_t)record->offset);
            memcpy(slot + KFS_DIGEST, &offset, 8);
            *latest = record->offset;
        }
    }
    return (int64_t)n;
}

/* Writes the offset of each record's key, -1 for a null or missing key; returns 0 for a bad table. */
static int kfs_offsets_of(uint8_t *slots, size_t count, const kfs_record *records, size_t n, const uint8_t *arena,
                          size_t size, int64_t *offsets) {
    kfs_keys both[2], *keys = both, *next = both + 1, *swap;
    size_t at = 0;
    int found;
    for (size_t i = 0; i < n; i++) offsets[i] = -1;
    if (!kfs_next_keys(slots, count, records, n, &at, INT64_MIN, arena, size, keys)) return 0;
    for (; keys->count; swap = keys, keys = next, next = swap) {
        if (!kfs_next_keys(slots, count, records, n, &at, INT64_MIN, arena, size, next)) return 0;
        for (int key = 0; key < keys->count; key++) {
            uint8_t *slot = kfs_find_slot(slots, count, keys->digests[key], &found);
            if (slot != NULL && found) offsets[keys->records[key]] = (int64_t)kfs_be64(slot + KFS_DIGEST);
        }
    }
    return 1;
}

/* Moves the used slots of a table to an empty one with room for them; returns 0 if there is none. */
static int kfs_move_slots(const uint8_t *slots, size_t count, uint8_t *to, size_t room) {
    static const uint8_t empty[KFS_DIGEST];
    int found;
    for (const uint8_t *slot = slots; slot < slots + count * KFS_SLOT; slot += KFS_SLOT) {
        if (memcmp(slot, empty, KFS_DIGEST) == 0) continue;
        uint8_t *place = kfs_find_slot(to, room, slot, &found);
        if (place == NULL) return 0;
        memcpy(place, slot, KFS_SLOT);
    }
    return 1;
}

/* ---- records of magic 2 ---- */

static inline size_t kfs_size_of_varlong(int64_t value) {
    uint64_t zigzag = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
    return (size_t)(70 - __builtin_clzll(zigzag | 1)) / 7;
}

static inline uint8_t *kfs_put_varlong(uint8_t *p, int64_t value) {
    uint64_t zigzag = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
    for (; zigzag > 0x7f; zigzag >>= 7) *p++ = (uint8_t)(zigzag | 0x80);
    *p++ = (uint8_t)zigzag;
    return p;
}

static inline int kfs_field_lies_in(int64_t start, int64_t field, size_t size) {
    return field <= 0 || (start >= 0 && (uint64_t)start <= size && (uint64_t)field <= size - (uint64_t)start);
}

static inline uint8_t *kfs_put_sized(uint8_t *p, const uint8_t *arena, int64_t start, int32_t size) {
    p = kfs_put_varlong(p, size);
    if (size > 0) {
        memcpy(p, arena + start, (size_t)size);
        p += size;
    }
    return p;
}

/* Writes the kept records, with deltas from a base; returns KFS_OK, KFS_NO_MEMORY or KFS_BAD_TABLE. */
static int kfs_encode_records(const kfs_record *records, size_t n, const uint8_t *kept, const uint8_t *arena,
                              size_t size, int64_t base_offset, int64_t base_timestamp, kfs_bytes *out) {
    for (size_t i = 0; i < n; i++) {
        const kfs_record *r = records + i;
        if (!kept[i]) continue;
        if (!kfs_field_lies_in(r->key_start, r->key_size, size) ||
            !kfs_field_lies_in(r->value_start, r->value_size, size) ||
            !kfs_field_lies_in(r->headers_start, r->headers_size, size))
            return KFS_BAD_TABLE;
        int64_t time = kfs_sub64(r->timestamp, base_timestamp);
        int32_t delta = (int32_t)(uint32_t)kfs_sub64(r->offset, base_offset);
        size_t fields = 1 + kfs_size_of_varlong(time) + kfs_size_of_varlong(delta) +
                        kfs_size_of_varlong(r->key_size) + kfs_size_of_varlong(r->value_size) +
                        kfs_size_of_varlong(r->headers_count);
        size_t data = (r->key_size > 0 ? (size_t)r->key_size : 0) + (r->value_size > 0 ? (size_t)r->value_size : 0) +
                      (r->headers_size > 0 ? (size_t)r->headers_size : 0);
        if (!kfs_reserve(out, fields + data + 10)) return KFS_NO_MEMORY;
        uint8_t *p = kfs_put_varlong(out->data + out->size, (int64_t)(fields + data));
        *p++ = 0; /* attributes */
        p = kfs_put_varlong(p, time);
        p = kfs_put_varlong(p, delta);
        p = kfs_put_sized(p, arena, r->key_start, r->key_size);
        p = kfs_put_sized(p, arena, r->value_start, r->value_size);
        p = kfs_put_varlong(p, r->headers_count);
        if (r->headers_size > 0) {
            memcpy(p, arena + r->headers_start, (size_t)r->headers_size);
            p += r->headers_size;
        }
        out->size = (size_t)(p - out->data);
    }
    return KFS_OK;
}

/* ---- batches of magic 2 ---- */

/* Layout of engine.columns.batch_table.KEPT_ROW. */
typedef struct {
    int64_t max_timestamp, max_offset;
    int32_t size, count;
} kfs_kept;

_Static_assert(sizeof(kfs_kept) == 24, "a kept batch has 24 bytes");

typedef struct {
    const kfs_record *records;
    size_t count;
    const uint8_t *kept, *arena;
    size_t arena_size;
    int64_t delete_horizon, upper_bound;
} kfs_keeping;

static inline void kfs_put_be32(uint8_t *p, uint32_t v) {
    v = __builtin_bswap32(v);
    memcpy(p, &v, 4);
}

static inline void kfs_put_be64(uint8_t *p, uint64_t v) {
    v = __builtin_bswap64(v);
    memcpy(p, &v, 8);
}

/* Writes a batch anew, plain or with LZ4, with those of its `count` records that are kept; `plain` is room for the
 * records before they are compressed. Returns KFS_OK, KFS_NO_MEMORY, KFS_BAD_TABLE, or KFS_NEEDS_PYTHON if it becomes
 * too long or is not compressed here. */
static int kfs_rewrite_batch(const kfs_row *row, const uint8_t *head, const kfs_keeping *of, size_t first, size_t count,
                             int64_t base_timestamp, int has_horizon, kfs_kept *made, kfs_bytes *plain,
                             kfs_bytes *out) {
    size_t start = out->size;
    int codec = kfs_codec_of(row);
    if (codec != KFS_CODEC_NONE && codec != KFS_CODEC_LZ4) return KFS_NEEDS_PYTHON;
    if (!kfs_reserve(out, KFS_V2_OVERHEAD)) return KFS_NO_MEMORY;
    memcpy(out->data + start, head, KFS_V2_OVERHEAD);
    out->size += KFS_V2_OVERHEAD;
    plain->size = 0;
    int reason = kfs_encode_records(of->records + first, count, of->kept + first, of->arena, of->arena_size,
                                    row->base_offset, base_timestamp, codec == KFS_CODEC_NONE ? out : plain);
    if (reason) return reason;
    if (codec == KFS_CODEC_LZ4 && !kfs_deflate_lz4(plain->data, plain->size, out)) return KFS_NEEDS_PYTHON;
    size_t size = out->size - start;
    if (size > INT32_MAX) return KFS_NEEDS_PYTHON;
    uint8_t *p = out->data + start;
    int known = KFS_COMPRESSION_MASK | KFS_TIMESTAMP_TYPE_MASK | KFS_TRANSACTIONAL_MASK | KFS_CONTROL_MASK;
    kfs_put_be32(p + KFS_AT_LENGTH, (uint32_t)(size - KFS_LOG_OVERHEAD));
    p[KFS_AT_ATTRIBUTES] = 0;
    p[KFS_AT_ATTRIBUTES + 1] = (uint8_t)((row->attributes & known) | (has_horizon ? KFS_DELETE_HORIZON_MASK : 0));
    kfs_put_be64(p + KFS_AT_BASE_TIMESTAMP, (uint64_t)base_timestamp);
    kfs_put_be64(p + KFS_AT_MAX_TIMESTAMP, (uint64_t)made->max_timestamp);
    kfs_put_be32(p + KFS_AT_RECORD_COUNT, (uint32_t)made->count);
    kfs_put_be32(p + KFS_AT_CRC, kfs_crc32c(p + KFS_CRC_START_V2, size - KFS_CRC_START_V2));
    made->size = (int32_t)size;
    return KFS_OK;
}

/* Appends rows [first, last) to *out with the records that are kept: a batch that loses none as it is. Stops at a
 * batch that the caller must do, and sets *stopped to it: one to compress again but by LZ4, and one without kept
 * records that may have to stay. The records are those of the rows, all of them. */
static int kfs_keep_rows(const kfs_run *run, int32_t first, int32_t last, const kfs_keeping *of, kfs_kept *made,
                         int32_t *stopped, kfs_bytes *out) {
    size_t at = 0;
    for (int32_t place = first; place < last; place++, made++) {
        const kfs_row *row = run->rows + place;
        if (!kfs_row_lies_in(run, row) || row->magic != 2 || row->record_count < 0 ||
            (size_t)row->record_count > of->count - at)
            return KFS_BAD_TABLE;
        size_t count = (size_t)row->record_count, start = out->size;
        int64_t newest = -1, oldest = 0;
        int deletes = 0;
        *stopped = place;
        memset(made, 0, sizeof *made);
        for (size_t i = at; i < at + count; i++) {
            if (!of->kept[i]) continue;
            if (!made->count++) oldest = of->records[i].timestamp;
            if (of->records[i].timestamp > newest) newest = of->records[i].timestamp;
            deletes |= of->records[i].value_size < 0;
            made->max_offset = of->records[i].offset;
        }
        int has_horizon = (row->attributes & KFS_DELETE_HORIZON_MASK) != 0, needs_horizon = deletes && !has_horizon;
        const uint8_t *head = kfs_row_bytes(run, row);
        if (made->count == 0) {
            if (row->producer_id != -1 || kfs_add64(row->last_offset, 1) == of->upper_bound) return KFS_OK;
        } else if ((size_t)made->count == count && !needs_horizon) {
            if (!kfs_reserve(out, (size_t)row->size)) return KFS_NO_MEMORY;
            memcpy(out->data + start, head, (size_t)row->size);
            out->size += (size_t)row->size;
            made->size = row->size;
            made->max_offset = row->last_offset;
            made->max_timestamp = row->max_timestamp;
        } else {
            made->max_timestamp = row->attributes & KFS_TIMESTAMP_TYPE_MASK ? row->max_timestamp : newest;
            int64_t base = has_horizon ? row->base_timestamp : needs_horizon ? of->delete_horizon : oldest;
            int reason = kfs_rewrite_batch(row, head, of, at, count, base, has_horizon || needs_horizon, made,
                                           run->arena, out);
            if (reason) out->size = start;
            if (reason == KFS_NEEDS_PYTHON) return KFS_OK;
            if (reason) return reason;
        }
        at += count;
    }
    *stopped = last;
    return KFS_OK;
}

#endif
