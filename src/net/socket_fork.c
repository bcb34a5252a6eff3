/* SPDX-License-Identifier: BSD-3-Clause */
/* The sockets of start-up, which a forked child must not keep (base/fds.h): one that lives on would also keep the names of its
 * killed parent's listeners taken. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/status.h"
#include "net/rendezvous.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
/* WEFT_STORE_FD, which the program may have closed, so that its number is another file's by now. */
static struct {
    atomic_int fd;
    _Atomic ino_t number;
} given = {.fd = -1};

static void close_in_child(void)
{
    struct stat st;
    int fd = atomic_exchange_explicit(&given.fd, -1, memory_order_relaxed);
    if (fd >= 0 && !fstat(fd, &st) && S_ISSOCK(st.st_mode) &&
        st.st_ino == atomic_load_explicit(&given.number, memory_order_relaxed))
        close(fd);
}

static void set_handler(void)
{
    pthread_atfork(NULL, NULL, close_in_child);
}

void wi_socket_keep_given(int fd)
{
    struct stat st;
    if (fstat(fd, &st))
        return;
    pthread_once(&once, set_handler);
    atomic_store_explicit(&given.number, st.st_ino, memory_order_relaxed);
    atomic_store_explicit(&given.fd, fd, memory_order_release);
}

weft_status wi_start_lock(pthread_mutex_t *lock, const char *what, uint64_t deadline_ns)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000ull),
                             .tv_nsec = (long)(deadline_ns % 1000000000ull)};
    /* The thread sanitizer sees the first one only: tests/harness/tsan.supp. */
    if (!pthread_mutex_trylock(lock) || !pthread_mutex_clocklock(lock, CLOCK_MONOTONIC, &until))
        return WEFT_SUCCESS;
    return wi_fail(WEFT_ETIMEDOUT, "%s: another thread has been doing that, or had when this process was forked", what);
}
