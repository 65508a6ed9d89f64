/* Batches in a run of bytes: one row of the batch table per batch, as in engine/columns/batch_table.py.
 *
 * The header's fields are Kafka's: DefaultRecordBatch for magic 2, LegacyRecord for 0 and 1.
 */
#ifndef KFS_BATCHES_H
#define KFS_BATCHES_H

#include "checksums.h"
#include "format.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

/* Layout of engine.columns.batch_table.BATCH_ROW. */
typedef struct {
    int64_t position, base_offset, last_offset, base_timestamp, max_timestamp, producer_id;
    int32_t size, leader_epoch, base_sequence, record_count;
    uint32_t crc;
    int16_t attributes, producer_epoch;
    int8_t magic;
    uint8_t crc_ok;
    uint16_t pad;
    uint32_t pad2;
} kfs_row;

_Static_assert(sizeof(kfs_row) == 80, "a row of the batch table has 80 bytes");

/* engine.columns.batch_table.Stop; KFS_WHOLE exists only here: the batch is whole, continue. */
enum { KFS_WHOLE = -1, KFS_TABLE_FULL, KFS_NEED_MORE, KFS_LENGTH_TOO_SMALL, KFS_UNKNOWN_MAGIC, KFS_TOO_LARGE };

static inline uint16_t kfs_be16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }
static inline uint32_t kfs_be32(const uint8_t *p) { return __builtin_bswap32(kfs_le32(p)); }
static inline uint64_t kfs_be64(const uint8_t *p) { return __builtin_bswap64(kfs_le64(p)); }

/* Sums that wrap in two's complement, as in Java. */
static inline int64_t kfs_add64(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t kfs_sub64(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static inline int32_t kfs_add32(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }
static inline int32_t kfs_sub32(int32_t a, int32_t b) { return (int32_t)((uint32_t)a - (uint32_t)b); }

/* Checks the frame of the batch at p, with n bytes available; sets *size if the frame is possible. */
static inline int kfs_frame(const uint8_t *p, size_t n, int64_t largest, int32_t *size) {
    if (n < KFS_UP_TO_MAGIC) return KFS_NEED_MORE;
    int32_t length = (int32_t)kfs_be32(p + KFS_AT_LENGTH);
    uint8_t magic = p[KFS_AT_MAGIC];
    if (length < KFS_SMALLEST_LENGTH) return KFS_LENGTH_TOO_SMALL;
    if (magic > 2) return KFS_UNKNOWN_MAGIC;
    int64_t whole = (int64_t)length + KFS_LOG_OVERHEAD;
    if (whole < (magic == 2 ? KFS_V2_OVERHEAD : magic == 1 ? KFS_V1_OVERHEAD : KFS_V0_OVERHEAD))
        return KFS_LENGTH_TOO_SMALL;
    if (whole > largest) return KFS_TOO_LARGE;
    *size = (int32_t)whole;
    return (size_t)whole > n ? KFS_NEED_MORE : KFS_WHOLE;
}

/* Returns the last offset of the batch with its header at p; for magic 2, 27 bytes must be available. */
static inline int64_t kfs_last_offset(const uint8_t *p) {
    int64_t base = (int64_t)kfs_be64(p);
    return p[KFS_AT_MAGIC] == 2 ? kfs_add64(base, (int32_t)kfs_be32(p + KFS_AT_LAST_OFFSET_DELTA)) : base;
}

/* Fills a row from a batch with its whole header at p. */
static inline void kfs_fill_row(const uint8_t *p, int32_t size, int64_t position, kfs_row *row) {
    memset(row, 0, sizeof *row);
    row->position = position;
    row->base_offset = (int64_t)kfs_be64(p);
    row->last_offset = kfs_last_offset(p);
    row->size = size;
    row->magic = (int8_t)p[KFS_AT_MAGIC];
    if (p[KFS_AT_MAGIC] == 2) {
        row->leader_epoch = (int32_t)kfs_be32(p + KFS_AT_PARTITION_LEADER_EPOCH);
        row->crc = kfs_be32(p + KFS_AT_CRC);
        row->attributes = (int16_t)kfs_be16(p + KFS_AT_ATTRIBUTES);
        row->base_timestamp = (int64_t)kfs_be64(p + KFS_AT_BASE_TIMESTAMP);
        row->max_timestamp = (int64_t)kfs_be64(p + KFS_AT_MAX_TIMESTAMP);
        row->producer_id = (int64_t)kfs_be64(p + KFS_AT_PRODUCER_ID);
        row->producer_epoch = (int16_t)kfs_be16(p + KFS_AT_PRODUCER_EPOCH);
        row->base_sequence = (int32_t)kfs_be32(p + KFS_AT_BASE_SEQUENCE);
        row->record_count = (int32_t)kfs_be32(p + KFS_AT_RECORD_COUNT);
        return;
    }
    row->leader_epoch = row->base_sequence = row->record_count = -1;
    row->producer_id = row->producer_epoch = -1;
    row->crc = kfs_be32(p + KFS_MESSAGE_AT_CRC);
    row->attributes = p[KFS_MESSAGE_AT_ATTRIBUTES];
    row->base_timestamp = row->max_timestamp = p[KFS_AT_MAGIC] == 1 ? (int64_t)kfs_be64(p + KFS_MESSAGE_AT_TIMESTAMP) : -1;
}

static inline int32_t kfs_crc_start(const uint8_t *p) { return p[KFS_AT_MAGIC] == 2 ? KFS_CRC_START_V2 : KFS_CRC_START_LEGACY; }

static uint32_t kfs_batch_crc(const uint8_t *p, int32_t size) {
    return p[KFS_AT_MAGIC] == 2 ? kfs_crc32c(p + KFS_CRC_START_V2, (size_t)size - KFS_CRC_START_V2)
                      : kfs_crc32(p + KFS_CRC_START_LEGACY, (size_t)size - KFS_CRC_START_LEGACY);
}

/* Fills rows from buf[start..n); returns the reason to stop. */
static int kfs_walk(const uint8_t *buf, size_t n, size_t start, int64_t file_position, int64_t largest,
                    int check_crc, kfs_row *rows, size_t capacity, size_t *filled, size_t *consumed) {
    size_t at = start, row = 0;
    int stop;
    for (;;) {
        int32_t size;
        if (row == capacity) {
            stop = KFS_TABLE_FULL;
            break;
        }
        stop = kfs_frame(buf + at, n - at, largest, &size);
        if (stop != KFS_WHOLE) break;
        kfs_fill_row(buf + at, size, file_position + (int64_t)(at - start), rows + row);
        if (check_crc) rows[row].crc_ok = kfs_batch_crc(buf + at, size) == rows[row].crc;
        row++;
        at += size;
    }
    *filled = row;
    *consumed = at - start;
    return stop;
}

/* Returns the end of the good batches from row `first` on: right checksums, possible offsets, each above the one before. */
static size_t kfs_good_rows(const kfs_row *rows, size_t first, size_t count) {
    size_t row = first;
    for (; row < count; row++) {
        const kfs_row *it = rows + row;
        if (!it->crc_ok || it->base_offset < 0 || it->last_offset < it->base_offset || it->last_offset == INT64_MAX) break;
        if (row > first && it->base_offset <= it[-1].last_offset) break;
    }
    return row;
}

/* Returns the bytes of the whole batches at the start of a buffer if all of them are usual for an append: of magic 2, with
 * a known codec and a right checksum, their offsets ascending from 0 or above; else -1. The beginning of another batch
 * may follow them. */
static int64_t kfs_usual_batches(const uint8_t *buf, size_t n) {
    int64_t end = -1;
    for (size_t at = 0;;) {
        const uint8_t *p = buf + at;
        size_t left = n - at;
        int32_t size;
        int stop = kfs_frame(p, left, INT32_MAX, &size);
        if (stop == KFS_NEED_MORE) {
            int is_cut_before_magic = left >= KFS_LOG_OVERHEAD && left < KFS_UP_TO_MAGIC;
            return at == 0 || is_cut_before_magic ? -1 : (int64_t)at;
        }
        if (stop != KFS_WHOLE || p[KFS_AT_MAGIC] != 2) return -1;
        int64_t base = (int64_t)kfs_be64(p);
        int32_t delta = (int32_t)kfs_be32(p + KFS_AT_LAST_OFFSET_DELTA);
        if (base <= end || delta < 0 || base > INT64_MAX - delta) return -1;
        if ((p[KFS_AT_ATTRIBUTES + 1] & KFS_COMPRESSION_MASK) > KFS_LAST_CODEC) return -1;
        if (kfs_batch_crc(p, size) != kfs_be32(p + KFS_AT_CRC)) return -1;
        end = base + delta;
        at += (size_t)size;
    }
}

/* Returns whether a batch may start at p, with n bytes available: whole, possible fields, at or above
 * min_offset. */
static int kfs_is_plausible(const uint8_t *p, size_t n, int64_t min_offset, int64_t largest, int32_t *size) {
    if (p[KFS_AT_MAGIC] > 2 || p[0] > 127 || kfs_frame(p, n, largest, size) != KFS_WHOLE) return 0;
    if ((int64_t)kfs_be64(p) < min_offset) return 0;
    return p[KFS_AT_MAGIC] < 2 || (p[KFS_AT_LAST_OFFSET_DELTA] | p[KFS_AT_RECORD_COUNT]) < 128; /* neither last offset delta nor count negative */
}

/* Returns the index of the first plausible batch at or after `start` with a valid checksum; -1 without one.
 * Crafted bytes can be plausible everywhere: once the checksums tried have read several times the buffer,
 * the rest is computed by marks, so that the time stays proportional to the buffer. */
static int64_t kfs_find_batch(const uint8_t *buf, size_t n, size_t start, int64_t min_offset, int64_t largest) {
    enum { PLAIN_SUMS = 4 };
    kfs_crc_marks *marks[2] = {NULL, NULL}; /* for CRC-32 and CRC-32C */
    int64_t found = -1;
    uint64_t summed = 0;
    for (size_t at = start; at + KFS_V0_OVERHEAD <= n; at++) {
        const uint8_t *p = buf + at;
        int32_t size;
        uint32_t crc;
        if (!kfs_is_plausible(p, n - at, min_offset, largest, &size)) continue;
        int kind = p[KFS_AT_MAGIC] == 2;
        if (summed > (uint64_t)n * PLAIN_SUMS && !marks[kind]) {
            marks[kind] = malloc(sizeof(kfs_crc_marks));
            if (marks[kind] && !kfs_marks_init(marks[kind], buf, n, kind)) {
                free(marks[kind]);
                marks[kind] = NULL;
            }
        }
        if (marks[kind]) {
            crc = kfs_marks_crc(marks[kind], at + (size_t)kfs_crc_start(p), at + (size_t)size);
        } else {
            crc = kfs_batch_crc(p, size);
            summed += (uint64_t)size;
        }
        if (crc == kfs_be32(p + (kind ? 17 : 12))) {
            found = (int64_t)at;
            break;
        }
    }
    for (int kind = 0; kind < 2; kind++) {
        if (marks[kind]) free(marks[kind]->marks);
        free(marks[kind]);
    }
    return found;
}

/* Reads until all is read or the file ends. Flags are those of preadv2(2), or 0. */
static int64_t kfs_read_at(int fd, uint8_t *to, size_t size, int64_t position, int flags) {
    size_t done = 0;
    while (done < size) {
        struct iovec rest = {to + done, size - done};
        off_t from = position + (int64_t)done;
        ssize_t got = flags ? preadv2(fd, &rest, 1, from, flags) : pread(fd, rest.iov_base, rest.iov_len, from);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        done += (size_t)got;
    }
    return (int64_t)done;
}

static int64_t kfs_pread(int fd, uint8_t *to, size_t size, int64_t position) {
    return kfs_read_at(fd, to, size, position, 0);
}

enum { KFS_LOCATE_NONE = 0, KFS_LOCATE_FOUND = 1, KFS_LOCATE_ERRNO = 2, KFS_LOCATE_BAD_FRAME = 3 };

typedef struct {
    int64_t position, base_offset, last_offset, index; /* index of the batch in scratch, or -1 */
    int32_t size;
    int magic, stop;
} kfs_location;

/* Finds the first batch with a last offset at or above `target` in the file's [position, end), hopping from
 * header to header; `position` must be the start of a batch. An index entry usually points to the batch
 * before the wanted one, so the first read is small; after one large batch, reads are as large as that
 * batch. With RWF_NOWAIT in `flags` nothing is read from the disk: the result is KFS_LOCATE_ERRNO with EAGAIN
 * where the page cache lacks a byte. */
static int kfs_locate(int fd, int64_t position, int64_t end, int64_t target, int64_t largest,
                      uint8_t *scratch, size_t capacity, int flags, kfs_location *found) {
    enum { FIRST_READ = 1024, MOST_AHEAD = 16384, LARGE_BATCH = 2048, HEADER_ROOM = 256 };
    size_t want = FIRST_READ;
    int hops = 0;
    while (position < end) {
        int64_t left = end - position;
        if (want > capacity) want = capacity;
        int64_t got = kfs_read_at(fd, scratch, left < (int64_t)want ? (size_t)left : want, position, flags);
        if (got < 0) return KFS_LOCATE_ERRNO;
        size_t at = 0;
        int32_t hopped = 0;
        for (;;) {
            const uint8_t *p = scratch + at;
            size_t there = (size_t)got - at;
            int32_t size;
            int stop = kfs_frame(p, there, largest, &size);
            if (stop == KFS_NEED_MORE && there < KFS_V2_OVERHEAD) break;
            found->position = position + (int64_t)at;
            if (stop != KFS_WHOLE && stop != KFS_NEED_MORE) {
                /* A length past the end is a torn tail, whatever its size. */
                int64_t stated = (int64_t)(int32_t)kfs_be32(p + KFS_AT_LENGTH) + KFS_LOG_OVERHEAD;
                if (stop == KFS_TOO_LARGE && found->position + stated > end) return KFS_LOCATE_NONE;
                found->stop = stop;
                found->size = (int32_t)kfs_be32(p + KFS_AT_LENGTH);
                found->magic = (int8_t)p[KFS_AT_MAGIC];
                return KFS_LOCATE_BAD_FRAME;
            }
            if (found->position + size > end) return KFS_LOCATE_NONE;
            int64_t last = kfs_last_offset(p);
            if (last >= target) {
                found->base_offset = (int64_t)kfs_be64(p);
                found->last_offset = last;
                found->size = size;
                found->magic = p[KFS_AT_MAGIC];
                found->index = (int64_t)at;
                if (stop == KFS_WHOLE) return KFS_LOCATE_FOUND;
                found->index = -1;
                if ((size_t)size <= capacity) {
                    size_t rest = (size_t)size - there;
                    if (at) memmove(scratch, p, there);
                    got = kfs_read_at(fd, scratch + there, rest, found->position + (int64_t)there, flags);
                    if (got < 0) return KFS_LOCATE_ERRNO;
                    if (got == (int64_t)rest) found->index = 0;
                }
                return KFS_LOCATE_FOUND;
            }
            at += size;
            if (stop != KFS_WHOLE) { /* skip the rest of this batch */
                hopped = size;
                break;
            }
        }
        if (at == 0) return KFS_LOCATE_NONE; /* the file ends inside a header */
        if (hopped > LARGE_BATCH) want = hops++ ? HEADER_ROOM : (size_t)hopped + HEADER_ROOM;
        else want = want * 4 < MOST_AHEAD ? want * 4 : MOST_AHEAD;
        position += (int64_t)at;
    }
    return KFS_LOCATE_NONE;
}

/* Returns the largest slot with a big-endian key at or below `target`, or -1. Tries the last 8 KiB first:
 * nearly all look-ups in an active segment end there, and those pages are warm. */
static int64_t kfs_floor_slot(const uint8_t *buf, int64_t count, size_t entry_size, size_t key_offset,
                              int key_is_i64, int64_t target) {
#define KFS_KEY(slot) \
    (key_is_i64 ? (int64_t)kfs_be64(buf + (slot) * entry_size + key_offset) \
                : (int64_t)(int32_t)kfs_be32(buf + (slot) * entry_size + key_offset))
    int64_t low = -1, high = count - 1, warm = high - (int64_t)(8192 / entry_size);
    if (warm > 0) {
        if (KFS_KEY(warm) <= target) low = warm;
        else high = warm - 1;
    }
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (KFS_KEY(middle) <= target) low = middle;
        else high = middle - 1;
    }
    return low;
#undef KFS_KEY
}

/* A walk over headers of magic 2, without the bytes between them; as count_headers of the twin. */
typedef struct {
    int64_t position, end, following, part_stop, start, stop, most_bytes, most_records;
    int32_t odd;
    int64_t batches, records;
} kfs_header_walk;

enum { KFS_HEADERS_DONE, KFS_HEADERS_CROSS, KFS_HEADERS_ODD };

static int kfs_count_headers(int fd, kfs_header_walk *walk, int64_t most_batches) {
    while (walk->position < walk->end && most_batches-- > 0) {
        uint8_t p[KFS_V2_OVERHEAD];
        if (kfs_pread(fd, p, sizeof p, walk->position) != (int64_t)sizeof p) return KFS_HEADERS_ODD;
        int64_t base = (int64_t)kfs_be64(p), last = kfs_last_offset(p);
        int64_t size = (int64_t)(int32_t)kfs_be32(p + KFS_AT_LENGTH) + KFS_LOG_OVERHEAD;
        int64_t delta = (int32_t)kfs_be32(p + KFS_AT_LAST_OFFSET_DELTA);
        int64_t records = (int32_t)kfs_be32(p + KFS_AT_RECORD_COUNT);
        int32_t attributes = kfs_be16(p + KFS_AT_ATTRIBUTES);
        if (p[KFS_AT_MAGIC] != 2 || size < KFS_V2_OVERHEAD || size > walk->most_bytes
            || size > walk->end - walk->position || base < walk->following || last < base
            || last >= walk->part_stop || records < 0 || records > delta + 1 || records > walk->most_records
            || (attributes & KFS_COMPRESSION_MASK) > KFS_LAST_CODEC || attributes & walk->odd)
            return KFS_HEADERS_ODD;
        if (!(attributes & KFS_CONTROL_MASK) && base < walk->stop && last >= walk->start) {
            if (base < walk->start || last >= walk->stop) return KFS_HEADERS_CROSS;
            walk->records += records;
        }
        walk->batches++;
        walk->position += size;
        walk->following = last + 1;
    }
    return KFS_HEADERS_DONE;
}

#endif
