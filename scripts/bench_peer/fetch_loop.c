/* A consumer that does nothing with records: Fetch of one partition after another, from the first offset to the end,
   some rounds.

   fetch_loop HOST PORT PARTITION_BYTES TOPIC PARTITIONS ROUNDS [session]

   With "session" the requests are those of a fetch session, as Java's consumer sends them. Prints nanoseconds, fetches and bytes of whole batches. Bytes come into one buffer; only headers of batches are looked at. */

#include <arpa/inet.h>
#include <endian.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FETCH = 1, VERSION = 11, LARGEST = 128 << 20 };

static char *answer;
static int in_session;
static int64_t session, epoch; /* of the next request */
static int last_partition;

static void fail(const char *what) {
    fprintf(stderr, "fetch_loop: %s\n", what);
    exit(1);
}

static char *put(char *at, uint64_t value, int size) {
    while (size--) *at++ = (char)(value >> 8 * size);
    return at;
}

static int64_t get(const char *at, int size) {
    uint64_t value = 0;
    for (int i = 0; i < size; i++) value = value << 8 | (unsigned char)at[i];
    return size == 8 ? (int64_t)value : size == 4 ? (int32_t)value : (int16_t)value;
}

static char *put_text(char *at, const char *text) {
    size_t size = strlen(text);
    at = put(at, size, 2);
    memcpy(at, text, size);
    return at + size;
}

static void receive(int in, char *to, size_t size) {
    while (size) {
        ssize_t got = recv(in, to, size, MSG_WAITALL);
        if (got <= 0) fail("the connection ended");
        to += got, size -= got;
    }
}

/* Fetches once; returns the bytes of whole batches, and moves *offset behind the last. */
static size_t fetch(int peer, const char *topic, int partition, int most, int64_t *offset) {
    char request[1024], *at = request + 4;
    at = put(at, FETCH, 2), at = put(at, VERSION, 2), at = put(at, 7, 4), at = put_text(at, "loop");
    at = put(at, -1, 4), at = put(at, 0, 4), at = put(at, 1, 4);      /* replica, wait, least bytes */
    at = put(at, 50 << 20, 4), at = put(at, 0, 1);                    /* most bytes, isolation */
    at = put(at, session, 4), at = put(at, in_session ? epoch : -1, 4), at = put(at, 1, 4); /* and topics */
    at = put_text(at, topic), at = put(at, 1, 4), at = put(at, partition, 4), at = put(at, -1, 4);
    at = put(at, *offset, 8), at = put(at, -1, 8), at = put(at, most, 4);
    int moves = session && partition != last_partition;
    at = put(at, moves, 4);                                           /* forgotten topics */
    if (moves) at = put_text(at, topic), at = put(at, 1, 4), at = put(at, last_partition, 4);
    at = put(at, 0, 2);                                               /* rack */
    put(request, at - request - 4, 4);
    if (send(peer, request, at - request, 0) != at - request) fail("cannot send");

    char size[4];
    receive(peer, size, 4);
    size_t length = get(size, 4);
    if (length > LARGEST) fail("the answer is too large");
    receive(peer, answer, length);
    if (get(answer + 8, 2)) fail("an error code");
    if (in_session) session = get(answer + 10, 4), epoch++, last_partition = partition;
    if (!get(answer + 14, 4)) return 0;                               /* in a session: nothing new */
    const char *in = answer + 4 + 4 + 2 + 4 + 4;                      /* ids, throttle, error, session, topics */
    in += 2 + get(in, 2) + 4 + 4;                                     /* name, partitions, number */
    if (get(in, 2)) fail("an error code");
    in += 2 + 8 + 8 + 8;
    int64_t aborted = get(in, 4);
    in += 4 + (aborted > 0 ? 16 * aborted : 0) + 4;
    int64_t bytes = get(in, 4);
    in += 4;
    const char *first = in, *end = in + (bytes > 0 ? bytes : 0);
    while (end - in >= 61 && in + 12 + get(in + 8, 4) <= end) {
        *offset = get(in, 8) + get(in + 23, 4) + 1;
        in += 12 + get(in + 8, 4);
    }
    return in - first;
}

int main(int count, char **words) {
    if (count < 7) fail("HOST PORT PARTITION_BYTES TOPIC PARTITIONS ROUNDS [session]");
    in_session = count > 7;
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons(atoi(words[2]))};
    inet_pton(AF_INET, words[1], &place.sin_addr);
    int peer = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(peer, (struct sockaddr *)&place, sizeof place)) fail("cannot connect");
    if (!(answer = malloc(LARGEST))) fail("no memory");
    int partitions = atoi(words[5]);
    long fetches = 0;
    size_t total = 0, got;
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (long round = 0; round < atol(words[6]) * partitions; round++) {
        int64_t offset = 0;
        do {
            got = fetch(peer, words[4], round % partitions, atoi(words[3]), &offset);
            total += got, fetches++;
        } while (got);
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    printf("%lld %ld %zu\n", (to.tv_sec - from.tv_sec) * 1000000000LL + to.tv_nsec - from.tv_nsec, fetches, total);
    return 0;
}
