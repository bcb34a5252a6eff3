/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "exec/nudge.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static int *kept, nkept, nmade, capacity, nexecs;        /* nmade: kept and lent */

static void close_all(void)
{
    while (nkept > 0)
        close(kept[--nkept]);
    free(kept);
    kept = NULL;
    nmade = capacity = 0;
}

void wi_nudge_hold(void)
{
    pthread_mutex_lock(&lock);
    nexecs++;
    pthread_mutex_unlock(&lock);
}

void wi_nudge_release(void)
{
    pthread_mutex_lock(&lock);
    if (--nexecs == 0)
        close_all();
    pthread_mutex_unlock(&lock);
}

/* Room for one more is made before there is one, so that none that comes back is lost for want of memory. */
static int make_one(void)
{
    int fd;

    if (nmade == capacity) {
        int *more = realloc(kept, 2 * ((size_t)capacity + 8) * sizeof *kept);
        if (!more)
            return -1;
        kept = more;
        capacity = 2 * (capacity + 8);
    }
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    nmade += fd >= 0;
    return fd;
}

int wi_nudge_borrow(int make)
{
    int fd = -1;

    pthread_mutex_lock(&lock);
    if (nkept > 0)
        fd = kept[--nkept];
    else if (make)
        fd = make_one();
    pthread_mutex_unlock(&lock);
    return fd;
}

/* It is not closed while there are executors: its number could go to a file that a late nudge is written to. */
void wi_nudge_return(int fd)
{
    if (fd < 0)
        return;
    pthread_mutex_lock(&lock);
    kept[nkept++] = fd;
    pthread_mutex_unlock(&lock);
}

void wi_nudge_forked(void)
{
    pthread_mutex_init(&lock, NULL);
    for (int i = 0; i < nkept; i++) /* the list's memory may be in the middle of a change: it is let be */
        close(kept[i]);
    kept = NULL;
    nkept = nmade = capacity = nexecs = 0;
}
