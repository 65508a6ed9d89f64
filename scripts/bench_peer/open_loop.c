/* Opens, reads and closes PREFIX<n> for n in [START, START + COUNT): how many bytes came back. Each name is new to
   the kernel, so each costs a look-up, an open, a read and a release in the file system below.

       open_loop PREFIX START COUNT */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static char buffer[1 << 16];
    char path[4096];
    long long start, count, total = 0;

    if (argc != 4 || strlen(argv[1]) > sizeof path - 32) {
        fprintf(stderr, "usage: open_loop PREFIX START COUNT\n");
        return 2;
    }
    start = atoll(argv[2]);
    count = atoll(argv[3]);
    for (long long n = start; n < start + count; n++) {
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
