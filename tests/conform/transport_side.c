/* transport_side.c: the side channel of the transport suite.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One box for each ordered pair of ranks. The requester writes it while it is free, the other one once it has taken what it holds.
 * Whether a peer has left, or ended, the requester sees for itself.
 */
#include "transport_side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"

#define REQUEST_NS 10000000000ull /* until WEFT_ETIMEDOUT */

enum { FREE, REQUESTED, TAKEN, RESPONDED };

struct box {
    uint32_t state;
    uint32_t bytes;
    uint64_t group;
    uint64_t deadline_ns;
    unsigned char data[WEFT_SIDE_MAX]; /* the request, then the response */
};

struct member {
    struct weft_process process; /* pid 0: not known yet */
    uint64_t left;               /* the newest group that it has left */
    int fd;                      /* an eventfd, of all ranks */
};

struct tc_side_shared {
    int nranks;
    struct member *members;
    struct box *boxes; /* [requester][peer] */
    size_t bytes;
};

struct tc_side {
    struct tc_side_shared *shared;
    int rank;
    uint64_t group;
    int next; /* where the search for requests goes on */
};

struct tc_side_shared *tc_side_shared_new(int nranks)
{
    size_t n = (size_t)nranks, bytes = n * sizeof(struct member) + n * n * sizeof(struct box);
    struct tc_side_shared *shared = calloc(1, sizeof(*shared));
    unsigned char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (!shared || map == MAP_FAILED) {
        free(shared);
        return NULL;
    }
    *shared =
        (struct tc_side_shared){nranks, (struct member *)map, (struct box *)(map + n * sizeof(struct member)), bytes};
    for (int i = 0; i < nranks; i++)
        shared->members[i].fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return shared;
}

void tc_side_shared_free(struct tc_side_shared *shared)
{
    for (int i = 0; i < shared->nranks; i++)
        close(shared->members[i].fd);
    munmap(shared->members, shared->bytes);
    free(shared);
}

static struct box *box_of(struct tc_side *s, int from, int to)
{
    return &s->shared->boxes[(size_t)from * (size_t)s->shared->nranks + (size_t)to];
}

static uint32_t state_of(struct box *b)
{
    return __atomic_load_n(&b->state, __ATOMIC_ACQUIRE);
}

static void set_state(struct tc_side *s, struct box *b, uint32_t state, int wake)
{
    uint64_t one = 1;

    __atomic_store_n(&b->state, state, __ATOMIC_SEQ_CST);
    if (wake >= 0 && write(s->shared->members[wake].fd, &one, sizeof(one)) != (ssize_t)sizeof(one))
        return; /* it is readable already */
}

static int no_rank(const struct tc_side *s, int peer)
{
    return peer < 0 || peer >= s->shared->nranks || peer == s->rank;
}

static weft_status request(void *side, int peer, const void *data, size_t bytes)
{
    struct tc_side *s = side;
    struct box *b;

    if (no_rank(s, peer) || bytes > WEFT_SIDE_MAX)
        return WEFT_EINVAL;
    b = box_of(s, s->rank, peer);
    if (state_of(b) != FREE)
        return WEFT_EBUSY;
    if (bytes)
        memcpy(b->data, data, bytes);
    b->bytes = (uint32_t)bytes;
    b->group = s->group;
    b->deadline_ns = wi_now_ns() + REQUEST_NS;
    set_state(s, b, REQUESTED, peer);
    return WEFT_SUCCESS;
}

/* The peer does not respond any more. */
static weft_status ended(struct tc_side *s, int peer, const struct box *b, char why[WEFT_SIDE_WHY_MAX])
{
    struct member *m = &s->shared->members[peer];

    if (__atomic_load_n(&m->left, __ATOMIC_SEQ_CST) >= b->group) {
        snprintf(why, WEFT_SIDE_WHY_MAX, "rank %d on this host has left the communicator", peer);
        return WEFT_EPEER;
    }
    if (m->process.pid && wi_process_state(&m->process) == 0) {
        snprintf(why, WEFT_SIDE_WHY_MAX, "rank %d on this host: its process %d has ended", peer, (int)m->process.pid);
        return WEFT_EPEER;
    }
    if (wi_now_ns() < b->deadline_ns)
        return WEFT_INPROGRESS;
    snprintf(why, WEFT_SIDE_WHY_MAX, "rank %d on this host did not respond in time", peer);
    return WEFT_ETIMEDOUT;
}

static weft_status response(void *side, int peer, void *to, size_t capacity, size_t *bytes, char why[WEFT_SIDE_WHY_MAX])
{
    struct tc_side *s = side;
    weft_status status = WEFT_SUCCESS;
    struct box *b;
    uint32_t state;

    if (no_rank(s, peer))
        return WEFT_EINVAL;
    b = box_of(s, s->rank, peer);
    state = state_of(b);
    if (state == FREE)
        return WEFT_EINVAL;
    if (state != RESPONDED) {
        status = ended(s, peer, b, why);
        if (status == WEFT_INPROGRESS)
            return status;
    } else if (b->bytes > capacity) {
        snprintf(why, WEFT_SIDE_WHY_MAX, "rank %d has responded with %u bytes", peer, b->bytes);
        status = WEFT_EPROTO;
    } else {
        memcpy(to, b->data, b->bytes);
        *bytes = b->bytes;
    }
    set_state(s, b, FREE, -1);
    return status;
}

static int requested(void *side, int *peer, void *to, size_t capacity, size_t *bytes)
{
    struct tc_side *s = side;
    uint64_t count;

    while (read(s->shared->members[s->rank].fd, &count, sizeof(count)) > 0)
        continue;
    for (int i = 0; i < s->shared->nranks; i++) {
        int from = (s->next + i) % s->shared->nranks;
        struct box *b = box_of(s, from, s->rank);
        if (from == s->rank || state_of(b) != REQUESTED || b->group != s->group || b->bytes > capacity)
            continue;
        memcpy(to, b->data, b->bytes);
        *bytes = b->bytes;
        *peer = from;
        s->next = from + 1;
        set_state(s, b, TAKEN, -1);
        return 1;
    }
    return 0;
}

static weft_status respond(void *side, int peer, const void *data, size_t bytes)
{
    struct tc_side *s = side;
    struct box *b;

    if (no_rank(s, peer) || bytes > WEFT_SIDE_MAX)
        return WEFT_EINVAL;
    b = box_of(s, peer, s->rank);
    if (state_of(b) != TAKEN || b->group != s->group)
        return WEFT_EPEER;
    memcpy(b->data, data, bytes);
    b->bytes = (uint32_t)bytes;
    set_state(s, b, RESPONDED, peer);
    return WEFT_SUCCESS;
}

static int side_fd(void *side)
{
    struct tc_side *s = side;

    return s->shared->members[s->rank].fd;
}

struct tc_side *tc_side_join(struct tc_side_shared *shared, int rank, struct weft_host *host)
{
    struct tc_side *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->shared = shared;
    s->rank = rank;
    wi_process_self(&shared->members[rank].process);
    host->side_request = request;
    host->side_response = response;
    host->side_requested = requested;
    host->side_respond = respond;
    host->side_fd = side_fd;
    return s;
}

void tc_side_free(struct tc_side *s)
{
    free(s);
}

void tc_side_begin(struct tc_side *s, uint64_t group)
{
    s->group = group;
}

void tc_side_end(struct tc_side *s)
{
    __atomic_store_n(&s->shared->members[s->rank].left, s->group, __ATOMIC_SEQ_CST);
    for (int peer = 0; peer < s->shared->nranks; peer++) {
        uint64_t one = 1;
        if (peer == s->rank)
            continue;
        set_state(s, box_of(s, s->rank, peer), FREE, -1);
        if (state_of(box_of(s, peer, s->rank)) != FREE &&
            write(s->shared->members[peer].fd, &one, sizeof(one)) != (ssize_t)sizeof(one))
            continue;
    }
}
