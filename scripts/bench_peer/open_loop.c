/* Opens, reads and closes PREFIX<n> for COUNT values of n from START on, STEP apart, and prints how many bytes came
   back. Each name is new to the kernel, so each costs a look-up, an open, a read and a release in the file system
   below.

       open_loop PREFIX START COUNT STEP */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static char buffer[1 << 16];
    char path[4096];
    long long start, count, step, total = 0;

    if (argc != 5 || strlen(argv[1]) > sizeof path - 32) {
        fprintf(stderr, "usage: open_loop PREFIX START COUNT STEP\n");
        return 2;
    }
    start = atoll(argv[2]);
    count = atoll(argv[3]);
    step = atoll(argv[4]);
    for (long long n = start; n < start + count * step; n += step) {
        snprintf(path, sizeof path, "%s%lld", argv[1], n);
        int file = open(path, O_RDONLY);
        if (file < 0) {
            perror(path);
            return 1;
        }
        ssize_t size = read(file, buffer, sizeof buffer);
        if (size < 0) {
            perror(path);
            return 1;
        }
        total += size;
        close(file);
    }
    printf("%lld\n", total);
    return 0;
}
