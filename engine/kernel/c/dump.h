/* Text of batches and records as Kafka's DumpLogSegments prints it, twin of engine/lines/dump_text.py. */
#ifndef KFS_DUMP_H
#define KFS_DUMP_H

#include "records.h"
#include "text.h"

/* engine.lines.dump_text.DumpShape */
enum { KFS_DUMP_BATCHES = 1, KFS_DUMP_METADATA = 2, KFS_DUMP_CONTENTS = 4 };

typedef struct {
    const kfs_row *rows;
    const kfs_record *records;
    size_t count; /* of records */
    const uint8_t *arena;
    size_t arena_size;
    int64_t from, upto; /* offsets to show, both inclusive */
    int shape;
} kfs_dump;

static inline int kfs_no_tail_(uint8_t c) { return (c & 0xc0) != 0x80; }

/* Returns how many invalid bytes Java's decoder replaces with one U+FFFD. */
static size_t kfs_java_skip(const uint8_t *p, size_t left) {
    uint8_t first = p[0];
    if (first < 0xe0 || first > 0xf7) return 1;
    if (first < 0xf0) {
        if (left >= 2 && (kfs_no_tail_(p[1]) || (first == 0xe0 && p[1] < 0xa0))) return 1;
        if (left < 3) return left;
        return kfs_no_tail_(p[2]) ? 2 : 3;
    }
    if (first > 0xf4) return 1;
    if (left >= 2 && (kfs_no_tail_(p[1]) || (first == 0xf0 && p[1] < 0x90) || (first == 0xf4 && p[1] > 0x8f))) return 1;
    if (left >= 3 && kfs_no_tail_(p[2])) return 2;
    return left < 3 ? left : 3;
}

/* Writes bytes as Java shows them in UTF-8; up to three times as many. */
static size_t kfs_put_java_text(uint8_t *dst, const uint8_t *src, size_t size) {
    if (KFS_LIKELY(kfs_utf8_valid(src, size))) {
        memcpy(dst, src, size);
        return size;
    }
    size_t n = 0;
    for (size_t i = 0; i < size;) {
        uint32_t hidden;
        unsigned length = src[i] < 0x80 ? 1 : kfs_character_(src + i, size - i, &hidden);
        if (length) {
            for (unsigned j = 0; j < length; j++) dst[n++] = src[i++];
        } else {
            memcpy(dst + n, "\xef\xbf\xbd", 3);
            n += 3;
            i += kfs_java_skip(src + i, size - i);
        }
    }
    return n;
}

/* DefaultRecordBatch.incrementSequence, for any base. */
static inline int32_t kfs_java_sequence(int32_t base, int32_t by) {
    if (base > kfs_sub32(INT32_MAX, by)) return kfs_sub32(kfs_sub32(by, kfs_sub32(INT32_MAX, base)), 1);
    return kfs_add32(base, by);
}

#define KFS_SAY(text)                               \
    do {                                            \
        memcpy(dst + n, text, sizeof(text) - 1);    \
        n += sizeof(text) - 1;                      \
    } while (0)
#define KFS_SAY_NUMBER(label, value)                \
    do {                                            \
        KFS_SAY(label);                             \
        n += kfs_put_i64(dst + n, value);           \
    } while (0)
#define KFS_SAY_BOOL(label, value)                  \
    do {                                            \
        KFS_SAY(label);                             \
        if (value) KFS_SAY("true");                 \
        else KFS_SAY("false");                      \
    } while (0)

static size_t kfs_say_time(uint8_t *dst, size_t n, const kfs_row *row, int64_t timestamp) {
    if (row->magic == 0) KFS_SAY_NUMBER(" NoTimestampType: ", timestamp);
    else if (row->attributes & KFS_TIMESTAMP_TYPE_MASK) KFS_SAY_NUMBER(" LogAppendTime: ", timestamp);
    else KFS_SAY_NUMBER(" CreateTime: ", timestamp);
    return n;
}

static size_t kfs_dump_batch(uint8_t *dst, size_t n, const kfs_row *row) {
    static const char *const codecs[] = {KFS_CODEC_NAMES};
    if (row->magic >= 2) {
        int32_t delta = (int32_t)kfs_sub64(row->last_offset, row->base_offset);
        KFS_SAY_NUMBER("baseOffset: ", row->base_offset);
        KFS_SAY_NUMBER(" lastOffset: ", row->last_offset);
        KFS_SAY_NUMBER(" count: ", row->record_count);
        KFS_SAY_NUMBER(" baseSequence: ", row->base_sequence);
        KFS_SAY_NUMBER(" lastSequence: ", row->base_sequence == -1 ? -1 : kfs_java_sequence(row->base_sequence, delta));
        KFS_SAY_NUMBER(" producerId: ", row->producer_id);
        KFS_SAY_NUMBER(" producerEpoch: ", row->producer_epoch);
        KFS_SAY_NUMBER(" partitionLeaderEpoch: ", row->leader_epoch);
        KFS_SAY_BOOL(" isTransactional: ", row->attributes & KFS_TRANSACTIONAL_MASK);
        KFS_SAY_BOOL(" isControl: ", row->attributes & KFS_CONTROL_MASK);
        if (row->attributes & KFS_DELETE_HORIZON_MASK) {
            KFS_SAY_NUMBER(" deleteHorizonMs: OptionalLong[", row->base_timestamp);
            KFS_SAY("]");
        } else {
            KFS_SAY(" deleteHorizonMs: OptionalLong.empty");
        }
    } else {
        KFS_SAY_NUMBER("offset: ", row->last_offset);
    }
    KFS_SAY_NUMBER(" position: ", row->position);
    n = kfs_say_time(dst, n, row, row->max_timestamp);
    KFS_SAY_NUMBER(" size: ", row->size);
    KFS_SAY_NUMBER(" magic: ", row->magic);
    KFS_SAY(" compresscodec: ");
    n = kfs_append_text(dst, n, codecs[row->attributes & KFS_COMPRESSION_MASK]);
    KFS_SAY_NUMBER(" crc: ", row->crc);
    KFS_SAY_BOOL(" isvalid: ", row->crc_ok);
    KFS_SAY("\n");
    return n;
}

/* The headers were read before, so their bytes are valid. */
static size_t kfs_dump_header_keys(uint8_t *dst, size_t n, const uint8_t *p, const uint8_t *end, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        int32_t size = 0;
        if (i) KFS_SAY(",");
        if (!(p = kfs_varint(p, end, &size)) || size < 0 || size > end - p) break;
        n += kfs_put_java_text(dst + n, p, (size_t)size);
        p += size;
        if (!(p = kfs_varint(p, end, &size)) || size > end - p) break;
        if (size > 0) p += size;
    }
    return n;
}

static size_t kfs_dump_record(uint8_t *dst, size_t n, const kfs_dump *dump, const kfs_row *row, const kfs_record *record) {
    const uint8_t *arena = dump->arena;
    if (dump->shape & KFS_DUMP_METADATA) {
        KFS_SAY_NUMBER("| offset: ", record->offset);
        n = kfs_say_time(dst, n, row, record->timestamp);
        KFS_SAY_NUMBER(" keySize: ", record->key_size);
        KFS_SAY_NUMBER(" valueSize: ", record->value_size);
        KFS_SAY_NUMBER(" sequence: ", record->sequence);
        KFS_SAY(" headerKeys: [");
        const uint8_t *headers = arena + record->headers_start;
        n = kfs_dump_header_keys(dst, n, headers, headers + record->headers_size, record->headers_count);
        KFS_SAY("]");
    }
    if (dump->shape & KFS_DUMP_CONTENTS) {
        int is_first = !(dump->shape & KFS_DUMP_METADATA);
        if (record->key_size >= 0) {
            if (is_first) KFS_SAY("|");
            KFS_SAY(" key: ");
            n += kfs_put_java_text(dst + n, arena + record->key_start, (size_t)record->key_size);
            is_first = 0;
        }
        if (record->value_size >= 0) {
            if (is_first) KFS_SAY("|");
            KFS_SAY(" payload: ");
            n += kfs_put_java_text(dst + n, arena + record->value_start, (size_t)record->value_size);
        }
    }
    KFS_SAY("\n");
    return n;
}

#undef KFS_SAY
#undef KFS_SAY_NUMBER
#undef KFS_SAY_BOOL

static int kfs_lies_in(size_t all, int64_t start, int32_t size) {
    return start >= 0 && start <= (int64_t)all && size <= (int64_t)all - start;
}

static int kfs_dump_lies_in(const kfs_dump *dump, const kfs_record *record) {
    return kfs_lies_in(dump->arena_size, record->key_start, record->key_size) &&
           kfs_lies_in(dump->arena_size, record->value_start, record->value_size) &&
           kfs_lies_in(dump->arena_size, record->headers_start, record->headers_size) && record->headers_size >= 0;
}

/* Appends the lines of rows [first, last) of magic 2 (batch lines only: of any magic), and of their records
 * from *next on; leaves *next at the first record of a later row. */
static int kfs_dump_rows(const kfs_dump *dump, int32_t first, int32_t last, size_t *next, kfs_bytes *text) {
    enum { BATCH_LINE = 640, RECORD_LINE = 320 };
    size_t at = *next;
    for (int32_t i = first; i < last; i++) {
        const kfs_row *row = dump->rows + i;
        if (dump->shape & KFS_DUMP_BATCHES) {
            if (!kfs_reserve(text, BATCH_LINE)) return KFS_NO_MEMORY;
            text->size = kfs_dump_batch(text->data, text->size, row);
        }
        for (; at < dump->count && dump->records[at].row <= i; at++) {
            const kfs_record *record = dump->records + at;
            if (record->row < i || record->offset < dump->from || record->offset > dump->upto) continue;
            if (!kfs_dump_lies_in(dump, record)) return KFS_BAD_TABLE;
            size_t fields = (size_t)(record->key_size > 0 ? record->key_size : 0) +
                            (size_t)(record->value_size > 0 ? record->value_size : 0) + (size_t)record->headers_size;
            size_t bound = RECORD_LINE + 3 * fields + (size_t)(record->headers_count > 0 ? record->headers_count : 0);
            if (!kfs_reserve(text, bound)) return KFS_NO_MEMORY;
            text->size = kfs_dump_record(text->data, text->size, dump, row, record);
        }
    }
    *next = at;
    return KFS_OK;
}

#endif
