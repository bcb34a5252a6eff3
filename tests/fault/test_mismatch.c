/* Ranks that disagree about what they call: all of them hear of it, by name, before any deadline.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <stdlib.h>
#include <unistd.h>

#include "../unit/unit.h"
#include <weft/weft_compress.h>

enum { RANKS = 3, ODD = 1, MOST = 1 << 16, DEADLINE_MS = 6000 };
enum what {
    KIND,
    COUNT,
    LONG_COUNT,
    DTYPE,
    OP,
    ORDER,
    ALGORITHM,
    NAMED,
    LEVELS,
    GATHERED, /* counts of which the sum and the rank's own are alike */
    SCATTERED,
    NUM_WHATS,
    ROOT = NUM_WHATS
};

static const char *const what_names[] = {"kind",
                                         "count",
                                         "count of long vectors",
                                         "dtype",
                                         "op",
                                         "order",
                                         "algorithm",
                                         "named",
                                         "levels",
                                         "counts of all_gather_v",
                                         "counts of reduce_scatter_v",
                                         "root"};
/* What the message must name: the operation here and there. */
static const char *const usual_texts[] = {"all_reduce #2",
                                          "4 int32",
                                          "60000 int32",
                                          "int32",
                                          "sum",
                                          "all_reduce #2",
                                          "knomial",
                                          "no algorithm",
                                          "node:rdouble/ring",
                                          "all_gather_v #2",
                                          "reduce_scatter_v #2",
                                          "root 0"};
static const char *const odd_texts[] = {"all_gather #2",
                                        "5 int32",
                                        "60001 int32",
                                        "float",
                                        "max",
                                        "all_gather #2",
                                        "rdouble",
                                        "rdouble",
                                        "node:knomial@leader",
                                        "with other per-rank counts",
                                        "with other per-rank counts",
                                        "root 1"};

struct cell {
    const char *transport;
    enum what what;
    int request;
};

static int32_t src[RANKS * MOST], dst[RANKS * MOST];

static weft_status call(struct ft_rank *f, const struct cell *c, int odd, weft_request **req)
{
    size_t n = c->what == LONG_COUNT ? 60000 : 4, counts[RANKS] = {odd ? 6 : 4, 4, odd ? 4 : 6};

    switch (c->what) {
    case KIND:
    case ORDER:
        return odd ? weft_all_gather(f->comm, src, dst, n, WEFT_INT32, req)
                   : weft_all_reduce(f->comm, src, dst, n, WEFT_INT32, WEFT_SUM, req);
    case COUNT:
    case LONG_COUNT:
        return weft_all_reduce(f->comm, src, dst, n + (size_t)odd, WEFT_INT32, WEFT_SUM, req);
    case ALGORITHM:
        return wt_issue(f->comm, wt_call(WEFT_KIND_ALL_REDUCE, src, dst, n, WEFT_INT32), odd ? "rdouble" : "knomial",
                        req);
    case NAMED:
        return wt_issue(f->comm, wt_call(WEFT_KIND_ALL_REDUCE, src, dst, n, WEFT_INT32), odd ? "rdouble" : NULL, req);
    case LEVELS:
        return wt_issue(f->comm, wt_call(WEFT_KIND_ALL_REDUCE, src, dst, n, WEFT_INT32),
                        odd ? odd_texts[LEVELS] : usual_texts[LEVELS], req);
    case GATHERED:
        return weft_all_gather_v(f->comm, src, dst, counts, NULL, WEFT_INT32, req);
    case SCATTERED:
        return weft_reduce_scatter_v(f->comm, src, dst, counts, WEFT_INT32, WEFT_SUM, req);
    case DTYPE:
        return weft_all_reduce(f->comm, src, dst, n, odd ? WEFT_FLOAT32 : WEFT_INT32, WEFT_SUM, req);
    case OP:
        return weft_all_reduce(f->comm, src, dst, n, WEFT_INT32, odd ? WEFT_MAX : WEFT_SUM, req);
    default:
        return weft_broadcast(f->comm, src, dst, n, WEFT_INT32, odd, req);
    }
}

static weft_status finish(weft_request *req, weft_status st)
{
    return st >= 0 && req ? weft_wait(req) : st;
}

/* The operation that disagrees; for ORDER the other one behind it. */
static weft_status disagree(struct ft_rank *f, const struct cell *c)
{
    weft_request *first = NULL, *second = NULL;
    int odd = f->rank == ODD;
    weft_status st = call(f, c, odd, c->request ? &first : NULL), next = WEFT_SUCCESS;

    if (c->what == ORDER && st >= 0)
        next = call(f, c, !odd, c->request ? &second : NULL);
    st = finish(first, st);
    next = finish(second, next);
    st = st < 0 ? st : next;
    weft_request_free(first);
    weft_request_free(second);
    return st;
}

static void check_message(const struct ft_rank *f, const struct cell *c)
{
    weft_error e = ft_error(f);
    int odd = f->rank == ODD;
    const char *mine = odd ? odd_texts[c->what] : usual_texts[c->what];
    const char *theirs = odd ? usual_texts[c->what] : odd_texts[c->what];

    WT_CHECK_INT(e.status, WEFT_EMISMATCH);
    WT_CHECK(e.peer >= 0 && e.peer < RANKS && (odd ? e.peer != ODD : e.peer == ODD || c->what == ORDER));
    WT_CHECK_INT(e.seq, 2);
    /* Out of order, the peer may be in its next operation by now: then only its rank is known. */
    if (!strstr(e.message, mine) || (!strstr(e.message, theirs) && c->what != ORDER) || !strstr(e.message, e.host))
        wt_fail(__FILE__, __LINE__, "\"%s\" and \"%s\" (host %s) are not both in: %s", mine, theirs, e.host, e.message);
}

static void body(int rank, int nranks, void *arg)
{
    const struct cell *c = arg;
    struct ft_rank f;
    uint64_t began;
    weft_status st;

    if (c->what == LEVELS)
        setenv("WEFT_NODE_ID", rank < 2 ? "one" : "two", 1);
    ft_open(&f, c->transport, DEADLINE_MS, rank, nranks);
    wt_sync();
    began = wt_now_ms();
    st = disagree(&f, c);
    if (st >= 0) /* it had all it needed, such as the root of a broadcast: the next operation tells */
        st = weft_barrier(f.comm, NULL);
    WT_CHECK_STATUS(st, WEFT_EMISMATCH);
    WT_CHECK(wt_now_ms() - began < wt_slow_ms(DEADLINE_MS / 2));
    if (st == WEFT_EMISMATCH)
        check_message(&f, c);
    else
        fprintf(stderr, "%s\n", weft_thread_error());
    WT_CHECK_STATUS(weft_comm_status(f.comm), st);
    WT_CHECK_STATUS(weft_barrier(f.comm, NULL), st);
    ft_close(&f);
}

static void matrix(const char *transport)
{
    for (int what = 0; what < NUM_WHATS; what++) {
        for (int request = 0; request < 2; request++) {
            struct cell c = {transport, (enum what)what, request};
            int failed;
            if (what == LEVELS && strcmp(transport, "shm") == 0)
                continue; /* that joins no nodes */
            failed = wt_run(RANKS, body, &c, 15000);
            if (failed)
                printf("# %s over %s, %s: %d ranks failed\n", what_names[what], transport,
                       request ? "request" : "blocking", failed);
            CU_ASSERT_EQUAL(failed, 0);
        }
    }
}

static void over_shm(void)
{
    matrix("shm");
}

static void over_tcp(void)
{
    matrix("tcp");
}

/* ---- Roots: a root waits for no rank, and the others may only hear of it from a later operation ---- */

static void roots(int rank, int nranks, void *arg)
{
    const struct cell *c = arg;
    struct ft_rank f;
    weft_status st;

    ft_open(&f, c->transport, DEADLINE_MS, rank, nranks);
    wt_sync();
    st = disagree(&f, c);
    for (int i = 0; i < 4 && st >= 0; i++)
        st = weft_all_reduce(f.comm, src, dst, 4, WEFT_INT32, WEFT_SUM, NULL);
    /* Where messages are all there is, a rank may wait for one that the others never send: then the deadline tells. */
    if (st != WEFT_ETIMEDOUT || strcmp(c->transport, "shm") == 0)
        WT_CHECK_STATUS(st, WEFT_EMISMATCH);
    ft_close(&f);
}

static void disagreeing_roots(void)
{
    static const char *const transports[] = {"shm", "tcp"};

    for (int t = 0; t < 2; t++) {
        for (int request = 0; request < 2; request++) {
            struct cell c = {transports[t], ROOT, request};
            CU_ASSERT_EQUAL(wt_run(RANKS, roots, &c, 15000), 0);
        }
    }
}

/* ---- A call that one rank does not make ---- */

static void missing(int rank, int nranks, void *arg)
{
    const struct cell *c = arg;
    weft_request *req = NULL;
    struct ft_rank f;
    uint64_t began;
    weft_status st;

    ft_open(&f, c->transport, 700, rank, nranks);
    wt_sync();
    began = wt_now_ms();
    if (rank != ODD) {
        st = weft_all_reduce(f.comm, src, dst, 4, WEFT_INT32, WEFT_SUM, c->request ? &req : NULL);
        st = finish(req, st);
        WT_CHECK_STATUS(st, WEFT_ETIMEDOUT);
        WT_CHECK(wt_now_ms() - began >= 600 && wt_now_ms() - began < wt_slow_ms(2000));
        weft_error e = ft_error(&f);
        WT_CHECK_INT(e.peer, ODD);
        WT_CHECK(strstr(e.message, "all_reduce #2") && strstr(e.message, "rank 1"));
        if (wt_failures())
            fprintf(stderr, "%s: %s\n", weft_status_name(st), e.message);
        weft_request_free(req);
    }
    wt_sync();
    if (rank == ODD) { /* late: the others have given up */
        st = weft_barrier(f.comm, NULL);
        WT_CHECK(st == WEFT_EPEER || st == WEFT_ETIMEDOUT || st == WEFT_EMISMATCH);
        WT_CHECK(wt_now_ms() - began < wt_slow_ms(4000));
    }
    wt_sync();
    ft_close(&f);
}

static void missing_call(void)
{
    static const char *const transports[] = {"shm", "tcp"};

    for (int t = 0; t < 2; t++) {
        for (int request = 0; request < 2; request++) {
            struct cell c = {transports[t], KIND, request};
            int failed = wt_run(RANKS, missing, &c, 15000);
            if (failed)
                printf("# missing call over %s, %s\n", transports[t], request ? "request" : "blocking");
            CU_ASSERT_EQUAL(failed, 0);
        }
    }
}

/* ---- Settings ---- */

/* Each that changes what the ranks choose, or where their memory lies: no communicator is made, and it is among those named. */
static void other_setting(int rank, int nranks, void *arg)
{
    const char *odd = arg, *settings[] = {"TRANSPORTS=shm", rank == ODD ? odd : NULL, NULL};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    weft_context *context = NULL;
    weft_comm *comm = NULL;
    char name[64];

    config.settings = settings;
    WT_REQUIRE_OK(weft_context_create(&config, &context));
    WT_CHECK_STATUS(weft_comm_create_env(context, NULL, &comm), WEFT_EMISMATCH);
    snprintf(name, sizeof name, "WEFT_%.*s", (int)strcspn(odd, "="), odd);
    if (!strstr(weft_thread_error(), name) || !strstr(weft_thread_error(), "has other "))
        wt_fail(__FILE__, __LINE__, "%s of %d: %s", name, nranks, weft_thread_error());
    WT_CHECK(comm == NULL);
    WT_CHECK_OK(weft_context_destroy(context));
}

static void disagreeing_settings(void)
{
    static const char *const odd[] = {"ALGO=all_reduce:ring", "COMM_SLICE_BYTES=1M", "TOPO_DISCOVER=never",
                                      "COMM_EAGER_BYTES=1K",  "COMM_EARLY_BYTES=4K", "MEASURE_RATES=y",
                                      "SHM_DEPTH=16",         "SHM_SLOT_BYTES=64K",  "SHM_STAGE_SLOT_BYTES=256K"};

    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        CU_ASSERT_EQUAL(wt_run(2, other_setting, (void *)(uintptr_t)odd[i], 20000), 0);
}

/* ---- Messages: what the sender hears, which has nothing left to compare, and the flight recorder ---- */

struct told {
    const char *transport;
    int64_t tag;
    int source; /* that the receiver names */
};

static void check_dump(weft_comm *comm, const char *part)
{
    char path[600], text[8192];
    FILE *f;

    snprintf(path, sizeof path, "%s/dump.json", wt_temp_dir());
    WT_REQUIRE_OK(weft_comm_dump(comm, path));
    f = fopen(path, "r");
    WT_REQUIRE(f != NULL);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    if (!strstr(text, part))
        wt_fail(__FILE__, __LINE__, "\"%s\" is not in: %s", part, text);
}

static void check_says(weft_comm *comm, const char *operation, const char *part, const char *not_part)
{
    weft_error e = WEFT_ERROR_INIT;

    WT_REQUIRE_OK(weft_last_error(comm, &e));
    WT_CHECK_STR(e.operation, operation);
    if (!strstr(e.message, part) || (not_part && strstr(e.message, not_part)))
        wt_fail(__FILE__, __LINE__, "\"%s\" is not in, or \"%s\" is: %s", part, not_part ? not_part : "", e.message);
}

/* On a communicator on which nothing was exchanged before. */
static void short_receive(int rank, int nranks, void *arg)
{
    const struct told *c = arg;
    int64_t words[4] = {1, 2, 3, 4};
    struct ft_rank f;
    weft_comm *fresh;
    char part[64];

    ft_open(&f, c->transport, DEADLINE_MS, rank, nranks);
    WT_REQUIRE_OK(weft_comm_dup(f.comm, NULL, &fresh));
    if (rank == 0) {
        WT_CHECK(weft_send(fresh, words, 4, WEFT_INT64, 1, c->tag, NULL) != WEFT_EINVAL);
        WT_CHECK_STATUS(weft_recv(fresh, words, 1, WEFT_INT64, 1, c->tag, NULL), WEFT_EMISMATCH);
        check_says(fresh, "recv", "rank 1 gave up in recv #1 (3 int64", "aborted");
        check_says(fresh, "recv", "rank 0 called send #1 (4 int64", "all_reduce");
    } else {
        WT_CHECK_STATUS(weft_recv(fresh, words, 3, WEFT_INT64, c->source, c->tag, NULL), WEFT_EMISMATCH);
        check_says(fresh, "recv", "rank 0 called send #1 (4 int64", "gave up");
        check_dump(fresh,
                   "\"is_p2p\": true, \"collective_seq_id\": 0, \"p2p_seq_id\": 1, \"profiling_name\": \"weft:recv\", "
                   "\"state\": \"failed\", \"algorithm\": \"p2p\"");
        snprintf(part, sizeof part, "\"peer\": 0, \"tag\": %d, ", (int)c->tag);
        check_dump(fresh, part);
    }
    wt_sync();
    WT_CHECK_OK(weft_comm_destroy(fresh));
    ft_close(&f);
}

static void never_sent(int rank, int nranks, void *arg)
{
    const struct told *c = arg;
    int64_t word;
    struct ft_rank f;
    weft_comm *fresh;

    ft_open(&f, c->transport, DEADLINE_MS, rank, nranks);
    WT_REQUIRE_OK(weft_comm_dup(f.comm, NULL, &fresh));
    if (rank == 1) {
        WT_REQUIRE_OK(weft_comm_set_timeout(fresh, 300 * FT_MS));
        WT_CHECK_STATUS(weft_recv(fresh, &word, 1, WEFT_INT64, 0, c->tag, NULL), WEFT_ETIMEDOUT);
        check_says(fresh, "recv", c->tag ? "recv (1 int64, tag" : "recv #1 (1 int64", "#0");
    } else {
        WT_CHECK_STATUS(weft_recv(fresh, &word, 1, WEFT_INT64, 1, c->tag, NULL), WEFT_ETIMEDOUT);
        check_says(fresh, "recv", c->tag ? "rank 1 gave up in recv (1 int64, tag" : "rank 1 gave up in recv #1 (1",
                   "aborted");
    }
    wt_sync();
    WT_CHECK_OK(weft_comm_destroy(fresh));
    ft_close(&f);
}

static void messages(void)
{
    static const struct told cells[] = {
        {"shm", 0, 0}, {"shm", 7, 0}, {"tcp", 0, 0}, {"tcp", 7, 0}, {"tcp", 7, WEFT_ANY_SOURCE},
    };

    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        int a = wt_run(2, short_receive, (void *)(uintptr_t)&cells[i], 30000);
        int b = cells[i].source ? 0 : wt_run(2, never_sent, (void *)(uintptr_t)&cells[i], 30000);
        if (a || b)
            printf("# over %s, tag %d: %d, %d ranks failed\n", cells[i].transport, (int)cells[i].tag, a, b);
        CU_ASSERT_EQUAL(a + b, 0);
    }
}

/* ---- Labels ---- */

enum how { ISSUED, PERSISTENT, GROUPED, BATCH, HOWS };

static weft_status call_labelled(struct ft_rank *f, enum how how, const char *label)
{
    static const char *const hows[] = {"issued", "persistent", "grouped", "batch"};
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    float ones[64] = {1}, sums[64];
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, ones, sums, 64, WEFT_FLOAT32);
    weft_batch_item item = {.src = ones, .dst = sums, .count = 64};
    weft_collective_info info = WEFT_COLLECTIVE_INFO_INIT;
    weft_request *req = NULL;
    char text[200]; /* the library has a copy */
    weft_status st;

    snprintf(text, sizeof text, "%s", label);
    options.label = text;
    call.options = &options;
    if (how == BATCH)
        call.src = call.dst = NULL, call.count = 0;
    if (how == GROUPED)
        weft_group_start();
    st = how == PERSISTENT ? weft_persistent(f->comm, &call, &req)
         : how == BATCH    ? weft_issue_batch(f->comm, &call, &item, 1, &req)
                           : weft_issue(f->comm, &call, &req);
    memset(text, 'x', sizeof text - 1);
    if (how == PERSISTENT && st >= 0)
        st = weft_start(req);
    if (how == GROUPED)
        st = weft_group_end();
    if (st >= 0)
        st = weft_wait(req);
    if (req)
        weft_request_free(req);
    if (st >= 0) {
        WT_CHECK_OK(weft_comm_newest_collective(f->comm, &info));
        if (strncmp(info.label, label, 63) != 0 || strlen(info.label) > 63)
            wt_fail(__FILE__, __LINE__, "%s: the newest collective is for \"%s\", not \"%s\"", hows[how], info.label,
                    label);
        WT_CHECK(sums[0] == (float)f->nranks);
    }
    return st;
}

struct labels {
    const char *transport;
    enum how how;
};

/* Two layers of one size, which one rank calls in the other order. */
static void swapped(int rank, int nranks, void *arg)
{
    const struct labels *l = arg;
    const char *names[] = {"layer1.weight", "layer2.weight"};
    struct ft_rank f;

    ft_open(&f, l->transport, DEADLINE_MS, rank, nranks);
    for (int i = 0; i < 4; i++) /* each knows both by then */
        WT_CHECK_OK(call_labelled(&f, (enum how)((i + l->how) % HOWS), names[i % 2]));
    wt_sync(); /* or a rank hears of the failure in the call before */
    WT_CHECK_STATUS(call_labelled(&f, l->how, names[rank == ODD]), WEFT_EMISMATCH);
    check_says(f.comm, "all_reduce",
               rank == ODD ? "for \"layer2.weight\" communicator" : "for \"layer1.weight\" communicator", NULL);
    check_says(f.comm, "all_reduce", "here too, but there it is for \"layer", NULL);
    check_dump(f.comm, "\"label\": \"layer1.weight\"");
    ft_close(&f);
}

/* The end of a long one counts, and so does that there is one; what only another rank has used has no text here. */
static void other_labels(int rank, int nranks, void *arg)
{
    static const char *const pairs[][2] = {
        {"a label of so many bytes that its end, which is another one on one rank, is not kept: 1",
         "a label of so many bytes that its end, which is another one on one rank, is not kept: 2"},
        {"one", "another"},
    };

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct ft_rank f;
        ft_open(&f, arg, DEADLINE_MS, rank, nranks);
        wt_sync(); /* as above */
        WT_CHECK_STATUS(call_labelled(&f, ISSUED, pairs[i][rank == ODD]), WEFT_EMISMATCH);
        check_says(f.comm, "all_reduce", "codec, tensor or label named", NULL);
        ft_close(&f);
    }
}

/* Whom a rank waits for, and in what. */
static void late(int rank, int nranks, void *arg)
{
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    WT_CHECK_OK(weft_comm_set_timeout(f.comm, wt_slow_ms(300) * FT_MS));
    if (rank != ODD) {
        WT_CHECK_STATUS(call_labelled(&f, ISSUED, "head.bias"), WEFT_ETIMEDOUT);
        check_says(f.comm, "all_reduce", "for \"head.bias\" communicator", NULL);
    }
    wt_sync();
    ft_close(&f);
}

static void no_label(int rank, int nranks, void *arg)
{
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_call call = wt_call(WEFT_KIND_BARRIER, NULL, NULL, 0, WEFT_UINT8);
    struct ft_rank f;

    ft_open(&f, arg, DEADLINE_MS, rank, nranks);
    options.label = "";
    call.options = &options;
    WT_CHECK_STATUS(weft_issue(f.comm, &call, NULL), WEFT_EINVAL);
    WT_CHECK(strstr(weft_thread_error(), "the label is \"\"") != NULL);
    ft_close(&f);
}

static void labels(void)
{
    static const char *const transports[] = {"shm", "tcp"};

    for (int t = 0; t < 2; t++) {
        void *transport = (void *)(uintptr_t)transports[t];
        for (int how = 0; how < HOWS; how++) {
            struct labels l = {transports[t], (enum how)how};
            CU_ASSERT_EQUAL(wt_run(RANKS, swapped, &l, 30000), 0);
        }
        CU_ASSERT_EQUAL(wt_run(RANKS, other_labels, transport, 30000), 0);
        CU_ASSERT_EQUAL(wt_run(RANKS, late, transport, 30000), 0);
        CU_ASSERT_EQUAL(wt_run(1, no_label, transport, 30000), 0);
    }
}

static const struct wt_case cases[] = {
    {"ranks that disagree, over shm", over_shm},
    {"ranks that disagree, over tcp", over_tcp},
    {"a rank that does not call", missing_call},
    {"ranks that disagree about the root", disagreeing_roots},
    {"what is said of messages that differ or never come", messages},
    {"ranks with different settings", disagreeing_settings},
    {"ranks that say that calls are for something else", labels},
};
WT_UNIT_MAIN("mismatch", cases)
