/* SPDX-License-Identifier: BSD-3-Clause */
/* Optimizers of the program's: each part's gradient becomes fp32 in memory of the thread's, and the program's function is called.
 * */
#include <stdatomic.h>

#include "zero/optim/optim.h"
#include "zero/optim/optim_isa.h"

struct user_job {
    const struct wi_optim_isa *isa;
    const struct wi_optim_user *user;
    _Atomic size_t threads; /* that have a part of the scratch memory */
};

size_t wi_optim_user_bytes(int threads)
{
    return (size_t)threads * WI_OPTIM_PART_ELEMS * sizeof(float);
}

/* A thread takes part in a call at most once, so that no more ask than the pool has. */
static float *own_scratch(struct user_job *job, void *own)
{
    size_t *number = own; /* 1 + which */

    if (!*number)
        *number = 1 + atomic_fetch_add_explicit(&job->threads, 1, memory_order_relaxed);
    return job->user->scratch + (*number - 1) * WI_OPTIM_PART_ELEMS;
}

static void update_part(void *arg, void *own, const struct wi_optim_piece *piece, size_t from, size_t to)
{
    struct user_job *job = arg;
    enum wi_optim_type type = wi_optim_type_of(piece->grad_dtype);
    float *grad = own_scratch(job, own);
    size_t elems = to - from;
    double scale = piece->optim->grad_scale;
    const weft_zero_update update = {
        .bytes = sizeof update,
        .param = piece->param,
        .first = piece->first + from,
        .elems = elems,
        .weight = piece->weight + from,
        .moment1 = piece->moment1 ? piece->moment1 + from : NULL,
        .moment2 = piece->moment2 ? piece->moment2 + from : NULL,
        .grad = grad,
        .hyper = piece->optim->hyper,
        .step = piece->optim->step,
    };

    job->isa->convert[WI_OPTIM_F32][type][0](grad, (const char *)piece->grad + (type == WI_OPTIM_F32 ? 4 : 2) * from,
                                             elems);
    for (size_t i = 0; i < elems; i++)
        grad[i] = (float)(grad[i] * scale);
    job->user->update(job->user->arg, &update);
    if (piece->out)
        job->isa->convert[wi_optim_type_of(piece->out_dtype)][WI_OPTIM_F32][0]((char *)piece->out + 2 * from,
                                                                               piece->weight + from, elems);
}

void wi_optim_run_user(struct wi_optim_pool *pool, const struct wi_optim_user *user,
                       const struct wi_optim_piece *pieces, size_t npieces)
{
    struct user_job job = {.isa = wi_optim_isa_current(), .user = user};

    wi_optim_parts(pool, pieces, npieces, update_part, &job);
}
