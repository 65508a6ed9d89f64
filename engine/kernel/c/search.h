/* Finds a needle in bytes: compares two of its bytes at 32 positions at a time, the rest where both match. */
#ifndef KFS_SEARCH_H
#define KFS_SEARCH_H

#include "records.h"

static const uint8_t *kfs_find_plain(const uint8_t *hay, size_t n, const uint8_t *needle, size_t m) {
    while (n >= m) {
        const uint8_t *at = memchr(hay, needle[0], n - m + 1);
        if (!at) return NULL;
        if (memcmp(at, needle, m) == 0) return at;
        n -= (size_t)(at + 1 - hay);
        hay = at + 1;
    }
    return NULL;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static const uint8_t *kfs_find_avx2(const uint8_t *hay, size_t n,
                                                                     const uint8_t *needle, size_t m) {
    if (n < m) return NULL;
    const __m256i first = _mm256_set1_epi8((char)needle[0]), last = _mm256_set1_epi8((char)needle[m - 1]);
    size_t places = n - m + 1, i = 0;
    for (; i + 32 <= places; i += 32) {
        __m256i heads = _mm256_loadu_si256((const __m256i *)(hay + i));
        __m256i tails = _mm256_loadu_si256((const __m256i *)(hay + i + m - 1));
        uint32_t hits = (uint32_t)_mm256_movemask_epi8(
            _mm256_and_si256(_mm256_cmpeq_epi8(heads, first), _mm256_cmpeq_epi8(tails, last)));
        for (; hits; hits &= hits - 1) {
            const uint8_t *at = hay + i + __builtin_ctz(hits);
            if (memcmp(at, needle, m) == 0) return at;
        }
    }
    return kfs_find_plain(hay + i, n - i, needle, m);
}
#endif

static const uint8_t *kfs_find(const uint8_t *hay, size_t n, const uint8_t *needle, size_t m) {
    if (m == 0) return hay;
#if defined(__x86_64__)
    if (KFS_LIKELY(kfs_has_avx2)) return kfs_find_avx2(hay, n, needle, m);
#endif
    return kfs_find_plain(hay, n, needle, m);
}

/* Marks the rows [first, last) with the needle in the inflated bytes of their records; mask[0] is for
 * `first`. Stops at a row that it cannot inflate, and sets *row_index to it. */
static int kfs_search_rows(kfs_run *run, int32_t first, int32_t last, int32_t mask_start, const uint8_t *needle,
                           size_t m, uint8_t *mask, int32_t *row_index, kfs_payload *payload) {
    int32_t at = first;
    int reason = KFS_OK;
    for (; at < last; at++) {
        const kfs_row *row = run->rows + at;
        kfs_problem problem;
        run->arena->size = 0;
        if (!kfs_row_lies_in(run, row)) {
            reason = KFS_BAD_TABLE;
            break;
        }
        size_t header = row->magic == 2 ? KFS_V2_OVERHEAD : KFS_UP_TO_MAGIC;
        const uint8_t *hay = kfs_row_bytes(run, row) + header;
        size_t n = (size_t)row->size - header;
        if (kfs_codec_of(row) != KFS_CODEC_NONE) {
            if (kfs_compressed_payload(run, row, payload, &problem)) {
                mask[at - mask_start] = 1;
                continue;
            }
            if (!kfs_inflate(run->contexts, payload->codec, row->magic, payload->data, payload->size,
                             (size_t)run->limits.inflated, run->arena)) {
                reason = KFS_NEEDS_PYTHON;
                break;
            }
            hay = run->arena->data;
            n = run->arena->size;
        }
        mask[at - mask_start] = kfs_find(hay, n, needle, m) != NULL;
    }
    *row_index = at;
    return reason;
}

#endif
