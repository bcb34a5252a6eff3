/* SPDX-License-Identifier: BSD-3-Clause */
/* All-gather over the links, and the life of a bootstrap that has met at a store.
 *
 * P = 5, rank 0; a block is named by the rank it comes from:
 *   round 0   send [0]      to 4, receive [1]    from 1
 *   round 1   send [0 1]    to 3, receive [2 3]  from 2
 *   round 2   send [0]      to 1, receive [4]    from 4
 * then the blocks, which begin with the own one, are turned into rank order.
 *
 * What a link carries is a stream of sealed messages: of each round the head, then the blocks if they are not empty. So a head
 * is believed before anything is made of it, and blocks before they are passed on. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "net/bootstrap_mesh.h"

#define HEAD_BYTES 16
#define HEAD_SEALED (HEAD_BYTES + WI_AUTH_TAG_BYTES)
#define HEAD_MAGIC 0x4b4c4657u
#define REPORT_NS 200000000ull  /* a rank that waits that long reports it to the store */
#define VERDICT_NS 500000000ull /* a broken link: time for the store to say which rank is really gone */

weft_status wi_boot_fail(struct wi_boot *mesh, weft_status status, int culprit, const char *format, ...)
{
    if (mesh->failed)
        return wi_fail(mesh->failed, "%s", mesh->verdict.text);
    va_list ap;
    va_start(ap, format);
    vsnprintf(mesh->verdict.text, sizeof(mesh->verdict.text), format, ap);
    va_end(ap);
    mesh->verdict.status = status;
    mesh->verdict.culprit = culprit;
    mesh->failed = status;
    return wi_fail(status, "%s", mesh->verdict.text);
}

void wi_boot_say_step(struct wi_boot *mesh, enum wi_store_frame_type type, uint64_t step)
{
    unsigned char value[8];
    wi_put64(value, step);
    if (!mesh->store.closed && wi_store_frame_append(&mesh->store.out, type, NULL, value, sizeof(value)))
        wi_log(WEFT_LOG_WARN, "store.full", "message to rank 0 lost");
}

weft_status wi_boot_store_pump(struct wi_boot *mesh, void (*value)(void *arg, const struct wi_store_frame *frame))
{
    WI_TRY(wi_store_client_pump(&mesh->store, value, mesh));
    if (mesh->failed)
        return wi_fail(mesh->failed, "%s", mesh->verdict.text);
    if (mesh->store.judged)
        return wi_boot_fail(mesh, mesh->store.verdict.status, mesh->store.verdict.culprit, "%s",
                            mesh->store.verdict.text);
    return WEFT_SUCCESS;
}

void wi_boot_missing_text(const struct wi_boot *mesh, char *text, size_t capacity)
{
    const struct wi_store_client *store = &mesh->store;
    uint32_t known = store->missing_total < WI_STORE_CLIENT_MISSING ? store->missing_total : WI_STORE_CLIENT_MISSING;
    text[0] = '\0';
    if (!store->knows_missing || !known)
        return;
    size_t used = (size_t)snprintf(text, capacity, "%s", store->missing_total == 1 ? "rank" : "ranks");
    for (uint32_t i = 0, last; i < known && used + 40 < capacity; i = last + 1) {
        for (last = i; last + 1 < known && store->missing[last + 1] == store->missing[last] + 1; last++)
            ;
        used += (size_t)snprintf(text + used, capacity - used, last > i + 1 ? "%s %u-%u" : "%s %u", i ? "," : "",
                                 store->missing[i], store->missing[last]);
        if (last == i + 1)
            last = i;
        if (last + 1 == known && known < store->missing_total)
            used += (size_t)snprintf(text + used, capacity - used, ", ...");
    }
    snprintf(text + used, capacity - used, " (of %d)", mesh->base.nranks);
}

/* One round under way: bytes still to send to one neighbour and to receive from another. */
struct round {
    int k;
    unsigned char out_head[HEAD_SEALED], in_head[HEAD_SEALED];
    unsigned char out_tag[WI_AUTH_TAG_BYTES], in_tag[WI_AUTH_TAG_BYTES]; /* of the payload */
    unsigned char *out, *in;
    size_t out_bytes, in_bytes; /* payload */
    size_t sent, received;      /* head and tags included */
};

static size_t round_total(size_t payload_bytes)
{
    return HEAD_SEALED + payload_bytes + (payload_bytes ? WI_AUTH_TAG_BYTES : 0);
}

/* What is left of head, payload and tag once `done` bytes are. */
static size_t round_rest(struct iovec rest[3], unsigned char *head, unsigned char *payload, size_t payload_bytes,
                         unsigned char *tag, size_t done)
{
    struct iovec parts[3] = {
        {head, HEAD_SEALED}, {payload, payload_bytes}, {tag, payload_bytes ? WI_AUTH_TAG_BYTES : 0}};
    size_t n = 0;
    for (int i = 0; i < 3; i++) {
        size_t skip = done < parts[i].iov_len ? done : parts[i].iov_len;
        done -= skip;
        if (skip == parts[i].iov_len)
            continue;
        rest[n++] = (struct iovec){(unsigned char *)parts[i].iov_base + skip, parts[i].iov_len - skip};
    }
    return n;
}

struct gather {
    struct wi_boot *mesh;
    uint32_t mine_bytes;
    uint64_t begin_ns, report_ns, ask_ns, deadline_ns;
    int reported, asked;
};

static int round_send(struct round *r, int fd)
{
    while (r->sent < round_total(r->out_bytes)) {
        struct iovec rest[3];
        struct msghdr message = {.msg_iov = rest};
        message.msg_iovlen = round_rest(rest, r->out_head, r->out, r->out_bytes, r->out_tag, r->sent);
        ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        r->sent += (size_t)n;
    }
    return 0;
}

static weft_status round_seal(struct gather *g, struct round *r)
{
    struct wi_auth_stream *stream = &g->mesh->out[r->k].stream;
    if (wi_auth_seal(stream, r->out_head, HEAD_BYTES, r->out_head + HEAD_BYTES) ||
        (r->out_bytes && wi_auth_seal(stream, r->out, r->out_bytes, r->out_tag)))
        return wi_fail(WEFT_ENOMEM, "no memory to authenticate a start-up exchange");
    return WEFT_SUCCESS;
}

static weft_status round_open(struct gather *g, const struct round *r, const void *data, size_t bytes,
                              const unsigned char *tag)
{
    struct wi_boot *mesh = g->mesh;
    int peer = mesh->in[r->k].peer;
    weft_status st = wi_auth_open(&mesh->in[r->k].stream, data, bytes, tag);
    if (st == WEFT_SUCCESS)
        return st;
    if (st == WEFT_ENOMEM)
        return wi_boot_fail(mesh, st, mesh->base.rank, "rank %d has no memory to check start-up exchange %u",
                            mesh->base.rank, mesh->seq);
    return wi_boot_fail(mesh, WEFT_EAUTH, peer,
                        "what rank %d sent to rank %d in start-up exchange %u was changed on its way", peer,
                        mesh->base.rank, mesh->seq);
}

static weft_status head_check(struct gather *g, const struct round *r)
{
    const unsigned char *head = r->in_head;
    int peer = g->mesh->in[r->k].peer;
    WI_TRY(round_open(g, r, head, HEAD_BYTES, head + HEAD_BYTES));
    if (wi_get32(head) != HEAD_MAGIC)
        return wi_boot_fail(g->mesh, WEFT_EPROTO, peer, "rank %d sent a malformed start-up message", peer);
    if (wi_get32(head + 4) != g->mesh->seq || wi_get32(head + 12) != (uint32_t)r->k)
        return wi_boot_fail(g->mesh, WEFT_EMISMATCH, peer, "rank %d is in start-up exchange %u, this rank in %u", peer,
                            wi_get32(head + 4), g->mesh->seq);
    if (wi_get32(head + 8) != g->mine_bytes)
        return wi_boot_fail(g->mesh, WEFT_EMISMATCH, peer, "rank %d gathers %u bytes per rank, rank %d gathers %u",
                            peer, wi_get32(head + 8), g->mesh->base.rank, g->mine_bytes);
    return WEFT_SUCCESS;
}

/* 0: go on, -1: the link broke, -2: failed for a recorded reason. */
static int round_recv(struct gather *g, struct round *r, int fd)
{
    while (r->received < round_total(r->in_bytes)) {
        struct iovec rest[3];
        struct msghdr message = {.msg_iov = rest};
        int in_head = r->received < HEAD_SEALED;
        message.msg_iovlen = round_rest(rest, r->in_head, r->in, r->in_bytes, r->in_tag, r->received);
        if (in_head)
            message.msg_iovlen = 1; /* whether its sizes are this rank's comes first */
        ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT);
        if (n == 0)
            return -1;
        if (n < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        r->received += (size_t)n;
        if (in_head && r->received == HEAD_SEALED && head_check(g, r) < 0)
            return -2;
        if (r->in_bytes && r->received == round_total(r->in_bytes) &&
            round_open(g, r, r->in, r->in_bytes, r->in_tag) < 0)
            return -2;
    }
    return 0;
}

static weft_status link_broke(struct gather *g, int peer)
{
    struct wi_boot *mesh = g->mesh;
    uint64_t deadline = wi_deadline_ns(VERDICT_NS);
    while (!mesh->store.closed && wi_now_ns() < deadline) {
        WI_TRY(wi_boot_store_pump(mesh, NULL));
        if (!mesh->store.closed)
            wi_socket_poll(mesh->store.fd, POLLIN, deadline);
    }
    return wi_boot_fail(mesh, WEFT_EPEER, peer, "rank %d is gone: it closed its start-up connection to rank %d", peer,
                        mesh->base.rank);
}

static weft_status gather_timed_out(struct gather *g)
{
    char text[160];
    struct wi_boot *mesh = g->mesh;
    double seconds = (double)(wi_now_ns() - g->begin_ns) / 1e9;
    wi_boot_missing_text(mesh, text, sizeof(text));
    if (text[0])
        return wi_boot_fail(mesh, WEFT_ETIMEDOUT, (int)mesh->store.missing[0],
                            "%s did not take part in start-up exchange %u within %.3g s", text, mesh->seq, seconds);
    return wi_boot_fail(mesh, WEFT_ETIMEDOUT, -1, "start-up exchange %u of %d ranks did not end within %.3g s",
                        mesh->seq, mesh->base.nranks, seconds);
}

/* A rank that waits long reports it to the store, which tells ranks that ask at the deadline which ones have not come. */
static uint64_t gather_watch(struct gather *g, uint64_t now)
{
    if (now >= g->report_ns && !g->reported++)
        wi_boot_say_step(g->mesh, WI_STORE_ENTER, g->mesh->seq);
    if (now >= g->ask_ns && !g->asked++) {
        g->mesh->store.knows_missing = 0;
        wi_boot_say_step(g->mesh, WI_STORE_WHO, g->mesh->seq);
        g->deadline_ns = wi_boot_answer_ns(now, g->ask_ns, g->deadline_ns);
    }
    return !g->reported ? g->report_ns : !g->asked ? g->ask_ns : g->deadline_ns;
}

static weft_status round_wait(struct gather *g, const struct round *r)
{
    struct wi_boot *mesh = g->mesh;
    uint64_t now = wi_now_ns(), until = gather_watch(g, now);
    if (now >= g->deadline_ns)
        return gather_timed_out(g);
    int store_busy = wi_store_buf_bytes(&mesh->store.out) > 0;
    struct pollfd fds[3] = {
        {.fd = r->received < round_total(r->in_bytes) ? mesh->in[r->k].fd : -1, .events = POLLIN},
        {.fd = r->sent < round_total(r->out_bytes) ? mesh->out[r->k].fd : -1, .events = POLLOUT},
        {.fd = mesh->store.closed ? -1 : mesh->store.fd, .events = (short)(POLLIN | (store_busy ? POLLOUT : 0))},
    };
    if (poll(fds, 3, wi_poll_ms(until)) < 0 && errno != EINTR)
        return wi_fail_errno(errno, "wait for the other ranks");
    return fds[2].revents ? wi_boot_store_pump(mesh, NULL) : WEFT_SUCCESS;
}

static weft_status round_run(struct gather *g, struct round *r)
{
    struct wi_boot *mesh = g->mesh;
    for (;;) {
        if (round_send(r, mesh->out[r->k].fd))
            return link_broke(g, mesh->out[r->k].peer);
        int bad = round_recv(g, r, mesh->in[r->k].fd);
        if (bad == -1)
            return link_broke(g, mesh->in[r->k].peer);
        if (bad)
            return mesh->failed;
        if (r->sent == round_total(r->out_bytes) && r->received == round_total(r->in_bytes))
            return WEFT_SUCCESS;
        WI_TRY(round_wait(g, r));
    }
}

static weft_status gather_rounds(struct gather *g, unsigned char *blocks)
{
    size_t bytes = g->mine_bytes, nranks = (size_t)g->mesh->base.nranks;
    for (int k = 0; k < g->mesh->nrounds; k++) {
        size_t have = (size_t)1 << k, move = have < nranks - have ? have : nranks - have;
        struct round r = {
            .k = k, .out = blocks, .in = blocks + have * bytes, .out_bytes = move * bytes, .in_bytes = move * bytes};
        wi_put32(r.out_head, HEAD_MAGIC);
        wi_put32(r.out_head + 4, g->mesh->seq);
        wi_put32(r.out_head + 8, g->mine_bytes);
        wi_put32(r.out_head + 12, (uint32_t)k);
        WI_TRY(round_seal(g, &r));
        WI_TRY(round_run(g, &r));
    }
    return WEFT_SUCCESS;
}

/* A failure of this process alone: the text that the others get. */
static void mesh_blame_self(struct wi_boot *mesh, weft_status status)
{
    if (mesh->failed)
        return;
    mesh->failed = mesh->verdict.status = status;
    mesh->verdict.culprit = mesh->base.rank;
    snprintf(mesh->verdict.text, sizeof(mesh->verdict.text), "rank %d failed to start: %.180s", mesh->base.rank,
             wi_fail_text());
}

weft_status wi_boot_all_gather(struct wi_bootstrap *b, const void *mine, size_t mine_bytes, void *all,
                               uint64_t deadline_ns)
{
    struct wi_boot *mesh = (struct wi_boot *)b;
    size_t nranks = (size_t)b->nranks, rank = (size_t)b->rank;
    if (mine_bytes > WI_STORE_VALUE_MAX || (mine_bytes && (!mine || !all)))
        return wi_fail(WEFT_EINVAL, "a start-up exchange carries 0 to %d bytes per rank, not %zu", WI_STORE_VALUE_MAX,
                       mine_bytes);
    if (mesh->failed)
        return wi_fail(mesh->failed, "%s", mesh->verdict.text);
    unsigned char *blocks = wi_malloc(nranks * mine_bytes + 1);
    if (!blocks)
        return wi_fail(WEFT_ENOMEM, "no memory to gather %zu bytes from %zu ranks", mine_bytes, nranks);
    if (mine_bytes)
        memcpy(blocks, mine, mine_bytes);
    mesh->seq++;

    uint64_t now = wi_now_ns();
    struct gather g = {.mesh = mesh, .mine_bytes = (uint32_t)mine_bytes, .begin_ns = now, .deadline_ns = deadline_ns};
    g.ask_ns = wi_boot_ask_ns(now, deadline_ns);
    g.report_ns = now + REPORT_NS < g.ask_ns ? now + REPORT_NS : now + (g.ask_ns - now) / 2;
    weft_status st = gather_rounds(&g, blocks);
    if (st == WEFT_SUCCESS && mine_bytes) {
        memcpy((unsigned char *)all + rank * mine_bytes, blocks, (nranks - rank) * mine_bytes);
        memcpy(all, blocks + (nranks - rank) * mine_bytes, rank * mine_bytes);
    }
    if (st < 0)
        mesh_blame_self(mesh, st);
    wi_free(blocks);
    return st;
}

void wi_boot_destroy(struct wi_bootstrap *b)
{
    struct wi_boot *mesh = (struct wi_boot *)b;
    if (!mesh)
        return;
    /* Report the cause to the store before the links break, so that the others get the cause and not its effect. */
    wi_store_client_leave(&mesh->store, mesh->failed ? &mesh->verdict : NULL);
    for (int k = 0; k < mesh->nrounds; k++) {
        wi_boot_link_close(&mesh->out[k]);
        wi_boot_link_close(&mesh->in[k]);
    }
    wi_store_server_destroy(mesh->server);
    explicit_bzero(mesh, sizeof(*mesh));
    wi_free(mesh);
}

static void mesh_init(struct wi_boot *mesh, const struct wi_boot_config *config)
{
    struct wi_bootstrap *b = &mesh->base;
    b->rank = config->rank;
    b->nranks = config->nranks;
    b->local_rank = config->local_rank;
    b->local_nranks = config->local_nranks;
    b->has_secret = config->has_secret;
    memcpy(b->job_key, config->job_key, sizeof(b->job_key));
    snprintf(b->job, sizeof(b->job), "%s", config->job);
    b->all_gather = wi_boot_all_gather;
    b->destroy = wi_boot_destroy;
    mesh->store.fd = -1;
    mesh->listen_fds[0] = mesh->listen_fds[1] = -1;
    mesh->local_only = config->local_only;
    mesh->interfaces = config->rendezvous.interfaces;
    for (int i = 0; i < WI_BOOT_HALF_OPEN; i++)
        mesh->strangers[i].fd = mesh->strangers[i].peer = -1;
    while (((int64_t)1 << mesh->nrounds) < b->nranks)
        mesh->nrounds++;
    for (int k = 0; k < mesh->nrounds; k++) {
        mesh->out[k].fd = mesh->in[k].fd = -1;
        mesh->out[k].peer = (int)(((int64_t)b->rank - (1 << k) + b->nranks) % b->nranks);
        mesh->in[k].peer = -1;
    }
}

/* Ranks that did not join may have tried with another key, or none: rank 0 knows. */
static void blame_keys(struct wi_boot *mesh, const struct wi_store_server *server)
{
    size_t used = strlen(mesh->verdict.text);
    long refused = server ? wi_store_server_refused(server) : 0;
    if (!refused || mesh->failed != WEFT_ETIMEDOUT)
        return;
    snprintf(mesh->verdict.text + used, sizeof(mesh->verdict.text) - used,
             "; %ld connection%s came with another job key, with none, or from another job", refused,
             refused > 1 ? "s" : "");
    wi_fail(mesh->failed, "%s", mesh->verdict.text);
}

weft_status wi_boot_create(const struct wi_boot_config *config, uint64_t deadline_ns, struct wi_bootstrap **b)
{
    struct wi_store_search search = {.rendezvous = config->rendezvous,
                                     .ask_key = config->ask_key,
                                     .own_user = config->own_user,
                                     .job = config->job,
                                     .rank = config->rank,
                                     .nranks = config->nranks,
                                     .refresh = config->refresh,
                                     .arg = config->arg};
    memcpy(search.job_key, config->job_key, sizeof(search.job_key));
    if (config->nranks > 1 << WI_BOOT_ROUNDS)
        return wi_fail(WEFT_ENOTSUP, "%d ranks: at most %d", config->nranks, 1 << WI_BOOT_ROUNDS);
    struct wi_boot *mesh = wi_calloc(1, sizeof(*mesh));
    if (!mesh)
        return wi_fail(WEFT_ENOMEM, "no memory for start-up");
    mesh_init(mesh, config);
    weft_status st = wi_node_id(NULL, &mesh->node);
    if (st == WEFT_SUCCESS)
        st = wi_store_client_connect(&mesh->store, &search, deadline_ns);
    memcpy(mesh->base.job_key, search.job_key, sizeof(search.job_key));
    if (st == WEFT_SUCCESS)
        st = wi_auth_derive(search.job_key, sizeof(search.job_key), config->job, "weft start-up link", &mesh->link_key);
    if (st == WEFT_SUCCESS)
        st = wi_boot_join(mesh, deadline_ns);
    explicit_bzero(search.job_key, sizeof(search.job_key));
    if (st < 0) {
        blame_keys(mesh, config->server);
        mesh_blame_self(mesh, st);
        wi_boot_destroy(&mesh->base);
        return st;
    }
    mesh->server = config->server;
    *b = &mesh->base;
    return WEFT_SUCCESS;
}
