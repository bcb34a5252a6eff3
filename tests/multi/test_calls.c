/* Operations as data: what a weft_call must say, what it may leave out, and that it meets the functions of other ranks.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <stdlib.h>

#include "../unit/unit.h"
#include "tests/harness/says.h"

enum { WORDS = 5000, MOST = 8 };

/* ---- What is wrong is named, and nothing happens ---- */

static void wrong_calls(struct ft_rank *f)
{
    int64_t word = 1, sum = 0;
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, &word, &sum, 1, WEFT_INT64);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_request *req = NULL;
    char name[4096];

    SAYS(weft_issue(f->comm, NULL, NULL), WEFT_EINVAL, "issue: the weft_call is NULL");
    SAYS(weft_persistent(f->comm, NULL, &req), WEFT_EINVAL, "persistent: the weft_call is NULL");
    SAYS(weft_persistent(f->comm, &call, NULL), WEFT_EINVAL, "req is NULL");
    call.bytes = 3;
    SAYS(weft_issue(f->comm, &call, NULL), WEFT_EINVAL, "WEFT_CALL_INIT");
    call.bytes = sizeof call;
    call.kind = (weft_kind)0;
    SAYS(weft_issue(f->comm, &call, &req), WEFT_EINVAL, "kind of the call is 0, not set");
    call.kind = (weft_kind)(WEFT_NUM_KINDS + 1);
    SAYS(weft_issue(f->comm, &call, &req), WEFT_EINVAL, "kind of the call is 20, which is none");
    call.kind = (weft_kind)-1;
    SAYS(weft_persistent(f->comm, &call, &req), WEFT_EINVAL, "kind of the call is -1");
    call.kind = WEFT_KIND_ALL_REDUCE;
    call.tag = 1;
    SAYS(weft_issue(f->comm, &call, &req), WEFT_EINVAL, "all_reduce has no tag");
    call.tag = 0;
    call.recv_tag = 1;
    SAYS(weft_issue(f->comm, &call, &req), WEFT_EINVAL, "all_reduce has no recv_tag");
    call.kind = WEFT_KIND_RECV;
    SAYS(weft_issue(f->comm, &call, &req), WEFT_EINVAL, "recv has no recv_tag: only send_recv does; here it is `tag`");
    call.recv_tag = 0;
    call.options = &options;
    options.algorithm = "";
    call.kind = WEFT_KIND_ALL_REDUCE;
    SAYS(weft_issue(f->comm, &call, &req), WEFT_EINVAL,
         "issue: the algorithm's name is \"\"; NULL is the planner's choice");
    SAYS(weft_persistent(f->comm, &call, &req), WEFT_EINVAL, "persistent: the algorithm's name is \"\"");
    call.kind = WEFT_KIND_RECV;
    options.algorithm = "ring";
    SAYS(weft_issue(f->comm, &call, &req), WEFT_ENOTSUP, "recv has no algorithms, and \"ring\" is named");
    call.kind = WEFT_KIND_ALL_REDUCE;
    options.bytes = 1;
    SAYS(weft_issue(f->comm, &call, &req), WEFT_EINVAL, "WEFT_CALL_OPTIONS_INIT");
    options.bytes = sizeof options;
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    options.algorithm = name;
    SAYS(weft_issue(f->comm, &call, &req), WEFT_ENOTFOUND, "no algorithm \"xxx");
    SAYS(weft_persistent(f->comm, &call, &req), WEFT_ENOTFOUND, "no algorithm \"xxx");
    WT_CHECK(req == NULL && sum == 0);
}

/* What an operation does not have is 0: a caller that sets it expects it to matter. */
static void stray_fields(struct ft_rank *f)
{
    int64_t word = 1, sum = 0;
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, &word, &sum, 1, WEFT_INT64);
    weft_request *req = NULL;

    call.root = 1;
    SAYS(weft_issue(f->comm, &call, &req), WEFT_EINVAL, "issue: all_reduce has no root");
    SAYS(weft_persistent(f->comm, &call, &req), WEFT_EINVAL, "persistent: all_reduce has no root");
    call.kind = WEFT_KIND_SEND;
    SAYS(weft_issue(f->comm, &call, &req), WEFT_EINVAL, "send has no root; here it is `peer`");
    call.root = 0;
    call.peer = 99;
    call.kind = WEFT_KIND_ALL_REDUCE;
    SAYS(weft_issue(f->comm, &call, &req), WEFT_EINVAL, "all_reduce has no peer: only messages do");
    call.kind = WEFT_KIND_BROADCAST;
    SAYS(weft_issue(f->comm, &call, &req), WEFT_EINVAL, "broadcast has no peer: only messages do; here it is `root`");
    call.peer = 0;
    call.recv_peer = WEFT_ANY_SOURCE;
    call.kind = WEFT_KIND_BARRIER;
    SAYS(weft_issue(f->comm, &call, &req), WEFT_EINVAL, "barrier has no recv_peer: only send_recv does");
    call.kind = WEFT_KIND_RECV;
    SAYS(weft_issue(f->comm, &call, &req), WEFT_EINVAL,
         "recv has no recv_peer: only send_recv does; here it is `peer`");
    call.recv_peer = 0;
    call.recv_count = 99;
    SAYS(weft_issue(f->comm, &call, &req), WEFT_EINVAL,
         "recv has no recv_count: only scatter_v and send_recv do; here it is `count`");
    call.kind = WEFT_KIND_ALL_REDUCE;
    SAYS(weft_issue(f->comm, &call, &req), WEFT_EINVAL, "all_reduce has no recv_count");
    call.kind = WEFT_KIND_BARRIER;
    SAYS(weft_issue(f->comm, &call, &req), WEFT_EINVAL, "barrier has no recv_count");
    WT_CHECK(req == NULL && sum == 0);
}

/* Of a program that was compiled with a later weft.h, and of one with an earlier. */
static void other_versions(struct ft_rank *f)
{
    int64_t word = 1, sum = 0;
    struct {
        weft_call call;
        uint64_t codec;
    } later = {wt_call(WEFT_KIND_ALL_REDUCE, &word, &sum, 1, WEFT_INT64), 0};
    struct {
        weft_call_options options;
        const char *later;
    } more = {WEFT_CALL_OPTIONS_INIT, NULL};
    struct {
        size_t bytes;
        weft_kind kind;
        weft_dtype dtype;
        weft_op garbage[8];
    } earlier = {16, WEFT_KIND_BARRIER, WEFT_UINT8, {77, 77, 77, 77, 77, 77, 77, 77}};
    struct {
        size_t bytes;
        uint64_t timeout_ns;
        const char *garbage;
    } fewer = {16, 20000 * FT_MS, (const char *)8};

    later.call.bytes = sizeof later;
    later.call.options = &more.options;
    more.options.bytes = sizeof more;
    WT_CHECK_OK(weft_issue(f->comm, &later.call, NULL));
    WT_CHECK_INT((int)sum, f->nranks);
    later.codec = 5;
    SAYS(weft_issue(f->comm, &later.call, NULL), WEFT_ENOTSUP, "the weft_call has");
    later.codec = 0;
    more.later = "gradients";
    SAYS(weft_issue(f->comm, &later.call, NULL), WEFT_ENOTSUP, "the weft_call_options has");
    WT_CHECK_OK(weft_issue(f->comm, (const weft_call *)(const void *)&earlier, NULL));
    later.call.options = (const weft_call_options *)(const void *)&fewer;
    WT_CHECK_OK(weft_issue(f->comm, &later.call, NULL));
}

static void refused(int rank, int nranks, void *arg)
{
    struct ft_rank f;

    ft_open(&f, arg, 10000, rank, nranks);
    wrong_calls(&f);
    stray_fields(&f);
    other_versions(&f);
    for (int k = 1; k <= WEFT_NUM_KINDS; k++)
        WT_CHECK(strcmp(weft_kind_name((weft_kind)k), "unknown") != 0);
    WT_CHECK_STR(weft_kind_name(WEFT_KIND_ALL_REDUCE), "all_reduce");
    WT_CHECK_STR(weft_kind_name(WEFT_KIND_SEND_RECV), "send_recv");
    WT_CHECK_STR(weft_kind_name((weft_kind)0), "unknown");
    WT_CHECK_STR(weft_kind_name((weft_kind)(WEFT_NUM_KINDS + 1)), "unknown");
    WT_CHECK_OK(weft_barrier(f.comm, NULL));
    ft_close(&f);
}

/* ---- Some ranks call functions, others describe the same, with options that say nothing ---- */

static weft_status described(struct ft_rank *f, weft_call call, int root)
{
    weft_call_options nothing = WEFT_CALL_OPTIONS_INIT;

    call.root = root;
    call.options = f->rank % 2 ? NULL : &nothing;
    return weft_issue(f->comm, &call, NULL);
}

static void meets(int rank, int nranks, void *arg)
{
    int64_t *src = calloc(WORDS * MOST, 8), *dst = calloc(WORDS * MOST, 8);
    static const size_t sizes[] = {1, 7, WORDS};
    int to = (rank + 1) % nranks, from = (rank + nranks - 1) % nranks;
    struct ft_rank f;

    WT_REQUIRE(src && dst && nranks <= MOST);
    ft_open(&f, arg, 10000, rank, nranks);
    for (int round = 0; round < 4 * nranks; round++) {
        size_t n = sizes[round % 3];
        int plain = (round + rank) % 2, root = round % nranks;
        for (size_t i = 0; i < WORDS; i++)
            src[i] = rank + round;
        WT_CHECK_OK(plain ? weft_all_reduce(f.comm, src, dst, n, WEFT_INT64, WEFT_SUM, NULL)
                          : described(&f, wt_call(WEFT_KIND_ALL_REDUCE, src, dst, n, WEFT_INT64), 0));
        WT_CHECK_INT((int)dst[n - 1], nranks * round + nranks * (nranks - 1) / 2);
        WT_CHECK_OK(plain ? weft_broadcast(f.comm, src, dst, n, WEFT_INT64, root, NULL)
                          : described(&f, wt_call(WEFT_KIND_BROADCAST, src, dst, n, WEFT_INT64), root));
        WT_CHECK_INT((int)dst[n - 1], root + round);
        WT_CHECK_OK(plain ? weft_all_gather(f.comm, src, dst, n, WEFT_INT64, NULL)
                          : described(&f, wt_call(WEFT_KIND_ALL_GATHER, src, dst, n, WEFT_INT64), 0));
        WT_CHECK_INT((int)dst[(size_t)from * n], from + round);
        weft_call swap = wt_call(WEFT_KIND_SEND_RECV, src, dst, n, WEFT_INT64);
        swap.recv_count = n;
        swap.peer = to;
        swap.recv_peer = from;
        swap.tag = swap.recv_tag = round;
        WT_CHECK_OK(plain ? weft_send_recv(f.comm, src, n, to, round, dst, n, from, round, WEFT_INT64, NULL)
                          : weft_issue(f.comm, &swap, NULL));
        WT_CHECK_INT((int)dst[n - 1], from + round);
    }
    free(src);
    free(dst);
    ft_close(&f);
}

/* ---- Groups ---- */

static void grouped(int rank, int nranks, void *arg)
{
    int64_t out = rank + 1, in = 0, sum = 0;
    weft_call swap = wt_call(WEFT_KIND_RECV, NULL, &in, 1, WEFT_INT64), wrong = WEFT_CALL_INIT;
    weft_request *received = NULL, *kept = NULL;
    struct ft_rank f;

    ft_open(&f, arg, 10000, rank, nranks);
    WT_CHECK_OK(weft_group_start());
    swap.peer = (rank + nranks - 1) % nranks;
    swap.tag = 3;
    WT_CHECK_OK(weft_issue(f.comm, &swap, &received));
    swap = wt_call(WEFT_KIND_SEND, &out, NULL, 1, WEFT_INT64);
    swap.peer = (rank + 1) % nranks;
    swap.tag = 3;
    WT_CHECK_OK(weft_issue(f.comm, &swap, NULL));
    WT_CHECK_OK(wt_persistent(f.comm, wt_call(WEFT_KIND_ALL_REDUCE, &out, &sum, 1, WEFT_INT64), NULL, &kept));
    WT_CHECK_OK(weft_start(kept));
    WT_CHECK_STATUS(weft_test(received), WEFT_INPROGRESS);
    WT_CHECK_OK(weft_group_end());
    WT_CHECK_OK(weft_wait(received));
    WT_CHECK_OK(weft_wait(kept));
    WT_CHECK_INT((int)in, (rank + nranks - 1) % nranks + 1);
    WT_CHECK_INT((int)sum, nranks * (nranks + 1) / 2);
    WT_CHECK_OK(weft_request_free(received));
    /* A call that cannot even be read is a failed call of the group. */
    sum = 0;
    WT_CHECK_OK(weft_group_start());
    WT_CHECK_OK(weft_start(kept));
    WT_CHECK_STATUS(weft_issue(f.comm, &wrong, NULL), WEFT_EINVAL);
    SAYS(weft_group_end(), WEFT_EINVAL, "kind of the call is 0");
    WT_CHECK_INT((int)sum, 0);
    WT_CHECK_STATUS(weft_wait(kept), WEFT_EINVAL);
    /* So is a start of what was started, or cannot be, and a call of no communicator. */
    WT_CHECK_OK(weft_group_start());
    WT_CHECK_OK(weft_start(kept));
    WT_CHECK_STATUS(weft_start(kept), WEFT_EBUSY);
    SAYS(weft_group_end(), WEFT_EBUSY, "has not been waited for");
    WT_CHECK_INT((int)sum, 0);
    WT_CHECK_STATUS(weft_wait(kept), WEFT_EBUSY);
    WT_CHECK_OK(weft_group_start());
    WT_CHECK_OK(weft_start(kept));
    WT_CHECK_STATUS(weft_start(NULL), WEFT_EINVAL);
    SAYS(weft_group_end(), WEFT_EINVAL, "not a request");
    WT_CHECK_STATUS(weft_wait(kept), WEFT_EINVAL);
    for (int described = 0; described < 2; described++) {
        WT_CHECK_OK(weft_group_start());
        WT_CHECK_OK(weft_start(kept));
        WT_CHECK_STATUS(described ? weft_issue(NULL, &swap, NULL) : weft_barrier(NULL, NULL), WEFT_EINVAL);
        SAYS(weft_group_end(), WEFT_EINVAL, "not a communicator");
        WT_CHECK_STATUS(weft_wait(kept), WEFT_EINVAL);
    }
    WT_CHECK_INT((int)sum, 0);
    WT_CHECK_OK(weft_start(kept));
    WT_CHECK_OK(weft_wait(kept));
    WT_CHECK_OK(weft_request_free(kept));
    WT_CHECK_OK(weft_barrier(f.comm, NULL));
    ft_close(&f);
}

/* ---- Names of algorithms, before anything runs; also where nothing would ---- */

static void named_at_once(int rank, int nranks, void *arg)
{
    int64_t word = 1, sum = 0;
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, &word, &sum, 1, WEFT_INT64), empty = call;
    weft_request *req = NULL;
    const char *ran = NULL;
    weft_comm *own;
    struct ft_rank f;

    ft_open(&f, arg, 10000, rank, nranks);
    WT_REQUIRE_OK(weft_comm_split(f.comm, rank, 0, NULL, &own));
    empty.count = 0;
    for (int alone = 0; alone < 2; alone++) {
        weft_comm *comm = alone ? own : f.comm;
        SAYS(wt_persistent(comm, call, "rng", &req), WEFT_ENOTFOUND,
             "no algorithm \"rng\" for all_reduce; did you mean");
        SAYS(wt_persistent(comm, call, "node:rng", &req), WEFT_ENOTFOUND, "rng");
        SAYS(wt_persistent(comm, call, "node:ring/", &req), WEFT_EINVAL, "hierarchy: ");
        SAYS(wt_persistent(comm, call, "file:nothing", &req), WEFT_ENOTFOUND, "file:nothing");
        SAYS(wt_issue(comm, call, "rng", NULL), WEFT_ENOTFOUND, "no algorithm \"rng\"");
        SAYS(wt_issue(comm, empty, "rng", NULL), WEFT_ENOTFOUND, "no algorithm \"rng\"");
        WT_CHECK(req == NULL && sum == 0);
    }
    /* One rank runs none, and it is known by its name nevertheless. */
    WT_CHECK_OK(wt_issue(own, call, "ring", NULL));
    WT_CHECK_INT((int)sum, 1);
    WT_CHECK_OK(wt_issue(own, call, "node:ring", NULL));
    SAYS(weft_comm_newest_algorithm(own, &ran), WEFT_ENOTFOUND, "no collective that other ranks have a part in");
    WT_CHECK_OK(weft_comm_destroy(own));
    WT_CHECK_OK(weft_barrier(f.comm, NULL));
    ft_close(&f);
}

/* ---- Persistent calls keep what they were given, but the buffers ---- */

static void keeps(int rank, int nranks, void *arg)
{
    int64_t src[MOST] = {0}, dst[MOST];
    size_t counts[MOST], displs[MOST];
    weft_call call = wt_call(WEFT_KIND_ALL_GATHER_V, src, dst, 0, WEFT_INT64);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    char name[16] = "ring";
    weft_collective_info newest = WEFT_COLLECTIVE_INFO_INIT;
    weft_request *kept;
    const char *ran = "";
    weft_comm *other;
    struct ft_rank f;

    ft_open(&f, arg, 10000, rank, nranks);
    WT_REQUIRE_OK(weft_comm_dup(f.comm, NULL, &other));
    for (int r = 0; r < nranks; r++)
        counts[r] = 1, displs[r] = (size_t)(nranks - 1 - r);
    options.algorithm = name;
    call.recv_counts = counts;
    call.recv_displs = displs;
    call.options = &options;
    WT_CHECK_OK(weft_persistent(f.comm, &call, &kept));
    memset(counts, 0xff, sizeof counts);
    memset(displs, 0xff, sizeof displs);
    memset(name, 'x', sizeof name - 1);
    memset(&options, 0xff, sizeof options);
    memset(&call, 0xff, sizeof call);
    WT_CHECK_STATUS(weft_comm_newest_algorithm(other, &ran), WEFT_ENOTFOUND);
    WT_CHECK_STATUS(weft_comm_newest_collective(other, &newest), WEFT_ENOTFOUND);
    for (int round = 0; round < 5; round++) {
        src[0] = rank * 10 + round;
        WT_CHECK_OK(weft_start(kept));
        WT_CHECK_OK(weft_wait(kept));
        WT_CHECK_OK(weft_comm_newest_algorithm(f.comm, &ran));
        WT_CHECK_STR(ran, "ring");
        WT_CHECK_OK(weft_comm_newest_collective(f.comm, &newest));
        WT_CHECK_STR(newest.algorithm, "ring");
        WT_CHECK_STR(newest.codec, "");
        WT_CHECK(newest.completed == 1 && newest.bypassed == 0 && newest.tensor == 0);
        for (int r = 0; r < nranks; r++)
            WT_CHECK_INT((int)dst[nranks - 1 - r], r * 10 + round);
    }
    WT_CHECK_OK(weft_request_free(kept));
    /* Of collectives, not of messages; also of those on the fast path. */
    WT_CHECK_OK(weft_send_recv(f.comm, src, 1, (rank + 1) % nranks, 0, dst, 1, (rank + nranks - 1) % nranks, 0,
                               WEFT_INT64, NULL));
    WT_CHECK_OK(weft_comm_newest_algorithm(f.comm, &ran));
    WT_CHECK_STR(ran, "ring");
    for (int i = 0; i < 3; i++)
        WT_CHECK_OK(weft_barrier(f.comm, NULL));
    WT_CHECK_OK(weft_comm_newest_algorithm(f.comm, &ran));
    WT_CHECK(strcmp(ran, "ring") != 0 && ran[0]);
    WT_CHECK_OK(weft_comm_destroy(other));
    ft_close(&f);
}

/* ---- An operation's own deadline ---- */

static void deadlines(int rank, int nranks, void *arg)
{
    int64_t word = 1, sum;
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, &word, &sum, 1, WEFT_INT64);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    uint64_t began;
    struct ft_rank f;

    ft_open(&f, arg, 60000, rank, nranks);
    options.timeout_ns = 100 * FT_MS;
    call.options = &options;
    began = wt_now_ms();
    if (rank == 0)
        WT_CHECK_STATUS(weft_issue(f.comm, &call, NULL), WEFT_ETIMEDOUT);
    WT_CHECK(wt_now_ms() - began < 30000); /* not the communicator's minute */
    wt_sync();
    ft_close(&f);
}

/* With a tag and without. */
static void late_receive(weft_comm *comm, int64_t tag, const char *text)
{
    int64_t word = 0;
    weft_call call = wt_call(WEFT_KIND_RECV, NULL, &word, 1, WEFT_INT64);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_error error = WEFT_ERROR_INIT;

    options.timeout_ns = 100 * FT_MS;
    call.options = &options;
    call.peer = 1;
    call.tag = tag;
    WT_CHECK_STATUS(weft_issue(comm, &call, NULL), WEFT_ETIMEDOUT);
    WT_REQUIRE_OK(weft_last_error(comm, &error));
    WT_CHECK_STR(error.operation, "recv");
    if (!strstr(error.message, text))
        wt_fail(__FILE__, __LINE__, "\"%s\" is not in: %s", text, error.message);
}

static void late_receives(int rank, int nranks, void *arg)
{
    weft_comm *other;
    struct ft_rank f;

    ft_open(&f, arg, 60000, rank, nranks);
    WT_REQUIRE_OK(weft_comm_dup(f.comm, NULL, &other));
    if (rank == 0) {
        late_receive(f.comm, 0, "recv #1 (1 int64) ");
        late_receive(other, 99, "recv (1 int64, tag 99) ");
    }
    wt_sync();
    WT_CHECK_OK(weft_comm_destroy(other));
    ft_close(&f);
}

static void everywhere(int nranks, wt_rank_fn fn, const char *what)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(nranks, fn, what, 30000), 0);
}

static void bad_input(void)
{
    everywhere(2, refused, "refused");
}

static void meeting(void)
{
    everywhere(4, meets, "meets");
}

static void in_groups(void)
{
    everywhere(3, grouped, "grouped");
}

static void names(void)
{
    everywhere(2, named_at_once, "named at once");
}

static void persistent(void)
{
    everywhere(3, keeps, "keeps");
}

static void own_deadline(void)
{
    everywhere(2, deadlines, "deadlines");
}

static void receives(void)
{
    everywhere(2, late_receives, "late receives");
}

static const struct wt_case cases[] = {
    {"wrong calls are named, other versions' are read", bad_input},
    {"a described call meets the functions", meeting},
    {"described calls in groups", in_groups},
    {"names of algorithms are checked at once", names},
    {"persistent calls keep their arguments", persistent},
    {"a deadline of one operation", own_deadline},
    {"a receive calls itself one", receives},
};
WT_UNIT_MAIN("calls", cases)
