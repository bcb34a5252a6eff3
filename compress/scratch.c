/* SPDX-License-Identifier: BSD-3-Clause */
#include "compress/scratch.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"

enum { MOST = 64 };

static struct {
    void *unused[MOST];
    int count, made; /* unused now; at all */
} pools[WI_SCRATCH_USES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* One more, of what is not in use. The lock is held. */
static int make(enum wi_scratch_use use)
{
    void *memory = pools[use].made < MOST ? wi_aligned_alloc(64, WI_SCRATCH_BYTES) : NULL;

    if (memory) {
        pools[use].made++;
        pools[use].unused[pools[use].count++] = memory;
    }
    return memory != NULL;
}

weft_status wi_scratch_reserve(void)
{
    int there = 1;

    pthread_mutex_lock(&lock);
    for (int use = 0; use < WI_SCRATCH_USES; use++)
        there = there && (pools[use].made || make((enum wi_scratch_use)use));
    pthread_mutex_unlock(&lock);
    return there ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "%zu bytes of scratch for a codec", WI_SCRATCH_BYTES);
}

void *wi_scratch_take(enum wi_scratch_use use)
{
    void *memory = NULL;

    for (uint32_t round = 0; !memory; round++) {
        pthread_mutex_lock(&lock);
        if (pools[use].count || make(use))
            memory = pools[use].unused[--pools[use].count];
        pthread_mutex_unlock(&lock);
        if (!memory)
            wi_stand_by(round);
    }
    return memory;
}

void wi_scratch_give(enum wi_scratch_use use, void *scratch)
{
    pthread_mutex_lock(&lock);
    pools[use].unused[pools[use].count++] = scratch;
    pthread_mutex_unlock(&lock);
}
