/* SPDX-License-Identifier: BSD-3-Clause */
/* Making a mesh with ranks that say anything: introductions, addresses, names of transports, the heads and payloads of the
 * transports' own exchanges. The bootstrap is the fuzzer: in each all-gather rank 0 is this rank, the records of the others are
 * its own, changed where the input says (place, value), so that what stands behind a check is reached. Creation must fail with a
 * reason or give a mesh whose every field is within bounds, and end after a bounded number of exchanges.
 *
 * One of them has a side channel, whose address the introductions carry; nobody connects there.
 * The transports take part without a network: they exchange what they are told to exchange and nothing else. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/settings.h"
#include "base/status.h"
#include "net/mesh.h"
#include "net/rendezvous.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define NRANKS 4
#define EXCHANGES_MAX 60
#define RECORD_BYTES 4 /* of the input: which exchange and rank, where (2), xor */

struct fake {
    struct wi_bootstrap base;
    const uint8_t *data;
    size_t bytes;
    int exchanges;
};

struct fake_group {
    int nranks;
    unsigned char seen[NRANKS * 24];
};

/* ---- The bootstrap ---- */

static weft_status gather(struct wi_bootstrap *b, const void *mine, size_t mine_bytes, void *all, uint64_t deadline_ns)
{
    struct fake *f = (struct fake *)b;
    unsigned char *out = all;

    (void)deadline_ns;
    if (++f->exchanges > EXCHANGES_MAX) /* as a deadline would */
        return wi_fail(WEFT_ETIMEDOUT, "the other ranks do not end");
    for (int r = 0; r < b->nranks && mine_bytes; r++)
        memcpy(out + (size_t)r * mine_bytes, mine, mine_bytes);
    for (size_t at = 0; at + RECORD_BYTES <= f->bytes && mine_bytes; at += RECORD_BYTES) {
        const uint8_t *d = f->data + at;
        size_t where = (d[1] | (size_t)d[2] << 8) % mine_bytes;
        int rank = 1 + d[0] % (NRANKS - 1);
        if (d[0] / 8 % 32 == f->exchanges % 32)
            out[(size_t)rank * mine_bytes + where] ^= d[3];
    }
    return WEFT_SUCCESS;
}

/* ---- Transports ---- */

static weft_status fake_address(void *endpoint, void *buf, size_t capacity, size_t *bytes)
{
    require(capacity >= 40);
    memset(buf, 'a', 40);
    *bytes = endpoint ? 40 : 7;
    return WEFT_SUCCESS;
}

static int fake_reachable(void *endpoint, const void *address, size_t bytes)
{
    const unsigned char *at = address;
    int sum = endpoint != NULL;

    require(bytes <= WEFT_ADDRESS_MAX);
    for (size_t i = 0; i < bytes; i++) /* every byte must be there */
        sum += at[i];
    return bytes != 0 && (sum & 15) != 3;
}

static weft_status fake_group_create(void *endpoint, const struct weft_group_config *c, void **group)
{
    struct fake_group *g = wi_calloc(1, sizeof *g);
    unsigned char mine[24] = {1, 2, 3};

    (void)endpoint;
    require(g && c->nranks == NRANKS);
    for (int r = 0; r < c->nranks; r++)
        for (size_t i = 0; c->addresses[r] && i < c->address_bytes[r]; i++)
            g->nranks += ((const unsigned char *)c->addresses[r])[i] != 0;
    weft_status st = c->all_gather(c->all_gather_arg, mine, sizeof mine, g->seen);
    if (st >= 0)
        st = c->all_gather(c->all_gather_arg, mine, 8, g->seen);
    if (st < 0) {
        wi_free(g);
        return st;
    }
    *group = g;
    return WEFT_SUCCESS;
}

static void fake_group_destroy(void *group, int aborted)
{
    (void)aborted;
    wi_free(group);
}

static const struct weft_transport_ops fake_ops = {.bytes = sizeof fake_ops,
                                                   .address = fake_address,
                                                   .reachable = fake_reachable,
                                                   .group_create = fake_group_create,
                                                   .group_destroy = fake_group_destroy};
static const struct weft_plugin near_plugin = {.abi = WEFT_PLUGIN_ABI, .name = "near", .priority = 20};
static const struct weft_plugin far_plugin = {
    .abi = WEFT_PLUGIN_ABI, .name = "far", .priority = 10, .caps = WEFT_CAP_SIDE};

/* ---- What must hold ---- */

/* It is printed and logged: what a rank says must not move a terminal's cursor. */
static int is_plain(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return 0;
    return 1;
}

static void judge(const struct wi_mesh *m)
{
    require(m->nranks == NRANKS && m->nnodes >= 1 && m->nnodes <= NRANKS);
    require(m->local_rank >= 0 && m->local_rank < m->local_nranks && m->local_nranks <= NRANKS);
    require(m->ngroups <= WI_MAX_TRANSPORTS);
    for (int r = 0; r < NRANKS; r++) {
        struct wi_sockaddr at;
        if (m->ranks[r].side_bytes) {
            require(m->ranks[r].side_bytes <= WI_SIDE_ADDRESS_MAX);
            require(wi_side_address_read(m->ranks[r].side, m->ranks[r].side_bytes, &at) == 0 && wi_sockaddr_port(&at));
            require(at.ss.ss_family == AF_INET || at.ss.ss_family == AF_INET6);
        }
        require(m->ranks[r].node_index >= 0 && m->ranks[r].node_index < m->nnodes);
        require(memchr(wi_mesh_host(m, r), 0, sizeof m->ranks[r].node.name) != NULL);
        require(is_plain(wi_mesh_host(m, r)));
        require(r == m->rank || (m->links[r].group && m->links[r].index >= 0 && m->links[r].index < m->ngroups));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct wi_node_id node;
    static struct wi_rates rates;
    static int some_endpoint;
    static struct wi_side *side;
    static struct wi_settings *settings;
    struct wi_transports transports = {.count = 2};
    struct fake f = {.data = data, .bytes = bytes};
    struct wi_mesh *mesh = NULL;

    if (!node.name[0]) {
        struct wi_side_config here = {.interfaces = "lo", .seen = wi_auth_seen_of_process()};
        require(wi_node_id("a host", &node) == WEFT_SUCCESS);
        require(wi_side_create(&here, &side) == WEFT_SUCCESS);
        require(wi_settings_create(NULL, NULL, &settings) == WEFT_SUCCESS);
    }
    struct wi_mesh_config config = {
        .node = &node, .settings = settings, .settings_hash = 4711, .deadline_ns = UINT64_MAX, .rates = &rates};
    transports.side = side;
    pthread_mutex_init(&transports.keys_lock, NULL);
    transports.list[0] = (struct wi_transport){.plugin = &near_plugin, .ops = fake_ops, .endpoint = &some_endpoint};
    transports.list[1] = (struct wi_transport){.plugin = &far_plugin, .ops = fake_ops};
    f.base.nranks = NRANKS;
    f.base.local_rank = f.base.local_nranks = -1;
    memcpy(f.base.job, "job", 4);
    f.base.all_gather = gather;
    wi_fail_clear();
    weft_status st = wi_mesh_create(&transports, &f.base, &config, &mesh);
    require(f.exchanges <= EXCHANGES_MAX + 1);
    if (st >= 0)
        judge(mesh);
    else
        require(wi_fail_text()[0] != 0 && is_plain(wi_fail_text()));
    wi_mesh_destroy(mesh, 0);
    require(transports.keys == NULL);
    pthread_mutex_destroy(&transports.keys_lock);
    return 0;
}
