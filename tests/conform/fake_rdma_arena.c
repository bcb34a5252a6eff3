/* fake_rdma_arena.c: the other fake card, whose ranks also load and store each other's arenas: as GPUs of a host do, whose copies
 * are made by engines of their own.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "fake_rdma.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LANES = 4, DEPTH = 4, LL_DEPTH = 8, LL_LINES = 16, SLOT_BYTES = 64 << 10 };

struct arena {
    struct weft_signal signals[LANES], done;
    struct weft_ll_line ll[LL_DEPTH * LL_LINES];
    struct weft_board board;
    unsigned char slots[DEPTH * SLOT_BYTES] __attribute__((aligned(64)));
};

/* With the lock held. The first rank that comes makes the arenas. */
int fake_arena_join(struct group *g)
{
    struct hub *h = g->hub;
    size_t n = (size_t)h->nranks;

    h->arena = h->arena ? h->arena : calloc(n, sizeof *h->arena);
    g->mapped = calloc(n, sizeof *g->mapped);
    for (size_t r = 0; h->arena && g->mapped && r < n; r++) {
        struct arena *a;
        if (!g->member[r])
            continue;
        if (!h->arena[r] && (h->arena[r] = aligned_alloc(64, sizeof *a)) != NULL)
            memset(h->arena[r], 0, sizeof *a);
        a = (struct arena *)(void *)h->arena[r];
        if (!a)
            return 0;
        g->mapped[r] = (struct weft_mapped_rank){a->signals, &a->done, a->ll, a->slots, &a->board, NULL};
    }
    return h->arena && g->mapped;
}

void fake_arena_leave(struct hub *h)
{
    for (int r = 0; h->arena && r < h->nranks; r++)
        free(h->arena[r]);
    free(h->arena);
}

weft_status fake_mapped(void *group, struct weft_mapped *mapped)
{
    struct group *g = group;

    *mapped = (struct weft_mapped){.nlanes = LANES,
                                   .depth = DEPTH,
                                   .ll_depth = LL_DEPTH,
                                   .ll_lines = LL_LINES,
                                   .slot_bytes = SLOT_BYTES,
                                   .ranks = g->mapped,
                                   .sleepers = &g->hub->sleepers};
    return WEFT_SUCCESS;
}

/* Short naps, so that it need not be woken. A rank with gets or puts under way must not sleep here: it would not wake when they
 * end. */
void fake_sleep(void *group, int (*ready)(void *arg), void *arg, uint64_t timeout_ns)
{
    struct timespec ts = {0, timeout_ns < 50000 ? (long)timeout_ns : 50000};
    const struct group *g = group;

    if (g->rmas) {
        fprintf(stderr, "fake_rdma: a rank sleeps with gets or puts under way\n");
        abort();
    }
    if (!ready(arg))
        nanosleep(&ts, NULL);
}
