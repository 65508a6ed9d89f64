/* Columns in Arrow's layout that values are appended to: a tree of columns, each with its validity, offsets and data.
 *
 * Reference: Arrow's columnar format, "Physical memory layout". Knows no format of schemas. A row that cannot be finished is
 * taken back with kcl_truncate(): what a column holds follows from its number of rows.
 *
 * Columns stand in the order of a walk from the root, so that a column's children stand behind it. Each function returns
 * KJW_OK or why it did nothing.
 */
#ifndef KCL_COLUMNS_H
#define KCL_COLUMNS_H

#include "json_writer.h"

/* kafkafs.forms.arrow.typed.column_tree.ColumnKind */
enum { KCL_NULL, KCL_BOOLEAN, KCL_FIXED, KCL_BYTES, KCL_LIST, KCL_STRUCT };

/* A column as Python states it. */
typedef struct {
    int32_t kind;
    int32_t width;  /* bytes of a fixed value */
    int32_t end;    /* the first column behind it and all that it holds */
    int32_t weight; /* bytes of a row of it and of its parts, without what lists hold */
} kcl_shape;

typedef struct {
    kjw_text valid;   /* a bit a row; empty while all rows are valid */
    kjw_text data;    /* values; of a boolean a bit a row */
    kjw_text offsets; /* int32: 0, and the end of each row */
    int64_t rows;
} kcl_column;

typedef struct {
    const kcl_shape *shapes;
    kcl_column *columns;
    size_t count;
    int64_t purse; /* bytes that the items of lists of a value may still take */
} kcl_columns;

enum { KCL_TOO_LARGE = 17 }; /* behind the results of json_writer.h and avro.h */

#define KCL_CHECK(done)                            \
    do {                                           \
        const int result_ = (done);                \
        if (KFS_UNLIKELY(result_)) return result_; \
    } while (0)

/* ---- bits and offsets ----------------------------------------------------------------------------- */

/* Sets the bit of a row, which is the next one or one that was taken back. */
KFS_INLINE int kcl_put_bit_(kjw_text *bits, int64_t row, int is_set) {
    const size_t at = (size_t)row >> 3;
    if (KFS_UNLIKELY(at >= bits->size)) {
        KCL_CHECK(kjw_char(bits, 0));
        bits->data[at] = 0;
    }
    const uint8_t bit = (uint8_t)(1u << (row & 7));
    bits->data[at] = (uint8_t)(is_set ? bits->data[at] | bit : bits->data[at] & ~bit);
    return KJW_OK;
}

/* Begins the validity of a column whose rows were all valid so far. */
static __attribute__((noinline)) int kcl_begin_valid_(kcl_column *column) {
    const size_t size = (size_t)(column->rows >> 3) + 1;
    if (!kjw_room(&column->valid, size)) return KJW_NO_MEMORY;
    memset(column->valid.data, 0xff, size);
    column->valid.size = size;
    return KJW_OK;
}

/* Counts a row, whose data is there. */
KFS_INLINE int kcl_end_row(kcl_column *column) {
    if (KFS_UNLIKELY(column->valid.size != 0)) KCL_CHECK(kcl_put_bit_(&column->valid, column->rows, 1));
    column->rows++;
    return KJW_OK;
}

KFS_INLINE int kcl_put_offset_(kcl_column *column, size_t end) {
    const int32_t offset = (int32_t)end;
    if (KFS_UNLIKELY(end > INT32_MAX)) return KCL_TOO_LARGE;
    return kjw_raw(&column->offsets, &offset, 4);
}

KFS_INLINE int32_t kcl_offset_(const kcl_column *column, int64_t row) {
    int32_t offset;
    memcpy(&offset, column->offsets.data + 4 * row, 4);
    return offset;
}

/* Makes columns of no rows. */
static int kcl_begin(kcl_columns *columns) {
    for (size_t at = 0; at < columns->count; at++)
        if (columns->shapes[at].kind == KCL_BYTES || columns->shapes[at].kind == KCL_LIST)
            KCL_CHECK(kcl_put_offset_(columns->columns + at, 0));
    return KJW_OK;
}

static void kcl_free(kcl_columns *columns) {
    for (size_t at = 0; at < columns->count; at++) {
        kjw_free(&columns->columns[at].valid);
        kjw_free(&columns->columns[at].data);
        kjw_free(&columns->columns[at].offsets);
    }
}

/* ---- rows ----------------------------------------------------------------------------------------- */

KFS_INLINE int kcl_put_boolean(kcl_column *column, int is_true) {
    KCL_CHECK(kcl_put_bit_(&column->data, column->rows, is_true));
    return kcl_end_row(column);
}

/* Appends a value of the column's width. */
KFS_INLINE int kcl_put_fixed(kcl_column *column, const void *bytes, size_t width) {
    KCL_CHECK(kjw_raw(&column->data, bytes, width));
    return kcl_end_row(column);
}

/* Ends a row of bytes that were put behind the data. */
KFS_INLINE int kcl_end_bytes(kcl_column *column) {
    KCL_CHECK(kcl_put_offset_(column, column->data.size));
    return kcl_end_row(column);
}

KFS_INLINE int kcl_put_bytes(kcl_column *column, const uint8_t *bytes, size_t size) {
    KCL_CHECK(kjw_raw(&column->data, bytes, size));
    return kcl_end_bytes(column);
}

/* Ends a row of a list, whose items stand in the column behind it. */
KFS_INLINE int kcl_end_list(kcl_column *column) {
    KCL_CHECK(kcl_put_offset_(column, (size_t)column[1].rows));
    return kcl_end_row(column);
}

/* Takes what some items of a list need out of the value's purse. */
KFS_INLINE int kcl_pay_items(kcl_columns *columns, int32_t list, uint64_t count) {
    const uint64_t weight = (uint64_t)columns->shapes[list + 1].weight;
    if (KFS_UNLIKELY(count > (uint64_t)columns->purse || count * weight > (uint64_t)columns->purse))
        return KCL_TOO_LARGE;
    columns->purse -= (int64_t)(count * weight);
    return KJW_OK;
}

/* Appends a null to a column, and to all parts of a structure. */
static int kcl_put_null(kcl_columns *columns, int32_t at) {
    const kcl_shape *shape = columns->shapes + at;
    kcl_column *column = columns->columns + at;
    switch (shape->kind) {
    case KCL_BOOLEAN:
        KCL_CHECK(kcl_put_bit_(&column->data, column->rows, 0));
        break;
    case KCL_FIXED:
        if (!kjw_room(&column->data, (size_t)shape->width)) return KJW_NO_MEMORY;
        memset(column->data.data + column->data.size, 0, (size_t)shape->width);
        column->data.size += (size_t)shape->width;
        break;
    case KCL_BYTES:
        KCL_CHECK(kcl_put_offset_(column, column->data.size));
        break;
    case KCL_LIST:
        KCL_CHECK(kcl_put_offset_(column, (size_t)column[1].rows));
        break;
    case KCL_STRUCT:
        for (int32_t part = at + 1; part < shape->end; part = columns->shapes[part].end)
            KCL_CHECK(kcl_put_null(columns, part));
        break;
    default:
        column->rows++;
        return KJW_OK;
    }
    if (!column->valid.size) KCL_CHECK(kcl_begin_valid_(column));
    KCL_CHECK(kcl_put_bit_(&column->valid, column->rows, 0));
    column->rows++;
    return KJW_OK;
}

/* Takes rows back until a column and its parts have so many. */
static void kcl_truncate(kcl_columns *columns, int32_t at, int64_t rows) {
    const kcl_shape *shape = columns->shapes + at;
    kcl_column *column = columns->columns + at;
    const size_t bits = (size_t)((rows + 7) >> 3);
    if (column->valid.size > bits) column->valid.size = bits;
    switch (shape->kind) {
    case KCL_BOOLEAN:
        if (column->data.size > bits) column->data.size = bits;
        break;
    case KCL_FIXED:
        column->data.size = (size_t)rows * (size_t)shape->width;
        break;
    case KCL_BYTES:
        column->offsets.size = ((size_t)rows + 1) * 4;
        column->data.size = (size_t)kcl_offset_(column, rows);
        break;
    case KCL_LIST:
        column->offsets.size = ((size_t)rows + 1) * 4;
        kcl_truncate(columns, at + 1, kcl_offset_(column, rows));
        break;
    case KCL_STRUCT:
        for (int32_t part = at + 1; part < shape->end; part = columns->shapes[part].end)
            kcl_truncate(columns, part, rows);
        break;
    default:
        break;
    }
    column->rows = rows;
}

#endif
