/* The public API beyond single collectives: messages, several operations and communicators at once, the ways to create one.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <stdlib.h>
#include <unistd.h>

#include "../unit/unit.h"

static int64_t word(int from, int to, int n)
{
    return (int64_t)from * 1000003 + (int64_t)to * 10007 + n;
}

/* ---- Messages ---- */

enum { STORM = 250, MOST_WORDS = 600 };

static size_t storm_words(int from, int to, int n)
{
    uint64_t h = (uint64_t)word(from, to, n) * 0x9e3779b97f4a7c15ull >> 40;

    return h % 7 == 0 ? 0 : h % 11 == 0 ? h % MOST_WORDS : 1 + h % 5;
}

/* 1000 messages between all pairs, oneself included, a group at a time, in an order of each rank's own. */
static void storm(int rank, int nranks, void *arg)
{
    int64_t(*out)[MOST_WORDS] = calloc(4, sizeof *out), (*in)[STORM][MOST_WORDS] = calloc(4, sizeof *in);
    struct ft_rank f;
    unsigned seed = (unsigned)rank + 1;

    WT_REQUIRE(out && in);
    ft_open(&f, arg, 20000, rank, nranks);
    for (int peer = 0; peer < nranks; peer++)
        for (size_t i = 0; i < MOST_WORDS; i++)
            out[peer][i] = word(rank, peer, (int)i);
    for (int first = 0, sent[4] = {0}, got[4] = {0}; first < STORM; first += 25) {
        WT_CHECK_OK(weft_group_start());
        for (int left = 25 * 2 * nranks; left > 0;) {
            int peer = (int)(rand_r(&seed) % (unsigned)nranks), *n = rand_r(&seed) % 2 ? &sent[peer] : &got[peer];
            if (*n == first + 25)
                continue;
            if (n == &sent[peer])
                WT_CHECK_OK(weft_send(f.comm, out[peer], storm_words(rank, peer, *n), WEFT_INT64, peer, 0, NULL));
            else
                WT_CHECK_OK(weft_recv(f.comm, in[peer][*n], storm_words(peer, rank, *n), WEFT_INT64, peer, 0, NULL));
            ++*n;
            left--;
        }
        WT_CHECK_OK(weft_group_end());
    }
    for (int peer = 0; peer < nranks; peer++)
        for (int n = 0; n < STORM; n++)
            for (size_t i = 0; i < storm_words(peer, rank, n); i++)
                if (in[peer][n][i] != word(peer, rank, (int)i)) {
                    wt_fail(__FILE__, __LINE__, "message %d from %d: word %zu", n, peer, i);
                    break;
                }
    free(out);
    free(in);
    ft_close(&f);
}

static void message_storm(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(4, storm, "storm", 30000), 0);
}

/* Sends before receives, sizes from eager to long, to oneself, longer buffers than messages, too short ones. */
static void messages(int rank, int nranks, void *arg)
{
    static const size_t sizes[] = {0, 1, 100, 5000, 70000, 600001};
    int64_t *src = calloc(600001, 8), *dst = calloc(600001, 8), small[4] = {0}, ping[8];
    int next = (rank + 1) % nranks, before = (rank + nranks - 1) % nranks;
    weft_request *sent, *kept;
    weft_call call;
    struct ft_rank f;

    WT_REQUIRE(src && dst);
    ft_open(&f, arg, 20000, rank, nranks);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (size_t i = 0; i < sizes[s]; i++)
            src[i] = word(rank, next, (int)i);
        WT_CHECK_OK(weft_send(f.comm, src, sizes[s], WEFT_INT64, next, 0, &sent));
        WT_CHECK_OK(weft_recv(f.comm, dst, sizes[s], WEFT_INT64, before, 0, NULL));
        WT_CHECK_OK(weft_wait(sent));
        WT_CHECK_OK(weft_request_free(sent));
        for (size_t i = 0; i < sizes[s]; i++)
            if (dst[i] != word(before, rank, (int)i)) {
                wt_fail(__FILE__, __LINE__, "%zu words: word %zu", sizes[s], i);
                break;
            }
        memset(dst, 0, sizes[s] * 8);
        WT_CHECK_OK(weft_send_recv(f.comm, src, sizes[s], next, 0, dst, sizes[s], before, 0, WEFT_INT64, NULL));
        WT_CHECK(sizes[s] == 0 || dst[sizes[s] - 1] == word(before, rank, (int)sizes[s] - 1));
    }
    WT_CHECK_OK(weft_send_recv(f.comm, src, 3, rank, 0, small, 4, rank, 0, WEFT_INT64, NULL)); /* a longer buffer */
    WT_CHECK(small[2] == src[2] && small[3] == 0);
    WT_CHECK_STATUS(weft_send_recv(f.comm, src, 4, rank, 0, small, 2, rank, 0, WEFT_INT64, NULL), WEFT_ETRUNC);
    WT_CHECK(strstr(weft_thread_error(), "recv #") != NULL);
    WT_CHECK_STATUS(weft_comm_status(f.comm), WEFT_SUCCESS);
    call = wt_call(WEFT_KIND_SEND_RECV, src, ping, 8, WEFT_INT64);
    call.recv_count = 8;
    call.peer = next;
    call.recv_peer = before;
    WT_CHECK_OK(weft_persistent(f.comm, &call, &kept));
    for (int i = 0; i < 5; i++) {
        memset(ping, 0, sizeof ping);
        WT_CHECK_OK(weft_start(kept));
        WT_CHECK_OK(weft_wait(kept));
        WT_CHECK(ping[7] == word(before, rank, 7));
    }
    WT_CHECK_OK(weft_request_free(kept));
    free(src);
    free(dst);
    ft_close(&f);
}

static void all_messages(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(3, messages, "messages", 30000), 0);
}

/* ---- Several operations in flight ---- */

enum { FLIGHT = 8 };

static void flight(int rank, int nranks, void *arg)
{
    static const size_t sizes[FLIGHT] = {1, 40000, 7, 200000, 0, 3, 1000, 64};
    int64_t *src[FLIGHT], *dst[FLIGHT];
    weft_request *req[FLIGHT];
    struct ft_rank f;
    size_t index;

    ft_open(&f, arg, 20000, rank, nranks);
    for (int i = 0; i < FLIGHT; i++) {
        src[i] = calloc(sizes[i] * (size_t)nranks + 1, 8);
        dst[i] = calloc(sizes[i] * (size_t)nranks + 1, 8);
        WT_REQUIRE(src[i] && dst[i]);
        for (size_t k = 0; k < sizes[i] * (size_t)nranks; k++)
            src[i][k] = rank + 1 + i;
    }
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < FLIGHT; i++) {
            size_t n = sizes[i];
            weft_status st;
            switch (i % 4) {
            case 0:
                st = weft_all_reduce(f.comm, src[i], dst[i], n, WEFT_INT64, WEFT_SUM, &req[i]);
                break;
            case 1:
                st = weft_broadcast(f.comm, src[i], dst[i], n, WEFT_INT64, 1, &req[i]);
                break;
            case 2:
                st = weft_all_gather(f.comm, src[i], dst[i], n, WEFT_INT64, &req[i]);
                break;
            default:
                st = weft_reduce_scatter(f.comm, src[i], dst[i], n, WEFT_INT64, WEFT_SUM, &req[i]);
                break;
            }
            WT_REQUIRE_OK(st);
        }
        if (round % 3 == 0) {
            for (int i = FLIGHT - 1; i >= 0; i--)
                WT_CHECK_OK(weft_wait(req[i]));
        } else if (round % 3 == 1) {
            WT_CHECK_OK(weft_wait_all(req, FLIGHT));
        } else {
            for (int i = 0; i < FLIGHT; i++) {
                WT_CHECK_OK(weft_wait_any(req, FLIGHT, &index));
                WT_REQUIRE(index < FLIGHT && req[index]);
                WT_CHECK_OK(weft_request_free(req[index]));
                req[index] = NULL;
            }
            WT_CHECK_STATUS(weft_wait_any(req, FLIGHT, &index), WEFT_ENOTFOUND);
        }
        for (int i = 0; i < FLIGHT; i++) {
            int64_t sum = (int64_t)nranks * (nranks + 1) / 2 + (int64_t)nranks * i;
            int64_t last = i % 4 == 1 ? 2 + i : i % 4 == 2 ? nranks + i : sum;
            size_t at = sizes[i] * (i % 4 == 2 ? (size_t)nranks : 1);
            WT_CHECK(at == 0 || dst[i][at - 1] == last);
            WT_CHECK_INT(dst[i][sizes[i] * (size_t)nranks], 0);
            memset(dst[i], 0, (sizes[i] * (size_t)nranks + 1) * 8);
            WT_CHECK_OK(weft_request_free(req[i]));
        }
    }
    for (int i = 0; i < FLIGHT; i++) {
        free(src[i]);
        free(dst[i]);
    }
    ft_close(&f);
}

static void in_flight(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(3, flight, "eight operations in flight", 30000), 0);
}

/* ---- Several communicators ---- */

static void sum_over(weft_comm *comm, int value, weft_request **req, int64_t pair[2])
{
    pair[0] = value;
    WT_CHECK_OK(weft_all_reduce(comm, &pair[0], &pair[1], 1, WEFT_INT64, WEFT_SUM, req));
}

static void families(int rank, int nranks, void *arg)
{
    weft_comm *dup, *parity, *reversed, *none, *again;
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    int64_t pairs[4][2];
    weft_request *req[4];
    struct ft_rank f;
    const char *name;
    int r, n, odd_sum = 0;

    ft_open(&f, arg, 20000, rank, nranks);
    config.name = "reversed";
    WT_REQUIRE_OK(weft_comm_dup(f.comm, NULL, &dup));
    WT_REQUIRE_OK(weft_comm_split(f.comm, rank % 2, rank, NULL, &parity));
    WT_REQUIRE_OK(weft_comm_split(dup, 7, -rank, &config, &reversed));
    WT_REQUIRE_OK(weft_comm_split(f.comm, rank == 0 ? WEFT_COLOR_NONE : 3, 0, NULL, &none));
    WT_CHECK((none == NULL) == (rank == 0));
    WT_CHECK_OK(weft_comm_rank(reversed, &r));
    WT_CHECK_OK(weft_comm_size(reversed, &n));
    WT_CHECK(r == nranks - 1 - rank && n == nranks);
    WT_CHECK_OK(weft_comm_name(reversed, &name));
    WT_CHECK_STR(name, "reversed");
    for (int i = rank % 2; i < nranks; i += 2)
        odd_sum += i;
    for (int round = 0; round < 50; round++) {
        int all = nranks * (nranks - 1) / 2;
        sum_over(f.comm, rank + round, &req[0], pairs[0]);
        sum_over(dup, rank, &req[1], pairs[1]);
        sum_over(parity, rank, &req[2], pairs[2]);
        sum_over(reversed, rank, &req[3], pairs[3]);
        WT_CHECK_OK(round % 2 ? weft_wait_all(req, 4) : weft_wait(req[3]));
        for (int i = 3; i >= 0; i--) {
            WT_CHECK_OK(weft_wait(req[i]));
            WT_CHECK_OK(weft_request_free(req[i]));
        }
        WT_CHECK_INT(pairs[0][1], all + nranks * round);
        WT_CHECK_INT(pairs[1][1], all);
        WT_CHECK_INT(pairs[2][1], odd_sum);
        WT_CHECK_INT(pairs[3][1], all);
        if (none) {
            sum_over(none, rank, NULL, pairs[0]);
            WT_CHECK_INT(pairs[0][1], all);
        }
    }
    WT_CHECK_STATUS(weft_context_destroy(f.context), WEFT_EBUSY);
    for (int i = 0; i < 20; i++) {
        WT_REQUIRE_OK(weft_comm_dup(reversed, NULL, &again));
        sum_over(again, 1, NULL, pairs[0]);
        WT_CHECK_INT(pairs[0][1], nranks);
        WT_CHECK_OK(weft_comm_destroy(again));
    }
    WT_CHECK_OK(weft_comm_destroy(none));
    WT_CHECK_OK(weft_comm_destroy(dup));
    WT_CHECK_OK(weft_comm_destroy(parity));
    WT_CHECK_OK(weft_comm_destroy(reversed));
    ft_close(&f);
}

static void communicators(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(4, families, "communicators", 30000), 0);
}

/* ---- Ways to create one ---- */

struct seat {
    const char *dir;
    int rank, nranks, calls;
};

/* Through files, as simply as can be. */
static int by_files(void *arg, const void *mine, size_t bytes, void *all, uint64_t timeout_ns)
{
    struct seat *s = arg;
    char path[512], whole[530];
    int turn = s->calls++;
    FILE *f;

    (void)timeout_ns;
    snprintf(path, sizeof path, "%s/oob.%d.%d", s->dir, turn, s->rank);
    f = fopen(path, "wb");
    if (!f || fwrite(mine, 1, bytes, f) != bytes || fclose(f))
        return -1;
    wt_sync();
    for (int r = 0; r < s->nranks; r++) {
        snprintf(whole, sizeof whole, "%s/oob.%d.%d", s->dir, turn, r);
        f = fopen(whole, "rb");
        if (!f || fread((char *)all + (size_t)r * bytes, 1, bytes, f) != bytes || fclose(f))
            return -1;
    }
    wt_sync();
    return 0;
}

static void check_works(weft_comm *comm, int nranks)
{
    int64_t pair[2] = {3, 0};

    WT_CHECK_OK(weft_all_reduce(comm, &pair[0], &pair[1], 1, WEFT_INT64, WEFT_SUM, NULL));
    WT_CHECK_INT(pair[1], 3 * nranks);
    WT_CHECK_OK(weft_comm_destroy(comm));
}

static int fails_here(void *arg, const void *mine, size_t bytes, void *all, uint64_t timeout_ns)
{
    (void)arg, (void)mine, (void)bytes, (void)all, (void)timeout_ns;
    return 5;
}

static void creations(int rank, int nranks, void *arg)
{
    struct seat seat = {arg, rank, nranks, 0};
    weft_oob oob = {sizeof oob, rank, nranks, by_files, &seat};
    unsigned char ids[4 * sizeof(weft_unique_id)];
    weft_unique_id id;
    weft_context *context;
    weft_comm *comm, *world;
    char path[512];

    memset(&id, 0, sizeof id);
    WT_REQUIRE_OK(weft_context_create(NULL, &context));
    WT_REQUIRE_OK(weft_comm_create_env(context, NULL, &world));
    if (rank == 0)
        WT_REQUIRE_OK(weft_unique_id_create(context, &id));
    WT_REQUIRE(by_files(&seat, &id, sizeof id, ids, 0) == 0);
    memcpy(&id, ids, sizeof id);
    WT_REQUIRE_OK(weft_comm_create_id(context, &id, rank, nranks, NULL, &comm));
    check_works(comm, nranks);
    snprintf(path, sizeof path, "%s/meeting", (const char *)arg);
    WT_REQUIRE_OK(weft_comm_create_file(context, path, rank, nranks, NULL, &comm));
    check_works(comm, nranks);
    WT_REQUIRE_OK(weft_comm_create_oob(context, &oob, NULL, &comm));
    check_works(comm, nranks);
    oob.all_gather = fails_here;
    comm = (weft_comm *)&seat;
    WT_CHECK(weft_comm_create_oob(context, &oob, NULL, &comm) < 0);
    WT_CHECK(comm == (weft_comm *)&seat); /* outputs are written only on success */
    WT_CHECK(strlen(weft_thread_error()) > 0);
    check_works(world, nranks);
    WT_CHECK_OK(weft_context_destroy(context));
}

static void ways_in(void)
{
    CU_ASSERT_EQUAL(wt_run(3, creations, (void *)(uintptr_t)wt_temp_dir(), 30000), 0);
}

/* ---- Ranks and hosts ---- */

/* Of a communicator in which the ranks of two nodes alternate, and of one in which they stand the other way round. */
static void neighbours(int rank, int nranks, void *arg)
{
    int mine = 0, before = 0, local = -1, nlocal = -1;
    char node[8];
    weft_comm *reversed;
    struct ft_rank f;
    const char *host;

    snprintf(node, sizeof node, "n%d", rank % 2);
    setenv("WEFT_NODE_ID", node, 1);
    ft_open(&f, arg, 20000, rank, nranks);
    WT_REQUIRE_OK(weft_comm_split(f.comm, 0, -rank, NULL, &reversed));
    for (int r = rank % 2; r < nranks; r += 2) {
        mine++;
        before += r < rank;
    }
    WT_CHECK_OK(weft_comm_local(f.comm, &local, &nlocal));
    WT_CHECK_INT(local, before);
    WT_CHECK_INT(nlocal, mine);
    WT_CHECK_OK(weft_comm_local(reversed, &local, &nlocal));
    WT_CHECK_INT(local, mine - 1 - before);
    WT_CHECK_INT(nlocal, mine);
    for (int r = 0; r < nranks; r++) {
        host = NULL;
        snprintf(node, sizeof node, "n%d", (nranks - 1 - r) % 2);
        WT_CHECK_OK(weft_comm_host(reversed, r, &host));
        WT_CHECK_STR(host, node); /* the name that the node was given */
    }
    WT_CHECK_OK(weft_comm_destroy(reversed));
    ft_close(&f);
}

static void hosts(void)
{
    CU_ASSERT_EQUAL(wt_run(6, neighbours, (void *)(uintptr_t) "shm,tcp", 30000), 0);
}

static const struct wt_case cases[] = {
    {"a thousand messages in groups", message_storm},
    {"messages of all lengths", all_messages},
    {"operations in flight", in_flight},
    {"communicators of communicators", communicators},
    {"places among the ranks of a node", hosts},
    {"creation by id, file and exchange", ways_in},
};
WT_UNIT_MAIN("api", cases)
