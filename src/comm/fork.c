/* SPDX-License-Identifier: BSD-3-Clause */
/* After fork, a child has its parent's handles: the sockets and shared memory behind them are the parent's, and a call in the child
 * would act in its name. Every call refuses such handles, at no cost: the fork handler changes their magic numbers. */
#include <pthread.h>

#include "comm/comm.h"
#include "exec/nudge.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list */
static struct weft_context *contexts;

/* No other thread is left. One that was about to link or unlink a context, a communicator or a request has done so or not: these
 * are single stores, so that the lock need not be held while a process forks, where it would be ordered with the locks of others
 * who have handlers. The lock may have been another thread's: it is made anew. */
static void in_child(void)
{
    for (struct weft_context *ctx = contexts; ctx; ctx = ctx->next) {
        ctx->magic = WI_FORKED_MAGIC;
        for (struct weft_comm *comm = ctx->comms; comm; comm = comm->next) {
            comm->magic = WI_FORKED_MAGIC;
            for (struct weft_request *req = comm->all_requests; req; req = req->all_next)
                req->magic = WI_FORKED_MAGIC;
        }
    }
    contexts = NULL;
    pthread_mutex_init(&lock, NULL);
    wi_nudge_forked();
}

static void set_handlers(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

void wi_fork_watch(struct weft_context *ctx)
{
    pthread_once(&once, set_handlers);
    pthread_mutex_lock(&lock);
    ctx->next = contexts;
    __atomic_store_n(&contexts, ctx, __ATOMIC_RELEASE); /* a child sees it linked or not at all */
    pthread_mutex_unlock(&lock);
}

void wi_fork_unwatch(struct weft_context *ctx)
{
    pthread_mutex_lock(&lock);
    for (struct weft_context **at = &contexts; *at; at = &(*at)->next) {
        if (*at != ctx)
            continue;
        *at = ctx->next;
        break;
    }
    pthread_mutex_unlock(&lock);
}
