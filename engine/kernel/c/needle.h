/* Finds a needle in bytes: compares two of its bytes at 32 positions at a time, the rest where both match. */
#ifndef KFS_NEEDLE_H
#define KFS_NEEDLE_H

#include "checksums.h"

#include <string.h>

/* With `fold`, capital and small ASCII letters are the same, and the needle has small ones. */
typedef struct {
    const uint8_t *bytes;
    size_t size;
    int fold;
} kfs_needle;

static inline uint8_t kfs_small(uint8_t byte) { return byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte; }

static inline int kfs_needle_is_at(const uint8_t *at, const kfs_needle *needle) {
    if (!needle->fold) return memcmp(at, needle->bytes, needle->size) == 0;
    for (size_t i = 0; i < needle->size; i++)
        if (kfs_small(at[i]) != needle->bytes[i]) return 0;
    return 1;
}

static const uint8_t *kfs_find_plain(const uint8_t *hay, size_t n, const kfs_needle *needle) {
    const uint8_t *end = hay + n;
    while ((size_t)(end - hay) >= needle->size) {
        if (!needle->fold) {
            hay = memchr(hay, needle->bytes[0], (size_t)(end - hay) - needle->size + 1);
            if (!hay) return NULL;
        }
        if (kfs_needle_is_at(hay, needle)) return hay;
        hay++;
    }
    return NULL;
}

#if defined(__x86_64__)
/* A letter with bit 0x20 set equals only the capital and the small letter with that bit set. */
static inline uint8_t kfs_fold_bit(const kfs_needle *needle, size_t at) {
    return needle->fold && needle->bytes[at] >= 'a' && needle->bytes[at] <= 'z' ? 0x20 : 0;
}

__attribute__((target("avx2"))) static const uint8_t *kfs_find_avx2(const uint8_t *hay, size_t n,
                                                                     const kfs_needle *needle) {
    size_t m = needle->size, places = n - m + 1, i = 0;
    if (n < m) return NULL;
    const __m256i first = _mm256_set1_epi8((char)needle->bytes[0]);
    const __m256i last = _mm256_set1_epi8((char)needle->bytes[m - 1]);
    const __m256i first_bit = _mm256_set1_epi8((char)kfs_fold_bit(needle, 0));
    const __m256i last_bit = _mm256_set1_epi8((char)kfs_fold_bit(needle, m - 1));
    for (; i + 32 <= places; i += 32) {
        __m256i heads = _mm256_or_si256(_mm256_loadu_si256((const __m256i *)(hay + i)), first_bit);
        __m256i tails = _mm256_or_si256(_mm256_loadu_si256((const __m256i *)(hay + i + m - 1)), last_bit);
        uint32_t hits = (uint32_t)_mm256_movemask_epi8(
            _mm256_and_si256(_mm256_cmpeq_epi8(heads, first), _mm256_cmpeq_epi8(tails, last)));
        for (; hits; hits &= hits - 1) {
            const uint8_t *at = hay + i + __builtin_ctz(hits);
            if (kfs_needle_is_at(at, needle)) return at;
        }
    }
    return kfs_find_plain(hay + i, n - i, needle);
}
#endif

static const uint8_t *kfs_find(const uint8_t *hay, size_t n, const kfs_needle *needle) {
    if (needle->size == 0) return hay;
#if defined(__x86_64__)
    if (KFS_LIKELY(kfs_has_avx2)) return kfs_find_avx2(hay, n, needle);
#endif
    return kfs_find_plain(hay, n, needle);
}

#endif
