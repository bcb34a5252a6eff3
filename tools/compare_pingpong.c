/* SPDX-License-Identifier: BSD-3-Clause */
/* Raw TCP half round trip for weft-compare: blocking send and receive of BYTES over one connection, TCP_NODELAY.
 * Usage: compare_pingpong serve PORT BYTES | compare_pingpong ADDRESS PORT BYTES
 * The client prints microseconds: half of the median round trip. */
#include "bench_rule.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROUNDS 20000
#define WARMUP 2000
#define MAX_BYTES 65536

static char data[MAX_BYTES];

static int receive_all(int fd, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = recv(fd, data + done, bytes - done, 0);
        if (n <= 0)
            return -1;
        done += (size_t)n;
    }
    return 0;
}

static int send_all(int fd, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = send(fd, data + done, bytes - done, MSG_NOSIGNAL);
        if (n <= 0)
            return -1;
        done += (size_t)n;
    }
    return 0;
}

static void no_delay(int fd)
{
    int one = 1;
    struct timeval limit = {30, 0};

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

static int serve(struct sockaddr_in *address, size_t bytes)
{
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

    address->sin_addr.s_addr = INADDR_ANY;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    no_delay(fd);
    if (fd < 0 || bind(fd, (struct sockaddr *)address, sizeof(*address)) != 0 || listen(fd, 1) != 0) {
        perror("compare_pingpong: listen");
        return 1;
    }
    int peer = accept(fd, NULL, NULL);
    no_delay(peer);
    while (peer >= 0 && receive_all(peer, bytes) == 0 && send_all(peer, bytes) == 0)
        ;
    return peer < 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static int measure(const struct sockaddr_in *address, size_t bytes)
{
    static double took[ROUNDS];
    int fd = -1;

    for (int attempt = 0; attempt < 100; attempt++) {
        fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
            break;
        close(fd);
        fd = -1;
        usleep(50000);
    }
    if (fd < 0) {
        perror("compare_pingpong: connect");
        return 1;
    }
    no_delay(fd);
    for (int i = -WARMUP; i < ROUNDS; i++) {
        double start = bench_now_ns();
        if (send_all(fd, bytes) != 0 || receive_all(fd, bytes) != 0)
            return 1;
        took[i < 0 ? 0 : i] = bench_now_ns() - start;
    }
    qsort(took, ROUNDS, sizeof(took[0]), by_value);
    printf("%.3f\n", took[ROUNDS / 2] / 2e3);
    return 0;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    size_t bytes = argc == 4 ? strtoull(argv[3], NULL, 10) : 0;

    if (bytes == 0 || bytes > MAX_BYTES) {
        fprintf(stderr, "usage: compare_pingpong serve PORT BYTES | compare_pingpong ADDRESS PORT BYTES\n");
        return 2;
    }
    address.sin_port = htons((uint16_t)atoi(argv[2]));
    if (strcmp(argv[1], "serve") == 0)
        return serve(&address, bytes);
    if (inet_pton(AF_INET, argv[1], &address.sin_addr) != 1) {
        fprintf(stderr, "compare_pingpong: '%s' is no IPv4 address\n", argv[1]);
        return 2;
    }
    return measure(&address, bytes);
}
