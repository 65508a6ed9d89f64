/* Made by `python -m engine.kernel.format_header` from engine/record/batch_frame.py, engine/record/attributes.py
 * and engine/coding/compression.py. */
#ifndef KFS_FORMAT_H
#define KFS_FORMAT_H

/* Bytes; with V0, V1 and V2 those of an empty batch. */
enum {
    KFS_LOG_OVERHEAD = 12,
    KFS_UP_TO_MAGIC = 17,
    KFS_SMALLEST_LENGTH = 14,
    KFS_V0_OVERHEAD = 26,
    KFS_V1_OVERHEAD = 34,
    KFS_V2_OVERHEAD = 61,
    KFS_CRC_START_LEGACY = 16,
    KFS_CRC_START_V2 = 21,
};

/* Positions in the header of a batch of magic 2. */
enum {
    KFS_AT_BASE_OFFSET = 0,
    KFS_AT_LENGTH = 8,
    KFS_AT_PARTITION_LEADER_EPOCH = 12,
    KFS_AT_MAGIC = 16,
    KFS_AT_CRC = 17,
    KFS_AT_ATTRIBUTES = 21,
    KFS_AT_LAST_OFFSET_DELTA = 23,
    KFS_AT_BASE_TIMESTAMP = 27,
    KFS_AT_MAX_TIMESTAMP = 35,
    KFS_AT_PRODUCER_ID = 43,
    KFS_AT_PRODUCER_EPOCH = 51,
    KFS_AT_BASE_SEQUENCE = 53,
    KFS_AT_RECORD_COUNT = 57,
};

/* Positions in the header of a message of magic 0 or 1. */
enum {
    KFS_MESSAGE_AT_CRC = 12,
    KFS_MESSAGE_AT_MAGIC = 16,
    KFS_MESSAGE_AT_ATTRIBUTES = 17,
    KFS_MESSAGE_AT_TIMESTAMP = 18,
};

/* Positions in such a message behind its offset and size. */
enum {
    KFS_BODY_AT_MAGIC = 4,
    KFS_BODY_AT_ATTRIBUTES = 5,
    KFS_BODY_AT_TIMESTAMP = 6,
    KFS_BODY_AT_KEY_V0 = 6,
    KFS_BODY_AT_KEY_V1 = 14,
};

/* Bits of a batch's attributes. */
enum {
    KFS_COMPRESSION_MASK = 7,
    KFS_CONTROL_MASK = 32,
    KFS_DELETE_HORIZON_MASK = 64,
    KFS_TIMESTAMP_TYPE_MASK = 8,
    KFS_TRANSACTIONAL_MASK = 16,
};

/* Codecs. */
enum {
    KFS_CODEC_NONE = 0,
    KFS_CODEC_GZIP = 1,
    KFS_CODEC_SNAPPY = 2,
    KFS_CODEC_LZ4 = 3,
    KFS_CODEC_ZSTD = 4,
    KFS_LAST_CODEC = 4,
};

/* Names of codecs, as DumpLogSegments prints them. */
#define KFS_CODEC_NAMES "none", "gzip", "snappy", "lz4", "zstd", "unknown(5)", "unknown(6)", "unknown(7)"

#endif
