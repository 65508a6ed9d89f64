/* Summaries of the records of batches, in bounded memory. */
#ifndef KFS_SUMMARY_H
#define KFS_SUMMARY_H

#include "records.h"

/* Layout of engine.columns.batch_summary.SUMMARY_ROW. */
typedef struct {
    int64_t first_offset, last_offset, smallest_timestamp, largest_timestamp, first_without_key;
    int32_t count, without_key, descents, inflated;
} kfs_summary;

_Static_assert(sizeof(kfs_summary) == 56, "a summary has 56 bytes");

/* Summarizes the records of one batch, as far as they were read; `inflated`: their bytes in the arena. */
static void kfs_summarize(const kfs_bytes *records, size_t inflated, kfs_summary *out) {
    const kfs_record *record = (const kfs_record *)records->data;
    size_t count = records->size / sizeof *record;
    memset(out, 0, sizeof *out);
    if (!count) return;
    out->count = (int32_t)count;
    out->inflated = inflated < INT32_MAX ? (int32_t)inflated : INT32_MAX;
    out->first_offset = record->offset;
    out->smallest_timestamp = out->largest_timestamp = record->timestamp;
    for (size_t i = 0; i < count; i++, record++) {
        if (record->timestamp < out->smallest_timestamp) out->smallest_timestamp = record->timestamp;
        if (record->timestamp > out->largest_timestamp) out->largest_timestamp = record->timestamp;
        out->descents += i > 0 && record->offset <= record[-1].offset;
        if (record->key_size < 0 && !out->without_key++) out->first_without_key = record->offset;
    }
    out->last_offset = record[-1].offset;
}

/* Summarizes rows [first, last) until one needs the caller, and sets *row_index to it. */
static int kfs_summarize_rows(kfs_run *run, int32_t first, int32_t last, kfs_summary *summaries, int32_t *row_index,
                              kfs_payload *payload, kfs_problem *problem) {
    int32_t at = first;
    int reason = KFS_OK;
    for (; at < last; at++) {
        run->arena->size = run->records->size = 0;
        reason = kfs_decode_row(run, at, payload, problem);
        if (reason) break;
        kfs_summarize(run->records, run->arena->size, summaries + at);
    }
    *row_index = at;
    return reason;
}

/* Summarizes the records of the batch of magic 2 that is all of run->buf, and counts their bytes, inflated; returns 0 if
 * anything about it is unusual. */
static int kfs_record_facts(kfs_run *run, int64_t largest, kfs_summary *out, int64_t *bytes) {
    int32_t size;
    kfs_row row;
    kfs_payload payload;
    kfs_problem problem;
    if (run->size < KFS_V2_OVERHEAD || kfs_frame(run->buf, run->size, largest, &size) != KFS_WHOLE) return 0;
    if ((size_t)size != run->size || run->buf[KFS_AT_MAGIC] != 2) return 0;
    kfs_fill_row(run->buf, size, 0, &row);
    run->rows = &row;
    if (row.record_count <= 0 || kfs_decode_row(run, 0, &payload, &problem)) return 0;
    kfs_summarize(run->records, run->arena->size, out);
    *bytes = kfs_codec_of(&row) == KFS_CODEC_NONE ? size - KFS_V2_OVERHEAD : (int64_t)run->arena->size;
    return 1;
}

#endif
