/* SPDX-License-Identifier: BSD-3-Clause */
/* Making a mesh in four agreements: introductions, choice of transports, groups, verdict.
 *
 * A rank whose group could not be made goes on taking part in the exchanges until all others have finished, saying that it
 * failed: so no rank is left waiting in an exchange that a failed rank never enters. */
#include "net/mesh.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "net/mesh_intro.h"
#include "net/mesh_side.h"

struct build {
    struct wi_mesh *mesh;
    struct wi_transports *transports;
    struct wi_bootstrap *bootstrap;
    const struct wi_mesh_config *config;
    struct wi_intro *intros;  /* [nranks] */
    unsigned char *addresses; /* [nranks * address_stride] */
    size_t address_stride;
    const void **address_of;  /* [nranks] for one transport */
    size_t *address_bytes_of; /* [nranks] */
    unsigned char *members;   /* [nranks] for one transport */
};

/* ---- 1. Introductions ---- */

static weft_status introduce(struct build *b)
{
    struct wi_bootstrap *bs = b->bootstrap;
    size_t n = (size_t)bs->nranks;
    struct wi_intro mine;
    unsigned char *addresses;
    weft_status st;

    b->address_stride = (size_t)WI_MAX_TRANSPORTS * WEFT_ADDRESS_MAX;
    addresses = wi_calloc(1, b->address_stride);
    if (!addresses)
        return wi_fail(WEFT_ENOMEM, "addresses");
    st = wi_intro_fill(&mine, b->config, b->transports, addresses);
    if (st >= 0)
        st = bs->all_gather(bs, &mine, sizeof mine, b->intros, b->config->deadline_ns);
    for (int r = 0; st >= 0 && r < bs->nranks; r++)
        st = wi_intro_check(&b->intros[r], r, &mine, bs->rank, b->config, b->transports);
    if (st < 0)
        goto out;

    /* Addresses travel packed: as many bytes per rank as the longest needs. */
    size_t longest = 1;
    for (size_t r = 0; r < n; r++) {
        size_t total = 0;
        for (uint32_t i = 0; i < b->intros[r].ntransports; i++)
            total += b->intros[r].transports[i].address_bytes;
        longest = total > longest ? total : longest;
    }
    size_t at = 0;
    for (uint32_t i = 0; i < mine.ntransports; i++) {
        memmove(addresses + at, addresses + (size_t)i * WEFT_ADDRESS_MAX, mine.transports[i].address_bytes);
        at += mine.transports[i].address_bytes;
    }
    b->address_stride = longest;
    b->addresses = wi_malloc(n * longest);
    if (!b->addresses) {
        st = wi_fail(WEFT_ENOMEM, "addresses of %zu ranks", n);
        goto out;
    }
    st = bs->all_gather(bs, addresses, longest, b->addresses, b->config->deadline_ns);
out:
    wi_free(addresses);
    return st;
}

static const void *address_of(const struct build *b, int r, int index, size_t *bytes)
{
    const struct wi_intro *in = &b->intros[r];
    size_t at = 0;

    for (int i = 0; i < index; i++)
        at += in->transports[i].address_bytes;
    *bytes = in->transports[index].address_bytes;
    return b->addresses + (size_t)r * b->address_stride + at;
}

/* Cores that the ranks of a node may use together; launchers bind each rank to its own. */
static int cores_of_node(const struct build *b, int node)
{
    uint64_t all[WI_INTRO_MAX_CPUS / 64] = {0};
    int cores = 0;

    for (int r = 0; r < b->mesh->nranks; r++)
        for (int i = 0; b->mesh->ranks[r].node_index == node && i < WI_INTRO_MAX_CPUS / 64; i++)
            all[i] |= b->intros[r].cpus[i];
    for (int i = 0; i < WI_INTRO_MAX_CPUS / 64; i++)
        cores += __builtin_popcountll(all[i]);
    return cores;
}

static void number_nodes(struct build *b)
{
    struct wi_mesh *m = b->mesh;
    int mine;

    for (int r = 0; r < m->nranks; r++) {
        struct wi_mesh_rank *mr = &m->ranks[r];
        mr->node = b->intros[r].node;
        mr->side_bytes = b->intros[r].side_bytes;
        memcpy(mr->side, b->intros[r].side, sizeof mr->side);
        mr->node_index = -1;
        for (int q = 0; q < r && mr->node_index < 0; q++)
            if (memcmp(m->ranks[q].node.id, mr->node.id, sizeof mr->node.id) == 0)
                mr->node_index = m->ranks[q].node_index;
        if (mr->node_index < 0)
            mr->node_index = m->nnodes++;
    }
    mine = m->ranks[m->rank].node_index;
    for (int r = 0; r < m->nranks; r++) {
        m->local_rank += m->ranks[r].node_index == mine && r < m->rank;
        m->local_nranks += m->ranks[r].node_index == mine;
    }
    for (int node = 0; node < m->nnodes; node++) {
        int ranks = 0, cores = cores_of_node(b, node);
        for (int r = 0; r < m->nranks; r++)
            ranks += m->ranks[r].node_index == node;
        m->oversubscribed |= cores > 0 && ranks > cores;
    }
}

/* The slowest core's. A rate that one rank does not know is unknown to all. */
static void agree_on_rates(struct build *b)
{
    uint8_t least[WI_RATES_CODED];

    memcpy(least, b->intros[0].rates, sizeof least);
    for (int r = 1; r < b->mesh->nranks; r++)
        for (int i = 0; i < WI_RATES_CODED; i++)
            if (b->intros[r].rates[i] < least[i])
                least[i] = b->intros[r].rates[i];
    wi_rates_decode(least, &b->mesh->rates);
}

/* ---- 2. Choice ---- */

/* Names first: all ranks number the transports of all ranks alike. */
static void fill_routes(struct build *b)
{
    struct wi_transports *t = b->transports;
    struct wi_routes *routes = &b->mesh->routes;

    for (int r = 0; r < routes->nranks; r++)
        for (uint32_t i = 0; i < b->intros[r].ntransports; i++)
            wi_routes_add_transport(routes, b->intros[r].transports[i].name);
    for (int r = 0; r < routes->nranks; r++)
        for (uint32_t i = 0; i < b->intros[r].ntransports; i++) {
            wi_routes_add_caps(routes, b->intros[r].transports[i].name, b->intros[r].transports[i].caps);
            wi_routes_add_rank(routes, b->intros[r].transports[i].name, r);
        }
    for (int i = 0; i < t->count; i++)
        wi_routes_add_own(routes, t->list[i].plugin->name, t->list[i].plugin->priority);
    for (int r = 0; r < routes->nranks; r++)
        for (int i = 0; i < t->count; i++) {
            struct wi_transport *tp = &t->list[i];
            int theirs = r == routes->rank ? -1 : wi_intro_transport(&b->intros[r], tp->plugin->name);
            size_t bytes;
            const void *address = theirs < 0 ? NULL : address_of(b, r, theirs, &bytes);
            if (address && tp->ops.reachable(tp->endpoint, address, bytes))
                wi_routes_add_peer(routes, tp->plugin->name, r);
        }
}

/* What this rank uses to each peer: an index of b->transports. */
static weft_status choose_for(struct build *b, int peer, int *chosen)
{
    const struct wi_routes *routes = &b->mesh->routes;
    const char *name = wi_routes_pair(routes, routes->rank, peer), *host = b->intros[peer].node.name;
    struct wi_transport *tp = name ? wi_transports_find(b->transports, name) : NULL;
    char one_way[200];

    *chosen = tp ? (int)(tp - b->transports->list) : -1;
    wi_routes_one_way(routes, peer, one_way, sizeof one_way);
    if (tp && *one_way)
        wi_log(WEFT_LOG_INFO, "net.routes", "rank %d on host %s: %s; %s is used", peer, host, one_way, name);
    return tp ? WEFT_SUCCESS
              : wi_fail(WEFT_ENOTSUP, "no transport reaches rank %d on host %s both ways%s%s%s", peer, host,
                        *one_way ? " (" : "", one_way, *one_way ? ")" : "");
}

/* A failure other than of the exchange itself goes to *local, because this rank must go on taking part. */
static weft_status choose(struct build *b, int *chosen, weft_status *local)
{
    struct wi_mesh *m = b->mesh;

    *local = WEFT_SUCCESS;
    fill_routes(b);
    WI_TRY(wi_routes_agree(&m->routes, b->bootstrap, b->config->deadline_ns));
    for (int r = 0; r < m->nranks; r++) {
        weft_status st;
        chosen[r] = -1;
        if (r == m->rank)
            continue;
        st = *local >= 0 ? choose_for(b, r, &chosen[r]) : WEFT_SUCCESS;
        *local = *local < 0 ? *local : st;
    }
    return WEFT_SUCCESS;
}

/* ---- 3. Groups ---- */

enum round_state { ROUND_RUNNING, ROUND_FINISHED, ROUND_FAILED };

struct round_head {
    uint32_t state;
    int32_t status;
    uint32_t payload_bytes;
    char text[180];
};

struct rounds {
    struct build *build;
    struct round_head head;
    int failed_rank; /* first rank that said it failed, -1 none */
    struct round_head failed_head;
    int broken; /* the bootstrap itself failed */
};

#define ROUND_PAYLOAD 2048

/* One exchange. Each rank sends a record of the same length, so that ranks in different states stay in step. */
static weft_status exchange(struct rounds *rs, const void *payload, size_t bytes, unsigned char **all, int *all_done)
{
    struct wi_bootstrap *bs = rs->build->bootstrap;
    size_t record = sizeof(struct round_head) + ROUND_PAYLOAD;
    unsigned char *mine = wi_calloc(1, record);
    unsigned char *buf = wi_malloc(record * (size_t)bs->nranks);
    weft_status st;

    if (!mine || !buf) {
        st = wi_fail(WEFT_ENOMEM, "start-up exchange");
        rs->broken = 1;
        goto out;
    }
    rs->head.payload_bytes = (uint32_t)bytes;
    memcpy(mine, &rs->head, sizeof rs->head);
    if (bytes)
        memcpy(mine + sizeof rs->head, payload, bytes);
    st = bs->all_gather(bs, mine, record, buf, rs->build->config->deadline_ns);
    if (st < 0) {
        rs->broken = 1;
        goto out;
    }
    *all_done = 1;
    for (int r = 0; r < bs->nranks; r++) {
        struct round_head h;
        memcpy(&h, buf + (size_t)r * record, sizeof h);
        wi_text_sanitize(h.text, sizeof h.text);
        *all_done &= h.state != ROUND_RUNNING;
        if (h.state == ROUND_FAILED && rs->failed_rank < 0) {
            rs->failed_rank = r;
            rs->failed_head = h;
        }
    }
    *all = buf;
    buf = NULL;
out:
    wi_free(mine);
    wi_free(buf);
    return st;
}

static weft_status group_all_gather(void *arg, const void *mine, size_t mine_bytes, void *all)
{
    struct rounds *rs = arg;
    struct build *b = rs->build;
    unsigned char *buf = NULL;
    size_t record = sizeof(struct round_head) + ROUND_PAYLOAD, at = 0;
    int done;

    if (mine_bytes > ROUND_PAYLOAD)
        return wi_fail(WEFT_EINVAL, "a transport exchanges %zu bytes at start-up, at most %d are possible", mine_bytes,
                       ROUND_PAYLOAD);
    WI_TRY(exchange(rs, mine, mine_bytes, &buf, &done));
    for (int r = 0; r < b->bootstrap->nranks; r++) {
        struct round_head h;
        if (!b->members[r])
            continue;
        memcpy(&h, buf + (size_t)r * record, sizeof h);
        if (h.state != ROUND_RUNNING || h.payload_bytes != mine_bytes) {
            wi_free(buf);
            return wi_fail(WEFT_EPEER, "rank %d did not take part in the transport's start-up", r);
        }
        memcpy((unsigned char *)all + at, buf + (size_t)r * record + sizeof h, mine_bytes);
        at += mine_bytes;
    }
    wi_free(buf);
    return WEFT_SUCCESS;
}

/* After this rank has finished (or failed) stay in the exchanges until all ranks have. */
static weft_status drain(struct rounds *rs, weft_status st)
{
    const struct build *b = rs->build;
    unsigned char *buf;
    int done = 0;

    rs->head.state = st < 0 ? ROUND_FAILED : ROUND_FINISHED;
    rs->head.status = st;
    snprintf(rs->head.text, sizeof rs->head.text, "%s", st < 0 ? wi_fail_text() : "");
    while (!done && !rs->broken) {
        weft_status ex = exchange(rs, NULL, 0, &buf, &done);
        if (ex < 0)
            return ex;
        wi_free(buf);
    }
    if (rs->broken || (st < 0 && (st != WEFT_EPEER || rs->failed_rank == b->bootstrap->rank)))
        return st < 0 ? st : WEFT_EINTERNAL;
    if (rs->failed_rank >= 0)
        return wi_fail(WEFT_EPEER, "communicator not created: rank %d on host %s failed: %s", rs->failed_rank,
                       b->intros[rs->failed_rank].node.name, rs->failed_head.text);
    return WEFT_SUCCESS;
}

/* A plugin need not explain; the text was cleared before it was asked. */
static weft_status explained(weft_status st, const char *name)
{
    return st < 0 && !*wi_fail_text()
               ? wi_fail(st, "joining the ranks over transport %s: %s", name, weft_status_text(st))
               : st;
}

static weft_status create_group(struct build *b, const char *name, const int *chosen, weft_status st)
{
    struct wi_mesh *m = b->mesh;
    struct wi_transport *tp = wi_transports_find(b->transports, name);
    struct rounds rs = {.build = b, .failed_rank = -1};
    struct weft_group_config config = {
        .bytes = sizeof config,
        .comm_id = {m->comm_id[0], m->comm_id[1]},
        .rank = m->rank,
        .nranks = m->nranks,
        .addresses = b->address_of,
        .address_bytes = b->address_bytes_of,
        .member = b->members,
        .oversubscribed = m->oversubscribed,
        .deadline_ns = b->config->deadline_ns,
        .all_gather = group_all_gather,
        .all_gather_arg = &rs,
        .nchans = WEFT_CHAN_MAX,
    };
    struct wi_side_group *side = NULL;
    void *group = NULL;
    int index = tp ? (int)(tp - b->transports->list) : -2;

    for (int r = 0; r < m->nranks; r++) {
        int theirs = wi_intro_transport(&b->intros[r], name);
        b->members[r] = r == m->rank || chosen[r] == index;
        b->address_bytes_of[r] = 0;
        b->address_of[r] = theirs < 0 ? NULL : address_of(b, r, theirs, &b->address_bytes_of[r]);
    }
    if (st >= 0 && tp) {
        wi_fail_clear();
        st = wi_mesh_side_open(b->mesh, b->transports, tp, b->config->timeout_ns, &side);
        config.side = side;
        if (st >= 0)
            st = tp->ops.group_create(tp->endpoint, &config, &group);
        explained(st, name);
        if (!group)
            wi_side_close(side);
    }
    st = drain(&rs, st);
    if (group) { /* also when another rank failed: destroyed with the mesh */
        m->groups[m->ngroups++] = (struct wi_mesh_group){tp, group, side};
        for (int r = 0; r < m->nranks; r++)
            if (b->members[r] && (r != m->rank || !m->links[r].group))
                m->links[r] = (struct wi_link){&tp->ops, group, m->ngroups - 1};
    }
    return st;
}

/* ---- 4. Mapping, verdict ---- */

/* The transport that maps this rank's neighbours, and the ranks that it maps; -1: there is none. */
static int mapping_transport(struct build *b, const int *chosen)
{
    struct wi_mesh *m = b->mesh;
    int index = -1;

    for (int r = 0; r < m->nranks && index < 0; r++)
        if (r != m->rank && b->transports->list[chosen[r]].plugin->caps & WEFT_CAP_MAPPED)
            index = chosen[r];
    m->nmapped = 0;
    for (int r = 0; r < m->nranks; r++)
        if (r == m->rank || (index >= 0 && chosen[r] == index))
            m->map_ranks[m->nmapped++] = r;
    return index;
}

static void unmap(struct wi_mesh *m)
{
    m->mapped_group = NULL;
    m->map_ranks[0] = m->rank;
    m->nmapped = 1;
}

/* A transport may be able to map all ranks of a group, and not some of them. */
static weft_status find_mapped(struct build *b, const int *chosen)
{
    struct wi_mesh *m = b->mesh;
    int index = mapping_transport(b, chosen);
    struct wi_mesh_group *g = m->groups;
    weft_status st;
    uint32_t caps;

    if (index < 0)
        return WEFT_SUCCESS;
    while (g->transport != &b->transports->list[index])
        g++;
    wi_fail_clear();
    st = g->transport->ops.mapped(g->group, &m->mapped);
    if (st == WEFT_ENOTSUP && m->nmapped < m->nranks) {
        wi_fail_clear();
        unmap(m);
        return WEFT_SUCCESS;
    }
    WI_TRY(explained(st, g->transport->plugin->name));
    m->mapped_group = g;
    m->can_map = (g->transport->plugin->caps & WEFT_CAP_MEM_MAP) != 0;
    caps = wi_routes_caps(&m->routes, g->transport->plugin->name);
    m->posts = caps & WEFT_CAP_GET && m->mapped.ll_lines * WI_MESH_LINE_BYTES >= WI_MESH_KEYS_BYTES;
    m->can_get = m->posts || caps & WEFT_CAP_MEM_GET;
    m->can_put = m->posts ? (caps & WEFT_CAP_PUT) != 0 : m->can_get && caps & WEFT_CAP_MEM_PUT;
    return WEFT_SUCCESS;
}

/* A word of this process that its peers read to find out whether they can. It belongs to the library, so that a rank that
 * failed and left does not take it away from a peer, another thread perhaps, that is reading. It is random, so that a
 * process that a wrong number names (a namespace's, or one used again) is not taken for a rank. */
struct probe {
    uint64_t at, value;
};

static uint64_t probe_word;
static int probe_word_stands;
static pthread_once_t probe_word_once = PTHREAD_ONCE_INIT;

static void draw_probe_word(void)
{
    probe_word_stands = wi_random(&probe_word, sizeof probe_word) == 0;
}

static weft_status own_probe(struct probe *p)
{
    pthread_once(&probe_word_once, draw_probe_word);
    if (!probe_word_stands)
        return wi_fail(WEFT_ESYS, "the kernel gives no random bytes");
    *p = (struct probe){.at = (uint64_t)(uintptr_t)&probe_word, .value = probe_word};
    return WEFT_SUCCESS;
}

/* Cross-memory attach may be forbidden between these processes: read a word that each peer offers, and ask whether writing
 * is permitted, too. Nothing is written: only an operation that a peer takes part in says where. */
static int probe_get(struct wi_mesh *m, const struct probe *of)
{
    const struct wi_mesh_group *g = m->mapped_group;

    for (int i = 0; i < m->nmapped && !m->posts; i++) {
        uint64_t value = 0;
        int r = m->map_ranks[i];
        if (r != m->rank &&
            (g->transport->ops.mem_get(g->group, r, of[r].at, &value, sizeof value) < 0 || value != of[r].value)) {
            wi_log(WEFT_LOG_INFO, "net.mem_get", "memory of rank %d cannot be read: %s", r, wi_fail_text());
            wi_fail_clear();
            return 0;
        }
    }
    return 1;
}

static int probe_put(struct wi_mesh *m)
{
    const struct wi_mesh_group *g = m->mapped_group;

    for (int i = 0; i < m->nmapped && !m->posts; i++) {
        const char nothing = 0;
        int r = m->map_ranks[i];
        if (r != m->rank && g->transport->ops.mem_put(g->group, r, 0, &nothing, 0) < 0) {
            wi_log(WEFT_LOG_INFO, "net.mem_put", "memory of rank %d cannot be written: %s", r, wi_fail_text());
            wi_fail_clear();
            return 0;
        }
    }
    return 1;
}

/* What a rank announces of the group that maps it. */
struct map_claim {
    int32_t lowest, count; /* its lowest rank, and how many there are */
    int32_t can_map, can_get, can_put;
    uint32_t slots; /* UINT32_MAX: there is no group */
    uint64_t slot_bytes;
};

static struct map_claim claim(struct wi_mesh *m, const struct probe *probes)
{
    struct map_claim c = {.lowest = m->map_ranks[0],
                          .count = m->nmapped,
                          .can_map = 1,
                          .can_get = 1,
                          .can_put = 1,
                          .slots = UINT32_MAX,
                          .slot_bytes = UINT64_MAX};

    if (m->nmapped == 1)
        return c; /* it does not block another rank */
    c.slots = m->mapped.depth;
    c.slot_bytes = m->mapped.slot_bytes;
    c.can_map = m->can_map;
    c.can_get = m->can_get && probe_get(m, probes);
    c.can_put = c.can_get && m->can_put && probe_put(m);
    return c;
}

/* A group stands when each of its ranks names the same ones: as many as say so. */
static int stands(const struct wi_mesh *m, const struct map_claim *all, int lowest)
{
    int count = 0;

    for (int r = 0; r < m->nranks; r++)
        count += all[r].lowest == lowest;
    for (int r = 0; r < m->nranks; r++)
        if (all[r].lowest == lowest && (all[r].count != count || r < lowest))
            return 0;
    return 1;
}

/* This rank's group stands when all say so, and those that name it are those that it maps. */
static int own_stands(const struct wi_mesh *m, const struct map_claim *all)
{
    for (int i = 0; i < m->nmapped; i++)
        if (all[m->map_ranks[i]].lowest != m->map_ranks[0])
            return 0;
    return stands(m, all, m->map_ranks[0]);
}

static void settle_maps(struct wi_mesh *m, const struct map_claim *all)
{
    uint64_t slot_bytes = UINT64_MAX;
    uint32_t slots = UINT32_MAX;
    int mapped = 0;

    m->can_map = m->can_get = m->can_put = 1;
    for (int r = 0; r < m->nranks; r++) {
        m->map_of[r] =
            all[r].lowest >= 0 && all[r].lowest < m->nranks && stands(m, all, all[r].lowest) ? all[r].lowest : r;
        m->can_map &= all[r].can_map != 0;
        m->can_get &= all[r].can_get != 0;
        m->can_put &= all[r].can_put != 0;
        mapped |= m->map_of[r] != r;
        slots = all[r].slots < slots ? all[r].slots : slots;
        slot_bytes = all[r].slot_bytes < slot_bytes ? all[r].slot_bytes : slot_bytes;
    }
    if (!mapped)
        m->can_map = m->can_get = m->can_put = 0;
    m->slots = mapped ? slots : 0;
    m->slot_bytes = mapped ? (size_t)slot_bytes : 0;
    if (!own_stands(m, all))
        unmap(m);
    m->all_mapped = m->mapped_group && m->nmapped == m->nranks;
}

static weft_status agree(struct build *b, weft_status local, const int *chosen)
{
    struct wi_mesh *m = b->mesh;
    struct rounds rs = {.build = b, .failed_rank = -1};
    struct probe probe, *probes = wi_calloc((size_t)m->nranks, sizeof probe);
    struct map_claim mine, *all = wi_calloc((size_t)m->nranks, sizeof mine);
    weft_status st = local;

    memset(b->members, 1, (size_t)m->nranks);
    if (st >= 0)
        st = probes && all ? find_mapped(b, chosen) : wi_fail(WEFT_ENOMEM, "agreement");
    if (st >= 0)
        st = own_probe(&probe);
    if (st >= 0)
        st = group_all_gather(&rs, &probe, sizeof probe, probes);
    if (st >= 0) {
        mine = claim(m, probes);
        st = group_all_gather(&rs, &mine, sizeof mine, all);
    }
    if (st >= 0)
        settle_maps(m, all);
    st = drain(&rs, st);
    wi_free(probes);
    wi_free(all);
    return st;
}

/* ---- The whole ---- */

static weft_status build_mesh(struct build *b)
{
    struct wi_mesh *m = b->mesh;
    size_t n = (size_t)m->nranks;
    weft_status local;
    int *chosen = wi_calloc(n, sizeof *chosen);
    weft_status st;

    m->ranks = wi_calloc(n, sizeof *m->ranks);
    m->links = wi_calloc(n, sizeof *m->links);
    m->map_of = wi_calloc(n, sizeof *m->map_of);
    m->map_ranks = wi_calloc(n, sizeof *m->map_ranks);
    b->intros = wi_calloc(n, sizeof *b->intros);
    b->address_of = wi_calloc(n, sizeof *b->address_of);
    b->address_bytes_of = wi_calloc(n, sizeof *b->address_bytes_of);
    b->members = wi_calloc(n, 1);
    if (!chosen || !m->ranks || !m->links || !m->map_of || !m->map_ranks || !b->intros || !b->address_of ||
        !b->address_bytes_of || !b->members) {
        st = wi_fail(WEFT_ENOMEM, "mesh of %d ranks", m->nranks);
        goto out;
    }
    st = wi_routes_init(&m->routes, m->rank, m->nranks);
    if (st >= 0)
        st = introduce(b);
    if (st < 0)
        goto out;
    memcpy(m->comm_id, b->intros[0].comm_id, sizeof m->comm_id);
    m->transports = b->transports;
    m->map_ranks[0] = m->rank;
    m->nmapped = 1;
    st = wi_transports_add_key(b->transports, m->comm_id, b->bootstrap->job_key, sizeof b->bootstrap->job_key,
                               b->bootstrap->job);
    if (st < 0)
        goto out; /* the others notice when this rank does not enter the next exchange */
    number_nodes(b);
    agree_on_rates(b);
    if (m->nranks > 1) {
        st = choose(b, chosen, &local);
        if (st < 0)
            goto out;
        for (int i = 0; i < m->routes.nnames; i++)
            if (m->routes.used >> i & 1)
                local = create_group(b, m->routes.names[i], chosen, local);
        st = agree(b, local, chosen);
    }
out:
    wi_free(chosen);
    wi_free(b->intros);
    wi_free(b->addresses);
    wi_free(b->address_of);
    wi_free(b->address_bytes_of);
    wi_free(b->members);
    return st;
}

weft_status wi_mesh_create(struct wi_transports *transports, struct wi_bootstrap *bootstrap,
                           const struct wi_mesh_config *config, struct wi_mesh **mesh)
{
    struct wi_mesh *m = wi_calloc(1, sizeof *m);
    struct build b = {.mesh = m, .transports = transports, .bootstrap = bootstrap, .config = config};
    weft_status st;

    if (!m)
        return wi_fail(WEFT_ENOMEM, "mesh");
    m->rank = bootstrap->rank;
    m->nranks = bootstrap->nranks;
    st = build_mesh(&b);
    if (st < 0) {
        wi_mesh_destroy(m, 1);
        return st;
    }
    *mesh = m;
    return WEFT_SUCCESS;
}

void wi_mesh_destroy(struct wi_mesh *m, int aborted)
{
    if (!m)
        return;
    for (int i = m->ngroups - 1; i >= 0; i--) {
        m->groups[i].transport->ops.group_destroy(m->groups[i].group, aborted);
        wi_side_close(m->groups[i].side);
    }
    if (m->transports)
        wi_transports_drop_key(m->transports, m->comm_id);
    wi_routes_fini(&m->routes);
    wi_free(m->ranks);
    wi_free(m->links);
    wi_free(m->map_of);
    wi_free(m->map_ranks);
    wi_free(m);
}

const char *wi_mesh_host(const struct wi_mesh *m, int rank)
{
    return rank >= 0 && rank < m->nranks ? m->ranks[rank].node.name : "?";
}
