/* SPDX-License-Identifier: BSD-3-Clause */
/* What algorithms that code their messages share: lanes of messages, lanes that encode and decode for some of the peers each, and
 * one for this rank's own sum. */
#include "base/alloc.h"
#include "algo/util.h"

#define WORK_LANES 16

weft_status wi_coded_begin(const struct wi_algo_args *args, const struct wi_algo *algo, uint32_t nblocks,
                           uint32_t tmp_blocks, uint32_t images, uint32_t lossy, struct wi_coded *c)
{
    int n = args->nranks, nwork = n - 1 < WORK_LANES ? n - 1 : WORK_LANES;

    *c = (struct wi_coded){.rank = args->rank, .nranks = n};
    WI_TRY(wi_algo_begin_coded(args, algo, nblocks, tmp_blocks, images, lossy, &c->b));
    c->message = wi_calloc(4 * (size_t)n, sizeof *c->message);
    if (!c->message) {
        wi_sched_abandon(c->b);
        return wi_fail(WEFT_ENOMEM, "%s %s: no memory for %d lanes", wi_coll_name(algo->coll), algo->name, n);
    }
    c->work = c->message + n;
    c->encoded = c->work + n;
    c->received = c->encoded + n;
    for (int i = 1; i < n; i++) {
        int to = wi_mod(args->rank + i, n);
        c->message[to] = wi_sched_lane(c->b, to, to, 0);
    }
    for (int i = 1; i < n; i++) {
        int to = wi_mod(args->rank + i, n);
        c->work[to] = i <= nwork ? wi_sched_lane(c->b, WI_NO_PEER, WI_NO_PEER, 0)
                                 : c->work[wi_mod(args->rank + 1 + (i - 1) % nwork, n)];
    }
    c->own = wi_sched_lane(c->b, WI_NO_PEER, WI_NO_PEER, 0);
    return WEFT_SUCCESS;
}

weft_status wi_coded_seal(struct wi_coded *c, struct wi_sched **sched)
{
    wi_free(c->message);
    return wi_sched_seal(c->b, sched);
}

void wi_coded_encode(struct wi_coded *c, int peer, uint32_t image, struct wi_region src)
{
    c->encoded[peer] = wi_sched_copy(c->b, c->work[peer], wi_at(WI_PACK, image, 1), src);
}

void wi_coded_send(struct wi_coded *c, int peer, uint32_t image, uint32_t after_lane, uint32_t after_step)
{
    wi_sched_send(c->b, c->message[peer], wi_at(WI_PACK, image, 1));
    wi_sched_after(c->b, c->message[peer], after_lane, after_step);
}

uint32_t wi_coded_recv(struct wi_coded *c, int peer, uint32_t image)
{
    return wi_sched_recv(c->b, c->message[peer], wi_at(WI_PACK, image, 1));
}

uint32_t wi_coded_decode(struct wi_coded *c, int peer, struct wi_region dst, uint32_t image, uint32_t received)
{
    uint32_t step = wi_sched_copy(c->b, c->work[peer], dst, wi_at(WI_PACK, image, 1));

    wi_sched_after(c->b, c->work[peer], c->message[peer], received);
    return step;
}

/* Of many operands partial sums are kept in `acc`, each step after the images that it reads. */
uint32_t wi_coded_sum(struct wi_coded *c, const struct wi_region *dst, uint32_t ndst, uint32_t first,
                      struct wi_region own, const uint32_t *received, struct wi_region acc)
{
    struct wi_region part[WI_REDUCE_MAX_SRC];
    int next = 0;

    for (;;) {
        uint32_t n = 0, step;
        int from = next, last;
        if (next)
            part[n++] = acc;
        for (; n < WI_REDUCE_MAX_SRC && next < c->nranks; next++)
            part[n++] = next == c->rank ? own : wi_at(WI_PACK, first + (uint32_t)next, 1);
        last = next == c->nranks;
        step = wi_sched_reduce(c->b, c->own, last ? dst : &acc, last ? ndst : 1, part, n, last ? WI_STEP_FINAL : 0);
        for (int i = from; i < next; i++)
            if (i != c->rank)
                wi_sched_after(c->b, c->own, c->message[i], received[i]);
        if (last)
            return step;
    }
}

/* ---- One image ---- */

weft_status wi_coded_hold(const struct wi_algo_args *args, const struct wi_algo *algo, int peer,
                          struct wi_coded_image *image)
{
    struct wi_region both[2] = {wi_at(WI_PACK, 0, 1), wi_at(WI_DST, 0, 1)};

    *image = (struct wi_coded_image){.received = peer != WI_NO_PEER};
    WI_TRY(wi_algo_begin_coded(args, algo, 1, 0, 1, 1, &image->b));
    wi_sched_image(image->b, 0, WI_DST, 0, WI_NO_RESIDUAL);
    image->lane = wi_sched_lane(image->b, WI_NO_PEER, peer, 0);
    image->step = image->received ? wi_sched_recv(image->b, image->lane, both[0])
                                  : wi_sched_copy_to(image->b, image->lane, both, 2, wi_at(WI_SRC, 0, 1));
    return WEFT_SUCCESS;
}

void wi_coded_pass_on(struct wi_coded_image *image, int peer)
{
    uint32_t lane = wi_sched_lane(image->b, peer, WI_NO_PEER, 0);

    wi_sched_send(image->b, lane, wi_at(WI_PACK, 0, 1));
    wi_sched_after(image->b, lane, image->lane, image->step);
}

weft_status wi_coded_release(struct wi_coded_image *image, struct wi_sched **sched)
{
    uint32_t lane;

    if (image->received) {
        lane = wi_sched_lane(image->b, WI_NO_PEER, WI_NO_PEER, 0);
        wi_sched_copy(image->b, lane, wi_at(WI_DST, 0, 1), wi_at(WI_PACK, 0, 1));
        wi_sched_after(image->b, lane, image->lane, image->step);
    }
    return wi_sched_seal(image->b, sched);
}
