/* JSON text of decoded values, in memory that grows: strings, numbers, times and bytes as record lines show them.
 *
 * Knows no format of schemas. Strings are those of engine/kernel/c/text.h; numbers equal Python's `json`, byte for byte.
 * Each function returns KJW_OK or why it wrote nothing.
 */
#ifndef KJW_JSON_WRITER_H
#define KJW_JSON_WRITER_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "text.h"

enum { KJW_OK, KJW_NO_MEMORY, KJW_NOT_UTF8 };

typedef struct {
    uint8_t *data;
    size_t size, capacity;
} kjw_text;

/* Makes room for `more` bytes behind the text; returns 0 without memory. */
static __attribute__((noinline, unused)) int kjw_grow(kjw_text *text, size_t more) {
    size_t wanted = text->capacity ? text->capacity : 4096;
    while (wanted - text->size < more) {
        if (wanted > SIZE_MAX / 2) return 0;
        wanted *= 2;
    }
    uint8_t *data = realloc(text->data, wanted);
    if (!data) return 0;
    text->data = data;
    text->capacity = wanted;
    return 1;
}

KFS_INLINE int kjw_room(kjw_text *text, size_t more) {
    return KFS_LIKELY(text->capacity - text->size >= more) || kjw_grow(text, more);
}

static inline void kjw_free(kjw_text *text) {
    free(text->data);
    text->data = NULL;
    text->size = text->capacity = 0;
}

/* ---- text that is JSON already -------------------------------------------------------------------- */

KFS_INLINE int kjw_raw(kjw_text *text, const void *bytes, size_t size) {
    if (!kjw_room(text, size)) return KJW_NO_MEMORY;
    if (size) memcpy(text->data + text->size, bytes, size);
    text->size += size;
    return KJW_OK;
}

KFS_INLINE int kjw_char(kjw_text *text, char c) {
    if (!kjw_room(text, 1)) return KJW_NO_MEMORY;
    text->data[text->size++] = (uint8_t)c;
    return KJW_OK;
}

/* ---- strings and bytes ---------------------------------------------------------------------------- */

/* Writes UTF-8 as a string with its quotes, with what is not safe to print escaped. */
KFS_INLINE int kjw_string(kjw_text *text, const uint8_t *bytes, size_t size) {
    if (!kjw_room(text, kfs_bound(size))) return KJW_NO_MEMORY;
    const size_t written = kfs_put_text(text->data + text->size, bytes, size);
    if (KFS_UNLIKELY(written == KFS_REFUSED)) return KJW_NOT_UTF8;
    text->size += written;
    return KJW_OK;
}

/* Writes bytes as a string of base64 (RFC 4648, padded). */
static inline int kjw_base64(kjw_text *text, const uint8_t *bytes, size_t size) {
    if (!kjw_room(text, kfs_bound(size) + 8)) return KJW_NO_MEMORY;
    text->size += kfs_put_base64(text->data + text->size, bytes, size);
    return KJW_OK;
}

/* ---- whole numbers -------------------------------------------------------------------------------- */

KFS_INLINE int kjw_i64(kjw_text *text, int64_t number) {
    if (!kjw_room(text, KFS_I64_BOUND)) return KJW_NO_MEMORY;
    text->size += kfs_put_i64(text->data + text->size, number);
    return KJW_OK;
}

/* Writes a number without a sign, of up to 20 digits. */
static inline int kjw_u64(kjw_text *text, uint64_t number) {
    if (number <= INT64_MAX) return kjw_i64(text, (int64_t)number);
    int result = kjw_i64(text, (int64_t)(number / 10));
    return result ? result : kjw_char(text, (char)('0' + number % 10));
}

/* ---- floating point ------------------------------------------------------------------------------- */

/* 128 bits of 10^k, rounded up, the highest bit set; filled once by kjw_set_power(). */
enum { KJW_LEAST_POWER = -292, KJW_LAST_POWER = 324 };
typedef struct {
    uint64_t high, low;
} kjw_power;
static kjw_power kjw_powers[KJW_LAST_POWER - KJW_LEAST_POWER + 1];

static inline void kjw_set_power(int exponent, uint64_t high, uint64_t low) {
    kjw_powers[exponent - KJW_LEAST_POWER].high = high;
    kjw_powers[exponent - KJW_LEAST_POWER].low = low;
}

KFS_INLINE uint64_t kjw_round_to_odd_(kjw_power power, uint64_t x) {
    const unsigned __int128 low = (unsigned __int128)power.low * x;
    const unsigned __int128 high = (unsigned __int128)power.high * x + (uint64_t)(low >> 64);
    return (uint64_t)(high >> 64) | ((uint64_t)high > 1);
}

/* The shortest digits that read as a finite number above 0: *digits * 10^result. Schubfach, by Raffaele Giulietti ("The
 * Schubfach way to render doubles"), with the names of Alexander Bolz's version. */
static int kjw_shortest_(double number, uint64_t *digits) {
    uint64_t bits;
    memcpy(&bits, &number, 8);
    const uint64_t fraction = bits & (((uint64_t)1 << 52) - 1);
    const int exponent = (int)(bits >> 52 & 0x7ff);
    const uint64_t c = exponent ? fraction | (uint64_t)1 << 52 : fraction;
    const int q = (exponent ? exponent : 1) - 1075;
    if (q <= 0 && q > -53 && !(c & (((uint64_t)1 << -q) - 1))) {
        *digits = c >> -q;
        return 0;
    }
    const int is_odd = (int)(c & 1), is_closer = fraction == 0 && exponent > 1;
    const int k = (q * 1262611 - (is_closer ? 524031 : 0)) >> 22;
    const int h = q + ((-k * 1741647) >> 19) + 1;
    const kjw_power power = kjw_powers[-k - KJW_LEAST_POWER];
    const uint64_t lower = kjw_round_to_odd_(power, (4 * c - 2 + (uint64_t)is_closer) << h) + (uint64_t)is_odd;
    const uint64_t middle = kjw_round_to_odd_(power, (4 * c) << h);
    const uint64_t upper = kjw_round_to_odd_(power, (4 * c + 2) << h) - (uint64_t)is_odd;
    const uint64_t s = middle / 4;
    if (s >= 10) {
        const uint64_t tens = s / 10;
        const int below_fits = lower <= 40 * tens, above_fits = 40 * tens + 40 <= upper;
        if (below_fits != above_fits) {
            *digits = tens + (uint64_t)above_fits;
            return k + 1;
        }
    }
    const int below_fits = lower <= 4 * s, above_fits = 4 * s + 4 <= upper;
    if (below_fits != above_fits)
        *digits = s + (uint64_t)above_fits;
    else
        *digits = s + (uint64_t)(middle > 4 * s + 2 || (middle == 4 * s + 2 && (s & 1)));
    return k;
}

enum { KJW_DOUBLE_BOUND = 48 };

/* Writes digits * 10^exponent as Python's `repr` of a float does. */
static size_t kjw_put_digits_(uint8_t *dst, uint64_t digits, int exponent) {
    uint8_t text[24];
    while (digits >= 10 && digits % 10 == 0) {
        digits /= 10;
        exponent++;
    }
    const int size = (int)kfs_put_i64(text, (int64_t)digits);
    const int point = size + exponent; /* digits before the decimal point */
    size_t n = 0;
    if (point > 16 || point < -3) {
        const int power = point - 1;
        dst[n++] = text[0];
        if (size > 1) {
            dst[n++] = '.';
            memcpy(dst + n, text + 1, (size_t)size - 1);
            n += (size_t)size - 1;
        }
        dst[n++] = 'e';
        dst[n++] = power < 0 ? '-' : '+';
        const int absolute = power < 0 ? -power : power;
        if (absolute < 10) dst[n++] = '0';
        return n + kfs_put_i64(dst + n, absolute);
    }
    if (point <= 0) {
        memcpy(dst, "0.000", 5);
        n = 2 + (size_t)-point;
        memcpy(dst + n, text, (size_t)size);
        return n + (size_t)size;
    }
    if (point >= size) {
        memcpy(dst, text, (size_t)size);
        memset(dst + size, '0', (size_t)(point - size));
        memcpy(dst + point, ".0", 2);
        return (size_t)point + 2;
    }
    memcpy(dst, text, (size_t)point);
    dst[point] = '.';
    memcpy(dst + point + 1, text + point, (size_t)(size - point));
    return (size_t)size + 1;
}

/* Writes NaN and infinities, which JSON has no numbers for, as strings. */
static inline int kjw_not_finite_(kjw_text *text, double number) {
    const char *name = number != number ? "\"NaN\"" : number > 0 ? "\"Infinity\"" : "\"-Infinity\"";
    return kjw_raw(text, name, strlen(name));
}

/* Writes the sign of a finite number; returns its end, which has room for the digits. */
KFS_INLINE uint8_t *kjw_sign_(kjw_text *text, double number) {
    uint8_t *dst = text->data + text->size;
    if (signbit(number)) *dst++ = '-';
    return dst;
}

/* Writes a number with the digits of Python's `repr`. */
static inline int kjw_double(kjw_text *text, double number) {
    if (KFS_UNLIKELY(!isfinite(number))) return kjw_not_finite_(text, number);
    if (!kjw_room(text, KJW_DOUBLE_BOUND)) return KJW_NO_MEMORY;
    uint8_t *dst = kjw_sign_(text, number);
    uint64_t digits = 0;
    const int exponent = number == 0 ? 0 : kjw_shortest_(fabs(number), &digits);
    text->size = (size_t)(dst - text->data) + kjw_put_digits_(dst, digits, exponent);
    return KJW_OK;
}

/* The nearest m for which m * 10^-places is a float above 0, ties to even; 0 if the numbers are too large for 128 bits. */
static uint64_t kjw_scaled_(float number, int places) {
    int q;
    const uint64_t c = (uint64_t)ldexpf(frexpf(number, &q), 24);
    unsigned __int128 top = c, bottom = 1;
    q -= 24;
    if (places > 27 || places < -27 || q > 60 || q < -90) return 0;
    for (int i = 0; i < places; i++) top *= 10;
    for (int i = 0; i > places; i--) bottom *= 10;
    if (q > 0) {
        if (places > 0 || q > 60) return 0;
        top <<= q;
    } else {
        if (places < 0 && q < -30) return 0;
        bottom <<= -q;
    }
    const unsigned __int128 whole = top / bottom, left = top % bottom;
    const unsigned __int128 other = bottom - left;
    return (uint64_t)(whole + (left > other || (left == other && (whole & 1))));
}

/* Writes a number of 32 bits with the fewest of 6 to 9 digits that read as it: 0.1, not 0.10000000149011612. */
static int kjw_float(kjw_text *text, float number) {
    const float size = fabsf(number);
    if (KFS_UNLIKELY(!isfinite(number))) return kjw_not_finite_(text, number);
    if (!kjw_room(text, KJW_DOUBLE_BOUND)) return KJW_NO_MEMORY;
    uint8_t *dst = kjw_sign_(text, number);
    uint64_t digits = 0;
    int exponent = 0;
    if (size > 0 && size < 9e15f && size >= 1e-9f) {
        static const double tens[23] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                        1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
        int before = 1; /* digits before the point, 0 or less below 1 */
        for (double bound = 10; size >= bound; bound *= 10) before++;
        for (double bound = 1; size < bound && before > -8; bound /= 10) before--;
        for (int count = 6; count <= 9; count++) {
            const int places = count - before;
            const uint64_t scaled = places > 22 || places < -22 ? 0 : kjw_scaled_(size, places);
            if (!scaled) break;
            const double value = places >= 0 ? (double)scaled / tens[places] : (double)scaled * tens[-places];
            if (count < 9 && (float)value != size) continue;
            digits = scaled;
            exponent = -places;
            break;
        }
    }
    if (size > 0 && !digits) {
        char shown[32];
        double value = size;
        for (int count = size < 0x1p-126f ? 1 : 6; count <= 9; count++) {
            snprintf(shown, sizeof(shown), "%.*e", count - 1, (double)size);
            value = strtod(shown, NULL);
            if ((float)value == size) break;
        }
        exponent = kjw_shortest_(value, &digits);
    }
    text->size = (size_t)(dst - text->data) + kjw_put_digits_(dst, digits, exponent);
    return KJW_OK;
}

/* ---- dates and times ------------------------------------------------------------------------------ */

enum { KJW_FIRST_DAY = -719162, KJW_LAST_DAY = 2932896 }; /* 0001-01-01 and 9999-12-31, from 1970-01-01 on */

/* Writes `size` digits of a number, with leading zeros. */
static inline void kjw_put_padded_(uint8_t *dst, uint64_t number, unsigned size) {
    while (size) {
        dst[--size] = (uint8_t)('0' + number % 10);
        number /= 10;
    }
}

/* Writes a time of day with the decimals that it is given, none for 0: "12:34:56.789". */
static inline size_t kjw_put_clock_(uint8_t *dst, uint32_t second, uint64_t part, unsigned decimals) {
    kfs_put_pair_(dst, second / 3600);
    kfs_put_pair_(dst + 3, second / 60 % 60);
    kfs_put_pair_(dst + 6, second % 60);
    dst[2] = dst[5] = ':';
    if (!decimals) return 8;
    dst[8] = '.';
    kjw_put_padded_(dst + 9, part, decimals);
    return 9 + (size_t)decimals;
}

/* Writes days since 1970 as a date of RFC 3339; as a number if that has no such date. */
static int kjw_date(kjw_text *text, int64_t days) {
    if (days < KJW_FIRST_DAY || days > KJW_LAST_DAY) return kjw_i64(text, days);
    if (!kjw_room(text, 16)) return KJW_NO_MEMORY;
    uint8_t *dst = text->data + text->size;
    dst[0] = dst[11] = '"';
    kfs_put_date(dst + 1, days);
    text->size += 12;
    return KJW_OK;
}

static const int64_t kjw_ticks[10] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};

/* Writes ticks of 10^-decimals s since midnight as a time of day; as a number if a day has no such time. */
static int kjw_time(kjw_text *text, int64_t ticks, unsigned decimals) {
    const int64_t second = ticks / kjw_ticks[decimals];
    if (ticks < 0 || second >= 86400) return kjw_i64(text, ticks);
    if (!kjw_room(text, 24)) return KJW_NO_MEMORY;
    uint8_t *dst = text->data + text->size;
    dst[0] = '"';
    size_t n = 1 + kjw_put_clock_(dst + 1, (uint32_t)second, (uint64_t)(ticks % kjw_ticks[decimals]), decimals);
    dst[n++] = '"';
    text->size += n;
    return KJW_OK;
}

/* Writes ticks of 10^-decimals s since 1970 as RFC 3339, in UTC or without a zone; as a number if the year is not 1 to
 * 9999. */
static int kjw_timestamp(kjw_text *text, int64_t ticks, unsigned decimals, int is_utc) {
    int64_t second = ticks / kjw_ticks[decimals], part = ticks % kjw_ticks[decimals];
    if (part < 0) {
        part += kjw_ticks[decimals];
        second--;
    }
    int64_t day = second / 86400, of_day = second % 86400;
    if (of_day < 0) {
        of_day += 86400;
        day--;
    }
    if (day < KJW_FIRST_DAY || day > KJW_LAST_DAY) return kjw_i64(text, ticks);
    if (!kjw_room(text, 40)) return KJW_NO_MEMORY;
    uint8_t *dst = text->data + text->size;
    dst[0] = '"';
    kfs_put_date(dst + 1, day);
    size_t n = 11;
    dst[n++] = 'T';
    n += kjw_put_clock_(dst + n, (uint32_t)of_day, (uint64_t)part, decimals);
    if (is_utc) dst[n++] = 'Z';
    dst[n++] = '"';
    text->size += n;
    return KJW_OK;
}

#endif
