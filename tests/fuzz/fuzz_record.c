/* SPDX-License-Identifier: BSD-3-Clause */
/* The record by which each rank offers its buffers before a large operation, from ranks that say anything: addresses, lengths,
 * keys, the share, the vote. This rank is 0 of three; the other two have published what it has, changed where the input says, and
 * wait for nothing afterwards. The transport keeps account: it is asked for memory of that rank only, by what that rank said, and
 * never for a byte beyond what it offered. The operation must end in success, with what the others' memory holds, or in a failure
 * with a reason; or it waits for a line whose number is wrong.
 *
 * First byte: bit 0 the transport gets and puts by keys, else it maps and copies; bit 1 the memory is in segments; bits 2 and 3
 * the operation; bits 4 to 6 its share, bit 7 a large one, for which the planner chooses. Then, four bytes each: rank, where in its
 * lines (2), what is changed there. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "comm/comm.h"
#include "exec/ll.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define NRANKS 3
#define ROUNDS 200
#define LANES 4
#define DEPTH 4
#define LL_DEPTH 8
#define LL_LINES 16
#define SLOT_BYTES (64u << 10)
#define KEY_BYTES 24
#define SHARE_MAX (256u << 10)
#define SEGMENT 7

struct arena {
    struct weft_signal signals[LANES], done;
    struct weft_ll_line ll[LL_DEPTH * LL_LINES];
    struct weft_board board;
    unsigned char slots[DEPTH * SLOT_BYTES] __attribute__((aligned(64)));
};

struct fake_group {
    struct arena *arena[NRANKS];
    struct weft_mapped_rank mapped[NRANKS];
    unsigned char *maps[16]; /* what mem_map gave, to be freed */
    int nmaps, nimported, nregistered;
};

struct imported {
    int peer;
};

static struct weft_context *context;
static struct fake_group *group; /* of the one communicator that there is */
static uint32_t sleepers;
static int creating, keyed, segments;
/* What the other ranks offer: SRC and DST. */
static struct weft_mem_desc offers[NRANKS][2];

static unsigned char byte_of(int rank)
{
    return (unsigned char)(rank * 16 + 1);
}

/* ---- The transport ---- */

static weft_status fake_address(void *endpoint, void *buf, size_t capacity, size_t *bytes)
{
    (void)endpoint;
    require(capacity >= 8);
    memset(buf, 'a', *bytes = 8);
    return WEFT_SUCCESS;
}

static int fake_reachable(void *endpoint, const void *address, size_t bytes)
{
    (void)endpoint, (void)address;
    return bytes == 8;
}

static weft_status fake_group_create(void *endpoint, const struct weft_group_config *c, void **out)
{
    (void)endpoint;
    require(c->nranks == NRANKS && !group && (group = calloc(1, sizeof *group)) != NULL);
    for (int r = 0; r < NRANKS; r++) {
        struct arena *a = aligned_alloc(64, sizeof *a);
        require(a != NULL);
        memset(a, 0, offsetof(struct arena, slots));
        group->arena[r] = a;
        group->mapped[r] = (struct weft_mapped_rank){a->signals, &a->done, a->ll, a->slots, &a->board, NULL};
    }
    *out = group;
    return WEFT_SUCCESS;
}

static void fake_group_destroy(void *g, int aborted)
{
    (void)aborted;
    require(g == group);
    for (int r = 0; r < NRANKS; r++)
        free(group->arena[r]);
    while (group->nmaps)
        free(group->maps[--group->nmaps]);
    free(group);
    group = NULL;
}

static weft_status fake_mapped(void *g, struct weft_mapped *mapped)
{
    require(g == group);
    *mapped = (struct weft_mapped){LANES, DEPTH, LL_DEPTH, LL_LINES, SLOT_BYTES, group->mapped, &sleepers};
    return WEFT_SUCCESS;
}

static void fake_describe(void *endpoint, const void *ptr, size_t bytes, struct weft_mem_desc *desc)
{
    (void)endpoint;
    *desc = (struct weft_mem_desc){segments ? SEGMENT : 0, 0, (uint64_t)(uintptr_t)ptr, bytes};
}

/* A block of as many bytes as were offered, so that a sanitizer sees what is touched beyond it. */
static weft_status fake_map(void *g, int peer, const struct weft_mem_desc *desc, void **ptr)
{
    require(g == group && peer > 0 && peer < NRANKS);
    require(!memcmp(desc, &offers[peer][0], sizeof *desc) || !memcmp(desc, &offers[peer][1], sizeof *desc));
    if (desc->segment != SEGMENT || desc->bytes > NRANKS * SHARE_MAX || group->nmaps == 16)
        return wi_fail(WEFT_EPROTO, "rank %d has no such segment", peer);
    *ptr = group->maps[group->nmaps] = malloc(desc->bytes + !desc->bytes);
    require(*ptr != NULL);
    group->nmaps++;
    memset(*ptr, byte_of(peer), desc->bytes);
    return WEFT_SUCCESS;
}

static void check_range(int peer, uint64_t at, uint64_t bytes)
{
    int inside = 0;

    require(peer > 0 && peer < NRANKS);
    for (int buf = 0; buf < 2; buf++) {
        const struct weft_mem_desc *d = &offers[peer][buf];
        inside |= at - d->address <= d->bytes && bytes <= d->bytes - (at - d->address);
    }
    require(inside || !bytes);
}

static weft_status fake_mem_get(void *g, int peer, uint64_t at, void *local, size_t bytes)
{
    require(g == group);
    if (creating) { /* a word that ranks read of each other; the others' is this one's */
        memcpy(local, (void *)(uintptr_t)at, bytes);
        return WEFT_SUCCESS;
    }
    check_range(peer, at, bytes);
    memset(local, byte_of(peer), bytes);
    return WEFT_SUCCESS;
}

static weft_status fake_mem_put(void *g, int peer, uint64_t at, const void *local, size_t bytes)
{
    (void)local;
    require(g == group);
    if (bytes)
        check_range(peer, at, bytes);
    return WEFT_SUCCESS;
}

static weft_status fake_register(void *endpoint, void *ptr, size_t bytes, uint32_t memory, void **mem)
{
    (void)endpoint, (void)ptr, (void)bytes, (void)memory;
    *mem = malloc(1);
    require(*mem != NULL);
    return WEFT_SUCCESS;
}

static void fake_deregister(void *endpoint, void *mem)
{
    (void)endpoint;
    free(mem);
}

static weft_status fake_key(void *endpoint, void *mem, void *key, size_t capacity, size_t *bytes)
{
    (void)endpoint, (void)mem;
    require(capacity >= KEY_BYTES);
    memset(key, 'k', *bytes = KEY_BYTES);
    return WEFT_SUCCESS;
}

static weft_status fake_import(void *g, int peer, const void *key, size_t bytes, void **remote)
{
    const unsigned char *at = key;
    struct imported *i;
    unsigned sum = 0;

    require(g == group && peer > 0 && peer < NRANKS && bytes > 0 && bytes <= WEFT_MEM_KEY_MAX);
    for (size_t k = 0; k < bytes; k++) /* every byte must be there */
        sum += at[k];
    if (bytes != KEY_BYTES || sum != KEY_BYTES * 'k')
        return wi_fail(WEFT_EPROTO, "that is no key of rank %d", peer);
    require((i = malloc(sizeof *i)) != NULL);
    i->peer = peer;
    group->nimported++;
    *remote = i;
    return WEFT_SUCCESS;
}

static void fake_forget(void *g, void *remote)
{
    require(g == group && group->nimported-- > 0);
    free(remote);
}

static weft_status fake_get(void *g, struct weft_rma *r)
{
    const struct imported *i = r->remote;

    require(g == group && (!r->bytes || (i && i->peer == r->peer)));
    check_range(r->peer, r->remote_address, r->bytes);
    if (r->bytes)
        memset(r->local, byte_of(r->peer), r->bytes);
    r->state = WEFT_SUCCESS;
    return WEFT_SUCCESS;
}

static weft_status fake_put(void *g, struct weft_rma *r)
{
    const struct imported *i = r->remote;

    require(g == group && (!r->bytes || (i && i->peer == r->peer)));
    check_range(r->peer, r->remote_address, r->bytes);
    r->state = WEFT_SUCCESS;
    return WEFT_SUCCESS;
}

static const struct weft_transport_ops fake_ops = {
    .bytes = sizeof fake_ops,
    .open = (weft_status(*)(const struct weft_host *, const void *, void **))abort,
    .close = (void (*)(void *))abort,
    .address = fake_address,
    .reachable = fake_reachable,
    .group_create = fake_group_create,
    .group_destroy = fake_group_destroy,
    .mapped = fake_mapped,
    .mem_describe = fake_describe,
    .mem_map = fake_map,
    .mem_get = fake_mem_get,
    .mem_put = fake_mem_put,
    .mem_register = fake_register,
    .mem_deregister = fake_deregister,
    .mem_key = fake_key,
    .mem_import = fake_import,
    .mem_forget = fake_forget,
    .get = fake_get,
    .put = fake_put};

/* ---- The communicator ---- */

#define ROUTES_BYTES \
    (WI_ROUTES_MAX_TRANSPORTS * sizeof(int16_t) + NRANKS) /* who reaches whom; a byte for each rank comes last */

/* The other ranks say what this one does; and that they reach it, of which it says nothing itself. */
static weft_status echo(struct wi_bootstrap *b, const void *mine, size_t mine_bytes, void *all, uint64_t deadline_ns)
{
    (void)deadline_ns;
    for (int r = 0; r < b->nranks && mine_bytes; r++)
        memcpy((unsigned char *)all + (size_t)r * mine_bytes, mine, mine_bytes);
    for (int r = 1; r < b->nranks && mine_bytes == ROUTES_BYTES; r++) {
        unsigned char *row = (unsigned char *)all + (size_t)r * mine_bytes + ROUTES_BYTES - NRANKS;
        row[0] = row[r];
    }
    return WEFT_SUCCESS;
}

static void start(void)
{
    static const char *const settings[] = {"TRANSPORTS=inproc", "PROGRESS_THREAD=n", NULL};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;

    config.settings = settings;
    require(weft_context_create(&config, &context) == WEFT_SUCCESS);
}

/* The context's only transport is the fake one. */
static struct weft_comm *create(void)
{
    static const uint32_t by_key = WEFT_CAP_GET | WEFT_CAP_PUT,
                          by_call = WEFT_CAP_MEM_MAP | WEFT_CAP_MEM_GET | WEFT_CAP_MEM_PUT;
    static struct weft_plugin plugin = {
        .abi = WEFT_PLUGIN_ABI, .bytes = sizeof plugin, .name = "fake", .priority = 50, .ops = &fake_ops};
    struct wi_transport *slot = &context->transports->list[0], inproc = *slot;
    struct wi_bootstrap b = {.nranks = NRANKS, .local_rank = -1, .local_nranks = -1, .job = "job", .all_gather = echo};
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    struct weft_comm *comm = NULL;

    plugin.caps = WEFT_CAP_TWO_SIDED | WEFT_CAP_INFO | WEFT_CAP_PEEK | WEFT_CAP_SINK | WEFT_CAP_MAPPED |
                  (keyed ? by_key : by_call);
    *slot = (struct wi_transport){.plugin = &plugin};
    require(wi_transport_complete(&plugin, &slot->ops) == WEFT_SUCCESS);
    creating = 1;
    require(wi_comm_build(context, &b, &config, UINT64_MAX, &comm) == WEFT_SUCCESS);
    require(comm->mesh->all_mapped && comm->mesh->can_get && comm->mesh->posts == keyed);
    creating = 0;
    for (int r = 1; r < NRANKS; r++) { /* they are never waited for again */
        for (int l = 0; l < LANES; l++)
            group->arena[r]->signals[l].value = UINT64_MAX / 2;
        group->arena[r]->done.value = UINT64_MAX / 2;
    }
    slot->endpoint = inproc.endpoint;
    return comm;
}

/* ---- The other ranks' records ---- */

/* This rank's newest slot of lines that are published; NULL: none is. */
static const struct weft_ll_line *published(void)
{
    const struct weft_ll_line *newest = NULL;

    for (size_t i = 0; i < LL_DEPTH; i++) {
        const struct weft_ll_line *at = &group->arena[0]->ll[i * LL_LINES];
        if (at->seq && (!newest || (at->seq & WI_LL_EPOCH_MASK) > (newest->seq & WI_LL_EPOCH_MASK)))
            newest = at;
    }
    return newest;
}

static void publish(const struct weft_ll_line *own, const uint8_t *data, size_t bytes)
{
    size_t at = (size_t)(own - group->arena[0]->ll), lines = 0;

    while (lines < LL_LINES && own[lines].seq == own->seq)
        lines++;
    for (int r = 1; r < NRANKS; r++)
        memcpy(&group->arena[r]->ll[at], own, lines * sizeof *own);
    for (; bytes >= 4; data += 4, bytes -= 4) {
        unsigned char *line = (unsigned char *)&group->arena[1 + data[0] % (NRANKS - 1)]->ll[at];
        line[(data[1] | (size_t)data[2] << 8) % (lines * sizeof *own)] ^= data[3];
    }
    for (int r = 1; r < NRANKS; r++) {
        unsigned char record[2 * WI_LL_PAYLOAD];
        memcpy(record, group->arena[r]->ll[at].payload, WI_LL_PAYLOAD);
        memcpy(record + WI_LL_PAYLOAD, group->arena[r]->ll[at + 1].payload, WI_LL_PAYLOAD);
        memcpy(offers[r], record, sizeof offers[r]); /* it begins with SRC and DST */
    }
}

/* ---- The operation ---- */

static const struct {
    weft_kind kind;
    const char *algorithm;
} operations[] = {{WEFT_KIND_ALL_GATHER, "direct"},
                  {WEFT_KIND_ALL_TO_ALL, "direct"},
                  {WEFT_KIND_BROADCAST, "split"},
                  {WEFT_KIND_REDUCE_SCATTER, "pull"}};

static unsigned char src[NRANKS * SHARE_MAX], dst[NRANKS * SHARE_MAX];

static void judge(weft_kind kind, size_t share)
{
    if (kind == WEFT_KIND_BROADCAST) { /* the root, which only waits, stores the rest itself */
        require(dst[0] == byte_of(1));
        return;
    }
    for (size_t i = 0; i < share; i++)
        if (kind == WEFT_KIND_REDUCE_SCATTER)
            require(dst[i] == (unsigned char)(3 + byte_of(1) + byte_of(2)));
        else
            require(dst[i] == 3 && dst[share + i] == byte_of(1) && dst[2 * share + i] == byte_of(2));
}

static weft_status run(struct weft_comm *comm, const weft_call *call, const uint8_t *data, size_t bytes)
{
    weft_request *req = NULL;
    weft_status st = weft_issue(comm, call, &req);
    int told = 0;

    for (int i = 0; st >= 0 && i < ROUNDS && (st = weft_test(req)) == WEFT_INPROGRESS; i++)
        if (!told && published()) {
            publish(published(), data, bytes);
            told = 1;
        }
    if (st < 0)
        require(weft_thread_error()[0] != 0);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_call call = WEFT_CALL_INIT;
    struct weft_comm *comm;
    weft_status st;
    size_t share;

    if (bytes < 1)
        return 0;
    if (!context)
        start();
    keyed = data[0] & 1;
    segments = data[0] >> 1 & 1;
    share = data[0] & 0x80 ? SHARE_MAX : (size_t)64 << (data[0] >> 4 & 7);
    call.kind = operations[data[0] >> 2 & 3].kind;
    options.algorithm = operations[data[0] >> 2 & 3].algorithm;
    if (!(data[0] & 0x80))
        call.options = &options;
    call.root = call.kind == WEFT_KIND_BROADCAST;
    call.src = src;
    call.dst = dst;
    call.count = share;
    memset(src, 3, sizeof src);
    memset(offers, 0, sizeof offers);
    wi_fail_clear();
    comm = create();
    st = run(comm, &call, data + 1, bytes - 1);
    /* Nothing is changed: else no record may ever have been read. Of a broadcast the root says what this rank does, which offers no
     * source: for the algorithm that reads it that is too little. */
    require(bytes > 1 || st == (call.kind == WEFT_KIND_BROADCAST && call.options ? WEFT_EPROTO : WEFT_SUCCESS));
    if (st == WEFT_SUCCESS && call.options)
        judge(call.kind, share);
    require(weft_comm_destroy(comm) == WEFT_SUCCESS && !group);
    return 0;
}
