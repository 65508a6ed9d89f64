/* Marks batches and records that hold a needle, and records that an automaton accepts. */
#ifndef KFS_SEARCH_H
#define KFS_SEARCH_H

#include "lines.h"
#include "records.h"

/* Marks the rows [first, last) with the needle in the inflated bytes of their records; mask[0] is for
 * `first`. Stops at a row that it cannot inflate, and sets *row_index to it. */
static int kfs_search_rows(kfs_run *run, int32_t first, int32_t last, int32_t mask_start, const kfs_needle *needle,
                           uint8_t *mask, int32_t *row_index, kfs_payload *payload) {
    int32_t at = first;
    int reason = KFS_OK;
    for (; at < last; at++) {
        const kfs_row *row = run->rows + at;
        kfs_problem problem;
        int is_found = 1;
        run->arena->size = 0;
        if (!kfs_row_lies_in(run, row)) {
            reason = KFS_BAD_TABLE;
            break;
        }
        if (kfs_codec_of(row) == KFS_CODEC_NONE) {
            is_found = kfs_plain_row_holds(run, row, needle);
        } else if (!kfs_compressed_payload(run, row, payload, &problem)) {
            if (!kfs_inflate(run->contexts, payload->codec, row->magic, payload->data, payload->size,
                             (size_t)run->limits.inflated, run->arena)) {
                reason = KFS_NEEDS_PYTHON;
                break;
            }
            is_found = kfs_find(run->arena->data, run->arena->size, needle) != NULL;
        }
        mask[at - mask_start] = (uint8_t)is_found;
    }
    *row_index = at;
    return reason;
}

/* ---- records ---- */

/* A table of 256 next states for each state, each as its number times 256. State 0 accepts whatever follows, the
 * search of a field begins in state 1. */
typedef struct {
    const uint32_t *next;
    const uint8_t *accepts_end; /* whether a state accepts the end of the field */
    size_t states;
    uint8_t leaves_start[256];  /* bytes that lead from state 1 to another one */
    uint8_t low[16], high[16];  /* the same: by a byte's low half, a bit for each high half, below 0x80 and above */
} kfs_automaton;

/* Returns whether all next states exist, and fills the fields about state 1. */
static int kfs_automaton_open(kfs_automaton *automaton) {
    enum { START = 256 };
    uint32_t bits = 0, most = 0;
    if (automaton->states < 2) return 0;
    for (size_t i = 0; i < automaton->states * 256; i++) {
        uint32_t next = automaton->next[i];
        bits |= next;
        most = next > most ? next : most;
    }
    memset(automaton->low, 0, sizeof automaton->low);
    memset(automaton->high, 0, sizeof automaton->high);
    for (int byte = 0; byte < 256; byte++) {
        int leaves = automaton->next[START + byte] != START;
        automaton->leaves_start[byte] = (uint8_t)leaves;
        (byte < 128 ? automaton->low : automaton->high)[byte & 15] |= (uint8_t)(leaves << (byte >> 4 & 7));
    }
    return (bits & 255) == 0 && most < automaton->states * 256;
}

static const uint8_t *kfs_skip_plain(const kfs_automaton *automaton, const uint8_t *p, const uint8_t *end) {
    while (p < end && !automaton->leaves_start[*p]) p++;
    return p;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static const uint8_t *kfs_skip_avx2(const kfs_automaton *automaton, const uint8_t *p,
                                                                     const uint8_t *end, const uint8_t *readable) {
    const __m256i low = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)automaton->low));
    const __m256i high = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)automaton->high));
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);
    for (; p < end && readable - p >= 32; p += 32) {
        __m256i bytes = _mm256_loadu_si256((const __m256i *)p);
        __m256i marks = _mm256_or_si256(_mm256_shuffle_epi8(low, bytes),
                                        _mm256_shuffle_epi8(high, _mm256_xor_si256(bytes, _mm256_set1_epi8(-128))));
        __m256i halves = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(7));
        __m256i stays = _mm256_cmpeq_epi8(_mm256_and_si256(marks, _mm256_shuffle_epi8(bit, halves)), _mm256_setzero_si256());
        uint32_t leaves = ~(uint32_t)_mm256_movemask_epi8(stays);
        if (leaves) {
            p += __builtin_ctz(leaves);
            return p < end ? p : end;
        }
    }
    return p < end ? kfs_skip_plain(automaton, p, end) : end;
}
#endif

/* Returns the first byte of a field that leads from state 1 to another one; bytes up to `readable` may be read. */
static inline const uint8_t *kfs_skip(const kfs_automaton *automaton, const uint8_t *p, const uint8_t *end,
                                      const uint8_t *readable) {
#if defined(__x86_64__)
    if (KFS_LIKELY(kfs_has_avx2)) return kfs_skip_avx2(automaton, p, end, readable);
#endif
    (void)readable;
    return kfs_skip_plain(automaton, p, end);
}

static int kfs_accepts(const kfs_automaton *automaton, const uint8_t *p, size_t n, const uint8_t *readable) {
    enum { START = 256 };
    const uint8_t *end = p + n;
    uint32_t state = START;
    while (p < end) {
        if (state == START && (p = kfs_skip(automaton, p, end, readable)) == end) break;
        state = automaton->next[state | *p++];
        if (!state) return 1;
    }
    return automaton->accepts_end[state >> 8];
}

/* The fields to search: engine.columns.matching.Fields. */
enum { KFS_IN_KEY = 1, KFS_IN_VALUE = 2, KFS_IN_HEADERS = 4 };

/* Which records match: those with a field that holds the needle, and that the automaton accepts if there is one. */
typedef struct {
    int fields;
    kfs_needle needle;
    const kfs_automaton *automaton;
    const uint8_t *end; /* of the arena */
} kfs_query;

static inline int kfs_field_matches(const kfs_query *query, const uint8_t *p, int32_t size) {
    if (size < 0 || !kfs_find(p, (size_t)size, &query->needle)) return 0;
    return !query->automaton || kfs_accepts(query->automaton, p, (size_t)size, query->end);
}

static int kfs_headers_match(const kfs_query *query, const uint8_t *p, const uint8_t *end, int32_t count) {
    for (; count > 0; count--) {
        int32_t size;
        if (!(p = kfs_varint(p, end, &size)) || size < 0 || size > end - p) return 0;
        if (kfs_field_matches(query, p, size)) return 1;
        p += size;
        if (!(p = kfs_varint(p, end, &size)) || size > end - p) return 0;
        if (kfs_field_matches(query, p, size)) return 1;
        if (size > 0) p += size;
    }
    return 0;
}

static inline int kfs_record_matches(const kfs_query *query, const uint8_t *arena, const kfs_record *record) {
    if (query->fields & KFS_IN_VALUE && kfs_field_matches(query, arena + record->value_start, record->value_size)) return 1;
    if (query->fields & KFS_IN_KEY && kfs_field_matches(query, arena + record->key_start, record->key_size)) return 1;
    if (!(query->fields & KFS_IN_HEADERS) || record->headers_count <= 0) return 0;
    const uint8_t *headers = arena + record->headers_start;
    return kfs_headers_match(query, headers, headers + record->headers_size, record->headers_count);
}

/* Marks the records that match. The needle is searched in the whole arena at once, which is faster than in each short
 * field: most records have none. Returns 0 if a field is outside the arena. */
static int kfs_match_records(const kfs_query *query, const uint8_t *arena, size_t size, const kfs_record *records,
                             size_t n, uint8_t *mask) {
    size_t from = size, hit = 0; /* the first place of the needle at or after `from` */
    for (size_t i = 0; i < n; i++) {
        const kfs_record *record = records + i;
        if (!kfs_line_lies_in(size, record)) return 0;
        if (query->needle.size) {
            size_t start = (size_t)record->key_start, stop = (size_t)record->headers_start + (size_t)record->headers_size;
            if (start > stop || stop > size) return 0;
            if (start < from || hit < start) {
                const uint8_t *found = kfs_find(arena + start, size - start, &query->needle);
                from = start;
                hit = found ? (size_t)(found - arena) : size;
            }
            if (hit >= stop) continue;
        }
        mask[i] = (uint8_t)kfs_record_matches(query, arena, record);
    }
    return 1;
}

#endif
