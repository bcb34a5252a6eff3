/* The library over a transport that is as strict as a network card: which rank reaches which, whose memory is whose, registrations.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <stdlib.h>

#include "../unit/unit.h"
#include "comm/comm.h"
#include "net/channel_group.h"
#include "tests/conform/fake_rdma.h"

static char path[600];

static void open_context(struct ft_rank *f, int rank, int nranks, const char *transports, const char *const *more)
{
    const char *settings[8] = {transports, path, "PROGRESS_THREAD=n"};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;

    for (int i = 0; more && more[i] && i < 4; i++)
        settings[3 + i] = more[i];
    config.settings = settings;
    *f = (struct ft_rank){.rank = rank, .nranks = nranks};
    wt_sync();
    for (int r = 0; r < nranks; r++) { /* one after the other: who is opened later is a matter of rank */
        if (r == rank)
            WT_REQUIRE_OK(weft_context_create(&config, &f->context));
        wt_sync();
    }
}

static weft_status create(struct ft_rank *f)
{
    weft_oob oob = {sizeof oob, f->rank, f->nranks, wt_exchange, NULL};

    return weft_comm_create_oob(f->context, &oob, NULL, &f->comm);
}

/* ---- Routes ---- */

static const char *const upwards[] = {"FAKERDMA_REACH=up", NULL};
static const char *const everybody[] = {"FAKERDMA_REACH=all", NULL};
static const char *const nobody[] = {"FAKERDMA_REACH=none", NULL};

static void uses(struct ft_rank *f, int peer, const char *transport)
{
    const struct wi_mesh *mesh = f->comm->mesh;
    const char *told = wi_routes_pair(&mesh->routes, f->rank, peer),
               *back = wi_routes_pair(&mesh->routes, peer, f->rank);

    WT_REQUIRE(told && back);
    WT_CHECK(strcmp(told, transport) == 0 && strcmp(back, transport) == 0);
    WT_CHECK(strcmp(mesh->groups[mesh->links[peer].index].transport->plugin->name, transport) == 0);
}

/* What the planner is told of the transport between all ranks. */
static void facts_are(const struct ft_rank *f, const char *name, uint32_t caps)
{
    struct wi_plan_facts facts = {.nranks = f->nranks};

    WT_REQUIRE_OK(wi_comm_served(f->comm, &facts));
    WT_CHECK(name ? facts.all.name && strcmp(facts.all.name, name) == 0 : !facts.all.name);
    WT_CHECK_INT(facts.all.caps & (WEFT_CAP_REGISTER | WEFT_CAP_GET | WEFT_CAP_PUT | WEFT_CAP_SINK), caps);
}

static void one_way_is_left_out(int rank, int nranks, void *arg)
{
    int one = 1, sum = 0;
    struct ft_rank f;

    (void)arg;
    open_context(&f, rank, nranks, "TRANSPORTS=fakerdma,tcp", upwards);
    WT_REQUIRE_OK(create(&f));
    for (int r = 0; r < nranks; r++)
        if (r != rank)
            uses(&f, r, "tcp");
    facts_are(&f, "tcp", WEFT_CAP_SINK);
    WT_CHECK_OK(weft_all_reduce(f.comm, &one, &sum, 1, WEFT_INT32, WEFT_SUM, NULL));
    WT_CHECK_INT(sum, nranks);
    ft_close(&f);
}

struct seen {
    int fast, slow;
    weft_route_info of_fast;
};

static void see(void *arg, const weft_route_info *route)
{
    struct seen *seen = arg;

    seen->slow += strcmp(route->transport, "tcp") == 0 && route->used && !route->memory;
    if (strcmp(route->transport, "fakerdma") == 0) {
        seen->fast++;
        seen->of_fast = *route;
    }
}

/* What a program is told: the last rank's card reaches nobody. */
static void told(struct ft_rank *f)
{
    weft_peer_info info = WEFT_PEER_INFO_INIT;
    int last = f->nranks - 1, alone = f->rank == last;
    struct seen seen = {0};

    WT_REQUIRE_OK(weft_comm_peer(f->comm, alone ? 0 : last, &info));
    WT_CHECK(strcmp(info.transport, "tcp") == 0 && info.node == 0 && info.same_node && *info.host && *info.state);
    WT_CHECK(
        strstr(info.left_out, alone ? "fakerdma reaches this rank from rank 0 on host " : "fakerdma reaches rank ") &&
        strstr(info.left_out, ", but not back"));
    WT_REQUIRE_OK(weft_comm_routes(f->comm, alone ? 0 : last, see, &seen));
    WT_CHECK(seen.fast == 1 && seen.slow == 1 && seen.of_fast.here && seen.of_fast.there && !seen.of_fast.used);
    WT_CHECK(seen.of_fast.reaches == !alone && seen.of_fast.reached == alone &&
             seen.of_fast.bytes == sizeof seen.of_fast);
    if (!alone && last > 1) {
        WT_REQUIRE_OK(weft_comm_peer(f->comm, f->rank ? 0 : 1, &info));
        WT_CHECK(strcmp(info.transport, "fakerdma") == 0 && !*info.left_out);
    }
    WT_REQUIRE_OK(weft_comm_peer(f->comm, f->rank, &info));
    WT_CHECK(info.same_node && !*info.left_out);
    WT_CHECK_INT(weft_comm_peer(f->comm, f->nranks, &info), WEFT_EINVAL);
    WT_CHECK_INT(weft_comm_peer(f->comm, -1, &info), WEFT_EINVAL);
    WT_CHECK(strstr(weft_thread_error(), "comm_peer: rank -1 is not of this communicator") != NULL);
    WT_CHECK_INT(weft_comm_peer(f->comm, 0, NULL), WEFT_EINVAL);
    WT_CHECK_INT(weft_comm_peer(NULL, 0, &info), WEFT_EINVAL);
    info.bytes = 3;
    WT_CHECK_INT(weft_comm_peer(f->comm, 0, &info), WEFT_EINVAL);
    WT_CHECK_INT(weft_comm_routes(f->comm, 0, NULL, NULL), WEFT_EINVAL);
    WT_CHECK_INT(weft_comm_routes(f->comm, f->nranks, see, &seen), WEFT_EINVAL);
    WT_CHECK_INT(weft_comm_routes(NULL, 0, see, &seen), WEFT_EINVAL);
}

/* The last rank has no card that reaches anybody: the others keep theirs. */
static void mixed(int rank, int nranks, void *arg)
{
    int one = 1, sum = 0;
    struct ft_rank f;

    (void)arg;
    open_context(&f, rank, nranks, "TRANSPORTS=fakerdma,tcp", rank == nranks - 1 ? nobody : everybody);
    WT_REQUIRE_OK(create(&f));
    for (int r = 0; r < nranks; r++)
        if (r != rank)
            uses(&f, r, r == nranks - 1 || rank == nranks - 1 ? "tcp" : "fakerdma");
    facts_are(&f, NULL, 0);
    told(&f);
    for (int i = 0; i < 5; i++)
        WT_CHECK_OK(weft_all_reduce(f.comm, &one, &sum, 1, WEFT_INT32, WEFT_SUM, NULL));
    WT_CHECK_INT(sum, nranks);
    ft_close(&f);
}

static void one_way_alone_is_named(int rank, int nranks, void *arg)
{
    struct ft_rank f;

    (void)arg;
    open_context(&f, rank, nranks, "TRANSPORTS=fakerdma", upwards);
    WT_CHECK(create(&f) < 0);
    WT_CHECK(strstr(weft_thread_error(), "but not back") != NULL);
    wt_sync();
    WT_CHECK_OK(weft_context_destroy(f.context));
}

/* ---- Whose memory ---- */

#define WORDS ((size_t)1 << 20)

static int all_are(const int32_t *words, int32_t value)
{
    for (size_t i = 0; i < WORDS; i++)
        if (words[i] != value)
            return 0;
    return 1;
}

static void given_up_one(int rank, int nranks, int rounds)
{
    int32_t *words = malloc(WORDS * sizeof *words);
    weft_request *req = NULL;
    struct ft_rank f;

    WT_REQUIRE(words != NULL);
    open_context(&f, rank, nranks, "TRANSPORTS=fakerdma", everybody);
    WT_REQUIRE_OK(create(&f));
    for (size_t i = 0; i < WORDS; i++)
        words[i] = rank ? 5 : 1;
    if (rank)
        WT_REQUIRE_OK(weft_send(f.comm, words, WORDS, WEFT_INT32, 0, 0, &req));
    else
        WT_REQUIRE_OK(weft_recv(f.comm, words, WORDS, WEFT_INT32, 1, 0, &req));
    for (int i = 0; i < 2 * rounds; i++) {
        if (i % 2 == rank)
            weft_test(req);
        wt_sync();
    }
    if (rank == 0) {
        weft_status st = weft_test(req);
        WT_CHECK_OK(weft_comm_abort(f.comm, "enough"));
        WT_CHECK(weft_wait(req) < 0 || st >= 0);
        for (size_t i = 0; i < WORDS; i++) /* it is ours again */
            words[i] = 9;
    }
    wt_sync();
    for (int i = 0; rank && i < 300; i++)
        weft_test(req);
    wt_sync();
    WT_CHECK(rank || all_are(words, 9));
    weft_comm_destroy(f.comm); /* and with it the request */
    WT_CHECK_OK(weft_context_destroy(f.context));
    free(words);
}

static void given_up(int rank, int nranks, void *arg)
{
    (void)arg;
    for (int rounds = 1; rounds < 14; rounds++)
        given_up_one(rank, nranks, rounds);
}

/* ---- Registrations ---- */

static int is_registered(const struct ft_rank *f, const void *from, size_t bytes)
{
    const struct wi_mesh *mesh = f->comm->mesh;
    struct wi_channel_group *g = mesh->groups[mesh->links[1 - f->rank].index].group;
    struct wi_lease *l = wi_channel_borrow(g, from, bytes);

    wi_channel_lease_end(g, l);
    return l != NULL;
}

/* What the program registers, and what weft allocates, is known to the card: nothing may be registered for a message. */
static void registered(int rank, int nranks, void *arg)
{
    static const char *const names[] = {"TRANSPORTS=fakerdma", "TRANSPORTS=fakerdma,tcp"};
    int32_t *ours = malloc(WORDS * 4);
    void *theirs;
    weft_mem *mem;
    struct ft_rank f;

    (void)arg;
    WT_REQUIRE(ours != NULL);
    for (int k = 0; k < 2; k++) {
        open_context(&f, rank, nranks, names[k], everybody);
        WT_REQUIRE_OK(create(&f));
        facts_are(&f, "fakerdma", WEFT_CAP_REGISTER | WEFT_CAP_GET | WEFT_CAP_PUT);
        WT_REQUIRE_OK(weft_mem_register(f.context, ours, WORDS * 4, &mem));
        WT_REQUIRE_OK(weft_mem_alloc(f.context, WORDS * 4, &theirs));
        for (int turn = 0; turn < 2; turn++) {
            int32_t *words = turn ? theirs : ours;
            for (size_t i = 0; i < WORDS; i++)
                words[i] = rank ? 0 : 40 + turn;
            WT_CHECK(is_registered(&f, words + 5, 100));
            WT_CHECK(!is_registered(&f, words, WORDS * 4 + 1));
            WT_CHECK_OK(rank ? weft_recv(f.comm, words, WORDS, WEFT_INT32, 0, 0, NULL)
                             : weft_send(f.comm, words, WORDS, WEFT_INT32, 1, 0, NULL));
            WT_CHECK(all_are(words, 40 + turn));
        }
        wt_sync();
        WT_CHECK_OK(weft_mem_free(f.context, theirs));
        WT_CHECK_OK(weft_mem_deregister(mem));
        ft_close(&f);
    }
    free(ours);
}

/* ---- Connections that come later ---- */

/* The last rank does not respond to connecting ranks, or says something wrong: the first that needs it is told which and why. */
static void responds_badly(int rank, int nranks, const char *how, const char *timeout, weft_status status,
                           const char *text)
{
    char side[40];
    const char *bad[] = {"COMM_TIMEOUT=20s", side, NULL}, *good[] = {timeout, NULL};
    int one = 1, sum = 0;
    struct ft_rank f;
    weft_error error;
    weft_status st;

    snprintf(side, sizeof side, "FAKERDMA_SIDE=%s", how);
    open_context(&f, rank, nranks, "TRANSPORTS=fakerdma", rank == nranks - 1 ? bad : good);
    WT_REQUIRE_OK(create(&f)); /* nobody has to connect for that */
    st = weft_all_reduce(f.comm, &one, &sum, 1, WEFT_INT32, WEFT_SUM, NULL);
    WT_CHECK(st < 0);
    error = ft_error(&f);
    if (rank == 0) {
        WT_CHECK_STATUS(st, status);
        WT_CHECK_INT(error.peer, nranks - 1);
        if (!strstr(error.message, text) || !strstr(error.message, "fakerdma") || !strstr(error.message, "on host"))
            wt_fail(__FILE__, __LINE__, "%s", error.message);
    }
    weft_comm_destroy(f.comm); /* by which the other one hears of it */
    WT_CHECK_OK(weft_context_destroy(f.context));
}

static void connecting(int rank, int nranks, void *arg)
{
    (void)arg;
    responds_badly(rank, nranks, "silent", "COMM_TIMEOUT=400ms", WEFT_ETIMEDOUT, "rank 1");
    responds_badly(rank, nranks, "wrong", "COMM_TIMEOUT=20s", WEFT_EPROTO, "rank 1");
    responds_badly(rank, nranks, "large", "COMM_TIMEOUT=20s", WEFT_EPROTO, "4096 bytes, there is room for 16");
}

/* ---- Gets and puts of operations, over the card whose ranks load and store each other's arenas, too ---- */

#define PART ((size_t)1 << 18)

/* PART words of each rank, or of rank 0. */
static weft_status issue(struct ft_rank *f, weft_kind kind, const int32_t *src, int32_t *dst, const char *algorithm,
                         weft_request **req)
{
    weft_call call = WEFT_CALL_INIT;
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;

    call.kind = kind;
    call.src = src;
    call.dst = dst;
    call.count = PART;
    call.dtype = WEFT_INT32;
    options.algorithm = algorithm;
    call.options = &options;
    return weft_issue(f->comm, &call, req);
}

static weft_status gather(struct ft_rank *f, const int32_t *src, int32_t *dst, const char *algorithm,
                          weft_request **req)
{
    return issue(f, WEFT_KIND_ALL_GATHER, src, dst, algorithm, req);
}

static void fill_words(int32_t *words, size_t n, int32_t value)
{
    for (size_t i = 0; i < n; i++)
        words[i] = value;
}

static int words_are(const int32_t *words, size_t n, int32_t value)
{
    for (size_t i = 0; i < n; i++)
        if (words[i] != value)
            return 0;
    return 1;
}

static int gathered(const int32_t *dst, int nranks)
{
    int right = 1;

    for (int r = 0; r < nranks; r++)
        right &= words_are(dst + (size_t)r * PART, PART, r + 1);
    return right;
}

/* Rank 0 gives an operation up with gets under way, and has its buffers back: nobody reads or writes them any more. */
static void gets_given_up_one(int rank, int nranks, int rounds)
{
    static const char *const late[] = {"FAKECARD_LATE=6", NULL};
    int32_t *src = malloc(PART * 4), *dst = malloc(PART * 4 * (size_t)nranks);
    weft_request *req = NULL;
    struct ft_rank f;

    WT_REQUIRE(src && dst);
    open_context(&f, rank, nranks, "TRANSPORTS=fakecard", late);
    WT_REQUIRE_OK(create(&f));
    fill_words(src, PART, rank + 1);
    WT_REQUIRE_OK(gather(&f, src, dst, "direct", &req));
    for (int i = 0; i < 2 * rounds; i++) {
        if (i % 2 == rank)
            weft_test(req);
        wt_sync();
    }
    if (rank == 0) {
        weft_status st = weft_test(req);
        WT_CHECK_OK(weft_comm_abort(f.comm, "enough"));
        WT_CHECK(weft_wait(req) < 0 || st >= 0);
        fill_words(src, PART, 9);
        fill_words(dst, PART * (size_t)nranks, 9);
    }
    wt_sync();
    for (int i = 0; rank && i < 300; i++)
        weft_test(req);
    if (rank && weft_test(req) == WEFT_SUCCESS)
        WT_CHECK(gathered(dst, nranks)); /* what it read after that is not taken for sound */
    wt_sync();
    WT_CHECK(rank || (words_are(src, PART, 9) && words_are(dst, PART * (size_t)nranks, 9)));
    weft_comm_destroy(f.comm); /* and with it the request */
    WT_CHECK_OK(weft_context_destroy(f.context));
    free(src);
    free(dst);
}

static void gets_given_up(int rank, int nranks, void *arg)
{
    (void)arg;
    for (int rounds = 1; rounds < 16; rounds++)
        gets_given_up_one(rank, nranks, rounds);
}

/* One rank cannot register as much: all know, and none gets. A caller that asks for gets is told. */
static void without_keys(int rank, int nranks, void *arg)
{
    static const char *const little[] = {"FAKECARD_LARGEST=256K", NULL};
    int32_t *src = malloc(PART * 4), *dst = malloc(PART * 4 * (size_t)nranks);
    struct ft_rank f;

    (void)arg;
    WT_REQUIRE(src && dst);
    open_context(&f, rank, nranks, "TRANSPORTS=fakecard", rank == 1 ? little : NULL);
    WT_REQUIRE_OK(create(&f));
    fill_words(src, PART, rank + 1);
    WT_CHECK_OK(gather(&f, src, dst, NULL, NULL));
    WT_CHECK(gathered(dst, nranks));
    WT_CHECK(gather(&f, src, dst, "direct", NULL) < 0);
    WT_CHECK(strstr(ft_error(&f).message, "direct") != NULL);
    weft_comm_destroy(f.comm);
    WT_CHECK_OK(weft_context_destroy(f.context));
    free(src);
    free(dst);
}

static weft_status split(struct ft_rank *f, const int32_t *src, int32_t *dst, const char *algorithm, weft_request **req)
{
    return issue(f, WEFT_KIND_BROADCAST, src, dst, algorithm, req);
}

/* Likewise where what cannot be registered would be put to. */
static void without_keys_to_put_to(int rank, int nranks, void *arg)
{
    static const char *const little[] = {"FAKECARD_LARGEST=256K", NULL};
    int32_t *src = malloc(PART * 4), *dst = malloc(PART * 4);
    struct ft_rank f;

    (void)arg;
    WT_REQUIRE(src && dst);
    for (int lacks = 0; lacks < 2; lacks++) {
        open_context(&f, rank, nranks, "TRANSPORTS=fakecard", rank == 1 && lacks ? little : NULL);
        WT_REQUIRE_OK(create(&f));
        fill_words(src, PART, rank + 1);
        fill_words(dst, PART, 0);
        WT_CHECK_OK(split(&f, src, dst, NULL, NULL));
        WT_CHECK(words_are(dst, PART, 1));
        fill_words(dst, PART, 0);
        if (lacks) {
            WT_CHECK(split(&f, src, dst, "split", NULL) < 0);
            WT_CHECK(strstr(ft_error(&f).message, "split") != NULL);
            WT_CHECK(words_are(dst, PART, 0));
        } else {
            WT_CHECK_OK(split(&f, src, dst, "split", NULL));
            WT_CHECK(words_are(dst, PART, 1));
        }
        wt_sync();
        weft_comm_destroy(f.comm);
        WT_CHECK_OK(weft_context_destroy(f.context));
    }
    free(src);
    free(dst);
}

/* Below the channels. */
static const struct group *card_of(const struct ft_rank *f)
{
    return ((const struct wi_channel_group *)f->comm->exec->map_group)->group;
}

/* A registration that holds a part of a buffer is no registration of it. */
static void registered_in_part(int rank, int nranks, void *arg)
{
    int32_t *block = malloc(2 * PART * 4), *dst = malloc(PART * 4 * (size_t)nranks), *src = block + PART / 2;
    weft_mem *mem[4];
    struct ft_rank f;

    (void)arg;
    WT_REQUIRE(block && dst);
    open_context(&f, rank, nranks, "TRANSPORTS=fakecard", NULL);
    WT_REQUIRE_OK(create(&f));
    WT_REQUIRE_OK(weft_mem_register(f.context, src, PART * 4 - 64, &mem[0]));
    WT_REQUIRE_OK(weft_mem_register(f.context, src + 16, PART * 4 - 64, &mem[1]));
    WT_REQUIRE_OK(weft_mem_register(f.context, dst + PART / 2, PART * 4, &mem[2]));
    WT_REQUIRE_OK(weft_mem_register(f.context, block, PART * 4, &mem[3])); /* as long as src, and begins before it */
    fill_words(src, PART, rank + 1);
    for (int i = 0; i < 2; i++) {
        fill_words(dst, PART * (size_t)nranks, 0);
        WT_CHECK_OK(gather(&f, src, dst, "direct", NULL));
        WT_CHECK(gathered(dst, nranks));
        wt_sync();
    }
    for (int i = 0; i < 4; i++)
        WT_CHECK_OK(weft_mem_deregister(mem[i]));
    ft_close(&f);
    free(block);
    free(dst);
}

/* Of what the program has registered keys are made as it is: a card that would take no more of that size need not. */
static void registered_keys(int rank, int nranks, void *arg)
{
    size_t bytes = PART * 4 * (size_t)nranks;
    int32_t *src = malloc(PART * 4), *dst = malloc(bytes);
    const struct wi_channel_endpoint *layer;
    struct fake_settings *settings;
    weft_mem *mem[2];
    struct ft_rank f;

    (void)arg;
    WT_REQUIRE(src && dst);
    open_context(&f, rank, nranks, "TRANSPORTS=fakecard", NULL);
    WT_REQUIRE_OK(create(&f));
    WT_REQUIRE_OK(weft_mem_register(f.context, src, PART * 4, &mem[0]));
    WT_REQUIRE_OK(weft_mem_register(f.context, dst, bytes, &mem[1]));
    layer = wi_transports_find(f.context->transports, "fakecard")->endpoint;
    settings = (struct fake_settings *)(uintptr_t)((const struct endpoint *)layer->endpoint)->settings;
    settings->largest = PART * 4 - 1; /* from now on */
    wt_sync();
    fill_words(src, PART, rank + 1);
    for (int i = 0; i < 3; i++) {
        fill_words(dst, PART * (size_t)nranks, 0);
        WT_CHECK_OK(gather(&f, src, dst, "direct", NULL));
        WT_CHECK(gathered(dst, nranks));
        WT_CHECK(card_of(&f)->imports == NULL); /* nothing is left of the others' keys */
        wt_sync();
    }
    WT_CHECK_OK(weft_mem_deregister(mem[0]));
    WT_CHECK(gather(&f, src, dst, "direct", NULL) < 0);
    wt_sync();
    WT_CHECK_OK(weft_mem_deregister(mem[1]));
    ft_close(&f);
    free(src);
    free(dst);
}

/* A message is sent from memory that an operation has registered for itself, and goes on when that has ended. */
static void sent_from_what_is_registered(int rank, int nranks, void *arg)
{
    static const char *const late[] = {"FAKECARD_LATE=6", NULL};
    int32_t *src = malloc(PART * 4), *dst = malloc(PART * 4 * (size_t)nranks), *got = malloc(PART * 4);
    weft_request *all = NULL, *sent = NULL;
    struct ft_rank f;

    (void)arg;
    WT_REQUIRE(src && dst && got);
    open_context(&f, rank, nranks, "TRANSPORTS=fakecard", late);
    WT_REQUIRE_OK(create(&f));
    fill_words(src, PART, rank + 1);
    WT_REQUIRE_OK(gather(&f, src, dst, "direct", &all));
    if (rank == 0)
        WT_REQUIRE_OK(weft_send(f.comm, src, PART, WEFT_INT32, 1, 0, &sent));
    WT_CHECK_OK(weft_wait(all));
    WT_CHECK(gathered(dst, nranks));
    wt_sync();
    if (rank == 0)
        WT_CHECK_OK(weft_wait(sent));
    else
        WT_CHECK_OK(weft_recv(f.comm, got, PART, WEFT_INT32, 0, 0, NULL));
    WT_CHECK(rank == 0 || words_are(got, PART, 1));
    WT_CHECK_OK(weft_request_free(all));
    if (sent)
        WT_CHECK_OK(weft_request_free(sent));
    ft_close(&f);
    free(src);
    free(dst);
    free(got);
}

/* A get that never ends: the text at the deadline names the peer. */
static void get_never_ends(int rank, int nranks, void *arg)
{
    static const char *const silent[] = {"COMM_TIMEOUT=20s", "FAKECARD_SIDE=silent", NULL};
    int32_t *src = malloc(PART * 4), *dst = malloc(PART * 4 * (size_t)nranks);
    const char *good[] = {"COMM_TIMEOUT=2s", NULL};
    struct ft_rank f;
    weft_status st;

    (void)arg;
    WT_REQUIRE(src && dst);
    open_context(&f, rank, nranks, "TRANSPORTS=fakecard", rank ? silent : good);
    WT_REQUIRE_OK(create(&f));
    fill_words(src, PART, rank + 1);
    st = gather(&f, src, dst, "direct", NULL);
    WT_CHECK(rank ? st < 0 : st == WEFT_ETIMEDOUT);
    if (rank == 0 && (!strstr(ft_error(&f).message, "get of ") || ft_error(&f).peer != 1))
        wt_fail(__FILE__, __LINE__, "%s", ft_error(&f).message);
    weft_comm_destroy(f.comm);
    WT_CHECK_OK(weft_context_destroy(f.context));
    free(src);
    free(dst);
}

/* A communicator goes with a get under way that never ends: at once, and nothing stays registered, which the card looks for when
 * it is closed. */
static _Atomic int getting[2];

static void destroyed_with_gets(int rank, int nranks, void *arg)
{
    static const char *const silent[] = {"FAKECARD_SIDE=silent", NULL};
    int32_t *src = malloc(PART * 4), *dst = malloc(PART * 4 * (size_t)nranks);
    weft_request *req = NULL;
    struct ft_rank f;

    (void)arg;
    WT_REQUIRE(src && dst);
    open_context(&f, rank, nranks, "TRANSPORTS=fakecard", rank ? silent : NULL);
    WT_REQUIRE_OK(create(&f));
    WT_REQUIRE_OK(gather(&f, src, dst, "direct", &req));
    for (int i = 0, both = 0; i < 1000 && !both; i++) {
        WT_CHECK_STATUS(weft_test(req), WEFT_INPROGRESS);
        getting[rank] = f.comm->exec->posted != NULL;
        wt_sync();
        both = getting[0] && getting[1];
        wt_sync();
    }
    WT_CHECK(f.comm->exec->posted != NULL);
    wt_sync();
    WT_CHECK_OK(weft_comm_destroy(f.comm));
    WT_CHECK_OK(weft_context_destroy(f.context));
    free(src);
    free(dst);
}

/* A thread that waits for a get alone advances the transport, and not only now and then. */
static const struct weft_transport_ops *card_ops[2];
static _Atomic int advanced[2];

static int count_progress(void *group, struct weft_peer_failure *failure, int rank)
{
    atomic_fetch_add(&advanced[rank], 1);
    return card_ops[rank]->progress(group, failure);
}

static int progress_0(void *group, struct weft_peer_failure *failure)
{
    return count_progress(group, failure, 0);
}

static int progress_1(void *group, struct weft_peer_failure *failure)
{
    return count_progress(group, failure, 1);
}

static void waits_for_gets(int rank, int nranks, void *arg)
{
    static const char *const late[] = {"FAKECARD_LATE=6", NULL};
    int32_t *src = malloc(PART * 4), *dst = malloc(PART * 4 * (size_t)nranks);
    struct weft_transport_ops ops;
    struct ft_rank f;

    (void)arg;
    WT_REQUIRE(src && dst);
    open_context(&f, rank, nranks, "TRANSPORTS=fakecard", late);
    WT_REQUIRE_OK(create(&f));
    card_ops[rank] = f.comm->exec->map_ops;
    ops = *card_ops[rank];
    ops.progress = rank ? progress_1 : progress_0; /* which the slow checks of waiting do not call */
    f.comm->exec->map_ops = &ops;
    advanced[rank] = 0;
    fill_words(src, PART, rank + 1);
    WT_CHECK_OK(gather(&f, src, dst, "direct", NULL));
    WT_CHECK(gathered(dst, nranks));
    WT_CHECK(advanced[rank] > 0);
    f.comm->exec->map_ops = card_ops[rank];
    wt_sync();
    ft_close(&f);
    free(src);
    free(dst);
}

/* A rank gives up while another's put to it is under way, and that one does nothing more: it does not wait for it, and has its
 * buffer back at once, since the transport ends the put. */
static _Atomic int under_way;

static void give_up(struct ft_rank *f, weft_request *req, int32_t *dst)
{
    WT_CHECK_OK(weft_comm_abort(f->comm, "enough"));
    WT_CHECK(weft_wait(req) < 0);
    if (strstr(ft_error(f).advice, "keep the buffers"))
        wt_fail(__FILE__, __LINE__, "%s", ft_error(f).advice);
    fill_words(dst, PART, 9);
}

static void puts_given_up(int rank, int nranks, void *arg)
{
    static const char *const late[] = {"FAKECARD_LATE=1000", NULL};
    int32_t *src = malloc(PART * 4), *dst = malloc(PART * 4);
    weft_request *req = NULL;
    struct ft_rank f;

    (void)nranks;
    (void)arg;
    WT_REQUIRE(src && dst);
    under_way = 0;
    open_context(&f, rank, 2, "TRANSPORTS=fakecard", late);
    WT_REQUIRE_OK(create(&f));
    fill_words(src, PART, 1);
    WT_REQUIRE_OK(split(&f, src, dst, "split", &req));
    for (int i = 0; i < 1000 && !under_way; i++) {
        weft_test(req);
        wt_sync();
        if (rank == 0 && f.comm->exec->posted && f.comm->exec->posted->kind == WI_WORK_PUT)
            under_way = 1;
        wt_sync();
    }
    WT_CHECK(under_way);
    if (rank == 1)
        give_up(&f, req, dst);
    wt_sync();
    for (int i = 0; rank == 0 && i < 2000; i++)
        weft_test(req);
    wt_sync();
    WT_CHECK(rank == 0 || words_are(dst, PART, 9));
    WT_CHECK_OK(weft_comm_destroy(f.comm));
    WT_CHECK_OK(weft_context_destroy(f.context));
    free(src);
    free(dst);
}

/* ---- The program ---- */

static void run(int nranks, wt_rank_fn fn, const char *card)
{
    const char *dir = wt_plugin_dir(card);

    CU_ASSERT_PTR_NOT_NULL_FATAL(dir);
    snprintf(path, sizeof path, "PLUGIN_PATH=%s", dir);
    CU_ASSERT_EQUAL(wt_threads_apart(nranks, fn, NULL, 30000), 0);
}

#define CASE_OVER(name, nranks, card) \
    static void run_##name(void)      \
    {                                 \
        run(nranks, name, card);      \
    }
#define CASE(name, nranks) CASE_OVER(name, nranks, "fakerdma")
CASE(one_way_is_left_out, 3)
CASE(mixed, 4)
CASE(one_way_alone_is_named, 3)
CASE(given_up, 2)
CASE(registered, 2)
CASE(connecting, 2)
CASE_OVER(gets_given_up, 2, "fakecard")
CASE_OVER(without_keys, 3, "fakecard")
CASE_OVER(without_keys_to_put_to, 3, "fakecard")
CASE_OVER(registered_keys, 2, "fakecard")
CASE_OVER(registered_in_part, 2, "fakecard")
CASE_OVER(sent_from_what_is_registered, 2, "fakecard")
CASE_OVER(get_never_ends, 2, "fakecard")
CASE_OVER(destroyed_with_gets, 2, "fakecard")
CASE_OVER(waits_for_gets, 2, "fakecard")
CASE_OVER(puts_given_up, 2, "fakecard")

static const struct wt_case cases[] = {
    {"a transport that reaches one way only is left out", run_one_way_is_left_out},
    {"pairs of ranks use different transports", run_mixed},
    {"what reaches one way only is named", run_one_way_alone_is_named},
    {"what is registered is registered with every transport", run_registered},
    {"who does not connect is named", run_connecting},
    {"gets that were given up", run_gets_given_up},
    {"memory that cannot be registered is not got from", run_without_keys},
    {"memory that cannot be registered is not put to", run_without_keys_to_put_to},
    {"keys are made of what the program has registered", run_registered_keys},
    {"what is registered in part is registered for the operation", run_registered_in_part},
    {"a message from memory that an operation has registered", run_sent_from_what_is_registered},
    {"a get that never ends is named at the deadline", run_get_never_ends},
    {"a communicator goes with a get that never ends", run_destroyed_with_gets},
    {"who waits for a get advances it", run_waits_for_gets},
    {"who gives up does not wait for puts under way", run_puts_given_up},
    {"a buffer that was given back is not written to", run_given_up},
};
WT_UNIT_MAIN("card", cases)
