/* watch.c: see watch.h.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "watch.h"

#include <errno.h>
#include <linux/ioctl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* <linux/pidfd.h> of Linux 6.15; older kernels refuse the request. */
#define PIDFD_INFO_REQUEST _IOWR(0xFF, 11, struct pidfd_info_v0)
#define PIDFD_INFO_EXIT_MASK (1ull << 3)
struct pidfd_info_v0 {
    uint64_t mask, cgroup;
    uint32_t ids[11];
    int32_t exit_code;
};

int wi_shm_watches_init(struct wi_shm_watches *watches)
{
    watches->all = NULL;
    return pthread_mutex_init(&watches->lock, NULL) == 0;
}

void wi_shm_watches_fini(struct wi_shm_watches *watches)
{
    while (watches->all) {
        struct wi_shm_watch *watch = watches->all;
        watches->all = watch->next;
        if (watch->pidfd >= 0)
            close(watch->pidfd);
        free(watch);
    }
    pthread_mutex_destroy(&watches->lock);
}

int wi_shm_process_lives(const struct wi_shm_identity *identity)
{
    int state = wi_shm_process_state(identity);

    if (state == '?') /* without /proc, say. What cannot be known is no death */
        return kill((pid_t)identity->pid, 0) == 0 || errno != ESRCH;
    return state != 0;
}

static struct wi_shm_watch *watch_new(const struct wi_shm_identity *identity)
{
    struct wi_shm_watch *watch = calloc(1, sizeof(*watch));

    if (!watch)
        return NULL;
    watch->identity = *identity;
#ifdef SYS_pidfd_open
    watch->pidfd = (int)syscall(SYS_pidfd_open, (int)identity->pid, 0);
#else
    watch->pidfd = -1;
#endif
    watch->dead = !wi_shm_process_lives(identity); /* after the open: the pid may have been recycled before it */
    return watch;
}

struct wi_shm_watch *wi_shm_watch_get(struct wi_shm_watches *watches, const struct wi_shm_identity *identity)
{
    struct wi_shm_watch *watch;

    pthread_mutex_lock(&watches->lock);
    for (watch = watches->all; watch; watch = watch->next)
        if (wi_shm_identity_same_process(&watch->identity, identity))
            break;
    if (!watch) {
        watch = watch_new(identity);
        if (watch) {
            watch->next = watches->all;
            watches->all = watch;
        }
    }
    if (watch)
        watch->refs++;
    pthread_mutex_unlock(&watches->lock);
    return watch;
}

void wi_shm_watch_put(struct wi_shm_watches *watches, struct wi_shm_watch *watch)
{
    struct wi_shm_watch **link = &watches->all;

    if (!watch)
        return;
    pthread_mutex_lock(&watches->lock);
    if (--watch->refs == 0) {
        while (*link != watch)
            link = &(*link)->next;
        *link = watch->next;
        if (watch->pidfd >= 0)
            close(watch->pidfd);
        free(watch);
    }
    pthread_mutex_unlock(&watches->lock);
}

#define POLL_BATCH 64

static void poll_batch(struct wi_shm_watch *const *some, size_t count)
{
    struct pollfd fds[POLL_BATCH];

    for (size_t i = 0; i < count; i++) {
        int use = some[i] && !some[i]->dead && some[i]->pidfd >= 0;
        fds[i] = (struct pollfd){.fd = use ? some[i]->pidfd : -1, .events = POLLIN};
    }
    if (poll(fds, (nfds_t)count, 0) > 0)
        for (size_t i = 0; i < count; i++)
            if (fds[i].fd >= 0 && fds[i].revents)
                __atomic_store_n(&some[i]->dead, 1, __ATOMIC_RELAXED);
    for (size_t i = 0; i < count; i++)
        if (some[i] && !some[i]->dead && some[i]->pidfd < 0 && !wi_shm_process_lives(&some[i]->identity))
            __atomic_store_n(&some[i]->dead, 1, __ATOMIC_RELAXED);
}

void wi_shm_watch_poll(struct wi_shm_watches *watches, struct wi_shm_watch *const *some, size_t count)
{
    pthread_mutex_lock(&watches->lock);
    for (size_t i = 0; i < count; i += POLL_BATCH)
        poll_batch(some + i, count - i < POLL_BATCH ? count - i : POLL_BATCH);
    pthread_mutex_unlock(&watches->lock);
}

int wi_shm_watch_alive(const struct wi_shm_watch *watch)
{
    struct pollfd fd = {.fd = watch->pidfd, .events = POLLIN};

    if (__atomic_load_n(&watch->dead, __ATOMIC_RELAXED))
        return 0;
    return watch->pidfd >= 0 ? poll(&fd, 1, 0) <= 0 /* a signal may interrupt it */
                             : wi_shm_process_lives(&watch->identity);
}

static int exit_code_of(const struct wi_shm_watch *watch, int *code)
{
    struct pidfd_info_v0 info = {.mask = PIDFD_INFO_EXIT_MASK};

    if (watch->pidfd < 0 || ioctl(watch->pidfd, PIDFD_INFO_REQUEST, &info) != 0)
        return 0;
    *code = info.exit_code;
    return (info.mask & PIDFD_INFO_EXIT_MASK) != 0;
}

static const char *doing(int state)
{
    switch (state) {
    case 'R':
        return "is running";
    case 'S':
    case 'I':
        return "is sleeping";
    case 'D':
        return "waits for a device (state D)";
    case 'T':
        return "is stopped (state T)";
    case 't':
        return "is stopped by a debugger (state t)";
    default:
        return "is in an unknown state";
    }
}

size_t wi_shm_watch_text(const struct wi_shm_watch *watch, char *text, size_t capacity)
{
    const struct wi_shm_identity *who = &watch->identity;
    int code, length, state;
    char what[64];

    if (exit_code_of(watch, &code) && WIFSIGNALED(code))
        snprintf(what, sizeof(what), "was killed by signal %d", WTERMSIG(code));
    else if (exit_code_of(watch, &code))
        snprintf(what, sizeof(what), "exited with status %d", WEXITSTATUS(code));
    else if ((state = wi_shm_process_state(who)) != 0)
        snprintf(what, sizeof(what), "%s", doing(state));
    else
        snprintf(what, sizeof(what), "is gone");
    length = snprintf(text, capacity, "process %u %s", who->pid, what);
    if (length < 0)
        return 0;
    return (size_t)length < capacity ? (size_t)length : capacity - 1;
}
