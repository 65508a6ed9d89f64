/* A failing disk, for LD_PRELOAD: calls on chosen files and folders end with an errno. A read does so as on Linux
 * from the page cache: short up to the first bad byte, and the errno at it. The file named by UNREADABLE_BYTES has a
 * line "device inode calls start end errno times seconds" for each fault: `calls` are letters (r reads of the bytes
 * from start to end, s stat of a path or a descriptor, o opens, l every look-up of the inode by a path, d the
 * entries of a folder), `times` is how often a process meets the fault (-1: always), `seconds` how long the call
 * hangs before; with errno 0 it then succeeds. The file is read again when it was changed. UNREADABLE_CALLS names a
 * file to which each failed call adds a byte. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = dlsym(RTLD_NEXT, #name)

typedef struct {
    unsigned long long device, inode;
    char calls[8];
    long long start, end;
    int number, times;
    double seconds;
} stretch;

static stretch *stretches;
static size_t count;
static struct timespec read_at;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int status_at(int folder, const char *path, struct stat *status, int flags) {
    static int (*real)(int, const char *, struct stat *, int);
    if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, "fstatat");
    return real(folder, path, status, flags);
}

static int status_of(int fd, struct stat *status) { return status_at(fd, "", status, AT_EMPTY_PATH); }

static void load(void) {
    const char *path = getenv("UNREADABLE_BYTES");
    struct stat status;
    if (!path || status_at(AT_FDCWD, path, &status, 0)) return;
    if (status.st_mtim.tv_sec == read_at.tv_sec && status.st_mtim.tv_nsec == read_at.tv_nsec) return;
    FILE *rules = fopen(path, "r");
    if (!rules) return;
    read_at = status.st_mtim;
    count = 0;
    stretch next;
    while (fscanf(rules, "%llu %llu %7s %lld %lld %d %d %lf", &next.device, &next.inode, next.calls, &next.start,
                  &next.end, &next.number, &next.times, &next.seconds) == 8) {
        stretches = realloc(stretches, (count + 1) * sizeof(stretch));
        stretches[count++] = next;
    }
    fclose(rules);
}

/* Lets a call meet a fault: hangs, counts it, and returns whether it fails, with errno. The lock is not held. */
static int met(double seconds, int number) {
    if (seconds > 0) {
        struct timespec left = {(time_t)seconds, (long)(fmod(seconds, 1) * 1e9)};
        while (nanosleep(&left, &left) && errno == EINTR) continue;
    }
    if (!number) return 0;
    const char *calls = getenv("UNREADABLE_CALLS");
    int out = calls ? open(calls, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (out >= 0) {
        if (write(out, ".", 1) != 1) abort();
        close(out);
    }
    errno = number;
    return 1;
}

static __thread int inside, may_not_wait;

/* Whether a call of one of the kinds on this inode fails, with errno. */
static int fails(const struct stat *status, const char *kinds) {
    double seconds = 0;
    int number = 0;
    if (inside || !getenv("UNREADABLE_BYTES")) return 0;
    inside = 1;
    pthread_mutex_lock(&lock);
    load();
    for (size_t i = 0; i < count; i++) {
        stretch *s = stretches + i;
        if (s->device != status->st_dev || s->inode != status->st_ino || !s->times) continue;
        if (!strpbrk(s->calls, kinds)) continue;
        if (s->times > 0) s->times--;
        seconds = s->seconds;
        number = s->number;
        break;
    }
    pthread_mutex_unlock(&lock);
    int failed = met(seconds, number);
    inside = 0;
    return failed;
}

static int fails_of(int fd, const char *kinds) {
    struct stat status;
    return !inside && !status_of(fd, &status) && fails(&status, kinds);
}

/* Whether a look-up of a path fails: at a folder on the way, or at its end for calls of the kinds. */
static int fails_at(int folder, const char *path, const char *kinds) {
    struct stat status;
    char part[4096];
    if (inside || !path || strlen(path) >= sizeof part) return 0;
    for (const char *slash = strchr(path + 1, '/'); *path && slash; slash = strchr(slash + 1, '/')) {
        memcpy(part, path, (size_t)(slash - path));
        part[slash - path] = 0;
        if (!status_at(folder, part, &status, 0) && fails(&status, "l")) return 1;
    }
    return !status_at(folder, path, &status, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) && fails(&status, kinds);
}

/* How many of `size` bytes at `position` can be read; -1, with errno, when the first cannot. */
static ssize_t readable(int fd, size_t size, long long position) {
    struct stat status;
    long long least = (long long)size;
    stretch *found = NULL;
    double seconds = 0;
    int number = 0;
    if (inside || status_of(fd, &status) || !S_ISREG(status.st_mode)) return (ssize_t)size;
    inside = 1;
    pthread_mutex_lock(&lock);
    load();
    for (size_t i = 0; i < count; i++) {
        stretch *s = stretches + i;
        if (s->device != status.st_dev || s->inode != status.st_ino) continue;
        if (!s->times || !strchr(s->calls, 'r')) continue;
        if (s->end <= position || s->start >= position + least) continue;
        least = s->start > position ? s->start - position : 0;
        number = s->number;
        seconds = s->seconds;
        found = s;
    }
    int is_met = !least && size && position < status.st_size;
    if (is_met && found && found->times > 0) found->times--;
    pthread_mutex_unlock(&lock);
    if (is_met && seconds > 0 && may_not_wait) {
        inside = 0;
        errno = EAGAIN;
        return -1;
    }
    int failed = is_met && met(seconds, number);
    inside = 0;
    if (failed) return -1;
    return is_met && !number ? (ssize_t)size : (ssize_t)least;
}

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
    may_not_wait = flags & RWF_NOWAIT;
    ssize_t got = each(fd, to, buffers, position);
    may_not_wait = 0;
    return got;
}
ssize_t preadv64v2(int fd, const struct iovec *to, int buffers, off64_t position, int flags) {
    may_not_wait = flags & RWF_NOWAIT;
    ssize_t got = each(fd, to, buffers, position);
    may_not_wait = 0;
    return got;
}

ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t size, unsigned flags) {
    REAL(copy_file_range);
    ssize_t fine = readable(from, size, from_at ? *from_at : lseek(from, 0, SEEK_CUR));
    return fine < 0 ? -1 : real(from, from_at, to, to_at, (size_t)fine, flags);
}

#define STAT_AT(name, type) \
    int name(int folder, const char *path, struct type *to, int flags) { \
        REAL(name); \
        return fails_at(folder, path, "sl") ? -1 : real(folder, path, to, flags); \
    }
#define STAT(name, type) \
    int name(const char *path, struct type *to) { \
        REAL(name); \
        return fails_at(AT_FDCWD, path, "sl") ? -1 : real(path, to); \
    }
#define FSTAT(name, type) \
    int name(int fd, struct type *to) { \
        REAL(name); \
        return fails_of(fd, "s") ? -1 : real(fd, to); \
    }

STAT_AT(fstatat, stat)
STAT_AT(fstatat64, stat64)
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)
FSTAT(fstat, stat)
FSTAT(fstat64, stat64)

static int open_fails(int folder, const char *path, int flags) {
    return fails_at(folder, path, flags & O_PATH ? "l" : "ol");
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        REAL(name); \
        return open_fails(AT_FDCWD, path, flags) ? -1 : real(path, flags, mode); \
    }
#define OPEN_AT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        REAL(name); \
        return open_fails(folder, path, flags) ? -1 : real(folder, path, flags, mode); \
    }

OPEN(open)
OPEN(open64)
OPEN_AT(openat)
OPEN_AT(openat64)

long syscall(long number, ...) {
    va_list more;
    long given[6];
    va_start(more, number);
    for (int i = 0; i < 6; i++) given[i] = va_arg(more, long);
    va_end(more);
    REAL(syscall);
    if (number == SYS_openat2) {
        unsigned long long flags = *(unsigned long long *)given[2];
        if (open_fails((int)given[0], (const char *)given[1], (int)flags)) return -1;
    }
    return real(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

#define READ_FOLDER(name, type) \
    struct type *name(DIR *folder) { \
        REAL(name); \
        return fails_of(dirfd(folder), "d") ? NULL : real(folder); \
    }

READ_FOLDER(readdir, dirent)
READ_FOLDER(readdir64, dirent64)
