/* Sends the parts of an answer, and receives what a client sends next. The client's socket does not block. */

#ifndef KFX_EXCHANGE_H
#define KFX_EXCHANGE_H

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

/* Bytes in memory, or of a file if data is NULL. What is sent is taken off: position and size are those of the rest. */
typedef struct {
    const uint8_t *data;
    int file;
    int64_t position;
    size_t size;
} kfx_part;

enum { KFX_DONE, KFX_NO_ROOM, KFX_SHORT };

enum {
    KFX_ROOM = 4096,         /* bytes that most requests do not reach */
    KFX_ROOM_MS = 20,        /* time to wait for room before the event loop waits */
    KFX_LOOK_NS = 60 * 1000, /* to sleep and to be woken costs as much */
    KFX_MOST_LEFT_OUT = 1023
};

/* After looking in vain, looking is left out for more and more requests. */
typedef struct {
    int32_t left_out, failures;
} kfx_patience;

/* The gate before the GIL. Threads that want the GIL sleep until they are woken, each time; here the next one looks a
 * moment before it sleeps, and finds the GIL free. Who is inside may not wait for anything but the GIL. */
#ifdef PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
static pthread_mutex_t kfx_gate = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
#else
static pthread_mutex_t kfx_gate = PTHREAD_MUTEX_INITIALIZER;
#endif
static __thread int kfx_is_inside;

static void kfx_enter(void) {
    pthread_mutex_lock(&kfx_gate);
    kfx_is_inside = 1;
}

/* Leaves the gate if the thread is inside. */
static void kfx_leave(void) {
    if (!kfx_is_inside) return;
    kfx_is_inside = 0;
    pthread_mutex_unlock(&kfx_gate);
}

static int64_t kfx_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Returns whether the client is ready, or -errno. */
static int kfx_wait(int client, short events, int milliseconds) {
    struct pollfd entry = {.fd = client, .events = events};
    for (;;) {
        int ready = poll(&entry, 1, milliseconds);
        if (ready >= 0) return ready;
        if (errno != EINTR) return -errno;
    }
}

/* Sends until all is sent, the client has no room for `room_ms`, or the file of the part at *place ends; or returns
 * -errno. */
static int kfx_send(int client, kfx_part *parts, size_t count, size_t *place, int room_ms) {
    while (*place < count) {
        kfx_part *part = parts + *place;
        if (!part->size) {
            ++*place;
            continue;
        }
        ssize_t sent;
        if (part->data) {
            int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (*place + 1 < count ? MSG_MORE : 0);
            sent = send(client, part->data + part->position, part->size, flags);
        } else {
            off_t from = part->position;
            sent = sendfile(client, part->file, &from, part->size);
            if (!sent) return KFX_SHORT;
        }
        if (sent < 0) {
            if (errno == EINTR) continue;
            if (errno != EAGAIN) return -errno;
            int ready = room_ms ? kfx_wait(client, POLLOUT, room_ms) : 0;
            if (ready < 0) return ready;
            if (!ready) return KFX_NO_ROOM;
            continue;
        }
        part->position += sent;
        part->size -= (size_t)sent;
    }
    return KFX_DONE;
}

/* Returns the bytes received, 0 if none came in time or the client has ended, or -errno. */
static int64_t kfx_receive(int client, uint8_t *to, size_t size, int pause_ms, int may_look, kfx_patience *patience) {
    if (may_look && !patience->left_out) {
        int64_t end = kfx_now() + KFX_LOOK_NS;
        do {
            ssize_t got = recv(client, to, size, MSG_DONTWAIT);
            if (got >= 0) {
                patience->failures = 0;
                return got;
            }
            if (errno != EAGAIN && errno != EINTR) return -errno;
        } while (kfx_now() < end);
        if (patience->failures < KFX_MOST_LEFT_OUT) patience->failures = 2 * patience->failures + 1;
        patience->left_out = patience->failures;
    } else if (patience->left_out) {
        patience->left_out--;
    }
    int ready = kfx_wait(client, POLLIN, pause_ms);
    if (ready <= 0) return ready;
    for (;;) {
        ssize_t got = recv(client, to, size, MSG_DONTWAIT);
        if (got >= 0) return got;
        if (errno != EINTR) return errno == EAGAIN ? 0 : -errno;
    }
}

#endif
