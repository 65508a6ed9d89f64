/* CRC-32C (batches of magic 2), CRC-32 (messages of magic 0 and 1) and XXH32 (lz4 frames).
 *
 * Checksums are of whole byte strings and returned as stored in files. kfs_checksums_init() fills the tables
 * and selects the instructions; it must run before anything else here is called.
 */
#ifndef KFS_CHECKSUMS_H
#define KFS_CHECKSUMS_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define KFS_LIKELY(x) __builtin_expect(!!(x), 1)
#define KFS_UNLIKELY(x) __builtin_expect(!!(x), 0)

#define KFS_CRC32C_POLYNOMIAL 0x82F63B78u /* both bit-reversed */
#define KFS_CRC32_POLYNOMIAL 0xEDB88320u

/* Three streams of this many bytes are summed in parallel: a crc32 instruction takes three cycles, but one
 * can start in each cycle. */
#define KFS_CRC_LONG 2048
#define KFS_CRC_SHORT 256

typedef uint32_t kfs_crc_tables[8][256];

static kfs_crc_tables kfs_tables_crc32c, kfs_tables_crc32;
static uint32_t kfs_shift_long[4][256], kfs_shift_short[4][256];
static int kfs_has_crc_instruction, kfs_has_avx2;
static uint32_t (*kfs_library_crc32)(uint32_t, const void *, size_t); /* libdeflate's, if installed */

static inline uint32_t kfs_le32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, 4);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap32(v);
#endif
    return v;
}

static inline void kfs_put_le32(uint8_t *p, uint32_t v) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap32(v);
#endif
    memcpy(p, &v, 4);
}

static inline uint64_t kfs_le64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    return v;
}

static void kfs_fill_tables(kfs_crc_tables t, uint32_t polynomial) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) c = (c >> 1) ^ ((c & 1) ? polynomial : 0);
        t[0][i] = c;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t i = 0; i < 256; i++) t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 255];
}

/* `state` is the register, not the finished sum: the caller inverts before and after. */
static uint32_t kfs_crc_sliced(kfs_crc_tables t, uint32_t state, const uint8_t *p, size_t n) {
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t w = kfs_le64(p) ^ state;
        state = t[7][w & 255] ^ t[6][(w >> 8) & 255] ^ t[5][(w >> 16) & 255] ^ t[4][(w >> 24) & 255] ^
                t[3][(w >> 32) & 255] ^ t[2][(w >> 40) & 255] ^ t[1][(w >> 48) & 255] ^ t[0][w >> 56];
    }
    for (; n; p++, n--) state = (state >> 8) ^ t[0][(state ^ *p) & 255];
    return state;
}

/* Fills the table that moves a register over `length` zero bytes (the register is linear in its bits). */
static void kfs_fill_shift(uint32_t shift[4][256], size_t length) {
    static const uint8_t zeros[KFS_CRC_LONG];
    uint32_t moved[32];
    for (int bit = 0; bit < 32; bit++)
        moved[bit] = kfs_crc_sliced(kfs_tables_crc32c, 1u << bit, zeros, length);
    for (int lane = 0; lane < 4; lane++)
        for (uint32_t value = 0; value < 256; value++) {
            uint32_t sum = 0;
            for (int bit = 0; bit < 8; bit++)
                if (value >> bit & 1) sum ^= moved[8 * lane + bit];
            shift[lane][value] = sum;
        }
}

static void kfs_checksums_init(void) {
    kfs_fill_tables(kfs_tables_crc32c, KFS_CRC32C_POLYNOMIAL);
    kfs_fill_tables(kfs_tables_crc32, KFS_CRC32_POLYNOMIAL);
    kfs_fill_shift(kfs_shift_long, KFS_CRC_LONG);
    kfs_fill_shift(kfs_shift_short, KFS_CRC_SHORT);
#if defined(__x86_64__)
    __builtin_cpu_init();
    kfs_has_crc_instruction = __builtin_cpu_supports("sse4.2") != 0;
    kfs_has_avx2 = __builtin_cpu_supports("avx2") != 0;
#endif
}

#if defined(__x86_64__)
static inline uint32_t kfs_shifted(uint32_t shift[4][256], uint32_t s) {
    return shift[0][s & 255] ^ shift[1][(s >> 8) & 255] ^ shift[2][(s >> 16) & 255] ^ shift[3][s >> 24];
}

__attribute__((target("sse4.2"))) static uint32_t kfs_crc32c_sse42(uint32_t state, const uint8_t *p, size_t n) {
    uint64_t a = state;
#define KFS_THREE_STREAMS(LENGTH, SHIFT)                                                       \
    while (n >= 3 * (LENGTH)) {                                                                \
        uint64_t b = 0, c = 0;                                                                 \
        for (size_t i = 0; i < (LENGTH); i += 8) {                                             \
            a = _mm_crc32_u64(a, kfs_le64(p + i));                                             \
            b = _mm_crc32_u64(b, kfs_le64(p + i + (LENGTH)));                                  \
            c = _mm_crc32_u64(c, kfs_le64(p + i + 2 * (LENGTH)));                              \
        }                                                                                      \
        a = kfs_shifted(SHIFT, (uint32_t)a) ^ b;                                               \
        a = kfs_shifted(SHIFT, (uint32_t)a) ^ c;                                               \
        p += 3 * (LENGTH);                                                                     \
        n -= 3 * (LENGTH);                                                                     \
    }
    KFS_THREE_STREAMS(KFS_CRC_LONG, kfs_shift_long)
    KFS_THREE_STREAMS(KFS_CRC_SHORT, kfs_shift_short)
#undef KFS_THREE_STREAMS
    for (; n >= 8; p += 8, n -= 8) a = _mm_crc32_u64(a, kfs_le64(p));
    uint32_t s = (uint32_t)a;
    for (; n; p++, n--) s = _mm_crc32_u8(s, *p);
    return s;
}
#endif

/* Returns the CRC-32C register after n more bytes. */
static uint32_t kfs_crc32c_state(uint32_t state, const uint8_t *p, size_t n) {
#if defined(__x86_64__)
    if (KFS_LIKELY(kfs_has_crc_instruction)) return kfs_crc32c_sse42(state, p, n);
#endif
    return kfs_crc_sliced(kfs_tables_crc32c, state, p, n);
}

static uint32_t kfs_crc32c(const uint8_t *p, size_t n) { return ~kfs_crc32c_state(~0u, p, n); }

static uint32_t kfs_crc32c_by_table(const uint8_t *p, size_t n) {
    return ~kfs_crc_sliced(kfs_tables_crc32c, ~0u, p, n);
}

static uint32_t kfs_crc32(const uint8_t *p, size_t n) {
    if (kfs_library_crc32) return kfs_library_crc32(0, p, n);
    return ~kfs_crc_sliced(kfs_tables_crc32, ~0u, p, n);
}

/* Registers at every KFS_MARK_STEP bytes of a buffer, from which the checksum of any part follows without
 * reading it: for a search that tries more parts than it could read. */
#define KFS_MARK_STEP 256

typedef struct {
    const uint8_t *buf;
    int is_crc32c;
    uint32_t polynomial, *marks;
    size_t filled;
    uint32_t power[4][256]; /* [k][i]: x to the 8 * i * 256^k, modulo the polynomial */
} kfs_crc_marks;

/* Polynomials are bit-reversed: 1 is the top bit. */
static uint32_t kfs_multiply(uint32_t a, uint32_t b, uint32_t polynomial) {
    uint32_t product = 0;
    for (; a; a <<= 1) {
        product ^= b & (0u - (a >> 31)); /* no branches: the bits are as good as random */
        b = (b >> 1) ^ (polynomial & (0u - (b & 1)));
    }
    return product;
}

/* Returns 0 when out of memory. */
static int kfs_marks_init(kfs_crc_marks *marks, const uint8_t *buf, size_t n, int is_crc32c) {
    marks->buf = buf;
    marks->is_crc32c = is_crc32c;
    marks->polynomial = is_crc32c ? KFS_CRC32C_POLYNOMIAL : KFS_CRC32_POLYNOMIAL;
    marks->marks = malloc((n / KFS_MARK_STEP + 1) * sizeof(uint32_t));
    if (!marks->marks) return 0;
    marks->marks[0] = 0;
    marks->filled = 0;
    uint32_t byte = 1u << 23; /* x^8 */
    for (int k = 0; k < 4; k++) {
        marks->power[k][0] = 1u << 31;
        for (int i = 1; i < 256; i++)
            marks->power[k][i] = kfs_multiply(marks->power[k][i - 1], byte, marks->polynomial);
        byte = kfs_multiply(marks->power[k][255], byte, marks->polynomial);
    }
    return 1;
}

static uint32_t kfs_marks_state(const kfs_crc_marks *marks, uint32_t state, size_t from, size_t to) {
    if (marks->is_crc32c) return kfs_crc32c_state(state, marks->buf + from, to - from);
    return kfs_crc_sliced(kfs_tables_crc32, state, marks->buf + from, to - from);
}

/* Returns the register, started at 0, after the first `to` bytes. */
static uint32_t kfs_marks_at(kfs_crc_marks *marks, size_t to) {
    size_t mark = to / KFS_MARK_STEP;
    for (; marks->filled < mark; marks->filled++)
        marks->marks[marks->filled + 1] = kfs_marks_state(
            marks, marks->marks[marks->filled], marks->filled * KFS_MARK_STEP, (marks->filled + 1) * KFS_MARK_STEP);
    return kfs_marks_state(marks, marks->marks[mark], mark * KFS_MARK_STEP, to);
}

/* Returns the checksum of the bytes [from, to). */
static uint32_t kfs_marks_crc(kfs_crc_marks *marks, size_t from, size_t to) {
    uint32_t state = kfs_marks_at(marks, from) ^ ~0u;
    size_t length = to - from;
    for (int k = 0; k < 4; k++, length >>= 8)
        state = kfs_multiply(marks->power[k][length & 255], state, marks->polynomial);
    return ~(state ^ kfs_marks_at(marks, to));
}

/* XXH32 with seed 0 (the xxHash specification, XXH32). */
#define KFS_XX1 2654435761u
#define KFS_XX2 2246822519u
#define KFS_XX3 3266489917u
#define KFS_XX4 668265263u
#define KFS_XX5 374761393u

static inline uint32_t kfs_rotl(uint32_t v, int by) { return (v << by) | (v >> (32 - by)); }

static uint32_t kfs_xxh32(const uint8_t *p, size_t n) {
    const uint8_t *end = p + n;
    uint32_t h;
    if (n >= 16) {
        uint32_t lane[4] = {KFS_XX1 + KFS_XX2, KFS_XX2, 0, 0u - KFS_XX1};
        for (; end - p >= 16; p += 16)
            for (int i = 0; i < 4; i++) lane[i] = kfs_rotl(lane[i] + kfs_le32(p + 4 * i) * KFS_XX2, 13) * KFS_XX1;
        h = kfs_rotl(lane[0], 1) + kfs_rotl(lane[1], 7) + kfs_rotl(lane[2], 12) + kfs_rotl(lane[3], 18);
    } else {
        h = KFS_XX5;
    }
    h += (uint32_t)n;
    for (; end - p >= 4; p += 4) h = kfs_rotl(h + kfs_le32(p) * KFS_XX3, 17) * KFS_XX4;
    for (; p < end; p++) h = kfs_rotl(h + *p * KFS_XX5, 11) * KFS_XX1;
    h = (h ^ (h >> 15)) * KFS_XX2;
    h = (h ^ (h >> 13)) * KFS_XX3;
    return h ^ (h >> 16);
}

#endif
