/* Reads FILE a MiB at a time and decompresses its batches of magic 2, and nothing else: with one context, and into
   one buffer that stays in the cache. Does it once for each line of its input, and answers with the nanoseconds that
   passed, the batches, and the bytes that came out.

       inflate_loop zstd|gzip LIBRARY FILE */

#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 1 << 20, OVERHEAD = 61, MOST = 64 << 20 };

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return found;
}

static uint32_t be32(const uint8_t *p) { return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3]; }

int main(int argc, char **argv)
{
    void *library = argc == 4 ? dlopen(argv[2], RTLD_NOW) : NULL;
    int file = argc == 4 ? open(argv[3], O_RDONLY) : -1, zstd = argc == 4 && !strcmp(argv[1], "zstd");
    static uint8_t chunk[CHUNK];
    uint8_t *out = malloc(MOST);
    char line[16];

    if (!library || file < 0 || !out) {
        fprintf(stderr, "usage: inflate_loop zstd|gzip LIBRARY FILE\n");
        return 2;
    }
    size_t (*inflate_zstd)(void *, void *, size_t, const void *, size_t) = NULL;
    int (*inflate_gzip)(void *, const void *, size_t, void *, size_t, size_t *) = NULL;
    void *context;
    if (zstd) {
        inflate_zstd = (size_t(*)(void *, void *, size_t, const void *, size_t))symbol(library, "ZSTD_decompressDCtx");
        context = ((void *(*)(void))symbol(library, "ZSTD_createDCtx"))();
    } else {
        inflate_gzip = (int (*)(void *, const void *, size_t, void *, size_t, size_t *))symbol(library, "libdeflate_gzip_decompress");
        context = ((void *(*)(void))symbol(library, "libdeflate_alloc_decompressor"))();
    }
    while (fgets(line, sizeof line, stdin)) {
        struct timespec from, to;
        long long batches = 0, total = 0, position = 0;
        clock_gettime(CLOCK_MONOTONIC, &from);
        for (ssize_t size; (size = pread(file, chunk, CHUNK, position)) > 0;) {
            ssize_t at = 0;
            for (; size - at >= OVERHEAD; batches++) {
                ssize_t whole = 12 + be32(chunk + at + 8);
                if (whole > size - at) break;
                size_t got;
                if (zstd)
                    got = inflate_zstd(context, out, MOST, chunk + at + OVERHEAD, whole - OVERHEAD);
                else if (inflate_gzip(context, chunk + at + OVERHEAD, whole - OVERHEAD, out, MOST, &got))
                    got = (size_t)-1;
                if (got > MOST) {
                    fprintf(stderr, "batch %lld does not inflate\n", batches);
                    return 1;
                }
                total += got;
                at += whole;
            }
            if (!at) break;
            position += at;
        }
        clock_gettime(CLOCK_MONOTONIC, &to);
        printf("%lld %lld %lld\n", (to.tv_sec - from.tv_sec) * 1000000000LL + to.tv_nsec - from.tv_nsec, batches, total);
        fflush(stdout);
    }
    return 0;
}
