/* SPDX-License-Identifier: BSD-3-Clause */
/* Unique ids.
 *
 * 128 bytes: "WFID", version, number of addresses, 2 zero bytes, nonce 8, node 16, secret 32,
 * 3 x (family, zero, port 2, address 16), check sum 4. The sum finds damage, not forgery: an id is a secret. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fds.h"
#include "base/hash.h"
#include "base/secret.h"
#include "base/status.h"
#include "net/bootstrap_id.h"
#include "net/bootstrap_key.h"
#include "net/bootstrap_mesh.h"

#define ID_VERSION 1
#define ID_JOB "id"
#define ID_ADDRESSES 64
#define ID_ADDRESS_BYTES 20
#define ID_SUM 124
#define KEY_NS 10000000000ull        /* for the writer of a pipe */
#define ID_UNUSED_NS 300000000000ull /* an id that is never completed is served for five minutes */

static uint32_t id_sum(const unsigned char *bytes)
{
    return (uint32_t)wi_hash64(bytes, ID_SUM, 0x49444944u);
}

void wi_id_encode(const struct wi_id *id, weft_unique_id *out)
{
    unsigned char *bytes = (unsigned char *)out->bytes;
    memset(bytes, 0, WEFT_UNIQUE_ID_BYTES);
    memcpy(bytes, "WFID", 4);
    bytes[4] = ID_VERSION;
    bytes[5] = (unsigned char)id->nat;
    memcpy(bytes + 8, id->nonce, 8);
    wi_put64(bytes + 16, id->node.id[0]);
    wi_put64(bytes + 24, id->node.id[1]);
    memcpy(bytes + 32, id->secret, 32);
    for (int i = 0; i < id->nat; i++) {
        unsigned char *to = bytes + ID_ADDRESSES + i * ID_ADDRESS_BYTES;
        const struct sockaddr_storage *ss = &id->at[i].ss;
        uint16_t port = wi_sockaddr_port(&id->at[i]);
        to[0] = ss->ss_family == AF_INET6 ? 6 : 4;
        to[2] = (unsigned char)port;
        to[3] = (unsigned char)(port >> 8);
        if (to[0] == 6)
            memcpy(to + 4, &((const struct sockaddr_in6 *)ss)->sin6_addr, 16);
        else
            memcpy(to + 4, &((const struct sockaddr_in *)ss)->sin_addr, 4);
    }
    wi_put32(bytes + ID_SUM, id_sum(bytes));
}

static int id_address(const unsigned char *from, struct wi_sockaddr *at)
{
    memset(at, 0, sizeof(*at));
    if (from[0] == 6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&at->ss;
        in6->sin6_family = AF_INET6;
        memcpy(&in6->sin6_addr, from + 4, 16);
        at->bytes = sizeof(*in6);
    } else if (from[0] == 4) {
        struct sockaddr_in *in = (struct sockaddr_in *)&at->ss;
        in->sin_family = AF_INET;
        memcpy(&in->sin_addr, from + 4, 4);
        at->bytes = sizeof(*in);
    } else {
        return -1;
    }
    wi_sockaddr_set_port(at, (uint16_t)(from[2] | from[3] << 8));
    return 0;
}

weft_status wi_id_decode(const weft_unique_id *in, struct wi_id *id)
{
    const unsigned char *bytes = (const unsigned char *)in->bytes;
    memset(id, 0, sizeof(*id));
    if (memcmp(bytes, "WFID", 4))
        return wi_fail(WEFT_EINVAL, "the unique id is none of weft's (or was never filled)");
    if (wi_get32(bytes + ID_SUM) != id_sum(bytes))
        return wi_fail(WEFT_EINVAL, "the unique id is damaged");
    if (bytes[4] != ID_VERSION)
        return wi_fail(WEFT_EINVAL, "the unique id has version %d, this library knows %d", bytes[4], ID_VERSION);
    id->nat = bytes[5];
    if (id->nat > 3)
        return wi_fail(WEFT_EINVAL, "the unique id is damaged");
    memcpy(id->nonce, bytes + 8, 8);
    id->node.id[0] = wi_get64(bytes + 16);
    id->node.id[1] = wi_get64(bytes + 24);
    memcpy(id->secret, bytes + 32, 32);
    for (int i = 0; i < id->nat; i++)
        if (id_address(bytes + ID_ADDRESSES + i * ID_ADDRESS_BYTES, &id->at[i]))
            return wi_fail(WEFT_EINVAL, "the unique id is damaged");
    return WEFT_SUCCESS;
}

static void id_local_name(const struct wi_id *id, char *name, size_t capacity)
{
    snprintf(name, capacity, "weft-id-%016llx", (unsigned long long)wi_get64(id->nonce));
}

void wi_id_rendezvous(const struct wi_id *id, struct wi_rendezvous *r)
{
    struct wi_node_id here;
    char name[40];
    wi_rendezvous_init(r);
    if (wi_node_id(NULL, &here) == WEFT_SUCCESS && !memcmp(here.id, id->node.id, sizeof(here.id))) {
        id_local_name(id, name, sizeof(name));
        wi_sockaddr_local(&r->fixed[r->nfixed++], name, 0);
        return;
    }
    for (int i = 0; i < id->nat; i++)
        r->fixed[r->nfixed++] = id->at[i];
}

/* A host without a network can still serve its own processes, over the local socket. */
static weft_status id_listen_tcp(const struct wi_bootstrap_settings *s, struct wi_id *id, int *fd)
{
    const char *interfaces = s->interfaces && *s->interfaces ? s->interfaces : NULL;
    struct wi_sockaddr *at = &id->at[0];
    *fd = -1;
    if (wi_interface_address(interfaces, at) < 0)
        return interfaces ? WEFT_ECONFIG : WEFT_SUCCESS;
    wi_sockaddr_set_port(at, (uint16_t)s->store_port);
    *fd = wi_socket_listen(at, "start-up store");
    if (*fd < 0)
        return wi_fail_errno(errno, "listen for the ranks of a unique id");
    at->bytes = sizeof(at->ss);
    getsockname(*fd, (struct sockaddr *)&at->ss, &at->bytes);
    id->nat = 1;
    return WEFT_SUCCESS;
}

static int id_listen_local(const struct wi_id *id)
{
    struct wi_sockaddr local;
    char name[40];
    id_local_name(id, name, sizeof(name));
    wi_sockaddr_local(&local, name, 0);
    return wi_socket_listen(&local, "start-up store");
}

weft_status wi_id_listen_again(const int listen_fds[2], uint64_t deadline_ns)
{
    for (int i = 0; i < 2; i++)
        if (listen_fds[i] >= 0 && wi_socket_listen_again(listen_fds[i], deadline_ns))
            return wi_fail_errno(errno, "listen again for the ranks of this job");
    return WEFT_SUCCESS;
}

weft_status wi_id_listen(const struct wi_bootstrap_settings *s, int local_only, struct wi_id *id, int listen_fds[2])
{
    memset(id, 0, sizeof(*id));
    WI_TRY(wi_node_id(NULL, &id->node));
    if (wi_random(id->nonce, sizeof(id->nonce)) || wi_random(id->secret, sizeof(id->secret)))
        return wi_fail_errno(errno, "random bytes");
    listen_fds[0] = id_listen_local(id);
    if (listen_fds[0] < 0)
        return wi_fail_errno(errno, "listen for the ranks of a unique id");
    listen_fds[1] = -1;
    weft_status st = local_only ? WEFT_SUCCESS : id_listen_tcp(s, id, &listen_fds[1]);
    if (st < 0)
        wi_fd_close(listen_fds[0]);
    return st;
}

weft_status wi_id_serve(const struct wi_bootstrap_settings *s, const struct wi_job_key *configured, const char *job,
                        int nranks, uint64_t give_up_ns, struct wi_id *id, struct wi_store_server **server)
{
    struct wi_store_server_config config = {.nranks = nranks, .give_up_ns = give_up_ns};
    WI_TRY(wi_id_listen(s, 0, id, config.listen_fds));
    unsigned char key[WI_JOB_KEY_BYTES];
    memcpy(key, id->secret, sizeof(key));
    weft_status st = wi_job_key_mix(configured, key);
    if (st == WEFT_SUCCESS)
        st = wi_auth_derive(key, sizeof(key), job, WI_STORE_PURPOSE, &config.key);
    explicit_bzero(key, sizeof(key));
    if (st < 0) {
        for (int i = 0; i < 2; i++)
            if (config.listen_fds[i] >= 0)
                wi_fd_close(config.listen_fds[i]);
        return st;
    }
    st = wi_store_server_create(&config, server);
    explicit_bzero(&config, sizeof(config));
    return st;
}

/* Ids that this process serves and rank 0 has not picked up yet. */
struct served {
    struct served *next;
    weft_unique_id *id; /* base/secret.h */
    struct wi_store_server *server;
};
static struct served *served_list;
static pthread_mutex_t served_lock = PTHREAD_MUTEX_INITIALIZER;

static void served_free(struct served *served)
{
    wi_secret_free(served->id);
    wi_free(served);
}

/* Take the server of `id` off the list, NULL if it is not there; on the way, clear away what has ended. */
static weft_status served_take(const weft_unique_id *id, uint64_t deadline_ns, struct wi_store_server **server)
{
    struct wi_store_server *found = NULL;
    WI_TRY(wi_start_lock(&served_lock, "find the store of a unique id", deadline_ns));
    for (struct served **link = &served_list; *link;) {
        struct served *s = *link;
        int wanted = id && !memcmp(s->id, id, sizeof(*id));
        if (!wanted && !wi_store_server_finished(s->server)) {
            link = &s->next;
            continue;
        }
        *link = s->next;
        if (wanted)
            found = s->server;
        else
            wi_store_server_destroy(s->server);
        served_free(s);
    }
    pthread_mutex_unlock(&served_lock);
    *server = found;
    return WEFT_SUCCESS;
}

static weft_status served_add(struct served *served, uint64_t deadline_ns)
{
    WI_TRY(wi_start_lock(&served_lock, "serve a unique id", deadline_ns));
    served->next = served_list;
    served_list = served;
    pthread_mutex_unlock(&served_lock);
    return WEFT_SUCCESS;
}

weft_status wi_unique_id_create(const struct wi_bootstrap_settings *s, weft_unique_id *id)
{
    struct wi_id fresh;
    struct wi_job_key key;
    weft_unique_id made;
    struct wi_store_server *nobody;
    uint64_t deadline_ns = wi_deadline_ns(KEY_NS);
    WI_TRY(served_take(NULL, deadline_ns, &nobody));
    struct served *served = wi_calloc(1, sizeof(*served));
    if (!served)
        return wi_fail(WEFT_ENOMEM, "no memory for a unique id");
    served->id = wi_secret_alloc(sizeof(*served->id));
    weft_status st = served->id ? wi_job_key_read(s, WI_JOB_KEY_MAY, deadline_ns, &key)
                                : wi_fail(WEFT_ENOMEM, "no memory for a unique id");
    if (st == WEFT_SUCCESS)
        st = wi_id_serve(s, &key, ID_JOB, 0, wi_deadline_ns(ID_UNUSED_NS), &fresh, &served->server);
    explicit_bzero(&key, sizeof(key));
    if (st == WEFT_SUCCESS) {
        wi_id_encode(&fresh, &made);
        explicit_bzero(&fresh, sizeof(fresh));
        *served->id = made;
        st = served_add(served, wi_deadline_ns(KEY_NS)); /* from here on another thread may take it */
        if (st == WEFT_SUCCESS)
            *id = made;
        explicit_bzero(&made, sizeof(made));
    }
    if (st < 0) {
        wi_store_server_destroy(served->server);
        served_free(served);
    }
    return st;
}

weft_status wi_bootstrap_id(const struct wi_bootstrap_settings *s, const weft_unique_id *id, int rank, int nranks,
                            uint64_t deadline_ns, struct wi_bootstrap **b)
{
    struct wi_boot_config config = {
        .rank = rank, .nranks = nranks, .local_rank = -1, .local_nranks = -1, .has_secret = 1, .job = ID_JOB};
    struct wi_id known;
    struct wi_job_key key;
    if (nranks < 1 || rank < 0 || rank >= nranks)
        return wi_fail(WEFT_EINVAL, "rank %d of %d ranks", rank, nranks);
    WI_TRY(wi_id_decode(id, &known));
    WI_TRY(wi_job_key_read(s, nranks > 1 ? WI_JOB_KEY_MUST : WI_JOB_KEY_MAY, deadline_ns, &key));
    wi_id_rendezvous(&known, &config.rendezvous);
    config.rendezvous.interfaces = s->interfaces && *s->interfaces ? s->interfaces : NULL;
    memcpy(config.job_key, known.secret, sizeof(config.job_key));
    weft_status st = config.rendezvous.nfixed
                         ? wi_job_key_mix(&key, config.job_key)
                         : wi_fail(WEFT_ENOTSUP, "the unique id was made on a host without a network "
                                                 "and is used on another");
    if (st == WEFT_SUCCESS && rank == 0)
        st = served_take(id, deadline_ns, &config.server);
    if (st == WEFT_SUCCESS)
        st = wi_boot_create(&config, deadline_ns, b);
    if (st < 0)
        wi_store_server_destroy(config.server);
    explicit_bzero(&config, sizeof(config));
    explicit_bzero(&known, sizeof(known));
    explicit_bzero(&key, sizeof(key));
    return st;
}
