/* Record lines: one JSON object per record, byte for byte as in engine/lines/record_line.py. */
#ifndef KFS_LINES_H
#define KFS_LINES_H

#include "records.h"
#include "text.h"

/* engine.record.fate.Fate */
enum { KFS_FATE_NONE, KFS_FATE_COMMITTED, KFS_FATE_ABORTED, KFS_FATE_OPEN };

/* A row that is left to Python: control records are rare and have many forms. */
enum { KFS_CONTROL_ROW = 110 };

/* A row with records of more memory than `most`: the caller decodes it once and asks for pieces. */
enum { KFS_LARGE_ROW = 111 };

/* Control records are written in Python, so a row with many of them counts as large. */
enum { KFS_MANY_CONTROL_RECORDS = 1000 };

/* A row with a record that a decoder in Python may decode. */
enum { KFS_MARKED_ROW = 112 };

/* A topic has up to 249 characters, each perhaps shown as an escape. */
#define KFS_LONGEST_PREFIX 2048

typedef struct {
    uint8_t prefix[KFS_LONGEST_PREFIX];
    size_t prefix_size;
    int64_t log_start, from, to;
    int mode, committed, measure;
    size_t enough; /* stop when the text has this many bytes */
    size_t most;   /* stop before a row or record with more bytes than this; 0 for no limit */
    const kfs_marks *marks; /* records that are left to a decoder in Python; NULL for none */
} kfs_line_options;

/* Parts that all lines of a batch share. */
typedef struct {
    uint8_t kind[64], epoch[32], transaction[128];
    size_t kind_size, epoch_size, transaction_size;
    int has_sequence;
} kfs_line_parts;

/* Where a decoder's text of a key or value is: its JSON with all that belongs to it; a size of -1 for none. */
typedef struct {
    int64_t start, size;
} kfs_place;

typedef struct {
    const uint8_t *text;
    size_t size;
    const kfs_place *places; /* of each record's key and value */
} kfs_field_texts;

typedef struct {
    kfs_bytes *text;
    size_t size, records; /* bytes of all lines, lines */
    size_t next_record;   /* where to continue in a partly written row */
    int full, large;      /* the text is full; the next row or record is larger than `most` */
} kfs_lines;

#define KFS_LITERAL(text)                                          \
    do {                                                           \
        if (write) memcpy(dst + n, text, sizeof(text) - 1);        \
        n += sizeof(text) - 1;                                     \
    } while (0)
/* Copies from an array with a size that is a multiple of 32; bytes beyond `size` are overwritten later. */
#define KFS_COPY(from, size)                                       \
    do {                                                           \
        if (write)                                                 \
            for (size_t done = 0; done < (size); done += 32)       \
                memcpy(dst + n + done, (from) + done, 32);         \
        n += (size);                                               \
    } while (0)
#define KFS_NUMBER(value) n += kfs_put_i64(write ? dst + n : NULL, value)

static size_t kfs_append_text(uint8_t *dst, size_t n, const char *text) {
    size_t size = strlen(text);
    memcpy(dst + n, text, size);
    return n + size;
}

static void kfs_fill_parts(const kfs_row *row, int fate, kfs_line_parts *parts) {
    static const char *const states[4] = {"", ",\"state\":\"committed\"", ",\"state\":\"aborted\"", ",\"state\":\"open\""};
    const char *kind = row->magic == 0                         ? ",\"timestampType\":\"NoTimestampType\""
                       : row->attributes & KFS_TIMESTAMP_TYPE_MASK ? ",\"timestampType\":\"LogAppendTime\""
                                                               : ",\"timestampType\":\"CreateTime\"";
    parts->kind_size = kfs_append_text(parts->kind, 0, kind);
    size_t n = kfs_append_text(parts->epoch, 0, ",\"leaderEpoch\":");
    parts->epoch_size = n + kfs_put_i64(parts->epoch + n, row->leader_epoch);
    parts->has_sequence = row->magic == 2 && row->producer_id >= 0;
    n = 0;
    if (row->magic == 2 && row->attributes & KFS_TRANSACTIONAL_MASK) {
        n = kfs_append_text(parts->transaction, 0, ",\"transaction\":{\"producerId\":");
        n += kfs_put_i64(parts->transaction + n, row->producer_id);
        n = kfs_append_text(parts->transaction, n, ",\"producerEpoch\":");
        n += kfs_put_i64(parts->transaction + n, row->producer_epoch);
        n = kfs_append_text(parts->transaction, n, states[fate & 3]);
        parts->transaction[n++] = '}';
    }
    parts->transaction_size = n;
}

KFS_INLINE size_t kfs_put_encoding(uint8_t *dst, size_t n, int encoding, int is_key, const int write) {
    if (KFS_LIKELY(encoding == KFS_AS_TEXT)) return n;
    if (is_key) KFS_LITERAL(",\"keyEncoding\":\"");
    else KFS_LITERAL(",\"valueEncoding\":\"");
    if (KFS_LIKELY(encoding == KFS_AS_JSON)) KFS_LITERAL("json\"");
    else if (encoding == KFS_AS_BASE64) KFS_LITERAL("base64\"");
    else KFS_LITERAL("hex\"");
    return n;
}

KFS_INLINE size_t kfs_put_field(uint8_t *dst, size_t n, const uint8_t *src, int32_t size, int mode, int is_key,
                                const int write) {
    if (size < 0) {
        KFS_LITERAL("null");
        return n;
    }
    int encoding;
    n += kfs_put_bytes(write ? dst + n : NULL, src, (size_t)size, mode, &encoding);
    return kfs_put_encoding(dst, n, encoding, is_key, write);
}

/* The headers were read before, so their bytes are valid. */
KFS_PLAIN size_t kfs_put_headers(uint8_t *dst, size_t n, const uint8_t *p, const uint8_t *end, int32_t count,
                                 int mode, const int write) {
    for (int32_t i = 0; i < count; i++) {
        int32_t size = 0;
        if (i) KFS_LITERAL(",");
        KFS_LITERAL("{\"key\":");
        if (!(p = kfs_varint(p, end, &size))) break;
        n = kfs_put_field(dst, n, p, size, KFS_TEXT, 1, write);
        p += size;
        if (!(p = kfs_varint(p, end, &size))) break;
        if (mode != KFS_NONE) {
            KFS_LITERAL(",\"value\":");
            n = kfs_put_field(dst, n, p, size, mode, 0, write);
        }
        if (size > 0) p += size;
        KFS_LITERAL("}");
    }
    return n;
}

KFS_INLINE size_t kfs_put_shown(uint8_t *dst, size_t n, const kfs_field_texts *texts, const kfs_place *place,
                                const uint8_t *src, int32_t size, int mode, int is_key, const int write) {
    if (KFS_LIKELY(place->size < 0)) return kfs_put_field(dst, n, src, size, mode, is_key, write);
    if (write) memcpy(dst + n, texts->text + place->start, (size_t)place->size);
    return n + (size_t)place->size;
}

/* `texts` and the record's `places` may be NULL. */
KFS_INLINE size_t kfs_put_line(uint8_t *dst, const uint8_t *base, const kfs_record *record,
                               const kfs_field_texts *texts, const kfs_place *places, const kfs_line_options *options,
                               const kfs_line_parts *parts, const int write) {
    size_t n = 0;
    KFS_COPY(options->prefix, options->prefix_size);
    KFS_NUMBER(record->offset);
    KFS_LITERAL(",\"timestamp\":");
    KFS_NUMBER(record->timestamp);
    KFS_LITERAL(",\"time\":");
    n += kfs_put_time(write ? dst + n : NULL, record->timestamp);
    KFS_COPY(parts->kind, parts->kind_size);
    if (KFS_UNLIKELY(options->mode == KFS_NONE)) {
        KFS_LITERAL(",\"keySize\":");
        KFS_NUMBER(record->key_size);
        KFS_LITERAL(",\"valueSize\":");
        KFS_NUMBER(record->value_size);
    } else if (texts) {
        KFS_LITERAL(",\"key\":");
        n = kfs_put_shown(dst, n, texts, places, base + record->key_start, record->key_size, options->mode, 1, write);
        KFS_LITERAL(",\"value\":");
        n = kfs_put_shown(dst, n, texts, places + 1, base + record->value_start, record->value_size, options->mode, 0,
                          write);
    } else {
        KFS_LITERAL(",\"key\":");
        n = kfs_put_field(dst, n, base + record->key_start, record->key_size, options->mode, 1, write);
        KFS_LITERAL(",\"value\":");
        n = kfs_put_field(dst, n, base + record->value_start, record->value_size, options->mode, 0, write);
    }
    KFS_LITERAL(",\"headers\":[");
    if (record->headers_count) {
        const uint8_t *headers = base + record->headers_start;
        n = kfs_put_headers(dst, n, headers, headers + record->headers_size, record->headers_count, options->mode, write);
    }
    KFS_LITERAL("]");
    KFS_COPY(parts->epoch, parts->epoch_size);
    if (parts->has_sequence && record->sequence >= 0) {
        KFS_LITERAL(",\"sequence\":");
        KFS_NUMBER(record->sequence);
    }
    KFS_COPY(parts->transaction, parts->transaction_size);
    if (KFS_UNLIKELY(record->offset < options->log_start)) KFS_LITERAL(",\"belowLogStart\":true");
    KFS_LITERAL("}\n");
    return n;
}

static inline size_t kfs_fields_size(const kfs_record *record) {
    return (size_t)(record->key_size > 0 ? record->key_size : 0) +
           (size_t)(record->value_size > 0 ? record->value_size : 0) + (size_t)record->headers_size;
}

/* Returns the most bytes of a line while it is written. */
static inline size_t kfs_line_bound(const kfs_record *record, const kfs_line_options *options) {
    enum { FIXED = 640, PER_HEADER = 72 };
    return FIXED + options->prefix_size + kfs_bound(kfs_fields_size(record)) +
           PER_HEADER * (size_t)record->headers_count;
}

static inline size_t kfs_place_size(const kfs_place *place) { return place->size > 0 ? (size_t)place->size : 0; }

/* Writes the lines of a row's records, from `first` on; their positions count from base. `texts` may be NULL. */
static int kfs_put_lines(const uint8_t *base, const kfs_record *records, size_t count, const kfs_row *row, int fate,
                         size_t first, const kfs_field_texts *texts, const kfs_line_options *options,
                         kfs_lines *lines) {
    kfs_line_parts parts;
    kfs_fill_parts(row, fate, &parts);
    for (size_t i = first; i < count; i++) {
        const kfs_record *record = records + i;
        size_t size;
        if (record->offset < options->from || record->offset >= options->to) continue;
        if (lines->size >= options->enough) {
            lines->full = 1;
            lines->next_record = i;
            return KFS_OK;
        }
        if (KFS_UNLIKELY(options->most && kfs_fields_size(record) > options->most)) {
            lines->full = lines->large = 1;
            lines->next_record = i;
            return KFS_OK;
        }
        if (texts) {
            const kfs_place *places = texts->places + 2 * i;
            size_t bound = kfs_line_bound(record, options) + kfs_place_size(places) + kfs_place_size(places + 1);
            if (!kfs_reserve(lines->text, options->measure ? 0 : bound)) return KFS_NO_MEMORY;
            uint8_t *dst = options->measure ? NULL : lines->text->data + lines->text->size;
            size = dst ? kfs_put_line(dst, base, record, texts, places, options, &parts, 1)
                       : kfs_put_line(NULL, base, record, texts, places, options, &parts, 0);
            if (dst) lines->text->size += size;
        } else if (options->measure) {
            size = kfs_put_line(NULL, base, record, NULL, NULL, options, &parts, 0);
        } else {
            if (!kfs_reserve(lines->text, kfs_line_bound(record, options))) return KFS_NO_MEMORY;
            size = kfs_put_line(lines->text->data + lines->text->size, base, record, NULL, NULL, options, &parts, 1);
            lines->text->size += size;
        }
        lines->size += size;
        lines->records++;
    }
    return KFS_OK;
}

/* Writes the lines of a row's decoded records, from `first` on. */
static int kfs_put_records(const kfs_run *run, const kfs_row *row, int fate, size_t first,
                           const kfs_line_options *options, kfs_lines *lines) {
    const uint8_t *base = kfs_codec_of(row) == KFS_CODEC_NONE ? run->buf : run->arena->data;
    const kfs_record *records = (const kfs_record *)run->records->data;
    size_t count = run->records->size / sizeof(kfs_record);
    if (options->marks && kfs_any_marked(base, records, count, options->marks)) return KFS_MARKED_ROW;
    return kfs_put_lines(base, records, count, row, fate, first, NULL, options, lines);
}

static inline int kfs_is_control(const kfs_row *row) { return row->magic == 2 && row->attributes & KFS_CONTROL_MASK; }

/* Returns whether no line of the row is wanted; contradictory headers are still decoded. */
static int kfs_row_is_left_out(const kfs_row *row, int fate, const kfs_line_options *options) {
    if (options->committed && (kfs_is_control(row) || fate == KFS_FATE_ABORTED || fate == KFS_FATE_OPEN)) return 1;
    if (row->last_offset < row->base_offset) return 0;
    return row->last_offset < options->from || (row->magic == 2 && row->base_offset >= options->to);
}

/* Returns whether a row is large by its header alone. */
static int kfs_row_is_large(const kfs_row *row, const kfs_line_options *options) {
    if (!options->most) return 0;
    if ((size_t)row->size > options->most) return 1;
    return kfs_is_control(row) && (kfs_codec_of(row) != KFS_CODEC_NONE || row->record_count > KFS_MANY_CONTROL_RECORDS);
}

/* Writes the lines of rows [first, last) until the text is full, or until a row needs the caller; then
 * *row_index is that row, and run->records has its decoded records, not written yet. */
static int kfs_put_rows(kfs_run *run, const uint8_t *fates, int32_t first, int32_t last, size_t first_record,
                        const kfs_line_options *options, kfs_lines *lines, int32_t *row_index, kfs_payload *payload,
                        kfs_problem *problem) {
    int32_t at = first;
    int reason = KFS_OK;
    for (; at < last; at++, first_record = 0) {
        const kfs_row *row = run->rows + at;
        int fate = fates ? fates[at] : KFS_FATE_NONE;
        run->arena->size = run->records->size = 0;
        if (kfs_row_is_left_out(row, fate, options)) continue;
        if (lines->size >= options->enough) {
            lines->full = 1;
            lines->next_record = first_record;
            break;
        }
        if (KFS_UNLIKELY(kfs_row_is_large(row, options))) {
            reason = KFS_LARGE_ROW;
            break;
        }
        if (kfs_is_control(row)) {
            reason = KFS_CONTROL_ROW;
            break;
        }
        reason = kfs_decode_row(run, at, payload, problem);
        /* With `most` the limits are below the budgets, so a batch above them may be within the budgets. */
        if (KFS_UNLIKELY(options->most && (reason == KFS_NEEDS_PYTHON || reason == KFS_RECORD_LIMIT)))
            reason = KFS_LARGE_ROW;
        if (reason) break;
        reason = kfs_put_records(run, row, fate, first_record, options, lines);
        if (reason || lines->full) break;
    }
    *row_index = at;
    return reason;
}

/* Writes the line of the record with exactly this offset, read as by kfs_read_one, and sets its timestamp. Returns
 * KFS_LOCATE_NONE also for a record of a transaction, with a fate that is not known here. */
static int kfs_read_line(int fd, int64_t position, int64_t end, int64_t offset, int64_t largest, const kfs_limits *limits,
                         kfs_codec_contexts *contexts, kfs_bytes *bytes, kfs_bytes *inflated,
                         const kfs_line_options *options, kfs_lines *lines, int64_t *timestamp) {
    kfs_row row;
    kfs_record record;
    const uint8_t *base;
    int result = kfs_read_one(fd, position, end, offset, largest, limits, contexts, bytes, inflated, &row, &record, &base);
    if (result != KFS_LOCATE_FOUND) return result;
    if (row.magic == 2 && row.attributes & (KFS_TRANSACTIONAL_MASK | KFS_CONTROL_MASK)) return KFS_LOCATE_NONE;
    if (options->marks && kfs_is_marked(base, &record, options->marks)) return KFS_LOCATE_NONE;
    if (kfs_put_lines(base, &record, 1, &row, KFS_FATE_NONE, 0, NULL, options, lines)) return KFS_NO_MEMORY;
    *timestamp = record.timestamp;
    return lines->records ? KFS_LOCATE_FOUND : KFS_LOCATE_NONE;
}

/* Reads the batches in [start, end) of a file, and returns whether they are `count` good ones in order, from an offset
 * on. */
static int kfs_read_good_rows(int fd, int64_t start, int64_t end, int64_t least_offset, int64_t largest, kfs_bytes *file,
                              kfs_row *rows, size_t count) {
    size_t size = (size_t)(end - start), filled, consumed;
    file->size = 0;
    if (!kfs_reserve(file, size) || kfs_pread(fd, file->data, size, start) != (int64_t)size) return 0;
    kfs_walk(file->data, size, 0, start, largest, 1, rows, count, &filled, &consumed);
    if (filled != count || consumed != size || kfs_good_rows(rows, 0, count) != count) return 0;
    return !count || rows[0].base_offset >= least_offset;
}

static inline int kfs_line_lies_in(size_t all, const kfs_record *record) {
    const int64_t starts[3] = {record->key_start, record->value_start, record->headers_start};
    const int32_t sizes[3] = {record->key_size, record->value_size, record->headers_size};
    for (int i = 0; i < 3; i++)
        if (starts[i] < 0 || starts[i] > (int64_t)all || sizes[i] > (int64_t)all - starts[i]) return 0;
    return record->headers_size >= 0;
}

/* Records decoded before, with positions in an arena, and the table with their rows. */
typedef struct {
    const uint8_t *arena;
    size_t size;
    const kfs_record *records;
    size_t count;
    const kfs_row *rows;
    size_t row_count;
    const kfs_field_texts *texts; /* of the records; NULL without */
} kfs_columns;

static int kfs_place_lies_in(const kfs_field_texts *texts, const kfs_place *place) {
    return place->size < 0 || (place->start >= 0 && place->start <= (int64_t)texts->size &&
                               place->size <= (int64_t)texts->size - place->start);
}

/* Returns whether the texts of a record's key and value lie in the text. */
static inline int kfs_texts_lie_in(const kfs_field_texts *texts, size_t at) {
    return !texts || (kfs_place_lies_in(texts, texts->places + 2 * at) &&
                      kfs_place_lies_in(texts, texts->places + 2 * at + 1));
}

/* Writes the lines of records from *at on, until the text is full, or until a row needs the caller; *at is then that
 * row's first record. */
static int kfs_put_columns(const kfs_columns *columns, const uint8_t *fates, int fate, size_t *at,
                           const kfs_line_options *options, kfs_lines *lines) {
    enum { AT_ONCE = 256 };
    while (*at < columns->count && !lines->full) {
        size_t stop = *at;
        int32_t row = columns->records[stop].row;
        if (row < 0 || (size_t)row >= columns->row_count) return KFS_BAD_TABLE;
        if (kfs_is_control(columns->rows + row)) return KFS_CONTROL_ROW;
        while (stop < columns->count && stop - *at < AT_ONCE && columns->records[stop].row == row) {
            if (!kfs_texts_lie_in(columns->texts, stop)) return KFS_BAD_TABLE;
            if (!kfs_line_lies_in(columns->size, columns->records + stop++)) return KFS_BAD_TABLE;
        }
        if (options->marks && !columns->texts &&
            kfs_any_marked(columns->arena, columns->records + *at, stop - *at, options->marks))
            return KFS_MARKED_ROW;
        int reason = kfs_put_lines(columns->arena, columns->records, stop, columns->rows + row,
                                   fates ? fates[row] : fate, *at, columns->texts, options, lines);
        if (reason) return reason;
        *at = stop;
    }
    return KFS_OK;
}

#undef KFS_LITERAL
#undef KFS_COPY
#undef KFS_NUMBER

#endif
