/* A rank that offers less memory than the operation touches, or another share than it has: the others touch nothing that was
 * not offered, least of all what lies behind the mapping in their own memory, and name it. And one that votes in another's name.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "../unit/unit.h"
#include "base/clock.h"
#include "comm/comm.h"

#define COUNT (1u << 16)
#define LEFT 64u
#define FEWER (COUNT / 2)

struct lie {
    enum wi_coll coll;
    int mapped; /* buffers that peers can map */
    int liar;
    void (*describe)(void *endpoint, const void *ptr, size_t bytes, struct weft_mem_desc *desc);
    const char *said;
    int own; /* the liar looks at its own offer as well, and may be the first to say so */
};

static const size_t v_counts[] = {COUNT, FEWER};
static struct {
    int cannot;       /* this machine cannot do what the case is about */
    _Atomic int said; /* ranks that refused the offer and said what is wrong with it */
} * shared;

static void (*truth)(void *endpoint, const void *ptr, size_t bytes, struct weft_mem_desc *desc);

/* The end of the buffer, where it had to be all of it. */
static void end_only(void *endpoint, const void *ptr, size_t bytes, struct weft_mem_desc *desc)
{
    truth(endpoint, ptr, bytes, desc);
    desc->address += bytes - LEFT;
    desc->offset += desc->segment ? bytes - LEFT : 0;
    desc->bytes = LEFT;
}

/* All but the last element: nothing less than what is touched will do. */
static void one_short(void *endpoint, const void *ptr, size_t bytes, struct weft_mem_desc *desc)
{
    truth(endpoint, ptr, bytes, desc);
    desc->bytes = bytes - sizeof(float);
}

/* Memory that no process has there. */
static void at_zero(void *endpoint, const void *ptr, size_t bytes, struct weft_mem_desc *desc)
{
    truth(endpoint, ptr, bytes, desc);
    desc->address = 0;
}

static void past_the_end(void *endpoint, const void *ptr, size_t bytes, struct weft_mem_desc *desc)
{
    truth(endpoint, ptr, bytes, desc);
    desc->address = UINTPTR_MAX - bytes / 2;
}

/* The share stands behind the two descriptions of a record (src/comm/exchange.c). Twice what it is: ranks that believe it read
 * and write twice as much of their own buffers. */
static void other_share(void *endpoint, const void *ptr, size_t bytes, struct weft_mem_desc *desc)
{
    static int calls;

    truth(endpoint, ptr, bytes, desc);
    if (calls++ == 0)
        *(volatile uint64_t *)(desc + 2) *= 2;
}

/* Shares of a v-form differ, but this one fits no address space. */
static void endless_share(void *endpoint, const void *ptr, size_t bytes, struct weft_mem_desc *desc)
{
    static int calls;

    truth(endpoint, ptr, bytes, desc);
    if (calls++ == 0)
        *(volatile uint64_t *)(desc + 2) = ((uint64_t)1 << 47) + 1;
}

static weft_status call(struct ft_rank *f, const struct lie *lie, float *src, float *dst)
{
    if (lie->coll == WI_COLL_ALL_REDUCE)
        return weft_all_reduce(f->comm, src, dst, COUNT, WEFT_FLOAT32, WEFT_SUM, NULL);
    if (lie->coll == WI_COLL_REDUCE_SCATTER_V)
        return weft_reduce_scatter_v(f->comm, src, dst, v_counts, WEFT_FLOAT32, WEFT_SUM, NULL);
    return weft_all_gather(f->comm, src, dst, COUNT, WEFT_FLOAT32, NULL);
}

static void *memory(struct ft_rank *f, const struct lie *lie, size_t bytes)
{
    void *ptr = NULL;

    if (lie->mapped)
        WT_REQUIRE_OK(weft_mem_alloc(f->context, bytes, &ptr));
    else
        ptr = calloc(1, bytes);
    WT_REQUIRE(ptr != NULL);
    return ptr;
}

static void offers(int rank, int nranks, void *arg)
{
    const struct lie *lie = arg;
    struct ft_rank f;
    float *src, *dst;
    weft_status status;

    setenv("WEFT_ALGO", "all_reduce:direct,all_gather:direct,reduce_scatter:direct", 1);
    ft_open(&f, "shm", 20000, rank, nranks);
    if (!lie->mapped && !f.comm->mesh->can_get) {
        shared->cannot = 1;
        ft_close(&f);
        return;
    }
    src = memory(&f, lie, (COUNT + FEWER) * sizeof *src);
    dst = memory(&f, lie, 2 * COUNT * sizeof *dst);
    WT_CHECK_OK(call(&f, lie, src, dst));
    if (rank == lie->liar) {
        struct weft_transport_ops *ops = &f.comm->mesh->mapped_group->transport->ops;
        truth = ops->mem_describe;
        ops->mem_describe = lie->describe;
    }
    wt_sync();
    status = call(&f, lie, src, dst);
    if (status == WEFT_EPROTO && strstr(ft_error(&f).message, lie->said)) {
        atomic_fetch_add(&shared->said, 1);
    } else if (rank == lie->liar) {
        WT_CHECK(status < 0);
    } else {
        WT_CHECK_STATUS(status, lie->own ? WEFT_EPEER : WEFT_EPROTO);
        if (!lie->own || !strstr(ft_error(&f).message, "gave up"))
            wt_fail(__FILE__, __LINE__, "\"%s\" is not in: %s", lie->said, ft_error(&f).message);
    }
    wt_sync();
    ft_close(&f); /* memory of the context goes with it */
    if (!lie->mapped) {
        free(src);
        free(dst);
    }
}

/* Rank 1 says that its vote in a split is rank 1000's, and goes away. */
static void votes(int rank, int nranks, void *arg)
{
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    struct {
        int color, key, rank;
    } vote = {0, 0, 1000}, all[8];
    weft_comm *split = NULL;
    struct ft_rank f;
    weft_status status;

    (void)arg;
    ft_open(&f, "shm", 20000, rank, nranks);
    config.init_timeout_ns = wt_slow_ms(10000) * FT_MS;
    if (rank == 1) {
        WT_REQUIRE_OK(wi_comm_enter(f.comm));
        WT_CHECK_OK(
            wi_comm_all_gather(f.comm, NULL, nranks, &vote, sizeof vote, all, wt_slow_ms(10000) * FT_MS + wi_now_ns()));
        wi_comm_leave(f.comm);
        WT_CHECK_OK(weft_comm_abort(f.comm, "voted"));
    } else {
        status = weft_comm_split(f.comm, 0, rank, &config, &split);
        WT_CHECK(status == WEFT_EABORTED ||
                 status == WEFT_EPEER); /* as weft_comm_abort says; rank 0 may be heard first */
        if (!strstr(weft_thread_error(), "rank 1"))
            wt_fail(__FILE__, __LINE__, "rank 1 is not named: %s", weft_thread_error());
        WT_CHECK(split == NULL);
        WT_CHECK(*weft_thread_error() && !strstr(weft_thread_error(), "1000"));
    }
    wt_sync();
    ft_close(&f);
}

static void other_votes(void)
{
    CU_ASSERT_EQUAL(wt_run(3, votes, NULL, 40000), 0);
}

static void run(const struct lie *lie)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_FATAL(shared != MAP_FAILED);
    CU_ASSERT_EQUAL(wt_run(2, offers, (void *)(uintptr_t)lie, 30000), 0);
    CU_ASSERT(shared->cannot || shared->said > 0);
    if (shared->cannot)
        wt_skip("memory of other processes cannot be read here (process_vm_readv is refused)");
    munmap(shared, sizeof *shared);
}

static void mapped_reduce(void)
{
    static const struct lie lie = {WI_COLL_ALL_REDUCE, 1, 1, end_only, "rank 1 offers 64 bytes", 0};
    run(&lie);
}

static void mapped_gather(void)
{
    static const struct lie lie = {WI_COLL_ALL_GATHER, 1, 1, end_only, "rank 1 offers 64 bytes", 0};
    run(&lie);
}

static void attached_gather(void)
{
    static const struct lie lie = {WI_COLL_ALL_GATHER, 0, 1, end_only, "rank 1 offers 64 bytes", 0};
    run(&lie);
}

static void nowhere(void)
{
    static const struct lie lie = {WI_COLL_ALL_GATHER, 0, 1, at_zero, "bytes of memory at address 0", 0};
    run(&lie);
}

static void beyond(void)
{
    static const struct lie lie = {WI_COLL_ALL_GATHER, 0, 1, past_the_end, "bytes of memory at address 0xffff", 0};
    run(&lie);
}

static void other_shares(void)
{
    static const struct lie lie = {
        WI_COLL_ALL_GATHER, 1, 1, other_share, "rank 1 says that its share has 524288 bytes", 0};
    run(&lie);
}

static void short_of_one(void)
{
    static const struct lie lie = {WI_COLL_ALL_GATHER,
                                   1,
                                   1,
                                   one_short,
                                   "rank 1 offers 262140 bytes of memory for an operation that touches 262144",
                                   0};
    run(&lie);
}

static void v_short_of_one(void)
{
    static const struct lie lie = {WI_COLL_REDUCE_SCATTER_V,
                                   1,
                                   0,
                                   one_short,
                                   "rank 0 offers 393212 bytes of memory for an operation that touches 393216",
                                   0};
    run(&lie);
}

static void v_endless_share(void)
{
    static const struct lie lie = {
        WI_COLL_REDUCE_SCATTER_V, 1, 0, endless_share, "rank 0 says that its share has 140737488355329 bytes", 1};
    run(&lie);
}

static const struct wt_case cases[] = {
    {"less mapped memory than an all_reduce touches", mapped_reduce},
    {"less mapped memory than an all_gather touches", mapped_gather},
    {"less private memory than an all_gather touches", attached_gather},
    {"memory at address 0", nowhere},
    {"memory that ends behind the address space", beyond},
    {"another share than the call has", other_shares},
    {"one element less than an all_gather touches", short_of_one},
    {"one element less than a reduce_scatter_v touches", v_short_of_one},
    {"a share of a reduce_scatter_v that fits no address space", v_endless_share},
    {"a vote in the name of a rank that is not there", other_votes},
};
WT_UNIT_MAIN("test_offers", cases)
