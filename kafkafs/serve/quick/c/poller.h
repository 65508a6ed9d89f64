/* Clients that few threads serve together, by epoll. None of the threads waits for one client, nor for a disk. */

#ifndef KFX_POLLER_H
#define KFX_POLLER_H

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "exchange.h"

enum {
    KFX_READY = 16, /* clients that a thread takes at once */
    KFX_PROBE = 128 * 1024
};

/* The state of a client. FREE: there is none; ARMED: epoll waits for it; OURS: a thread works on it. */
enum { KFX_FREE, KFX_ARMED, KFX_OURS };

/* What a thread found: bytes came; the client or its socket has failed (`number`); the client has ended, a file is short,
 * or somebody wants the client back. */
enum { KFX_CAME, KFX_FAILED, KFX_ENDED, KFX_SHORT_FILE, KFX_BACK };

typedef struct {
    int client, state, is_wanted, found, number;
    uint32_t generation; /* an event of a client that has left is one of an earlier generation */
    size_t got, count, place;
    kfx_part *parts; /* the rest of an answer, from `place` on */
    uint8_t *room;
    int has_request; /* the next request has come before its answer */
} kfx_member;

typedef struct {
    int epoll, closing;
    uint32_t size, next;
    kfx_member *members;
    pthread_mutex_t lock; /* of states, generations and what epoll waits for */
} kfx_poller;

/* Returns 0 or an errno. */
static int kfx_open_poller(kfx_poller *poller, uint32_t size) {
    memset(poller, 0, sizeof *poller);
    poller->epoll = poller->closing = -1;
    pthread_mutex_init(&poller->lock, NULL);
    poller->members = calloc(size, sizeof *poller->members);
    if (!poller->members) return ENOMEM;
    poller->size = size;
    poller->epoll = epoll_create1(EPOLL_CLOEXEC);
    poller->closing = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (poller->epoll < 0 || poller->closing < 0) return errno;
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = UINT64_MAX};
    return epoll_ctl(poller->epoll, EPOLL_CTL_ADD, poller->closing, &event) ? errno : 0;
}

/* Ends the threads. */
static void kfx_close_poller(kfx_poller *poller) { eventfd_write(poller->closing, 1); }

/* Frees all. No thread may be in the poller. */
static void kfx_free_poller(kfx_poller *poller) {
    if (poller->epoll >= 0) close(poller->epoll);
    if (poller->closing >= 0) close(poller->closing);
    for (uint32_t number = 0; poller->members && number < poller->size; number++) free(poller->members[number].room);
    free(poller->members);
    pthread_mutex_destroy(&poller->lock);
}

static int kfx_wait_for(kfx_poller *poller, uint32_t number, int operation, uint32_t events) {
    kfx_member *member = poller->members + number;
    struct epoll_event event = {
        .events = events | EPOLLONESHOT, .data.u64 = (uint64_t)member->generation << 32 | number};
    return epoll_ctl(poller->epoll, operation, member->client, &event) ? -errno : 0;
}

/* Adds a client with an answer to send; returns its number, or -errno. */
static int64_t kfx_add(kfx_poller *poller, int client, kfx_part *parts, size_t count, int has_request) {
    int64_t result = -EAGAIN;
    pthread_mutex_lock(&poller->lock);
    for (uint32_t each = 0; each < poller->size; each++) {
        uint32_t number = (poller->next + each) % poller->size;
        kfx_member *member = poller->members + number;
        if (member->state != KFX_FREE) continue;
        if (!member->room && !(member->room = malloc(KFX_ROOM))) break;
        member->client = client;
        member->parts = parts;
        member->count = count;
        member->place = member->got = 0;
        member->is_wanted = 0;
        member->has_request = has_request;
        member->state = KFX_ARMED;
        result = kfx_wait_for(poller, number, EPOLL_CTL_ADD, EPOLLOUT);
        if (result < 0) {
            member->state = KFX_FREE;
        } else {
            result = number;
            poller->next = number + 1;
        }
        break;
    }
    pthread_mutex_unlock(&poller->lock);
    return result;
}

/* Takes off a client that the caller has. */
static void kfx_let_go(kfx_poller *poller, uint32_t number) {
    kfx_member *member = poller->members + number;
    pthread_mutex_lock(&poller->lock);
    epoll_ctl(poller->epoll, EPOLL_CTL_DEL, member->client, NULL);
    member->generation++;
    member->state = KFX_FREE;
    poller->next = number;
    pthread_mutex_unlock(&poller->lock);
}

/* Takes a client for the caller; returns false if a thread has it, which then gives it back. */
static int kfx_take(kfx_poller *poller, uint32_t number) {
    kfx_member *member = poller->members + number;
    pthread_mutex_lock(&poller->lock);
    int is_taken = member->state == KFX_ARMED;
    if (is_taken) {
        member->state = KFX_OURS;
    } else {
        member->is_wanted = 1;
    }
    pthread_mutex_unlock(&poller->lock);
    return is_taken;
}

/* Lets epoll wait for a client; returns false if that cannot be, or somebody wants it back. */
static int kfx_arm(kfx_poller *poller, uint32_t number, uint32_t events) {
    kfx_member *member = poller->members + number;
    pthread_mutex_lock(&poller->lock);
    int is_armed = !member->is_wanted && !kfx_wait_for(poller, number, EPOLL_CTL_MOD, events);
    if (is_armed) {
        member->state = KFX_ARMED;
    } else {
        member->found = KFX_BACK;
    }
    pthread_mutex_unlock(&poller->lock);
    return is_armed;
}

/* Waits for clients; returns how many the thread has now, or -1 once the poller is closing. */
static int kfx_take_ready(kfx_poller *poller, uint32_t *mine) {
    struct epoll_event events[KFX_READY];
    int count = epoll_wait(poller->epoll, events, KFX_READY, -1), taken = 0, is_closing = 0;
    if (count < 0) return errno == EINTR ? 0 : -1;
    pthread_mutex_lock(&poller->lock);
    for (int each = 0; each < count; each++) {
        if (events[each].data.u64 == UINT64_MAX) {
            is_closing = 1;
            continue;
        }
        uint32_t number = (uint32_t)events[each].data.u64;
        kfx_member *member = poller->members + number;
        if (member->state != KFX_ARMED || member->generation != events[each].data.u64 >> 32) continue;
        member->state = KFX_OURS;
        mine[taken++] = number;
    }
    pthread_mutex_unlock(&poller->lock);
    return is_closing && !taken ? -1 : taken;
}

/* Sends the rest of an answer, or receives; returns whether the client needs the thread further. */
static int kfx_advance(kfx_poller *poller, uint32_t number) {
    kfx_member *member = poller->members + number;
    if (member->place < member->count) {
        int result = kfx_send(member->client, member->parts, member->count, &member->place, 0);
        if (result == KFX_NO_ROOM) return !kfx_arm(poller, number, EPOLLOUT);
        if (result == KFX_DONE) {
            member->got = 0;
            member->found = KFX_CAME;
            return member->has_request || !kfx_arm(poller, number, EPOLLIN);
        }
        member->found = result == KFX_SHORT ? KFX_SHORT_FILE : KFX_FAILED;
        member->number = -result;
        return 1;
    }
    for (;;) {
        ssize_t got = recv(member->client, member->room, KFX_ROOM, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return !kfx_arm(poller, number, EPOLLIN);
        member->got = got > 0 ? (size_t)got : 0;
        member->found = got > 0 ? KFX_CAME : got ? KFX_FAILED : KFX_ENDED;
        member->number = errno;
        return 1;
    }
}

/* Advances clients; returns how many need the thread further, which come first. */
static int kfx_advance_all(kfx_poller *poller, uint32_t *mine, int count) {
    int left = 0;
    for (int each = 0; each < count; each++)
        if (kfx_advance(poller, mine[each])) mine[left++] = mine[each];
    return left;
}

/* Returns whether a part of a file is in the page cache, as far as a byte of each 128 KiB shows it. */
static int kfx_is_cached(int file, int64_t position, int64_t size) {
    char byte;
    struct iovec to = {&byte, 1};
    for (int64_t at = position + size - 1; at >= position; at -= KFX_PROBE)
        if (preadv2(file, &to, 1, at, RWF_NOWAIT) != 1) return 0;
    return 1;
}

#endif
