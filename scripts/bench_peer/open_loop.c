/* Opens, reads and closes PREFIX<n> for each number n of standard input, with THREADS threads that take one number after
   another, and prints how many bytes came back. A name that is new to the kernel costs a look-up, an open, a read and a
   release in the file system below.

       open_loop PREFIX THREADS < numbers */

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 1000000

static long long numbers[MOST];
static const char *prefix;
static int count;
static atomic_int next;
static atomic_llong total;

static void *work(void *unused)
{
    char buffer[1 << 16], path[4096];
    (void)unused;
    for (int at; (at = atomic_fetch_add(&next, 1)) < count;) {
        snprintf(path, sizeof path, "%s%lld", prefix, numbers[at]);
        int file = open(path, O_RDONLY);
        ssize_t size = file < 0 ? -1 : read(file, buffer, sizeof buffer);
        if (size < 0) {
            perror(path);
            exit(1);
        }
        atomic_fetch_add(&total, size);
        close(file);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[64];
    int wanted = argc == 3 ? atoi(argv[2]) : 0;

    if (wanted < 1 || wanted > 64 || strlen(argv[1]) > 4000) {
        fprintf(stderr, "usage: open_loop PREFIX THREADS < numbers\n");
        return 2;
    }
    prefix = argv[1];
    while (count < MOST && scanf("%lld", &numbers[count]) == 1) count++;
    for (int i = 0; i < wanted; i++)
        if (pthread_create(&threads[i], NULL, work, NULL)) return 1;
    for (int i = 0; i < wanted; i++) pthread_join(threads[i], NULL);
    printf("%lld\n", total);
    return 0;
}
