/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/fds.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#define FDS_MAX (1 << 20) /* higher ones are not noted */

/* One bit each: whatever the threads of the parent were doing at the fork, this can be read in the child. */
static _Atomic uint64_t kept[FDS_MAX / 64];

static void close_in_child(void)
{
    for (int i = 0; i < FDS_MAX / 64; i++) {
        uint64_t word = atomic_exchange_explicit(&kept[i], 0, memory_order_relaxed);
        for (; word; word &= word - 1)
            close(i * 64 + __builtin_ctzll(word));
    }
}

static void set_handler(void)
{
    pthread_atfork(NULL, NULL, close_in_child);
}

int wi_fd_keep(int fd)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (fd < 0)
        return fd;
    pthread_once(&once, set_handler);
    if (fd < FDS_MAX)
        atomic_fetch_or_explicit(&kept[fd / 64], 1ull << (fd % 64), memory_order_relaxed);
    return fd;
}

void wi_fd_close(int fd)
{
    if (fd >= 0 && fd < FDS_MAX) /* before: its number may be somebody else's at once */
        atomic_fetch_and_explicit(&kept[fd / 64], ~(1ull << (fd % 64)), memory_order_relaxed);
    close(fd);
}
