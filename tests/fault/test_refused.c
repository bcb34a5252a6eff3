/* A transport that refuses, in the middle of an operation, to copy from or to another rank's memory, as a kernel does whose policy
 * has changed: every rank hears of it, whatever the status.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <stdlib.h>

#include "base/status.h"
#include "comm/comm.h"

#include "../unit/unit.h"

enum { RANKS = 3, REFUSING = 1, BYTES = 1 << 20 };

static weft_status refuse_get(void *group, int peer, uint64_t remote, void *local, size_t bytes)
{
    (void)group, (void)peer, (void)remote, (void)local, (void)bytes;
    return wi_fail(WEFT_ENOTSUP, "not permitted any more");
}

static weft_status refuse_put(void *group, int peer, uint64_t remote, const void *local, size_t bytes)
{
    (void)group, (void)peer, (void)remote, (void)local, (void)bytes;
    return wi_fail(WEFT_EINVAL, "not permitted any more");
}

/* The table of entries is the library's copy. */
static void refuse(struct ft_rank *f)
{
    struct weft_transport_ops *ops = (struct weft_transport_ops *)(uintptr_t)f->comm->exec->map_ops;

    ops->mem_get = refuse_get;
    ops->mem_put = refuse_put;
}

struct job {
    const char *algorithm;
    int broadcast, with_request;
};

static weft_status call(struct ft_rank *f, const struct job *job, char *src, char *dst)
{
    weft_call what = wt_call(job->broadcast ? WEFT_KIND_BROADCAST : WEFT_KIND_ALL_GATHER, src, dst, BYTES, WEFT_UINT8);
    weft_request *req = NULL, **wanted = job->with_request ? &req : NULL;
    weft_status st;

    what.root = job->broadcast ? REFUSING : 0;
    st = wt_issue(f->comm, what, job->algorithm, wanted);
    return st >= 0 && req ? weft_wait(req) : st;
}

static void rank_main(int rank, int nranks, void *arg)
{
    const struct job *job = arg;
    char *src = calloc(1, BYTES), *dst = calloc((size_t)nranks, BYTES);
    weft_status st;
    struct ft_rank f;

    WT_REQUIRE(src && dst);
    ft_open(&f, "shm", 60000, rank, nranks);
    WT_CHECK_OK(call(&f, job, src, dst)); /* before, it works */
    if (rank == REFUSING)
        refuse(&f);
    wt_sync();
    st = call(&f, job, src, dst);
    if (st == WEFT_SUCCESS) /* needed nothing of what was refused */
        st = weft_barrier(f.comm, NULL);
    WT_CHECK_STATUS(st, rank == REFUSING ? WEFT_ESYS : WEFT_EPEER);
    WT_CHECK_STATUS(weft_comm_status(f.comm), st);
    if (rank == REFUSING)
        WT_CHECK(strstr(ft_error(&f).message, "memory of rank") != NULL &&
                 strstr(ft_error(&f).message, "not permitted any more") != NULL);
    else
        WT_CHECK_INT(ft_error(&f).peer, REFUSING);
    wt_sync();
    ft_close(&f);
    free(src);
    free(dst);
}

static void run(struct job job)
{
    for (job.with_request = 0; job.with_request < 2; job.with_request++)
        CU_ASSERT_EQUAL(wt_run(RANKS, rank_main, &job, 10000), 0);
}

static void reading(void)
{
    run((struct job){"direct", 0, 0});
}

static void writing(void)
{
    run((struct job){"split", 1, 0});
}

static const struct wt_case cases[] = {
    {"reading a peer's memory is refused", reading},
    {"writing a peer's memory is refused", writing},
};
WT_UNIT_MAIN("refused", cases)
