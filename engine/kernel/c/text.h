/* The text rules of the record line: how bytes of a log become JSON that is safe on a terminal.
 *
 * Reference and twin: engine/lines/record_line.py, which must agree byte for byte.
 *
 * What every function here keeps:
 *   - the output is valid UTF-8 and valid JSON, on one line;
 *   - no control character (C0, DEL, C1), no bidi control, zero-width or tag character, and no byte order
 *     mark leaves unescaped;
 *   - with `dst` NULL nothing is written and the size returned is the one that writing would return;
 *   - with `dst` there is room for kfs_bound(len) bytes, which may be used as scratch beyond the size
 *     returned; nothing beyond that is touched, and nothing outside src[0, len) is read.
 *
 * No Python, no locks, no allocation, no recursion: time is linear in `len`.
 */
#ifndef KAFKAFS_TEXT_H
#define KAFKAFS_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Ways to show bytes (LineOptions.values, in this order). */
#define KFS_AUTO 0
#define KFS_TEXT 1
#define KFS_JSON 2
#define KFS_BASE64 3
#define KFS_HEX 4
#define KFS_NONE 5

/* How bytes were shown (the Encoding field; plain text has none). */
#define KFS_AS_TEXT 0
#define KFS_AS_JSON 1
#define KFS_AS_BASE64 2
#define KFS_AS_HEX 3
#define KFS_AS_NONE 4

/* Deepest nesting of arrays and objects; deeper JSON is shown as text. */
#define KFS_JSON_DEPTH 128
/* Most characters of a number, the limit of Python's json; JSON with longer ones is shown as text. */
#define KFS_JSON_NUMBER 4300

/* Room that kfs_put_bytes() needs for `len` bytes: a control character takes six. */
#define kfs_bound(len) (6 * (size_t)(len) + 2)
#define KFS_I64_BOUND 20
#define KFS_TIME_BOUND 26

#define KFS_REFUSED ((size_t)-1)

#define KFS_INLINE static inline __attribute__((always_inline, unused))
#define KFS_PLAIN static __attribute__((noinline, unused))
#define KFS_LIKELY(x) __builtin_expect(!!(x), 1)
#define KFS_UNLIKELY(x) __builtin_expect(!!(x), 0)

static const char kfs_hex_digits_[17] = "0123456789abcdef";

static const char kfs_digit_pairs_[201] =
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354"
    "5556575859606162636465666768697071727374757677787980818283848586878889909192939495969798"
    "99";

/* ---- runs of plain ASCII ------------------------------------------------------------------------- */

/* Plain: 0x20..0x7e without the quote and the backslash. */
KFS_INLINE int kfs_is_plain_(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define KFS_WORDS_ 1
/* Sets the top bit of bytes that are not plain. Only the lowest set bit is reliable. */
KFS_INLINE uint64_t kfs_not_plain_(uint64_t x)
{
    const uint64_t ones = 0x0101010101010101u;
    const uint64_t quote = x ^ (ones * '"'), backslash = x ^ (ones * '\\'), del = x ^ (ones * 0x7f);
    return (((x - ones * 0x20) & ~x) | ((quote - ones) & ~quote) | ((backslash - ones) & ~backslash) |
            ((del - ones) & ~del) | x) & (ones * 0x80);
}
#endif

/* Copies the plain bytes at the start of src[0, len) and returns their number. */
KFS_INLINE size_t kfs_plain_run_(unsigned char *dst, const unsigned char *src, size_t len, const int write)
{
    size_t i = 0;
#ifdef __SSE2__
    if (len >= 16) {
        const __m128i space = _mm_set1_epi8(0x20), quote = _mm_set1_epi8('"');
        const __m128i backslash = _mm_set1_epi8('\\'), del = _mm_set1_epi8(0x7f);
        for (;;) {
            const __m128i v = _mm_loadu_si128((const __m128i *)(src + i));
            if (write)
                _mm_storeu_si128((__m128i *)(dst + i), v);
            /* The comparison is signed: bytes from 0x80 up count as below the space. */
            const __m128i bad = _mm_or_si128(_mm_or_si128(_mm_cmplt_epi8(v, space), _mm_cmpeq_epi8(v, quote)),
                                             _mm_or_si128(_mm_cmpeq_epi8(v, backslash), _mm_cmpeq_epi8(v, del)));
            const unsigned mask = (unsigned)_mm_movemask_epi8(bad);
            if (mask != 0)
                return i + (size_t)__builtin_ctz(mask);
            i += 16;
            if (len - i < 16) {
                if (i == len)
                    return len;
                i = len - 16; /* overlaps known bytes, to avoid single bytes */
            }
        }
    }
#endif
#ifdef KFS_WORDS_
    if (len >= 8) {
        for (;;) {
            uint64_t x;
            memcpy(&x, src + i, 8);
            if (write)
                memcpy(dst + i, &x, 8);
            x = kfs_not_plain_(x);
            if (x != 0)
                return i + (size_t)__builtin_ctzll(x) / 8;
            i += 8;
            if (len - i < 8) {
                if (i == len)
                    return len;
                i = len - 8;
            }
        }
    }
    if (len >= 4) {
        uint32_t low, high;
        memcpy(&low, src, 4);
        memcpy(&high, src + len - 4, 4);
        if (write) {
            memcpy(dst, &low, 4);
            memcpy(dst + len - 4, &high, 4);
        }
        const uint64_t bad = kfs_not_plain_((uint64_t)low | (uint64_t)high << 32);
        if (bad == 0)
            return len;
        const size_t at = (size_t)__builtin_ctzll(bad) / 8;
        return at < 4 ? at : len - 8 + at;
    }
#endif
    while (i < len && kfs_is_plain_(src[i])) {
        if (write)
            dst[i] = src[i];
        i++;
    }
    return i;
}

/* ---- one character ------------------------------------------------------------------------------- */

KFS_INLINE int kfs_is_tail_(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

/* Returns the length of the multi-byte character at p (p[0] >= 0x80), or 0 if it is not UTF-8. `*hidden` is
 * its code point if it must be escaped, else 0. */
KFS_INLINE unsigned kfs_character_(const unsigned char *p, size_t left, uint32_t *hidden)
{
    const unsigned char lead = p[0];
    *hidden = 0;
    if (lead < 0xe0) {
        if (lead < 0xc2 || left < 2 || !kfs_is_tail_(p[1]))
            return 0;
        if (KFS_UNLIKELY(lead == 0xc2 && p[1] < 0xa0))
            *hidden = p[1]; /* C1 */
        else if (KFS_UNLIKELY(lead == 0xd8 && p[1] == 0x9c))
            *hidden = 0x061c; /* Arabic letter mark */
        return 2;
    }
    if (lead < 0xf0) {
        if (left < 3 || !kfs_is_tail_(p[1]) || !kfs_is_tail_(p[2]))
            return 0;
        const uint32_t c = (uint32_t)(lead & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (uint32_t)(p[2] & 0x3f);
        if (c < 0x800 || (c & 0xf800) == 0xd800)
            return 0;
        if (KFS_UNLIKELY((c >= 0x200b && c <= 0x206f &&
                          (c <= 0x200f || (c >= 0x2028 && c <= 0x202e) || c >= 0x2060)) || c == 0xfeff))
            *hidden = c;
        return 3;
    }
    if (lead > 0xf4 || left < 4 || !kfs_is_tail_(p[1]) || !kfs_is_tail_(p[2]) || !kfs_is_tail_(p[3]))
        return 0;
    const uint32_t c = (uint32_t)(lead & 0x07) << 18 | (uint32_t)(p[1] & 0x3f) << 12 |
                       (uint32_t)(p[2] & 0x3f) << 6 | (uint32_t)(p[3] & 0x3f);
    if (c < 0x10000 || c > 0x10ffff)
        return 0;
    if (KFS_UNLIKELY((c & ~(uint32_t)0x7f) == 0xe0000))
        *hidden = c; /* tags */
    return 4;
}

KFS_INLINE void kfs_put_unit_(unsigned char *dst, uint32_t unit)
{
    dst[0] = '\\';
    dst[1] = 'u';
    dst[2] = (unsigned char)kfs_hex_digits_[unit >> 12 & 15];
    dst[3] = (unsigned char)kfs_hex_digits_[unit >> 8 & 15];
    dst[4] = (unsigned char)kfs_hex_digits_[unit >> 4 & 15];
    dst[5] = (unsigned char)kfs_hex_digits_[unit & 15];
}

/* Writes the \u escape of a code point: 6 bytes, or 12 for a pair. */
KFS_PLAIN size_t kfs_put_escape_(unsigned char *dst, uint32_t c)
{
    if (c < 0x10000) {
        if (dst != NULL)
            kfs_put_unit_(dst, c);
        return 6;
    }
    if (dst != NULL) {
        kfs_put_unit_(dst, 0xd800 + ((c - 0x10000) >> 10));
        kfs_put_unit_(dst + 6, 0xdc00 + (c & 0x3ff));
    }
    return 12;
}

/* Writes an ASCII character that is not plain, as inside a string. */
KFS_INLINE size_t kfs_put_special_(unsigned char *dst, unsigned char c, const int write)
{
    unsigned char letter;
    switch (c) {
    case '"':
    case '\\':
        letter = c;
        break;
    case '\b':
        letter = 'b';
        break;
    case '\f':
        letter = 'f';
        break;
    case '\n':
        letter = 'n';
        break;
    case '\r':
        letter = 'r';
        break;
    case '\t':
        letter = 't';
        break;
    default:
        if (write)
            kfs_put_unit_(dst, c);
        return 6;
    }
    if (write) {
        dst[0] = '\\';
        dst[1] = letter;
    }
    return 2;
}

/* Copies the multi-byte characters at src + *at, up to the next ASCII byte; returns the new size, or
 * KFS_REFUSED. */
KFS_INLINE size_t kfs_put_characters_(unsigned char *dst, size_t n, const unsigned char *src, size_t len,
                                      size_t *at, const int write)
{
    size_t i = *at;
    do {
        uint32_t hidden;
        const unsigned size = kfs_character_(src + i, len - i, &hidden);
        if (KFS_UNLIKELY(size == 0))
            return KFS_REFUSED;
        if (KFS_UNLIKELY(hidden != 0)) {
            n += kfs_put_escape_(write ? dst + n : NULL, hidden);
        } else {
            if (write) {
                if (len - i >= 4)
                    memcpy(dst + n, src + i, 4);
                else
                    memcpy(dst + n, src + i, size);
            }
            n += size;
        }
        i += size;
    } while (i < len && src[i] >= 0x80);
    *at = i;
    return n;
}

/* ---- a string ------------------------------------------------------------------------------------ */

KFS_INLINE size_t kfs_text_(unsigned char *dst, const unsigned char *src, size_t len, const int write)
{
    size_t i = 0, n = 1;
    if (write)
        dst[0] = '"';
    for (;;) {
        const size_t run = kfs_plain_run_(write ? dst + n : NULL, src + i, len - i, write);
        i += run;
        n += run;
        if (i == len)
            break;
        if (src[i] < 0x80) {
            do
                n += kfs_put_special_(write ? dst + n : NULL, src[i++], write);
            while (i < len && src[i] < 0x80 && !kfs_is_plain_(src[i]));
        } else {
            n = kfs_put_characters_(dst, n, src, len, &i, write);
            if (n == KFS_REFUSED)
                return KFS_REFUSED;
        }
        if (i == len)
            break;
    }
    if (write)
        dst[n] = '"';
    return n + 1;
}

KFS_PLAIN size_t kfs_write_text_(unsigned char *dst, const unsigned char *src, size_t len)
{
    return kfs_text_(dst, src, len, 1);
}

KFS_PLAIN size_t kfs_measure_text_(const unsigned char *src, size_t len)
{
    return kfs_text_(NULL, src, len, 0);
}

/* Writes the bytes as a JSON string with its quotes; KFS_REFUSED if they are not UTF-8. */
KFS_INLINE size_t kfs_put_text(unsigned char *dst, const unsigned char *src, size_t len)
{
    return dst != NULL ? kfs_write_text_(dst, src, len) : kfs_measure_text_(src, len);
}

/* Returns 1 if src is strict UTF-8: no surrogates, no long forms, nothing above U+10FFFF. */
KFS_PLAIN int kfs_utf8_valid(const unsigned char *src, size_t len)
{
    size_t i = 0;
    while (i < len) {
#ifdef __SSE2__
        while (len - i >= 16) {
            const unsigned mask = (unsigned)_mm_movemask_epi8(_mm_loadu_si128((const __m128i *)(src + i)));
            if (mask != 0) {
                i += (size_t)__builtin_ctz(mask);
                break;
            }
            i += 16;
        }
#endif
        while (i < len && src[i] < 0x80)
            i++;
        while (i < len && src[i] >= 0x80) {
            uint32_t hidden;
            const unsigned size = kfs_character_(src + i, len - i, &hidden);
            if (size == 0)
                return 0;
            i += size;
        }
    }
    return 1;
}

/* ---- JSON inside JSON ---------------------------------------------------------------------------- */

KFS_INLINE int kfs_is_space_(unsigned char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

KFS_INLINE int kfs_is_digit_(unsigned char c)
{
    return (unsigned char)(c - '0') < 10;
}

/* Returns the value of four hex digits, or -1. */
KFS_INLINE int kfs_hex4_(const unsigned char *p)
{
    int value = 0;
    for (int k = 0; k < 4; k++) {
        const unsigned char c = p[k], low = c | 0x20;
        if (kfs_is_digit_(c))
            value = value << 4 | (c - '0');
        else if (low >= 'a' && low <= 'f')
            value = value << 4 | (low - 'a' + 10);
        else
            return -1;
    }
    return value;
}

/* Returns the size of the escape at p[0] == '\\': 2, 6 or 12 (a surrogate pair); 0 for an invalid escape. */
KFS_PLAIN size_t kfs_escape_size_(const unsigned char *p, size_t left)
{
    if (left < 2)
        return 0;
    switch (p[1]) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        return 2;
    case 'u':
        break;
    default:
        return 0;
    }
    if (left < 6)
        return 0;
    const int first = kfs_hex4_(p + 2);
    if (first < 0)
        return 0;
    if ((first & 0xf800) != 0xd800)
        return 6;
    if (first >= 0xdc00 || left < 12 || p[6] != '\\' || p[7] != 'u')
        return 0;
    const int second = kfs_hex4_(p + 8);
    return second >= 0xdc00 && second <= 0xdfff ? 12 : 0;
}

/* Checks and copies the string at src[*at] == '"' with both quotes; returns the new size, or KFS_REFUSED. */
KFS_INLINE size_t kfs_json_string_(unsigned char *dst, size_t n, const unsigned char *src, size_t len,
                                   size_t *at, const int write)
{
    size_t i = *at + 1;
    if (write)
        dst[n] = '"';
    n++;
    for (;;) {
        const size_t run = kfs_plain_run_(write ? dst + n : NULL, src + i, len - i, write);
        i += run;
        n += run;
        if (KFS_UNLIKELY(i == len))
            return KFS_REFUSED;
        const unsigned char c = src[i];
        if (KFS_LIKELY(c == '"')) {
            if (write)
                dst[n] = '"';
            *at = i + 1;
            return n + 1;
        }
        if (c == '\\') {
            const size_t size = kfs_escape_size_(src + i, len - i);
            if (size == 0)
                return KFS_REFUSED;
            if (write)
                memcpy(dst + n, src + i, size);
            n += size;
            i += size;
        } else if (c >= 0x80) {
            n = kfs_put_characters_(dst, n, src, len, &i, write);
            if (n == KFS_REFUSED)
                return KFS_REFUSED;
        } else if (c == 0x7f) {
            if (write)
                kfs_put_unit_(dst + n, c);
            n += 6;
            i++;
        } else {
            return KFS_REFUSED;
        }
    }
}

/* Returns the end of the number at i, or 0 without one. */
KFS_INLINE size_t kfs_number_end_(const unsigned char *src, size_t len, size_t i)
{
    const size_t start = i;
    if (src[i] == '-')
        i++;
    if (i == len || !kfs_is_digit_(src[i]))
        return 0;
    if (src[i] == '0')
        i++;
    else
        while (i < len && kfs_is_digit_(src[i]))
            i++;
    if (i < len && src[i] == '.') {
        const size_t digits = ++i;
        while (i < len && kfs_is_digit_(src[i]))
            i++;
        if (i == digits)
            return 0;
    }
    if (i < len && (src[i] | 0x20) == 'e') {
        i++;
        if (i < len && (src[i] == '+' || src[i] == '-'))
            i++;
        const size_t digits = i;
        while (i < len && kfs_is_digit_(src[i]))
            i++;
        if (i == digits)
            return 0;
    }
    return i - start <= KFS_JSON_NUMBER ? i : 0;
}

/* Returns the size of the word true, false or null at p, or 0. */
KFS_INLINE size_t kfs_word_size_(const unsigned char *p, size_t left)
{
    if (left >= 4 && (memcmp(p, "true", 4) == 0 || memcmp(p, "null", 4) == 0))
        return 4;
    return left >= 5 && memcmp(p, "false", 5) == 0 ? 5 : 0;
}

#define KFS_SKIP_SPACE_()                      \
    do {                                       \
        while (i < len && kfs_is_space_(src[i])) \
            i++;                               \
        if (i == len)                          \
            return KFS_REFUSED;                \
    } while (0)
#define KFS_PUT_(c)            \
    do {                       \
        if (write)             \
            dst[n] = (c);      \
        n++;                   \
    } while (0)

/* Writes one JSON object or array without whitespace between its tokens. Bit k of the stack, from the low
 * end, is set if the k-th innermost container is an object. */
KFS_INLINE size_t kfs_json_(unsigned char *dst, const unsigned char *src, size_t len, const int write)
{
    size_t i = 0, n = 0, end;
    uint64_t high = 0, low = 0;
    unsigned depth = 0;
    unsigned char c;

value:
    KFS_SKIP_SPACE_();
    c = src[i];
    if (c == '"' && depth != 0) {
        n = kfs_json_string_(dst, n, src, len, &i, write);
        if (KFS_UNLIKELY(n == KFS_REFUSED))
            return KFS_REFUSED;
    } else if (c == '{' || c == '[') {
        if (KFS_UNLIKELY(depth == KFS_JSON_DEPTH))
            return KFS_REFUSED;
        depth++;
        high = high << 1 | low >> 63;
        low = low << 1 | (c == '{');
        KFS_PUT_(c);
        i++;
        KFS_SKIP_SPACE_();
        if (src[i] == c + 2) /* '}' is '{' + 2, ']' is '[' + 2 */
            goto close;
        if (c == '{')
            goto name;
        goto value;
    } else if (depth == 0) {
        return KFS_REFUSED;
    } else if (c == '-' || kfs_is_digit_(c)) {
        end = kfs_number_end_(src, len, i);
        if (KFS_UNLIKELY(end == 0))
            return KFS_REFUSED;
        if (write && end - i <= 16 && len - i >= 16)
            memcpy(dst + n, src + i, 16);
        else if (write)
            memcpy(dst + n, src + i, end - i);
        n += end - i;
        i = end;
    } else {
        end = kfs_word_size_(src + i, len - i);
        if (end == 0)
            return KFS_REFUSED;
        if (write)
            memcpy(dst + n, src + i, end);
        n += end;
        i += end;
    }

after:
    if (depth == 0) {
        while (i < len && kfs_is_space_(src[i]))
            i++;
        return i == len ? n : KFS_REFUSED;
    }
    KFS_SKIP_SPACE_();
    c = src[i];
    if (c == ',') {
        KFS_PUT_(',');
        i++;
        if (low & 1)
            goto name;
        goto value;
    }
    if (c != ((low & 1) ? '}' : ']'))
        return KFS_REFUSED;
close:
    KFS_PUT_(src[i]);
    i++;
    depth--;
    low = low >> 1 | high << 63;
    high >>= 1;
    goto after;

name:
    KFS_SKIP_SPACE_();
    if (src[i] != '"')
        return KFS_REFUSED;
    n = kfs_json_string_(dst, n, src, len, &i, write);
    if (KFS_UNLIKELY(n == KFS_REFUSED))
        return KFS_REFUSED;
    KFS_SKIP_SPACE_();
    if (src[i] != ':')
        return KFS_REFUSED;
    KFS_PUT_(':');
    i++;
    goto value;
}

#undef KFS_SKIP_SPACE_
#undef KFS_PUT_

KFS_PLAIN size_t kfs_write_json_(unsigned char *dst, const unsigned char *src, size_t len)
{
    return kfs_json_(dst, src, len, 1);
}

KFS_PLAIN size_t kfs_measure_json_(const unsigned char *src, size_t len)
{
    return kfs_json_(NULL, src, len, 0);
}

/* Returns whether the first and last bytes look like a container's, before anything is copied. */
KFS_INLINE int kfs_looks_like_json_(const unsigned char *src, size_t len)
{
    size_t first = 0;
    while (first < len && kfs_is_space_(src[first]))
        first++;
    if (first == len || (src[first] != '{' && src[first] != '['))
        return 0;
    while (kfs_is_space_(src[len - 1]))
        len--;
    return src[len - 1] == src[first] + 2;
}

/* Returns 1 if src is exactly one JSON object or array that is shown as such. */
KFS_INLINE int kfs_json_container(const unsigned char *src, size_t len)
{
    return kfs_looks_like_json_(src, len) && kfs_measure_json_(src, len) != KFS_REFUSED;
}

/* ---- base64 and hex ------------------------------------------------------------------------------ */

KFS_PLAIN size_t kfs_put_base64(unsigned char *dst, const unsigned char *src, size_t len)
{
    static const char digits[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t size = (len + 2) / 3 * 4 + 2;
    if (dst == NULL)
        return size;
    unsigned char *out = dst;
    *out++ = '"';
    size_t i = 0;
    for (; len - i >= 3; i += 3, out += 4) {
        const uint32_t x = (uint32_t)src[i] << 16 | (uint32_t)src[i + 1] << 8 | src[i + 2];
        out[0] = (unsigned char)digits[x >> 18];
        out[1] = (unsigned char)digits[x >> 12 & 63];
        out[2] = (unsigned char)digits[x >> 6 & 63];
        out[3] = (unsigned char)digits[x & 63];
    }
    if (i < len) {
        const int two = len - i == 2;
        const uint32_t x = (uint32_t)src[i] << 16 | (two ? (uint32_t)src[i + 1] << 8 : 0);
        out[0] = (unsigned char)digits[x >> 18];
        out[1] = (unsigned char)digits[x >> 12 & 63];
        out[2] = two ? (unsigned char)digits[x >> 6 & 63] : '=';
        out[3] = '=';
        out += 4;
    }
    *out = '"';
    return size;
}

KFS_PLAIN size_t kfs_put_hex(unsigned char *dst, const unsigned char *src, size_t len)
{
    if (dst != NULL) {
        unsigned char *out = dst;
        *out++ = '"';
        for (size_t i = 0; i < len; i++, out += 2) {
            out[0] = (unsigned char)kfs_hex_digits_[src[i] >> 4];
            out[1] = (unsigned char)kfs_hex_digits_[src[i] & 15];
        }
        *out = '"';
    }
    return 2 * len + 2;
}

/* ---- the rule ------------------------------------------------------------------------------------ */

/* Writes the JSON of non-null bytes, by `mode`; sets `*encoding` to how they were shown. Header keys always
 * use KFS_TEXT. */
KFS_INLINE size_t kfs_put_bytes(unsigned char *dst, const unsigned char *src, size_t len, int mode, int *encoding)
{
    size_t size;
    switch (mode) {
    case KFS_AUTO:
    case KFS_JSON:
        if (kfs_looks_like_json_(src, len)) {
            size = dst != NULL ? kfs_write_json_(dst, src, len) : kfs_measure_json_(src, len);
            if (size != KFS_REFUSED) {
                *encoding = KFS_AS_JSON;
                return size;
            }
        }
        break;
    case KFS_TEXT:
        break;
    case KFS_HEX:
        *encoding = KFS_AS_HEX;
        return kfs_put_hex(dst, src, len);
    case KFS_NONE:
        *encoding = KFS_AS_NONE;
        return 0;
    default:
        *encoding = KFS_AS_BASE64;
        return kfs_put_base64(dst, src, len);
    }
    size = kfs_put_text(dst, src, len);
    if (size != KFS_REFUSED) {
        *encoding = KFS_AS_TEXT;
        return size;
    }
    *encoding = KFS_AS_BASE64;
    return kfs_put_base64(dst, src, len);
}

/* ---- pieces of a long text ------------------------------------------------------------------------ */

/* Returns how bytes are shown by `mode`, without writing them. */
KFS_PLAIN int kfs_how_shown(const unsigned char *src, size_t len, int mode)
{
    if (mode == KFS_HEX)
        return KFS_AS_HEX;
    if (mode == KFS_NONE)
        return KFS_AS_NONE;
    if (mode != KFS_AUTO && mode != KFS_JSON && mode != KFS_TEXT)
        return KFS_AS_BASE64;
    if (mode != KFS_TEXT && kfs_json_container(src, len))
        return KFS_AS_JSON;
    return kfs_utf8_valid(src, len) ? KFS_AS_TEXT : KFS_AS_BASE64;
}

/* Writes the next part of valid JSON, from src[*at] up to `stop` or a little further, with at most
 * kfs_bound() bytes for what it reads. `*in_string` is its state at the start, then at the end. */
KFS_PLAIN size_t kfs_json_piece_(unsigned char *dst, const unsigned char *src, size_t len, size_t stop, size_t *at,
                                 int *in_string)
{
    const int write = dst != NULL;
    size_t i = *at, n = 0;
    while (i < stop) {
        const unsigned char c = src[i];
        if (!*in_string) {
            *in_string = c == '"';
            if (!kfs_is_space_(c)) {
                if (write)
                    dst[n] = c;
                n++;
            }
            i++;
        } else if (c == '\\') {
            const size_t size = kfs_escape_size_(src + i, len - i);
            if (size == 0)
                return KFS_REFUSED;
            if (write)
                memcpy(dst + n, src + i, size);
            n += size;
            i += size;
        } else if (c >= 0x80) {
            uint32_t hidden;
            const unsigned size = kfs_character_(src + i, len - i, &hidden);
            if (size == 0)
                return KFS_REFUSED;
            if (hidden)
                n += kfs_put_escape_(write ? dst + n : NULL, hidden);
            else {
                if (write)
                    memcpy(dst + n, src + i, size);
                n += size;
            }
            i += size;
        } else if (c == 0x7f) {
            if (write)
                kfs_put_unit_(dst + n, c);
            n += 6;
            i++;
        } else {
            *in_string = c != '"';
            if (write)
                dst[n] = c;
            n++;
            i++;
        }
    }
    *at = i;
    return n;
}

/* Writes a piece of the text of kfs_put_bytes() for src shown as `encoding`: about `most` bytes from *at on,
 * which is advanced. All pieces together are the whole text. dst needs room for kfs_bound(most + 16) bytes;
 * KFS_REFUSED if the bytes are not of that encoding. */
KFS_PLAIN size_t kfs_put_piece(unsigned char *dst, const unsigned char *src, size_t len, int encoding, size_t most,
                               size_t *at, int *in_string)
{
    const size_t start = *at;
    size_t stop = len - start <= most ? len : start + most, n;
    if (encoding == KFS_AS_JSON)
        return kfs_json_piece_(dst, src, len, stop, at, in_string);
    if (stop < len && encoding == KFS_AS_BASE64)
        stop -= (stop - start) % 3;
    if (stop < len && encoding == KFS_AS_TEXT)
        while (stop > start && kfs_is_tail_(src[stop]))
            stop--;
    if (encoding == KFS_AS_TEXT)
        n = kfs_put_text(dst, src + start, stop - start);
    else if (encoding == KFS_AS_BASE64)
        n = kfs_put_base64(dst, src + start, stop - start);
    else
        n = kfs_put_hex(dst, src + start, stop - start);
    if (n == KFS_REFUSED)
        return n;
    *at = stop;
    if (stop < len)
        n--; /* the closing quote */
    if (start > 0) {
        n--; /* the opening one */
        if (dst != NULL)
            memmove(dst, dst + 1, n);
    }
    return n;
}

/* ---- numbers and times --------------------------------------------------------------------------- */

KFS_INLINE void kfs_put_pair_(unsigned char *dst, uint32_t two_digits)
{
    memcpy(dst, kfs_digit_pairs_ + 2 * two_digits, 2);
}

/* Eight digits with leading zeros; the four pairs are independent of each other. */
KFS_INLINE void kfs_put_eight_(unsigned char *dst, uint32_t x)
{
    const uint32_t high = x / 10000, low = x % 10000;
    kfs_put_pair_(dst, high / 100);
    kfs_put_pair_(dst + 2, high % 100);
    kfs_put_pair_(dst + 4, low / 100);
    kfs_put_pair_(dst + 6, low % 100);
}

KFS_INLINE unsigned kfs_digits_(uint64_t x)
{
    static const uint64_t powers[20] = {
        0, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000, 10000000000, 100000000000,
        1000000000000, 10000000000000, 100000000000000, 1000000000000000, 10000000000000000, 100000000000000000,
        1000000000000000000, 10000000000000000000u,
    };
    const unsigned bits = 64 - (unsigned)__builtin_clzll(x | 1);
    const unsigned below = bits * 1233 >> 12; /* 1233 / 4096 is slightly above log10(2) */
    return below + (x >= powers[below]);
}

/* Writes a number in decimal; at most KFS_I64_BOUND bytes. */
KFS_INLINE size_t kfs_put_i64(unsigned char *dst, int64_t number)
{
    uint64_t x = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    const unsigned sign = number < 0, size = sign + kfs_digits_(x);
    if (dst == NULL)
        return size;
    dst[0] = '-';
    unsigned char *end = dst + size;
    while (x >= 100000000) {
        end -= 8;
        kfs_put_eight_(end, (uint32_t)(x % 100000000));
        x /= 100000000;
    }
    uint32_t left = (uint32_t)x;
    while (left >= 100) {
        end -= 2;
        kfs_put_pair_(end, left % 100);
        left /= 100;
    }
    if (left >= 10)
        kfs_put_pair_(end - 2, left);
    else
        end[-1] = (unsigned char)('0' + left);
    return size;
}

/* Writes the date of a day since 1970, of the years 1 to 9999: 10 bytes, as in 2023-11-14. */
KFS_INLINE void kfs_put_date(unsigned char *dst, int64_t days)
{
    /* Days in years that start in March, so that the leap day is a year's last: 400 years have 146,097. */
    const uint32_t shifted = (uint32_t)(days + 719468), era = shifted / 146097, of_era = shifted % 146097;
    const uint32_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const uint32_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    const uint32_t from_march = (5 * of_year + 2) / 153;
    const uint32_t month = from_march < 10 ? from_march + 3 : from_march - 9;
    const uint32_t year = 400 * era + year_of_era + (month <= 2);
    kfs_put_pair_(dst, year / 100);
    kfs_put_pair_(dst + 2, year % 100);
    dst[4] = dst[7] = '-';
    kfs_put_pair_(dst + 5, month);
    kfs_put_pair_(dst + 8, of_year - (153 * from_march + 2) / 5 + 1);
}

#define KFS_LAST_TIME 253402300799999 /* the last millisecond of the year 9999 */

/* Writes milliseconds since 1970 as "2023-11-14T22:13:55.123Z" with its quotes, or null before 1970 and
 * after the year 9999. */
KFS_INLINE size_t kfs_put_time(unsigned char *dst, int64_t ms)
{
    if (KFS_UNLIKELY(ms < 0 || ms > KFS_LAST_TIME)) {
        if (dst != NULL)
            memcpy(dst, "null", 4);
        return 4;
    }
    if (dst == NULL)
        return 26;
    const uint64_t seconds = (uint64_t)ms / 1000;
    const uint32_t days = (uint32_t)(seconds / 86400), second = (uint32_t)(seconds % 86400);
    const uint32_t milli = (uint32_t)((uint64_t)ms % 1000);
    memcpy(dst, "\"____-__-__T__:__:__.___Z\"", 26);
    kfs_put_date(dst + 1, days);
    kfs_put_pair_(dst + 12, second / 3600);
    kfs_put_pair_(dst + 15, second / 60 % 60);
    kfs_put_pair_(dst + 18, second % 60);
    dst[21] = (unsigned char)('0' + milli / 100);
    kfs_put_pair_(dst + 22, milli % 100);
    return 26;
}

#endif
