/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/alloc_calls.h"

#include <string.h>
#include <weft/weft_compress.h>

#include "tests/fault/fault.h"

enum { ROOT = 1, ROOM = AC_RANKS * AC_MANY };

static int64_t src[ROOM] __attribute__((aligned(4096))), dst[ROOM];
static float wide[AC_MANY], widest[AC_MANY];

static int64_t given(int rank, size_t i)
{
    return (int64_t)i * 3 + rank * 1000 + 1;
}

static float given_float(int rank, size_t i)
{
    return (float)((int)(i % 100) * (rank % 2 ? 1 : -1));
}

static int64_t sum(int last, size_t i)
{
    int64_t all = 0;

    for (int r = 0; r <= last; r++)
        all += given(r, i);
    return all;
}

void ac_fill(int rank)
{
    for (size_t i = 0; i < ROOM; i++)
        src[i] = given(rank, i);
    for (size_t i = 0; i < AC_MANY; i++)
        wide[i] = given_float(rank, i);
    memset(dst, 0x5a, sizeof dst);
    memset(widest, 0x5a, sizeof widest);
}

size_t ac_spoilt(int rank)
{
    size_t spoilt = 0;

    for (size_t i = 0; i < ROOM; i++)
        spoilt += src[i] != given(rank, i);
    for (size_t i = 0; i < AC_MANY; i++)
        spoilt += wide[i] != given_float(rank, i);
    return spoilt;
}

/* ---- Reductions ---- */

static weft_status all_reduce(const struct ac_rank *on, size_t n)
{
    return weft_all_reduce(on->comm, src, dst, n, WEFT_INT64, WEFT_SUM, NULL);
}

static size_t not_reduced(int rank, size_t n)
{
    size_t wrong = 0;

    (void)rank;
    for (size_t i = 0; i < n; i++)
        wrong += dst[i] != sum(AC_RANKS - 1, i);
    return wrong;
}

static weft_status all_reduce_max(const struct ac_rank *on, size_t n)
{
    return weft_all_reduce(on->comm, wide, widest, n, WEFT_FLOAT32, WEFT_MAX, NULL);
}

static size_t not_greatest(int rank, size_t n)
{
    size_t wrong = 0;

    (void)rank;
    for (size_t i = 0; i < n; i++)
        wrong += widest[i] != (float)(i % 100);
    return wrong;
}

/* Of 127 / 3 levels, and what the calls before have left: of sums of at most 99. */
static size_t not_near_sums(int rank, size_t n)
{
    size_t wrong = 0;

    (void)rank;
    for (size_t i = 0; i < n; i++) {
        float off = widest[i] + (float)(i % 100); /* -x + x - x */
        wrong += !(off <= 12 && off >= -12);
    }
    return wrong;
}

static weft_status all_reduce_linear(const struct ac_rank *on, size_t n)
{
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, wide, widest, n, WEFT_FLOAT32);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;

    options.codec = "sharedint:ef=1,min=1,bypass=never";
    options.tensor = 1;
    call.options = &options;
    return weft_issue(on->comm, &call, NULL);
}

/* Two tensors, of which the short one is sent as it is where there are few. */
static weft_status batch_linear(const struct ac_rank *on, size_t n)
{
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, NULL, NULL, 0, WEFT_FLOAT32);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    size_t part = n / 6;
    weft_batch_item items[] = {{.src = wide, .dst = widest, .count = part, .tensor = 1},
                               {.src = wide + part, .dst = widest + part, .count = n - part, .tensor = 2}};

    options.codec = "sharedint:ef=1,min=64,bypass=never";
    call.options = &options;
    return weft_issue_batch(on->comm, &call, items, 2, NULL);
}

static weft_status reduce_scatter(const struct ac_rank *on, size_t n)
{
    return weft_reduce_scatter(on->comm, src, dst, n / AC_RANKS, WEFT_INT64, WEFT_SUM, NULL);
}

static size_t not_scattered_sums(int rank, size_t n)
{
    size_t wrong = 0, part = n / AC_RANKS;

    for (size_t i = 0; i < part; i++)
        wrong += dst[i] != sum(AC_RANKS - 1, (size_t)rank * part + i);
    return wrong;
}

static weft_status scan(const struct ac_rank *on, size_t n)
{
    return weft_scan(on->comm, src, dst, n, WEFT_INT64, WEFT_SUM, NULL);
}

static size_t not_scanned(int rank, size_t n)
{
    size_t wrong = 0;

    for (size_t i = 0; i < n; i++)
        wrong += dst[i] != sum(rank, i);
    return wrong;
}

/* ---- Copies ---- */

static weft_status all_to_all(const struct ac_rank *on, size_t n)
{
    return weft_all_to_all(on->comm, src, dst, n / AC_RANKS, WEFT_INT64, NULL);
}

static size_t not_exchanged(int rank, size_t n)
{
    size_t wrong = 0, part = n / AC_RANKS;

    for (size_t i = 0; i < n; i++)
        wrong += dst[i] != given((int)(i / part), (size_t)rank * part + i % part);
    return wrong;
}

/* What rank `from` has for rank `to`: none or more, anywhere. */
static size_t v_part(int from, int to, size_t n)
{
    return from == to ? 0 : n / (size_t)(3 + from + 2 * to);
}

static weft_status all_to_all_v(const struct ac_rank *on, size_t n)
{
    size_t send[AC_RANKS], recv[AC_RANKS], at[AC_RANKS];

    for (int r = 0; r < AC_RANKS; r++) {
        send[r] = v_part(on->rank, r, n);
        recv[r] = v_part(r, on->rank, n);
        at[r] = (size_t)r * AC_MANY;
    }
    return weft_all_to_all_v(on->comm, src, send, at, dst, recv, at, WEFT_INT64, NULL);
}

static size_t not_exchanged_v(int rank, size_t n)
{
    size_t wrong = 0;

    for (int r = 0; r < AC_RANKS; r++)
        for (size_t i = 0; i < v_part(r, rank, n); i++)
            wrong += dst[(size_t)r * AC_MANY + i] != given(r, (size_t)rank * AC_MANY + i);
    return wrong;
}

static weft_status all_gather_v(const struct ac_rank *on, size_t n)
{
    size_t counts[AC_RANKS], at[AC_RANKS];

    for (int r = 0; r < AC_RANKS; r++) {
        counts[r] = v_part(r, (r + 1) % AC_RANKS, n);
        at[r] = (size_t)r * AC_MANY;
    }
    return weft_all_gather_v(on->comm, src, dst, counts, at, WEFT_INT64, NULL);
}

static size_t not_gathered_v(int rank, size_t n)
{
    size_t wrong = 0;

    (void)rank;
    for (int r = 0; r < AC_RANKS; r++)
        for (size_t i = 0; i < v_part(r, (r + 1) % AC_RANKS, n); i++)
            wrong += dst[(size_t)r * AC_MANY + i] != given(r, i);
    return wrong;
}

static weft_status all_gather(const struct ac_rank *on, size_t n)
{
    weft_status st, done;

    weft_group_start();
    st = weft_all_gather(on->comm, src, dst, n / AC_RANKS, WEFT_INT64, NULL);
    done = weft_group_end();
    return st < 0 ? st : done;
}

static size_t not_gathered(int rank, size_t n)
{
    size_t wrong = 0, part = n / AC_RANKS;

    (void)rank;
    for (size_t i = 0; i < n; i++)
        wrong += dst[i] != given((int)(i / part), i % part);
    return wrong;
}

static weft_status gather(const struct ac_rank *on, size_t n)
{
    return weft_gather(on->comm, src, dst, n / AC_RANKS, WEFT_INT64, ROOT, NULL);
}

static size_t not_gathered_at_root(int rank, size_t n)
{
    return rank == ROOT ? not_gathered(rank, n) : 0;
}

static weft_status scatter(const struct ac_rank *on, size_t n)
{
    return weft_scatter(on->comm, src, dst, n / AC_RANKS, WEFT_INT64, ROOT, NULL);
}

static size_t not_scattered(int rank, size_t n)
{
    size_t wrong = 0, part = n / AC_RANKS;

    for (size_t i = 0; i < part; i++)
        wrong += dst[i] != given(ROOT, (size_t)rank * part + i);
    return wrong;
}

static weft_status broadcast(const struct ac_rank *on, size_t n)
{
    weft_request *req = NULL;
    weft_call call = wt_call(WEFT_KIND_BROADCAST, src, dst, n, WEFT_INT64);
    weft_status st = weft_persistent(on->comm, &call, &req), done;

    st = st < 0 ? st : weft_start(req);
    st = st < 0 ? st : weft_wait(req);
    done = weft_request_free(req);
    return st < 0 ? st : done;
}

static size_t not_broadcast(int rank, size_t n)
{
    size_t wrong = 0;

    (void)rank;
    for (size_t i = 0; i < n; i++)
        wrong += dst[i] != given(0, i);
    return wrong;
}

static weft_status send_recv(const struct ac_rank *on, size_t n)
{
    int after = (on->rank + 1) % AC_RANKS, before = (on->rank + AC_RANKS - 1) % AC_RANKS;

    return weft_send_recv(on->comm, src, n, after, 0, dst, n, before, 0, WEFT_INT64, NULL);
}

static size_t not_received(int rank, size_t n)
{
    size_t wrong = 0;

    for (size_t i = 0; i < n; i++)
        wrong += dst[i] != given((rank + AC_RANKS - 1) % AC_RANKS, i);
    return wrong;
}

static weft_status barrier(const struct ac_rank *on, size_t n)
{
    (void)n;
    return weft_barrier(on->comm, NULL);
}

/* ---- Communicators and memory ---- */

static weft_status reduce_within(const struct ac_rank *on, weft_comm *comm, weft_status made, size_t n)
{
    WT_CHECK(made >= 0 || !comm); /* nothing was written */
    if (made >= 0)
        WT_CHECK_OK(weft_comm_set_timeout(comm, on->timeout_ns));
    if (made >= 0)
        made = weft_all_reduce(comm, src, dst, n, WEFT_INT64, WEFT_SUM, NULL);
    WT_CHECK_OK(weft_comm_destroy(comm));
    return made;
}

static weft_status split(const struct ac_rank *on, size_t n)
{
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    weft_comm *part = NULL;
    weft_status st;

    config.init_timeout_ns = on->timeout_ns;
    st = weft_comm_split(on->comm, 0, AC_RANKS - on->rank, &config, &part);
    return reduce_within(on, part, st, n);
}

static weft_status dup(const struct ac_rank *on, size_t n)
{
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    weft_comm *other = NULL;
    weft_status st;

    config.init_timeout_ns = on->timeout_ns;
    st = weft_comm_dup(on->comm, &config, &other);
    return reduce_within(on, other, st, n);
}

/* Where the registration fails the rank calls all the same, with memory that is as it was. */
static weft_status registered(const struct ac_rank *on, size_t n)
{
    weft_mem *mem = NULL;
    weft_status st = weft_mem_register(on->context, src, sizeof src, &mem), done;

    WT_CHECK(st >= 0 || !mem);
    WT_CHECK(ac_spoilt(on->rank) == 0);
    done = weft_all_reduce(on->comm, src, dst, n, WEFT_INT64, WEFT_SUM, NULL);
    st = st < 0 ? st : done;
    done = weft_mem_deregister(mem);
    if (done == WEFT_ENOMEM) {
        WT_CHECK(ac_spoilt(on->rank) == 0);
        WT_CHECK_OK(weft_mem_deregister(mem)); /* it is still registered: again, now that there is memory */
    }
    return st < 0 ? st : done;
}

static weft_status allocated(const struct ac_rank *on, size_t n)
{
    void *mem = NULL;
    weft_status st = weft_mem_alloc(on->context, n * sizeof *src, &mem), done;

    WT_CHECK(st >= 0 || !mem);
    if (mem)
        memcpy(mem, src, n * sizeof *src);
    done = weft_all_reduce(on->comm, mem ? mem : src, dst, n, WEFT_INT64, WEFT_SUM, NULL);
    st = st < 0 ? st : done;
    done = weft_mem_free(on->context, mem);
    return st < 0 ? st : done;
}

const struct ac_call ac_calls[] = {
    {"all_reduce", all_reduce, not_reduced, AC_ANYWHERE, NULL},
    {"all_reduce of float32, max", all_reduce_max, not_greatest, AC_ANYWHERE, NULL},
    {"all_reduce with sharedint", all_reduce_linear, not_near_sums, AC_ANYWHERE, NULL},
    {"a batch with sharedint", batch_linear, not_near_sums, AC_ANYWHERE, NULL},
    {"all_to_all", all_to_all, not_exchanged, AC_ANYWHERE, NULL},
    {"all_to_all_v", all_to_all_v, not_exchanged_v, AC_ANYWHERE, NULL},
    {"all_gather_v", all_gather_v, not_gathered_v, AC_ANYWHERE, NULL},
    {"all_gather in a group", all_gather, not_gathered, AC_ANYWHERE, NULL},
    {"reduce_scatter", reduce_scatter, not_scattered_sums, AC_ANYWHERE, NULL},
    {"scan", scan, not_scanned, AC_ANYWHERE, NULL},
    {"gather", gather, not_gathered_at_root, AC_ANYWHERE, NULL},
    {"scatter", scatter, not_scattered, AC_ANYWHERE, NULL},
    {"broadcast_init", broadcast, not_broadcast, AC_ANYWHERE, NULL},
    {"send_recv", send_recv, not_received, AC_ANYWHERE, NULL},
    {"barrier", barrier, NULL, AC_ANYWHERE, NULL},
    {"split", split, not_reduced, AC_ANYWHERE, NULL},
    {"dup", dup, not_reduced, AC_ANYWHERE, NULL},
    {"mem_register", registered, not_reduced, AC_ONE_HOST, NULL},
    {"mem_alloc", allocated, not_reduced, AC_ONE_HOST, NULL},
    {"all_reduce by levels", all_reduce, not_reduced, AC_TWO_HOSTS, "all_reduce:node:ring"},
    {"all_to_all_v by levels", all_to_all_v, not_exchanged_v, AC_TWO_HOSTS, "all_to_all_v:node:pairwise"},
};
const int ac_ncalls = sizeof ac_calls / sizeof *ac_calls;
