/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-compare: how far apart two cores are. A flag goes back and forth between two pinned threads; prints the fastest round
 * trip in nanoseconds. Virtual machines move their cores between one core complex and several while they run, which changes
 * every small message's time: runs can only be compared between moves.
 *
 * Usage: compare_placement CPU CPU */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 30
#define TRIPS 1000
#define LIMIT_S 10

struct flag {
    volatile uint64_t value;
    char pad[120];
};

static struct flag flags[2] __attribute__((aligned(128)));
static int cpus[2];

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Cores that others use too need a yield now and then, or the other thread may never run. */
static void await(const struct flag *flag, uint64_t value)
{
    for (uint32_t polls = 1; flag->value < value; polls++)
        if (polls % 100000 == 0)
            sched_yield();
}

static void pin(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set)) {
        perror("sched_setaffinity");
        exit(1);
    }
}

static void *answer(void *arg)
{
    pin(cpus[1]);
    for (uint64_t i = 1; i <= ROUNDS * TRIPS; i++) {
        await(&flags[0], i);
        flags[1].value = i;
    }
    return arg;
}

int main(int argc, char **argv)
{
    double best = 1e18;
    pthread_t thread;
    uint64_t i = 0;

    if (argc != 3) {
        fprintf(stderr, "usage: %s CPU CPU\n", argv[0]);
        return 2;
    }
    alarm(LIMIT_S);
    cpus[0] = atoi(argv[1]);
    cpus[1] = atoi(argv[2]);
    if (pthread_create(&thread, NULL, answer, NULL))
        return 1;
    pin(cpus[0]);
    for (int round = 0; round < ROUNDS; round++) {
        double begin = now_ns(), took;
        for (int trip = 0; trip < TRIPS; trip++) {
            flags[0].value = ++i;
            await(&flags[1], i);
        }
        took = (now_ns() - begin) / TRIPS;
        best = took < best ? took : best;
    }
    pthread_join(thread, NULL);
    printf("%.0f\n", best);
    return 0;
}
