/* A failing disk, for LD_PRELOAD: reads of chosen bytes of chosen files end with an errno, as on Linux a read
 * from the page cache does: short up to the first bad byte, and the errno at it. The file named by
 * UNREADABLE_BYTES has a line "device inode start end errno" for each stretch; it is read again when it was
 * changed. UNREADABLE_CALLS names a file to which each failed read adds a byte. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

typedef struct {
    unsigned long long device, inode;
    long long start, end;
    int number;
} stretch;

static stretch *stretches;
static size_t count;
static struct timespec read_at;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void load(void) {
    const char *path = getenv("UNREADABLE_BYTES");
    struct stat status;
    if (!path || stat(path, &status)) return;
    if (status.st_mtim.tv_sec == read_at.tv_sec && status.st_mtim.tv_nsec == read_at.tv_nsec) return;
    FILE *rules = fopen(path, "r");
    if (!rules) return;
    read_at = status.st_mtim;
    count = 0;
    stretch next;
    while (fscanf(rules, "%llu %llu %lld %lld %d", &next.device, &next.inode, &next.start, &next.end,
                  &next.number) == 5) {
        stretches = realloc(stretches, (count + 1) * sizeof(stretch));
        stretches[count++] = next;
    }
    fclose(rules);
}

/* How many of `size` bytes at `position` can be read; -1, with errno, when the first cannot. */
static ssize_t readable(int fd, size_t size, long long position) {
    struct stat status;
    long long least = (long long)size;
    int number = 0;
    if (fstat(fd, &status) || !S_ISREG(status.st_mode)) return (ssize_t)size;
    pthread_mutex_lock(&lock);
    load();
    for (size_t i = 0; i < count; i++) {
        stretch *s = stretches + i;
        if (s->device != status.st_dev || s->inode != status.st_ino) continue;
        if (s->end <= position || s->start >= position + least) continue;
        least = s->start > position ? s->start - position : 0;
        number = s->number;
    }
    pthread_mutex_unlock(&lock);
    if (least || !size || position >= status.st_size) return (ssize_t)least;
    const char *calls = getenv("UNREADABLE_CALLS");
    int out = calls ? open(calls, O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
    if (out >= 0) {
        if (write(out, ".", 1) != 1) abort();
        close(out);
    }
    errno = number;
    return -1;
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = dlsym(RTLD_NEXT, #name)

#define PREAD(name) \
    ssize_t name(int fd, void *to, size_t size, off_t position) { \
        REAL(name); \
        ssize_t fine = readable(fd, size, position); \
        return fine < 0 ? -1 : real(fd, to, (size_t)fine, position); \
    }

PREAD(pread)
PREAD(pread64)

ssize_t read(int fd, void *to, size_t size) {
    REAL(read);
    off_t position = count || getenv("UNREADABLE_BYTES") ? lseek(fd, 0, SEEK_CUR) : -1;
    ssize_t fine = position < 0 ? (ssize_t)size : readable(fd, size, position);
    return fine < 0 ? -1 : real(fd, to, (size_t)fine);
}

/* Reads the buffers one by one, up to the first that is not filled. */
static ssize_t each(int fd, const struct iovec *to, int buffers, off_t position) {
    ssize_t total = 0;
    for (int i = 0; i < buffers; i++) {
        ssize_t got = pread(fd, to[i].iov_base, to[i].iov_len, position + total);
        if (got < 0) return total ? total : -1;
        total += got;
        if ((size_t)got < to[i].iov_len) break;
    }
    return total;
}

ssize_t preadv(int fd, const struct iovec *to, int buffers, off_t position) { return each(fd, to, buffers, position); }
ssize_t preadv64(int fd, const struct iovec *to, int buffers, off64_t position) { return each(fd, to, buffers, position); }
ssize_t preadv2(int fd, const struct iovec *to, int buffers, off_t position, int flags) {
    (void)flags;
    return each(fd, to, buffers, position);
}
ssize_t preadv64v2(int fd, const struct iovec *to, int buffers, off64_t position, int flags) {
    (void)flags;
    return each(fd, to, buffers, position);
}

ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t size, unsigned flags) {
    REAL(copy_file_range);
    ssize_t fine = readable(from, size, from_at ? *from_at : lseek(from, 0, SEEK_CUR));
    return fine < 0 ? -1 : real(from, from_at, to, to_at, (size_t)fine, flags);
}
