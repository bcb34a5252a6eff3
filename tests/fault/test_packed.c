/* all_to_all_v by level: ranks that disagree about a part, that come late, abort or send nothing; what the flight recorder keeps.
 * Five ranks on two "hosts" (names that WEFT_NODE_ID gives them), dealt out, so that shared memory and TCP both serve.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "comm/comm.h"

#include "../unit/unit.h"

#define RANKS 5
#define ROOM 60000 /* ints of one part, at most */
#define LONG 40000 /* these travel directly */

static int32_t src[RANKS * ROOM], dst[RANKS * ROOM];

struct shape {
    size_t send[RANKS], recv[RANKS], send_at[RANKS], recv_at[RANKS];
};

struct disagreement {
    size_t sent, expected; /* ints from rank 1 to rank 4 */
    const char *said;
};

static void open_hosts(struct ft_rank *f, uint64_t timeout_ms, int rank, int nranks)
{
    char host[8];

    snprintf(host, sizeof host, "h%d", rank % 2);
    setenv("WEFT_NODE_ID", host, 1);
    ft_open(f, "shm,tcp", timeout_ms, rank, nranks);
}

/* Ints from rank `from` to rank `to` in round k: none, few or many. */
static size_t part(int from, int to, int k)
{
    static const size_t sizes[] = {0, 1, 3, 700, 0, 4095, 4096, LONG, ROOM};
    unsigned at = (unsigned)(from * 7 + to * 3 + k * 5);

    return (from + k) % 4 == 0 ? 0 : sizes[at % (sizeof sizes / sizeof *sizes)];
}

static void shape_of(struct shape *s, int rank, int k)
{
    for (int r = 0; r < RANKS; r++) {
        s->send[r] = part(rank, r, k);
        s->recv[r] = part(r, rank, k);
        s->send_at[r] = (size_t)(RANKS - 1 - r) * ROOM; /* not in order */
        s->recv_at[r] = (size_t)r * ROOM;
    }
}

static weft_status call(struct ft_rank *f, const char *algorithm, const struct shape *s, weft_request **req)
{
    weft_call call = wt_call(WEFT_KIND_ALL_TO_ALL_V, src, dst, 0, WEFT_INT32);

    call.send_counts = s->send;
    call.send_displs = s->send_at;
    call.recv_counts = s->recv;
    call.recv_displs = s->recv_at;
    return wt_issue(f->comm, call, algorithm, req);
}

static void fill(int rank, int k)
{
    for (int r = 0; r < RANKS; r++)
        for (size_t i = 0; i < ROOM; i++)
            src[(size_t)(RANKS - 1 - r) * ROOM + i] = (int32_t)(i * 100 + (size_t)(rank * 10 + r + k));
    memset(dst, 0xff, sizeof dst);
}

static void check(int rank, const struct shape *s, int k)
{
    for (int r = 0; r < RANKS; r++) {
        const int32_t *got = dst + (size_t)r * ROOM;
        size_t wrong = 0;
        for (size_t i = 0; i < ROOM; i++)
            wrong += got[i] != (i < s->recv[r] ? (int32_t)(i * 100 + (size_t)(r * 10 + rank + k)) : -1);
        if (wrong)
            wt_fail(__FILE__, __LINE__, "round %d: %zu of %zu elements from rank %d are wrong", k, wrong, s->recv[r],
                    r);
    }
}

/* ---- All sizes, none, and what is recorded ---- */

static void count_records(struct ft_rank *f, const char *algorithm, int least)
{
    char path[64], line[4096];
    int n = 0;
    FILE *in;

    snprintf(path, sizeof path, "/tmp/weft-packed-%d.json", (int)getpid());
    WT_REQUIRE_OK(weft_comm_dump(f->comm, path));
    in = fopen(path, "r");
    WT_REQUIRE(in != NULL);
    while (fgets(line, sizeof line, in))
        for (const char *at = line; (at = strstr(at, algorithm)) != NULL; at++)
            n++;
    fclose(in);
    unlink(path);
    if (n < least)
        wt_fail(__FILE__, __LINE__, "%s is %d times in the flight recorder, not %d", algorithm, n, least);
}

static void sizes(int rank, int nranks, void *arg)
{
    static const char *const algorithms[] = {"node:linear/linear", "node:pairwise", "node:linear@leader"};
    weft_request *req;
    struct ft_rank f;
    struct shape s;

    (void)arg;
    open_hosts(&f, 20000, rank, nranks);
    for (int k = 0; k < 12; k++) {
        shape_of(&s, rank, k);
        fill(rank, k);
        WT_REQUIRE_OK(call(&f, algorithms[k % 3], &s, k % 2 ? &req : NULL));
        if (k % 2) {
            WT_REQUIRE_OK(weft_wait(req));
            WT_CHECK_OK(weft_request_free(req));
        }
        check(rank, &s, k);
    }
    memset(&s, 0, sizeof s);
    WT_CHECK_OK(call(&f, algorithms[0], &s, NULL)); /* nobody sends anything */
    count_records(&f, "\"node:pairwise\"", 4);
    count_records(&f, "\"node:", 13); /* the default too */
    count_records(&f, "\"node:linear@leader\"", 4);
    ft_close(&f);
}

/* ---- Source and destination disagree ---- */

static void disagree(int rank, int nranks, void *arg)
{
    const struct disagreement *d = arg;
    struct ft_rank f;
    struct shape s;
    weft_status st;

    open_hosts(&f, 10000, rank, nranks);
    shape_of(&s, rank, 2);
    if (rank == 1)
        s.send[4] = d->sent;
    if (rank == 4)
        s.recv[1] = d->expected;
    fill(rank, 2);
    st = call(&f, "node:pairwise", &s, NULL);
    if (st >= 0) /* it had all it needed; the next operation tells */
        st = weft_barrier(f.comm, NULL);
    WT_CHECK(st < 0 && st != WEFT_ETIMEDOUT);
    if (rank == 4) {
        weft_error e = ft_error(&f);
        WT_CHECK_STATUS(st, WEFT_EMISMATCH);
        WT_CHECK_INT(e.peer, 1);
        if (!strstr(e.message, d->said))
            wt_fail(__FILE__, __LINE__, "\"%s\" is not in: %s", d->said, e.message);
    }
    ft_close(&f);
}

/* ---- Malformed messages ---- */

enum harm { CUT, LENGTH, APPENDED, OVERLONG, NUM_HARMS };

static const char *const harm_texts[] = {", which has ", "is shorter than the lengths in it say",
                                         "is longer than the lengths in it say", "parts can be, each shorter than"};

static weft_status (*real_send)(void *group, struct weft_xfer *x);
static enum harm harm;

/* The first packed message of this rank, of which every part has 12 bytes. */
static weft_status send_harmed(void *group, struct weft_xfer *x)
{
    static uint64_t room[1 << 17];
    static int harmed;
    size_t n = 0;

    if (harmed || x->info.kind != WI_COLL_ALL_TO_ALL_V || x->bytes < sizeof *room)
        return real_send(group, x);
    harmed = 1;
    memcpy(room, x->buf, x->bytes);
    while (room[n] == 12)
        n++;
    WT_CHECK(n > 0 && x->bytes == n * (sizeof *room + 12));
    if (harm == LENGTH)
        room[n - 1] = 4000;
    else
        x->bytes = harm == CUT ? n * sizeof *room - 4 : harm == APPENDED ? x->bytes + 4 : sizeof room;
    x->buf = room;
    return real_send(group, x);
}

static void malformed(int rank, int nranks, void *arg)
{
    atomic_int *named = arg;
    struct ft_rank f;
    struct shape s;
    weft_status st;
    weft_error e;

    open_hosts(&f, 10000, rank, nranks);
    shape_of(&s, rank, 0);
    for (int r = 0; r < RANKS; r++)
        s.send[r] = s.recv[r] = 3;
    if (rank == 1) {
        struct weft_transport_ops *ops = (struct weft_transport_ops *)(uintptr_t)f.comm->exec->peers[4].ops;
        real_send = ops->send;
        ops->send = send_harmed;
    }
    wt_sync();
    st = call(&f, "node:pairwise", &s, NULL);
    if (st >= 0) /* it had all it needed; the next operation tells */
        st = weft_barrier(f.comm, NULL);
    WT_CHECK(st < 0 && st != WEFT_ETIMEDOUT);
    e = ft_error(&f);
    if (st == WEFT_EPROTO && e.peer == 1 && strstr(e.message, harm_texts[harm]))
        atomic_fetch_add(named, 1);
    wt_sync();
    ft_close(&f);
}

static void malformed_messages(void)
{
    atomic_int *named = mmap(NULL, sizeof *named, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CU_ASSERT_FATAL(named != MAP_FAILED);
    for (harm = CUT; harm < NUM_HARMS; harm++) {
        atomic_store(named, 0);
        CU_ASSERT_EQUAL(wt_run(RANKS, malformed, named, 20000), 0);
        CU_ASSERT_EQUAL(atomic_load(named), 1); /* who received it; the others hear of it */
    }
    munmap(named, sizeof *named);
}

/* ---- Late, and gone ---- */

static void late(int rank, int nranks, void *arg)
{
    struct ft_rank f;
    struct shape s;
    weft_status st;

    open_hosts(&f, 700, rank, nranks);
    shape_of(&s, rank, 1);
    wt_sync();
    if (rank != 4) {
        weft_error e;
        st = call(&f, "node:pairwise", &s, NULL);
        e = ft_error(&f);
        WT_CHECK_STATUS(st, WEFT_ETIMEDOUT);
        WT_CHECK(e.peer >= 0 && e.peer != rank && strstr(e.message, "all_to_all_v #2"));
        if (strstr(e.message, "rank 4")) /* others may wait for ranks that wait for it */
            atomic_fetch_add((atomic_int *)arg, 1);
    }
    wt_sync();
    ft_close(&f);
}

static void aborted(int rank, int nranks, void *arg)
{
    weft_request *req = NULL;
    struct ft_rank f;
    struct shape s;

    (void)arg;
    open_hosts(&f, 20000, rank, nranks);
    shape_of(&s, rank, 1);
    wt_sync();
    if (rank == 4) {
        WT_CHECK_OK(weft_comm_abort(f.comm, "enough"));
    } else {
        weft_status st = call(&f, "node:pairwise", &s, &req);
        st = st >= 0 ? weft_wait(req) : st;
        WT_CHECK(st == WEFT_EABORTED || st == WEFT_EPEER);
    }
    wt_sync();
    weft_request_free(req);
    ft_close(&f);
}

/* ---- Cases ---- */

static void all_sizes(void)
{
    CU_ASSERT_EQUAL(wt_run(RANKS, sizes, NULL, 40000), 0);
}

static void lengths_that_differ(void)
{
    static struct disagreement d[] = {
        {3, 4, "rank 1 sends 12 bytes to rank 4, which expects 16 bytes"},
        {4, 0, "rank 1 sends 16 bytes to rank 4, which expects 0 bytes"},
        {3, LONG, "rank 1 sends 12 bytes to rank 4, which expects 160000 bytes"},
        {LONG, 3, "rank 1 sends 160000 bytes to rank 4, which expects 12 bytes"},
    };

    for (size_t i = 0; i < sizeof d / sizeof *d; i++)
        CU_ASSERT_EQUAL(wt_run(RANKS, disagree, &d[i], 20000), 0);
}

static void late_and_gone(void)
{
    atomic_int *named = mmap(NULL, sizeof *named, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CU_ASSERT_FATAL(named != MAP_FAILED);
    CU_ASSERT_EQUAL(wt_run(RANKS, late, named, 20000), 0);
    CU_ASSERT(atomic_load(named) > 0);
    munmap(named, sizeof *named);
    CU_ASSERT_EQUAL(wt_run(RANKS, aborted, NULL, 20000), 0);
}

static const struct wt_case cases[] = {
    {"parts of all sizes", all_sizes},
    {"lengths that differ", lengths_that_differ},
    {"malformed messages", malformed_messages},
    {"late, and gone", late_and_gone},
};
WT_UNIT_MAIN("packed", cases)
