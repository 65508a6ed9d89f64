/* Records of batches of magic 0, 1 and 2, as rows of columns: positions in one run of bytes.
 *
 * Accepts what Kafka's DefaultRecord.readFrom and AbstractLegacyRecordBatch accept. Every read is bounded by
 * the record, the record by the payload; nothing is allocated by a stated count.
 */
#ifndef KFS_RECORDS_H
#define KFS_RECORDS_H

#include "batches.h"
#include "codecs.h"
#include "needle.h"

/* Layout of engine.columns.columns.RECORD_ROW; one cache line. Sizes are -1 for null. */
typedef struct {
    int64_t offset, timestamp, key_start, value_start, headers_start;
    int32_t key_size, value_size, headers_size, headers_count, sequence, row;
} kfs_record;

_Static_assert(sizeof(kfs_record) == 64, "a record has 64 bytes");

/* engine.columns.columns.Reason, and two more. */
enum {
    KFS_OK,
    KFS_BAD_VARINT,
    KFS_RECORD_SIZE,
    KFS_KEY_SIZE,
    KFS_VALUE_SIZE,
    KFS_HEADER_COUNT,
    KFS_HEADER_KEY_SIZE,
    KFS_HEADER_VALUE_SIZE,
    KFS_FIELDS_SIZE,
    KFS_COUNT_TOO_HIGH,
    KFS_LEFTOVER,
    KFS_COUNT_NEGATIVE,
    KFS_LAST_OFFSET,
    KFS_RECORD_LIMIT,
    KFS_HEADER_LIMIT,
    KFS_CODEC_UNKNOWN,
    KFS_WRAPPER_NULL,
    KFS_WRAPPER_EMPTY,
    KFS_WRAPPER_OFFSET,
    KFS_WRAPPER_CODEC,
    KFS_INNER_MAGIC,
    KFS_INNER_SIZE,
    KFS_INNER_COMPRESSED,
    KFS_NEEDS_PYTHON = 100, /* the fast path could not inflate: ask Python for the payload */
    KFS_NO_MEMORY = 101,
    KFS_BAD_TABLE = 102, /* a row is outside the given bytes */
};

typedef struct {
    int reason, index;
    int64_t stated, found;
} kfs_problem;

typedef struct {
    int64_t inflated;
    int32_t records, headers;
} kfs_limits;

static inline int kfs_problem_at(kfs_problem *problem, int reason, size_t index, int64_t stated, int64_t found) {
    problem->reason = reason;
    problem->index = (int)index;
    problem->stated = stated;
    problem->found = found;
    return reason;
}

/* Zigzag varints as org.apache.kafka.common.utils.ByteUtils reads them: excess bits of a fifth byte are
 * dropped, but no byte may follow it. NULL if the varint is too long or cut off. */
static const uint8_t *kfs_varint_slow(const uint8_t *p, const uint8_t *end, int32_t *value) {
    uint32_t raw = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        if (p == end) return NULL;
        uint8_t byte = *p++;
        raw |= (uint32_t)(byte & 127) << shift;
        if (byte < 128) {
            *value = (int32_t)(raw >> 1) ^ -(int32_t)(raw & 1);
            return p;
        }
    }
    return NULL;
}

static inline const uint8_t *kfs_varint(const uint8_t *p, const uint8_t *end, int32_t *value) {
    if (KFS_LIKELY(p < end && *p < 128)) {
        *value = (int32_t)(*p >> 1) ^ -(int32_t)(*p & 1);
        return p + 1;
    }
    if (KFS_LIKELY(end - p >= 2 && p[1] < 128)) {
        uint32_t raw = (p[0] & 127u) | (uint32_t)p[1] << 7;
        *value = (int32_t)(raw >> 1) ^ -(int32_t)(raw & 1);
        return p + 2;
    }
    return kfs_varint_slow(p, end, value);
}

static inline const uint8_t *kfs_varlong(const uint8_t *p, const uint8_t *end, int64_t *value) {
    uint64_t raw = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (KFS_UNLIKELY(p == end)) return NULL;
        uint8_t byte = *p++;
        raw |= (uint64_t)(byte & 127) << shift;
        if (KFS_LIKELY(byte < 128)) {
            *value = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
            return p;
        }
    }
    return NULL;
}

/* DefaultRecordBatch.incrementSequence with Java's overflow. */
static inline int32_t kfs_sequence(int32_t base, int32_t delta) {
    if (base < 0) return -1;
    if (base > kfs_sub32(INT32_MAX, delta)) return kfs_sub32(kfs_sub32(delta, kfs_sub32(INT32_MAX, base)), 1);
    return kfs_add32(base, delta);
}

static int kfs_read_headers(const uint8_t *p, const uint8_t *end, int32_t count, kfs_problem *problem, size_t index,
                            const uint8_t **after) {
    for (int32_t i = 0; i < count; i++) {
        int32_t size;
        if (!(p = kfs_varint(p, end, &size))) return kfs_problem_at(problem, KFS_BAD_VARINT, index, 0, 0);
        if (size < 0 || size > end - p) return kfs_problem_at(problem, KFS_HEADER_KEY_SIZE, index, size, end - p);
        p += size;
        if (!(p = kfs_varint(p, end, &size))) return kfs_problem_at(problem, KFS_BAD_VARINT, index, 0, 0);
        if (size > end - p) return kfs_problem_at(problem, KFS_HEADER_VALUE_SIZE, index, size, end - p);
        if (size > 0) p += size;
    }
    *after = p;
    return KFS_OK;
}

/* Reads the record at *at; positions count from base. */
static inline int kfs_read_record(const uint8_t *base, const uint8_t **at, const uint8_t *end, const kfs_row *row,
                                  int32_t most_headers, size_t index, kfs_record *out, kfs_problem *problem) {
    const uint8_t *p = *at;
    int32_t size, delta, key, value, headers;
    int64_t elapsed;
    if (KFS_UNLIKELY(!(p = kfs_varint(p, end, &size)))) goto bad_varint;
    if (KFS_UNLIKELY(size < 0 || size > end - p)) return kfs_problem_at(problem, KFS_RECORD_SIZE, index, size, end - p);
    const uint8_t *start = p, *stop = p + size;
    if (KFS_UNLIKELY(p == stop)) goto bad_varint;
    p++; /* attributes: all bits are unused */
    if (KFS_UNLIKELY(!(p = kfs_varlong(p, stop, &elapsed)))) goto bad_varint;
    if (KFS_UNLIKELY(!(p = kfs_varint(p, stop, &delta)))) goto bad_varint;
    if (KFS_UNLIKELY(!(p = kfs_varint(p, stop, &key)))) goto bad_varint;
    if (KFS_UNLIKELY(key > stop - p)) return kfs_problem_at(problem, KFS_KEY_SIZE, index, key, stop - p);
    out->key_start = p - base;
    out->key_size = key < 0 ? -1 : key;
    if (key > 0) p += key;
    if (KFS_UNLIKELY(!(p = kfs_varint(p, stop, &value)))) goto bad_varint;
    if (KFS_UNLIKELY(value > stop - p)) return kfs_problem_at(problem, KFS_VALUE_SIZE, index, value, stop - p);
    out->value_start = p - base;
    out->value_size = value < 0 ? -1 : value;
    if (value > 0) p += value;
    if (KFS_UNLIKELY(!(p = kfs_varint(p, stop, &headers)))) goto bad_varint;
    out->headers_start = p - base;
    if (headers != 0) {
        if (headers < 0 || headers > stop - p)
            return kfs_problem_at(problem, KFS_HEADER_COUNT, index, headers, stop - p);
        if (headers > most_headers) return kfs_problem_at(problem, KFS_HEADER_LIMIT, index, headers, most_headers);
        int reason = kfs_read_headers(p, stop, headers, problem, index, &p);
        if (KFS_UNLIKELY(reason)) return reason;
    }
    if (KFS_UNLIKELY(p != stop)) return kfs_problem_at(problem, KFS_FIELDS_SIZE, index, size, p - start);
    out->headers_size = (int32_t)(p - base - out->headers_start);
    out->headers_count = headers;
    out->offset = kfs_add64(row->base_offset, delta);
    out->timestamp = row->attributes & KFS_TIMESTAMP_TYPE_MASK ? row->max_timestamp : kfs_add64(row->base_timestamp, elapsed);
    out->sequence = kfs_sequence(row->base_sequence, delta);
    *at = p;
    return KFS_OK;
bad_varint:
    return kfs_problem_at(problem, KFS_BAD_VARINT, index, 0, 0);
}

/* What the records of a batch share. */
typedef struct {
    int64_t base_offset, base_timestamp, append_time;
    int32_t base_sequence, row;
    int is_append_time;
} kfs_batch_facts;

/* Reads a varint of at most three bytes, all readable; NULL if it is longer. */
static inline const uint8_t *kfs_short_varint(const uint8_t *p, int32_t *value) {
    uint32_t raw = p[0];
    if (raw < 128) {
        p += 1;
    } else if (p[1] < 128) {
        raw = (raw & 127) | (uint32_t)p[1] << 7;
        p += 2;
    } else if (p[2] < 128) {
        raw = (raw & 127) | (p[1] & 127u) << 7 | (uint32_t)p[2] << 14;
        p += 3;
    } else {
        return NULL;
    }
    *value = (int32_t)(raw >> 1) ^ -(int32_t)(raw & 1);
    return p;
}

/* Reads the common record, with short fields and no headers, in fewer steps than kfs_read_record, and exactly as it
 * does. Returns the record's end; NULL, with `out` in any state, if the record is another one or broken. */
static inline const uint8_t *kfs_read_short_record(const uint8_t *base, const uint8_t *p, const uint8_t *end,
                                                   const kfs_batch_facts *batch, kfs_record *restrict out) {
    enum { UP_TO_KEY = 4 * 3 + 1, UP_TO_HEADERS = 3 + 1 }; /* the most bytes that are read before the next check */
    int32_t size, elapsed, delta, key, value;
    if (KFS_UNLIKELY(end - p < UP_TO_KEY)) return NULL;
    if (KFS_UNLIKELY(!(p = kfs_short_varint(p, &size)) || size > end - p)) return NULL;
    const uint8_t *stop = p + size;
    if (KFS_UNLIKELY(!(p = kfs_short_varint(p + 1, &elapsed)))) return NULL;
    if (KFS_UNLIKELY(!(p = kfs_short_varint(p, &delta)))) return NULL;
    if (KFS_UNLIKELY(!(p = kfs_short_varint(p, &key)))) return NULL;
    out->key_start = p - base;
    out->key_size = key < 0 ? -1 : key;
    p += key < 0 ? 0 : key;
    if (KFS_UNLIKELY(end - p < UP_TO_HEADERS || !(p = kfs_short_varint(p, &value)))) return NULL;
    out->value_start = p - base;
    out->value_size = value < 0 ? -1 : value;
    p += value < 0 ? 0 : value;
    if (KFS_UNLIKELY(stop - p != 1 || *p != 0)) return NULL; /* so all that was read lies before `stop` */
    out->headers_start = stop - base;
    out->headers_size = out->headers_count = 0;
    out->offset = kfs_add64(batch->base_offset, delta);
    out->timestamp = batch->is_append_time ? batch->append_time : kfs_add64(batch->base_timestamp, elapsed);
    out->sequence = batch->base_sequence < 0 ? -1 : kfs_sequence(batch->base_sequence, delta);
    out->row = batch->row;
    return stop;
}

/* Appends the records of a payload of magic 2, base[start..start + size), to `records`. */
static int kfs_read_payload(const kfs_row *row, int32_t row_index, const uint8_t *base, size_t start, size_t size,
                            const kfs_limits *limits, kfs_bytes *records, kfs_problem *problem) {
    enum { SMALLEST_RECORD = 7 };
    const uint8_t *p = base + start, *end = p + size;
    size_t count = (size_t)row->record_count, wanted = count, room = size / SMALLEST_RECORD + 1, i;
    if (wanted > (size_t)limits->records) wanted = (size_t)limits->records;
    if (!kfs_reserve(records, (wanted < room ? wanted : room) * sizeof(kfs_record))) return KFS_NO_MEMORY;
    kfs_record *out = (kfs_record *)(records->data + records->size);
    int reason = KFS_OK;
    const kfs_batch_facts batch = {row->base_offset, row->base_timestamp, row->max_timestamp,
                                   row->base_sequence, row_index, row->attributes & KFS_TIMESTAMP_TYPE_MASK};
    for (i = 0; i < wanted; i++, out++) {
        const uint8_t *after = kfs_read_short_record(base, p, end, &batch, out);
        if (KFS_LIKELY(after != NULL)) {
            p = after;
            continue;
        }
        if (KFS_UNLIKELY(p == end)) {
            reason = kfs_problem_at(problem, KFS_COUNT_TOO_HIGH, i, (int64_t)count, (int64_t)i);
            break;
        }
        reason = kfs_read_record(base, &p, end, row, limits->headers, i, out, problem);
        if (KFS_UNLIKELY(reason)) break;
        out->row = row_index;
    }
    records->size += i * sizeof(kfs_record);
    if (reason) return reason;
    if (wanted < count)
        return kfs_problem_at(problem, KFS_RECORD_LIMIT, i, (int64_t)count, limits->records);
    if (p != end) return kfs_problem_at(problem, KFS_LEFTOVER, i, end - p, 0);
    return KFS_OK;
}

/* Reads the fields of a message of magic 0 or 1 (without the 12 bytes of offset and length) at p. */
static int kfs_read_message(const uint8_t *base, const uint8_t *p, size_t size, size_t index, kfs_record *out,
                            kfs_problem *problem) {
    const uint8_t *end = p + size;
    size_t fixed = p[KFS_BODY_AT_MAGIC] == 0 ? KFS_BODY_AT_KEY_V0 : KFS_BODY_AT_KEY_V1;
    if (size < fixed + 8) return kfs_problem_at(problem, KFS_RECORD_SIZE, index, (int64_t)(fixed + 8), (int64_t)size);
    out->timestamp = p[KFS_BODY_AT_MAGIC] == 0 ? -1 : (int64_t)kfs_be64(p + KFS_BODY_AT_TIMESTAMP);
    p += fixed;
    int32_t key = (int32_t)kfs_be32(p);
    p += 4;
    if (key > end - p) return kfs_problem_at(problem, KFS_KEY_SIZE, index, key, end - p);
    out->key_start = p - base;
    out->key_size = key < 0 ? -1 : key;
    if (key > 0) p += key;
    if (end - p < 4) return kfs_problem_at(problem, KFS_VALUE_SIZE, index, 4, end - p);
    int32_t value = (int32_t)kfs_be32(p);
    p += 4;
    if (value > end - p) return kfs_problem_at(problem, KFS_VALUE_SIZE, index, value, end - p);
    out->value_start = p - base;
    out->value_size = value < 0 ? -1 : value;
    out->headers_start = p - base + (value > 0 ? value : 0);
    out->headers_size = out->headers_count = 0;
    out->sequence = -1;
    return KFS_OK;
}

/* Appends the inner messages of a wrapper, base[start..start + size), to `records`. `partial`: the end of
 * the payload was lost. Offsets of magic 1 count back from the last message, so then none of them can be
 * computed. */
static int kfs_read_message_set(const kfs_row *row, int32_t row_index, const uint8_t *base, size_t start, size_t size,
                                int partial, const kfs_limits *limits, kfs_bytes *records, kfs_problem *problem) {
    const uint8_t *p = base + start, *end = p + size;
    size_t before = records->size, index = 0;
    int64_t last_inner = 0;
    int reason = KFS_OK;
    for (; end - p >= KFS_LOG_OVERHEAD; index++) {
        int32_t length = (int32_t)kfs_be32(p + KFS_AT_LENGTH);
        int64_t offset = (int64_t)kfs_be64(p);
        if (length < KFS_SMALLEST_LENGTH) {
            reason = kfs_problem_at(problem, KFS_INNER_SIZE, index, length, KFS_SMALLEST_LENGTH);
            break;
        }
        p += KFS_LOG_OVERHEAD;
        if (length > end - p) break; /* as Kafka does with a message that is cut off at the end of a set */
        if (index == (size_t)limits->records) {
            reason = kfs_problem_at(problem, KFS_RECORD_LIMIT, index, (int64_t)index + 1, limits->records);
            break;
        }
        /* Kafka reads inner messages of the other legacy magic: an old cleaner wrote them (KAFKA-4298). */
        if (p[KFS_BODY_AT_MAGIC] > 1) {
            reason = kfs_problem_at(problem, KFS_INNER_MAGIC, index, p[KFS_BODY_AT_MAGIC], row->magic);
            break;
        }
        if (p[KFS_BODY_AT_ATTRIBUTES] & KFS_COMPRESSION_MASK) {
            reason = kfs_problem_at(problem, KFS_INNER_COMPRESSED, index, p[KFS_BODY_AT_ATTRIBUTES] & KFS_COMPRESSION_MASK, 0);
            break;
        }
        if (!kfs_reserve(records, sizeof(kfs_record))) return KFS_NO_MEMORY;
        kfs_record *out = (kfs_record *)(records->data + records->size);
        reason = kfs_read_message(base, p, (size_t)length, index, out, problem);
        if (reason) break;
        out->offset = last_inner = offset;
        out->row = row_index;
        if (row->attributes & KFS_TIMESTAMP_TYPE_MASK && row->magic == 1 && p[KFS_BODY_AT_MAGIC] == 1)
            out->timestamp = row->max_timestamp;
        records->size += sizeof(kfs_record);
        p += length;
    }
    if (row->magic == 1) {
        int64_t shift = row->base_offset == 0 ? 0 : kfs_sub64(row->base_offset, last_inner);
        if (reason || partial) {
            records->size = before;
            if (reason) problem->index = 0;
        } else if (index && row->base_offset != 0 && row->base_offset < last_inner) {
            records->size = before;
            return kfs_problem_at(problem, KFS_WRAPPER_OFFSET, 0, row->base_offset, last_inner);
        }
        for (size_t at = before; at < records->size; at += sizeof(kfs_record)) {
            kfs_record *out = (kfs_record *)(records->data + at);
            out->offset = kfs_add64(out->offset, shift);
        }
    }
    if (reason) return reason;
    return index || partial ? KFS_OK : kfs_problem_at(problem, KFS_WRAPPER_EMPTY, 0, 0, 0);
}

/* How records look that a decoder in Python may decode: the first byte of their key or value, or how a header's key
 * begins. */
enum { KFS_MOST_HEADER_KEYS = 4, KFS_LONGEST_HEADER_KEY = 32 };
typedef struct {
    uint8_t first[256], header_keys[KFS_MOST_HEADER_KEYS][KFS_LONGEST_HEADER_KEY];
    size_t header_key_sizes[KFS_MOST_HEADER_KEYS], header_key_count;
} kfs_marks;

/* Adds how a header's key begins; returns 0 if there are too many or it is too long. */
static int kfs_add_header_key(kfs_marks *marks, const uint8_t *key, size_t size) {
    size_t at = marks->header_key_count;
    if (at == KFS_MOST_HEADER_KEYS || !size || size > KFS_LONGEST_HEADER_KEY) return 0;
    memcpy(marks->header_keys[at], key, size);
    marks->header_key_sizes[at] = size;
    marks->header_key_count++;
    return 1;
}

static int kfs_has_marked_header(const uint8_t *base, const kfs_record *record, const kfs_marks *marks) {
    const uint8_t *p = base + record->headers_start, *end = p + record->headers_size;
    for (int32_t i = 0; i < record->headers_count; i++) {
        int32_t size = 0;
        if (!(p = kfs_varint(p, end, &size)) || size < 0 || size > end - p) return 0;
        for (size_t k = 0; k < marks->header_key_count; k++)
            if ((size_t)size >= marks->header_key_sizes[k] &&
                memcmp(p, marks->header_keys[k], marks->header_key_sizes[k]) == 0)
                return 1;
        p += size;
        if (!(p = kfs_varint(p, end, &size)) || size > end - p) return 0;
        if (size > 0) p += size;
    }
    return 0;
}

/* Returns whether a record looks so; its positions count from base. */
static inline int kfs_is_marked(const uint8_t *base, const kfs_record *record, const kfs_marks *marks) {
    if (record->value_size > 0 && marks->first[base[record->value_start]]) return 1;
    if (record->key_size > 0 && marks->first[base[record->key_start]]) return 1;
    return record->headers_count && marks->header_key_count && kfs_has_marked_header(base, record, marks);
}

typedef struct {
    const uint8_t *buf; /* bytes of the file from start_position on */
    size_t size;
    int64_t start_position;
    const kfs_row *rows;
    kfs_limits limits;
    kfs_codec_contexts *contexts;
    kfs_bytes *arena, *records;
    int copy; /* copy uncompressed payloads to the arena too, so that it has all */
    const kfs_needle *needle; /* decode only rows with this in the bytes of their records; NULL for all rows */
    const kfs_marks *marks;   /* with a needle: decode also rows with a record that looks so; NULL for no others */
} kfs_run;

/* Compressed payload for engine.coding.compression after a refusal. */
typedef struct {
    const uint8_t *data;
    size_t size;
    int codec;
} kfs_payload;

static inline int kfs_codec_of(const kfs_row *row) { return row->attributes & KFS_COMPRESSION_MASK; }

static int kfs_row_lies_in(const kfs_run *run, const kfs_row *row) {
    int64_t at = kfs_sub64(row->position, run->start_position);
    int smallest = row->magic == 2 ? KFS_V2_OVERHEAD : row->magic == 1 ? KFS_V1_OVERHEAD : KFS_V0_OVERHEAD;
    return row->magic >= 0 && row->magic <= 2 && row->size >= smallest && at >= 0 && at <= (int64_t)run->size &&
           row->size <= (int64_t)run->size - at;
}

static inline const uint8_t *kfs_row_bytes(const kfs_run *run, const kfs_row *row) {
    return run->buf + (row->position - run->start_position);
}

/* Finds the compressed bytes of a row. */
static int kfs_compressed_payload(const kfs_run *run, const kfs_row *row, kfs_payload *payload, kfs_problem *problem) {
    const uint8_t *p = kfs_row_bytes(run, row);
    payload->codec = kfs_codec_of(row);
    if (payload->codec > KFS_LAST_CODEC) return kfs_problem_at(problem, KFS_CODEC_UNKNOWN, 0, payload->codec, 0);
    if (row->magic == 2) {
        payload->data = p + KFS_V2_OVERHEAD;
        payload->size = (size_t)row->size - KFS_V2_OVERHEAD;
        return KFS_OK;
    }
    kfs_record wrapper;
    if (payload->codec >= KFS_CODEC_ZSTD) return kfs_problem_at(problem, KFS_WRAPPER_CODEC, 0, payload->codec, 0);
    int reason = kfs_read_message(p, p + KFS_LOG_OVERHEAD, (size_t)row->size - KFS_LOG_OVERHEAD, 0, &wrapper, problem);
    if (reason) return reason;
    if (wrapper.value_size < 0) return kfs_problem_at(problem, KFS_WRAPPER_NULL, 0, 0, 0);
    payload->data = p + wrapper.value_start;
    payload->size = (size_t)wrapper.value_size;
    return KFS_OK;
}

/* Reads the records of a payload at base[start..start + size). */
static int kfs_read_inflated(kfs_run *run, int32_t row_index, size_t start, size_t size, int partial, kfs_problem *problem) {
    const kfs_row *row = run->rows + row_index;
    if (row->magic == 2)
        return kfs_read_payload(row, row_index, run->arena->data, start, size, &run->limits, run->records, problem);
    return kfs_read_message_set(row, row_index, run->arena->data, start, size, partial, &run->limits, run->records, problem);
}

/* Returns why the header of a row of magic 2 contradicts itself. */
static int kfs_check_counts(const kfs_row *row, kfs_problem *problem) {
    if (row->magic != 2) return KFS_OK;
    if (row->last_offset < row->base_offset)
        return kfs_problem_at(problem, KFS_LAST_OFFSET, 0, row->last_offset, row->base_offset);
    if (row->record_count < 0) return kfs_problem_at(problem, KFS_COUNT_NEGATIVE, 0, row->record_count, 0);
    if (row->record_count == 0 && row->size != KFS_V2_OVERHEAD)
        return kfs_problem_at(problem, KFS_LEFTOVER, 0, row->size - KFS_V2_OVERHEAD, 0);
    return KFS_OK;
}

/* Returns whether a needle is in the bytes of an uncompressed row's records. */
static int kfs_plain_row_holds(const kfs_run *run, const kfs_row *row, const kfs_needle *needle) {
    size_t header = row->magic == 2 ? KFS_V2_OVERHEAD : KFS_UP_TO_MAGIC;
    return kfs_find(kfs_row_bytes(run, row) + header, (size_t)row->size - header, needle) != NULL;
}

/* Returns whether one of some records looks as the marks say. */
static int kfs_any_marked(const uint8_t *base, const kfs_record *records, size_t count, const kfs_marks *marks) {
    for (size_t i = 0; i < count; i++)
        if (kfs_is_marked(base, records + i, marks)) return 1;
    return 0;
}

/* Forgets the records of a row, decoded without a problem from `records` bytes on, if none is marked. */
static void kfs_keep_marked(kfs_run *run, const uint8_t *base, size_t arena, size_t records) {
    size_t count = (run->records->size - records) / sizeof(kfs_record);
    if (kfs_any_marked(base, (const kfs_record *)(run->records->data + records), count, run->marks)) return;
    run->arena->size = arena;
    run->records->size = records;
}

static int kfs_decode_whole_row(kfs_run *run, int32_t row_index, int *has_needle, kfs_payload *payload,
                                kfs_problem *problem) {
    const kfs_row *row = run->rows + row_index;
    if (!kfs_row_lies_in(run, row)) return KFS_BAD_TABLE;
    if (run->needle && kfs_codec_of(row) == KFS_CODEC_NONE && !kfs_plain_row_holds(run, row, run->needle)) {
        *has_needle = 0;
        if (!run->marks) return KFS_OK;
    }
    int reason = kfs_check_counts(row, problem);
    if (reason) return reason;
    if (row->magic == 2 && row->record_count == 0) return KFS_OK;
    if (kfs_codec_of(row) != KFS_CODEC_NONE) {
        reason = kfs_compressed_payload(run, row, payload, problem);
        if (reason) return reason;
        size_t start = run->arena->size;
        if (!kfs_inflate(run->contexts, payload->codec, row->magic, payload->data, payload->size,
                         (size_t)run->limits.inflated, run->arena))
            return KFS_NEEDS_PYTHON;
        size_t size = run->arena->size - start;
        if (run->needle && !kfs_find(run->arena->data + start, size, run->needle)) {
            *has_needle = 0;
            if (!run->marks) {
                run->arena->size = start;
                return KFS_OK;
            }
        }
        return kfs_read_inflated(run, row_index, start, size, 0, problem);
    }
    const uint8_t *base = run->buf;
    size_t at = (size_t)(row->position - run->start_position);
    if (run->copy) {
        if (!kfs_reserve(run->arena, (size_t)row->size)) return KFS_NO_MEMORY;
        memcpy(run->arena->data + run->arena->size, run->buf + at, (size_t)row->size);
        base = run->arena->data;
        at = run->arena->size;
        run->arena->size += (size_t)row->size;
    }
    if (row->magic == 2)
        return kfs_read_payload(row, row_index, base, at + KFS_V2_OVERHEAD, (size_t)row->size - KFS_V2_OVERHEAD,
                                &run->limits, run->records, problem);
    if (!kfs_reserve(run->records, sizeof(kfs_record))) return KFS_NO_MEMORY;
    kfs_record *out = (kfs_record *)(run->records->data + run->records->size);
    reason = kfs_read_message(base, base + at + KFS_LOG_OVERHEAD, (size_t)row->size - KFS_LOG_OVERHEAD, 0, out, problem);
    if (reason) return reason;
    out->offset = row->base_offset;
    out->row = row_index;
    run->records->size += sizeof(kfs_record);
    return KFS_OK;
}

static int kfs_decode_row(kfs_run *run, int32_t row_index, kfs_payload *payload, kfs_problem *problem) {
    size_t arena = run->arena->size, records = run->records->size;
    int has_needle = 1, reason = kfs_decode_whole_row(run, row_index, &has_needle, payload, problem);
    if (!reason && !has_needle && run->marks) {
        int in_arena = run->copy || kfs_codec_of(run->rows + row_index) != KFS_CODEC_NONE;
        kfs_keep_marked(run, in_arena ? run->arena->data : run->buf, arena, records);
    }
    return reason;
}

static int kfs_any_compressed(const kfs_row *rows, int32_t first, int32_t last) {
    for (int32_t at = first; at < last; at++)
        if (kfs_codec_of(rows + at) != KFS_CODEC_NONE) return 1;
    return 0;
}

/* Decodes rows [first, last) until one needs the caller, and sets *row_index to it. Stops early, after a
 * whole row, when arena and records have `enough` bytes. */
static int kfs_decode_rows(kfs_run *run, int32_t first, int32_t last, size_t enough, int32_t *row_index,
                           kfs_payload *payload, kfs_problem *problem) {
    int32_t at = first;
    int reason = KFS_OK;
    while (at < last) {
        reason = kfs_decode_row(run, at, payload, problem);
        if (reason) break;
        at++;
        if (run->arena->size + run->records->size >= enough) break;
    }
    *row_index = at;
    return reason;
}

/* Reads records of a payload of magic 2, base[start..start + size), up to the one with the offset. */
static int kfs_find_record(const kfs_row *row, const uint8_t *base, size_t start, size_t size, int64_t offset,
                           const kfs_limits *limits, kfs_record *out) {
    const uint8_t *p = base + start, *end = p + size;
    kfs_problem problem;
    for (int32_t i = 0; i < row->record_count && i < limits->records && p != end; i++) {
        if (kfs_read_record(base, &p, end, row, limits->headers, (size_t)i, out, &problem)) return KFS_LOCATE_NONE;
        if (out->offset == offset) return KFS_LOCATE_FOUND;
    }
    return KFS_LOCATE_NONE;
}

/* Reads the first batch from `position` on that reaches an offset, if it is good and does not start above
 * the offset (a compressed batch of magic 0 or 1 may: its header has only its last offset). *at is its start
 * in `bytes`. */
static int kfs_read_batch(int fd, int64_t position, int64_t end, int64_t offset, int64_t largest, kfs_bytes *bytes,
                          const uint8_t **at, kfs_row *row) {
    enum { ROOM = 64 * 1024 };
    kfs_location found;
    int32_t size;
    if (!kfs_reserve(bytes, ROOM)) return KFS_NO_MEMORY;
    if (kfs_locate(fd, position, end, offset, largest, bytes->data, bytes->capacity, 0, &found) != KFS_LOCATE_FOUND)
        return KFS_LOCATE_NONE;
    if (found.base_offset > offset && found.magic == 2) return KFS_LOCATE_NONE;
    if (found.index < 0) {
        if (!kfs_reserve(bytes, (size_t)found.size)) return KFS_NO_MEMORY;
        if (kfs_pread(fd, bytes->data, (size_t)found.size, found.position) != found.size) return KFS_LOCATE_NONE;
        found.index = 0;
    }
    /* The file may have changed between the reads: check the bytes of the last read. */
    const uint8_t *p = *at = bytes->data + found.index;
    if (kfs_frame(p, (size_t)found.size, largest, &size) != KFS_WHOLE) return KFS_LOCATE_NONE;
    kfs_fill_row(p, size, found.position, row);
    if (row->last_offset < offset || (row->magic == 2 && row->base_offset > offset)) return KFS_LOCATE_NONE;
    row->crc_ok = kfs_batch_crc(p, size) == row->crc;
    return row->crc_ok ? KFS_LOCATE_FOUND : KFS_LOCATE_NONE;
}

/* Reads the record with exactly this offset in that batch, and the batch's row; `bytes` and `inflated` are scratch
 * memory, and positions count from *base. Returns KFS_LOCATE_NONE for anything unusual, KFS_NEEDS_PYTHON if the batch
 * was not inflated. */
static int kfs_read_one(int fd, int64_t position, int64_t end, int64_t offset, int64_t largest,
                        const kfs_limits *limits, kfs_codec_contexts *contexts, kfs_bytes *bytes,
                        kfs_bytes *inflated, kfs_row *row, kfs_record *out, const uint8_t **base) {
    kfs_problem problem;
    int result = kfs_read_batch(fd, position, end, offset, largest, bytes, base, row);
    if (result != KFS_LOCATE_FOUND) return result;
    const uint8_t *p = *base;
    size_t size = (size_t)row->size;
    int codec = kfs_codec_of(row);
    memset(out, 0, sizeof *out);
    if (row->magic < 2) {
        if (codec != KFS_CODEC_NONE || row->base_offset != offset) return KFS_LOCATE_NONE;
        out->offset = offset;
        return kfs_read_message(p, p + KFS_LOG_OVERHEAD, size - KFS_LOG_OVERHEAD, 0, out, &problem)
                   ? KFS_LOCATE_NONE
                   : KFS_LOCATE_FOUND;
    }
    size_t stored = size - KFS_V2_OVERHEAD;
    if (codec == KFS_CODEC_NONE) return kfs_find_record(row, p, KFS_V2_OVERHEAD, stored, offset, limits, out);
    if (codec > KFS_LAST_CODEC || row->record_count <= 0) return KFS_LOCATE_NONE;
    if (!kfs_inflate(contexts, codec, row->magic, p + KFS_V2_OVERHEAD, stored, (size_t)limits->inflated, inflated))
        return KFS_NEEDS_PYTHON;
    *base = inflated->data;
    return kfs_find_record(row, inflated->data, 0, inflated->size, offset, limits, out);
}

#endif
