/* The codecs' libraries, loaded once, and the frames that Kafka's clients put around their data.
 *
 * A function here either inflates the whole payload as Kafka's reader would, or refuses. After a refusal the
 * caller uses engine.coding.compression, which has the error and the output before the damage. Formats: RFC
 * 8878 (zstd), the lz4 frame format 1.6, RFC 1952 (gzip), snappy's format description and the framing of
 * xerial's SnappyOutputStream.
 */
#ifndef KFS_CODECS_H
#define KFS_CODECS_H

#include "checksums.h"
#include "format.h"

#include <dlfcn.h>
#include <stdlib.h>

/* As in engine.coding.compression. */
#define KFS_LARGEST_WINDOW (1u << 27)
#define KFS_MOST_PARTS 1024
#define KFS_MOST_BLOCKS 1000000

/* A growing buffer. */
typedef struct {
    uint8_t *data;
    size_t size, capacity;
} kfs_bytes;

/* Makes room for `more` bytes after size; returns 0 when out of memory. */
static int kfs_reserve(kfs_bytes *bytes, size_t more) {
    if (KFS_LIKELY(bytes->capacity - bytes->size >= more)) return 1;
    size_t capacity = bytes->capacity + bytes->capacity / 2;
    if (capacity < bytes->size + more) capacity = bytes->size + more;
    if (capacity < 4096) capacity = 4096;
    uint8_t *data = realloc(bytes->data, capacity);
    if (!data) return 0;
    bytes->data = data;
    bytes->capacity = capacity;
    return 1;
}

static struct {
    size_t (*zstd_decompress)(void *, void *, size_t, const void *, size_t);
    void *(*zstd_create)(void);
    size_t (*zstd_free)(void *);
    unsigned (*zstd_is_error)(size_t);
    int (*lz4_block)(const char *, char *, int, int);
    int (*lz4_linked_block)(const char *, char *, int, int, const char *, int);
    int (*lz4_compress)(const char *, char *, int, int);
    void *(*deflate_create)(void);
    void (*deflate_free)(void *);
    int (*deflate_gzip)(void *, const void *, size_t, void *, size_t, size_t *, size_t *);
    int (*snappy_block)(const char *, size_t, char *, size_t *);
    const char *(*zstd_version)(void), *(*lz4_version)(void);
} kfs_library;

static int kfs_symbol(void *library, const char *name, void *slot) {
    void *symbol = dlsym(library, name);
    memcpy(slot, &symbol, sizeof symbol); /* ISO C has no cast from an object's address to a function's */
    return symbol != NULL;
}

/* Opens the installed libraries; must run once, before anything else here. */
static void kfs_codecs_init(void) {
    void *library;
    if ((library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL)))
        if (!(kfs_symbol(library, "ZSTD_createDCtx", &kfs_library.zstd_create) &
              kfs_symbol(library, "ZSTD_freeDCtx", &kfs_library.zstd_free) &
              kfs_symbol(library, "ZSTD_isError", &kfs_library.zstd_is_error) &
              kfs_symbol(library, "ZSTD_versionString", &kfs_library.zstd_version) &
              kfs_symbol(library, "ZSTD_decompressDCtx", &kfs_library.zstd_decompress)))
            kfs_library.zstd_decompress = NULL;
    if ((library = dlopen("liblz4.so.1", RTLD_NOW | RTLD_LOCAL)))
        if (!(kfs_symbol(library, "LZ4_decompress_safe", &kfs_library.lz4_block) &
              kfs_symbol(library, "LZ4_versionString", &kfs_library.lz4_version) &
              kfs_symbol(library, "LZ4_decompress_safe_usingDict", &kfs_library.lz4_linked_block)))
            kfs_library.lz4_block = NULL;
    if (library) kfs_symbol(library, "LZ4_compress_default", &kfs_library.lz4_compress);
    if ((library = dlopen("libdeflate.so.0", RTLD_NOW | RTLD_LOCAL)))
        if (!(kfs_symbol(library, "libdeflate_crc32", &kfs_library_crc32) &
              kfs_symbol(library, "libdeflate_alloc_decompressor", &kfs_library.deflate_create) &
              kfs_symbol(library, "libdeflate_free_decompressor", &kfs_library.deflate_free) &
              kfs_symbol(library, "libdeflate_gzip_decompress_ex", &kfs_library.deflate_gzip)))
            kfs_library.deflate_gzip = NULL;
    if ((library = dlopen("libsnappy.so.1", RTLD_NOW | RTLD_LOCAL)))
        kfs_symbol(library, "snappy_uncompress", &kfs_library.snappy_block);
}

/* Returns the name of a codec's library, by the codec's number, and its version in `version`; NULL without one.
 * libdeflate and libsnappy do not state a version, so theirs is NULL. */
static const char *kfs_codec_library(int codec, const char **version) {
    *version = NULL;
    switch (codec) {
    case 1: return kfs_library.deflate_gzip ? "libdeflate" : NULL;
    case 2: return kfs_library.snappy_block ? "libsnappy" : NULL;
    case 3:
        if (!kfs_library.lz4_block) return NULL;
        *version = kfs_library.lz4_version();
        return "liblz4";
    case 4:
        if (!kfs_library.zstd_decompress) return NULL;
        *version = kfs_library.zstd_version();
        return "libzstd";
    default: return NULL;
    }
}

/* Set to refuse everything, for tests. */
static int kfs_no_libraries;

/* State of one call at a time; contexts are reused, never shared by two calls at once. */
typedef struct {
    void *zstd, *deflate;
} kfs_codec_contexts;

static void kfs_contexts_free(kfs_codec_contexts *contexts) {
    if (contexts->zstd) kfs_library.zstd_free(contexts->zstd);
    if (contexts->deflate) kfs_library.deflate_free(contexts->deflate);
    contexts->zstd = contexts->deflate = NULL;
}

/* Returns the most bytes that the frames at p can inflate to, from their headers and their blocks' headers;
 * -1 if the frames are cut off, need a dictionary or a window above `largest_window`, or contain no frame. */
static int64_t kfs_zstd_bound(const uint8_t *p, size_t n, uint64_t largest_window) {
    static const uint8_t dictionary_bytes[4] = {0, 1, 2, 4}, size_bytes[4] = {0, 2, 4, 8};
    const uint8_t *end = p + n;
    uint64_t total = 0;
    if (n == 0) return -1;
    for (int frames = 0; p < end; frames++) {
        if (frames == KFS_MOST_PARTS || end - p < 9 || kfs_le32(p) != 0xFD2FB528u) return -1;
        uint8_t descriptor = p[4];
        int single_segment = descriptor >> 5 & 1, checksum = descriptor >> 2 & 1;
        int sized = size_bytes[descriptor >> 6];
        if (single_segment && sized == 0) sized = 1;
        p += 5;
        uint64_t window = 0, stated = 0, blocks = 0;
        if (end - p < 1 + dictionary_bytes[descriptor & 3] + sized) return -1;
        if (!single_segment) {
            uint64_t base = 1ull << (10 + (*p >> 3));
            window = base + base / 8 * (*p & 7);
            p++;
        }
        if (descriptor & 3) return -1;
        for (int i = 0; i < sized; i++) stated |= (uint64_t)p[i] << (8 * i);
        if (sized == 2) stated += 256;
        p += sized;
        if (single_segment) window = stated;
        if (!single_segment && window > largest_window) return -1;
        uint64_t largest_block = window < 131072 ? window : 131072;
        for (int last = 0; !last;) {
            if (end - p < 3) return -1;
            uint32_t header = p[0] | p[1] << 8 | (uint32_t)p[2] << 16, size = header >> 3;
            int kind = header >> 1 & 3;
            last = header & 1;
            p += 3;
            uint32_t stored = kind == 1 ? 1 : size;
            if (kind == 3 || (size_t)(end - p) < stored) return -1;
            p += stored;
            blocks += kind == 2 ? largest_block : size;
        }
        if (checksum) {
            if (end - p < 4) return -1;
            p += 4;
        }
        total += sized && stated < blocks ? stated : blocks;
        if (sized && stated > blocks) return -1;
    }
    return total > INT64_MAX ? -1 : (int64_t)total;
}

static int kfs_inflate_zstd(kfs_codec_contexts *contexts, const uint8_t *p, size_t n, size_t limit, kfs_bytes *to) {
    if (!kfs_library.zstd_decompress) return 0;
    if (!contexts->zstd && !(contexts->zstd = kfs_library.zstd_create())) return 0;
    int64_t bound = kfs_zstd_bound(p, n, KFS_LARGEST_WINDOW);
    if (bound < 0) return 0;
    size_t room = (uint64_t)bound < limit ? (size_t)bound : limit;
    if (!kfs_reserve(to, room)) return 0;
    size_t got = kfs_library.zstd_decompress(contexts->zstd, to->data + to->size, room, p, n);
    if (kfs_library.zstd_is_error(got)) return 0;
    to->size += got;
    return 1;
}

/* Inflates one frame; as in Kafka's reader, bytes after it are ignored. Writers of magic 0 made wrong header
 * checksums. */
static int kfs_inflate_lz4(const uint8_t *p, size_t n, size_t limit, int check_header, kfs_bytes *to) {
    if (!kfs_library.lz4_block || n < 7 || kfs_le32(p) != 0x184D2204u) return 0;
    const uint8_t *end = p + n, *descriptor = p + 4;
    uint8_t flags = descriptor[0], sizes = descriptor[1];
    if (flags >> 6 != 1 || (flags & 3) || (sizes & 0x8F) || sizes >> 4 < 4) return 0;
    int linked = !(flags & 0x20), block_sums = flags & 0x10, sized = flags & 8, content_sum = flags & 4;
    size_t largest = (size_t)1 << (8 + 2 * (sizes >> 4)), start = to->size;
    p += sized ? 14 : 6;
    if (p >= end) return 0;
    if (check_header && *p != (uint8_t)(kfs_xxh32(descriptor, (size_t)(p - descriptor)) >> 8)) return 0;
    p++;
    for (int blocks = 0;; blocks++) {
        if (end - p < 4 || blocks == KFS_MOST_BLOCKS) return 0;
        uint32_t header = kfs_le32(p), stored = header & 0x7FFFFFFFu;
        p += 4;
        if (stored == 0 && header == 0) break;
        if (stored == 0 || stored > largest || (size_t)(end - p) < stored + (block_sums ? 4u : 0u)) return 0;
        size_t done = to->size - start, room = limit - done;
        if (room > largest) room = largest;
        if (header >> 31) {
            if (stored > room || !kfs_reserve(to, stored)) return 0;
            memcpy(to->data + to->size, p, stored);
            to->size += stored;
        } else {
            if (room > (size_t)stored * 255 + 16) room = (size_t)stored * 255 + 16;
            if (!kfs_reserve(to, room)) return 0;
            char *out = (char *)to->data + to->size;
            int window = done < 65536 ? (int)done : 65536;
            int got = linked && window
                          ? kfs_library.lz4_linked_block((const char *)p, out, (int)stored, (int)room, out - window, window)
                          : kfs_library.lz4_block((const char *)p, out, (int)stored, (int)room);
            if (got < 0) return 0;
            to->size += (size_t)got;
        }
        if (block_sums && kfs_le32(p + stored) != kfs_xxh32(p, stored)) return 0;
        p += stored + (block_sums ? 4 : 0);
    }
    if (!content_sum) return 1;
    return end - p >= 4 && kfs_le32(p) == kfs_xxh32(to->data + start, to->size - start);
}

/* Inflates all members; like java.util.zip.GZIPInputStream, bytes after a member that are no member are
 * ignored. */
static int kfs_inflate_gzip(kfs_codec_contexts *contexts, const uint8_t *p, size_t n, size_t limit, kfs_bytes *to) {
    enum { SMALLEST_MEMBER = 18, INSUFFICIENT_SPACE = 3, MOST_PER_BYTE = 1032 };
    if (!kfs_library.deflate_gzip) return 0;
    if (!contexts->deflate && !(contexts->deflate = kfs_library.deflate_create())) return 0;
    size_t start = to->size;
    int members = 0;
    while (n && (members == 0 || (n >= SMALLEST_MEMBER && p[0] == 0x1F && p[1] == 0x8B && p[2] == 8))) {
        if (members == KFS_MOST_PARTS) return 0;
        size_t left = limit - (to->size - start), most = n * MOST_PER_BYTE + 64;
        if (most > left) most = left;
        /* The trailer of a single member states its size; it is only a guess of the room needed. */
        size_t room = n >= 4 ? kfs_le32(p + n - 4) : 0;
        if (room > most || room < n / 2) room = n * 4 < most ? n * 4 : most;
        for (;;) {
            size_t taken, got;
            if (!kfs_reserve(to, room)) return 0;
            int result = kfs_library.deflate_gzip(contexts->deflate, p, n, to->data + to->size, room, &taken, &got);
            if (result == 0) {
                to->size += got;
                p += taken;
                n -= taken;
                break;
            }
            if (result != INSUFFICIENT_SPACE || room >= most) return 0;
            room = room * 4 < most ? room * 4 : most;
        }
        members++;
    }
    return members > 0;
}

static int kfs_snappy_block(const uint8_t *p, size_t n, size_t limit, kfs_bytes *to) {
    uint64_t stated = 0;
    for (size_t i = 0;; i++) {
        if (i == n || i == 5) return 0;
        stated |= (uint64_t)(p[i] & 127) << (7 * i);
        if (p[i] < 128) break;
    }
    if (stated > limit || stated > (uint64_t)n * 64 || !kfs_reserve(to, (size_t)stated)) return 0;
    size_t got = (size_t)stated;
    if (kfs_library.snappy_block((const char *)p, n, (char *)to->data + to->size, &got) != 0) return 0;
    to->size += got;
    return 1;
}

/* Inflates blocks in xerial's framing, as the JVM writes, or one bare block, as librdkafka may write. */
static int kfs_inflate_snappy(const uint8_t *p, size_t n, size_t limit, kfs_bytes *to) {
    static const uint8_t xerial[8] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};
    if (!kfs_library.snappy_block) return 0;
    if (n < 16 || memcmp(p, xerial, 8) != 0) return kfs_snappy_block(p, n, limit, to);
    size_t start = to->size;
    if (p[8] > 127 || kfs_le32(p + 8) == 0) return 0; /* version below 1 */
    for (p += 16, n -= 16; n;) {
        if (n < 4) return 0;
        size_t stored = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
        if (stored > n - 4 || !kfs_snappy_block(p + 4, stored, limit - (to->size - start), to)) return 0;
        p += 4 + stored;
        n -= 4 + stored;
    }
    return 1;
}

/* Appends the inflated payload to `to`; returns 0 and leaves `to` unchanged if the payload is refused. */
static int kfs_inflate(kfs_codec_contexts *contexts, int codec, int magic, const uint8_t *p, size_t n,
                       size_t limit, kfs_bytes *to) {
    size_t before = to->size;
    int done = 0;
    if (KFS_UNLIKELY(kfs_no_libraries)) return 0;
    if (codec == KFS_CODEC_GZIP) done = kfs_inflate_gzip(contexts, p, n, limit, to);
    if (codec == KFS_CODEC_SNAPPY) done = kfs_inflate_snappy(p, n, limit, to);
    if (codec == KFS_CODEC_LZ4) done = kfs_inflate_lz4(p, n, limit, magic != 0, to);
    if (codec == KFS_CODEC_ZSTD) done = kfs_inflate_zstd(contexts, p, n, limit, to);
    if (!done) to->size = before;
    return done;
}

/* Appends a frame as engine.coding.lz4_frame makes it at Kafka's default level: independent blocks of 64 KiB. Returns 0
 * and leaves `to` unchanged without the library or memory. */
static int kfs_deflate_lz4(const uint8_t *p, size_t n, kfs_bytes *to) {
    static const uint8_t head[6] = {0x04, 0x22, 0x4D, 0x18, 0x60, 0x40};
    enum { BLOCK = 65536, BLOCK_BOUND = BLOCK + BLOCK / 255 + 16 };
    size_t before = to->size;
    if (KFS_UNLIKELY(kfs_no_libraries) || !kfs_library.lz4_compress || !kfs_reserve(to, sizeof head + 1)) return 0;
    memcpy(to->data + to->size, head, sizeof head);
    to->size += sizeof head;
    to->data[to->size++] = (uint8_t)(kfs_xxh32(head + 4, 2) >> 8);
    for (size_t left = n, size; left; left -= size, p += size) {
        size = left < BLOCK ? left : BLOCK;
        if (!kfs_reserve(to, 4 + BLOCK_BOUND)) goto refused;
        uint8_t *block = to->data + to->size;
        int made = kfs_library.lz4_compress((const char *)p, (char *)block + 4, (int)size, BLOCK_BOUND);
        if (made <= 0) goto refused;
        uint32_t word = (uint32_t)made;
        if ((size_t)made >= size) { /* stored */
            memcpy(block + 4, p, size);
            word = (uint32_t)size | 0x80000000u;
        }
        kfs_put_le32(block, word);
        to->size += 4 + (word & 0x7FFFFFFFu);
    }
    if (!kfs_reserve(to, 4)) goto refused;
    kfs_put_le32(to->data + to->size, 0);
    to->size += 4;
    return 1;
refused:
    to->size = before;
    return 0;
}

#endif
