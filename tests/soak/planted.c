/* Faults for sanitizers to find: a byte of 0xFF reads behind the buffer, one of 0xFE overflows a number. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

int read_planted(const unsigned char *data, int size, int zero) {
    unsigned char *copy = malloc(size + 1);
    int sum = 0;
    memcpy(copy, data, size);
    for (int at = 0; at < size; at++) {
        if (copy[at] == 0xFF) sum += copy[size + 1 + zero];
        if (copy[at] == 0xFE) sum += INT_MAX - zero + size;
        sum += zero;
    }
    free(copy);
    return sum;
}
