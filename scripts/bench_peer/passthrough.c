/* A read-only file system over a folder, on libfuse's low-level interface: the peer of the mount. Inodes are in a hash
   table by (device, inode), so that a look-up costs the same with any number of files known. An inode keeps its path, not
   a descriptor: the limit of open files bounds nothing.

       passthrough SOURCE MOUNTPOINT SECONDS THREADS

   SECONDS: how long the kernel may cache names and attributes. THREADS: 1, or more for libfuse's own pool. The other
   options are those of a kafkafs mount: ro, default_permissions, data kept in the page cache when a file is opened. */

#define FUSE_USE_VERSION 314
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUCKETS (1 << 17)

struct inode {
    struct inode *next;
    ino_t number;
    dev_t device;
    uint64_t lookups;
    char path[]; /* relative to the source */
};

static int source;
static struct inode *buckets[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static double seconds;

static struct inode **bucket_of(dev_t device, ino_t number)
{
    uint64_t hash = (uint64_t)number * 0x9E3779B97F4A7C15u ^ (uint64_t)device;
    return &buckets[hash >> 47 & (BUCKETS - 1)];
}

static const char *path_of(fuse_ino_t ino)
{
    return ino == FUSE_ROOT_ID ? "." : ((struct inode *)(uintptr_t)ino)->path;
}

static struct inode *find(const struct stat *facts)
{
    struct inode *inode = *bucket_of(facts->st_dev, facts->st_ino);
    while (inode && (inode->number != facts->st_ino || inode->device != facts->st_dev)) inode = inode->next;
    return inode;
}

static void look_up(fuse_req_t request, fuse_ino_t parent, const char *name)
{
    struct fuse_entry_param entry = {.attr_timeout = seconds, .entry_timeout = seconds};
    char path[4096];
    int size = snprintf(path, sizeof path, "%s/%s", path_of(parent), name);
    if (size >= (int)sizeof path) {
        fuse_reply_err(request, ENAMETOOLONG);
        return;
    }
    if (fstatat(source, path, &entry.attr, AT_SYMLINK_NOFOLLOW)) {
        fuse_reply_err(request, errno);
        return;
    }
    pthread_mutex_lock(&lock);
    struct inode *inode = find(&entry.attr);
    if (!inode) {
        struct inode **bucket = bucket_of(entry.attr.st_dev, entry.attr.st_ino);
        inode = malloc(sizeof *inode + (size_t)size + 1);
        if (!inode) abort();
        *inode = (struct inode){*bucket, entry.attr.st_ino, entry.attr.st_dev, 0};
        memcpy(inode->path, path, (size_t)size + 1);
        *bucket = inode;
    }
    inode->lookups++;
    pthread_mutex_unlock(&lock);
    entry.ino = (uintptr_t)inode;
    fuse_reply_entry(request, &entry);
}

static void forget_one(fuse_ino_t ino, uint64_t count)
{
    struct inode *inode = (struct inode *)(uintptr_t)ino;
    if (ino == FUSE_ROOT_ID) return;
    pthread_mutex_lock(&lock);
    inode->lookups -= count;
    if (!inode->lookups) {
        struct inode **place = bucket_of(inode->device, inode->number);
        while (*place != inode) place = &(*place)->next;
        *place = inode->next;
        free(inode);
    }
    pthread_mutex_unlock(&lock);
}

static void forget(fuse_req_t request, fuse_ino_t ino, uint64_t count)
{
    forget_one(ino, count);
    fuse_reply_none(request);
}

static void forget_many(fuse_req_t request, size_t count, struct fuse_forget_data *forgets)
{
    for (size_t i = 0; i < count; i++) forget_one(forgets[i].ino, forgets[i].nlookup);
    fuse_reply_none(request);
}

static void get_attributes(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file)
{
    struct stat facts;
    (void)file;
    if (fstatat(source, path_of(ino), &facts, AT_SYMLINK_NOFOLLOW))
        fuse_reply_err(request, errno);
    else
        fuse_reply_attr(request, &facts, seconds);
}

static void open_file(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file)
{
    int fd = openat(source, path_of(ino), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        fuse_reply_err(request, errno);
        return;
    }
    file->fh = (uint64_t)fd;
    file->keep_cache = 1;
    fuse_reply_open(request, file);
}

static void read_file(fuse_req_t request, fuse_ino_t ino, size_t size, off_t position, struct fuse_file_info *file)
{
    static _Thread_local char buffer[1 << 20]; /* faster than splice(2) here */
    (void)ino;
    if (size > sizeof buffer) size = sizeof buffer;
    ssize_t got = pread((int)file->fh, buffer, size, position);
    if (got < 0)
        fuse_reply_err(request, errno);
    else
        fuse_reply_buf(request, buffer, (size_t)got);
}

static void release(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file)
{
    (void)ino;
    close((int)file->fh);
    fuse_reply_err(request, 0);
}

static void flush(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file)
{
    (void)ino, (void)file;
    fuse_reply_err(request, ENOSYS); /* the kernel asks once */
}

static const struct fuse_lowlevel_ops operations = {
    .lookup = look_up,
    .forget = forget,
    .forget_multi = forget_many,
    .getattr = get_attributes,
    .open = open_file,
    .read = read_file,
    .flush = flush,
    .release = release,
};

int main(int argc, char **argv)
{
    char *options[] = {argv[0], "-oro,default_permissions,fsname=passthrough,subtype=passthrough"};
    struct fuse_args args = FUSE_ARGS_INIT(2, options);
    if (argc != 5 || (source = open(argv[1], O_PATH | O_CLOEXEC)) < 0) {
        fprintf(stderr, "usage: passthrough SOURCE MOUNTPOINT SECONDS THREADS\n");
        return 2;
    }
    seconds = atof(argv[3]);
    struct fuse_session *session = fuse_session_new(&args, &operations, sizeof operations, NULL);
    if (!session || fuse_set_signal_handlers(session) || fuse_session_mount(session, argv[2])) return 1;
    struct fuse_loop_config *config = fuse_loop_cfg_create();
    fuse_loop_cfg_set_max_threads(config, (unsigned)atoi(argv[4]));
    int status = atoi(argv[4]) > 1 ? fuse_session_loop_mt(session, config) : fuse_session_loop(session);
    fuse_session_unmount(session);
    fuse_session_destroy(session);
    return status ? 1 : 0;
}
