/* SPDX-License-Identifier: BSD-3-Clause */
/* PMI: the process manager carries the store's address and a secret. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fds.h"
#include "base/secret.h"
#include "base/status.h"
#include "net/bootstrap_id.h"
#include "net/bootstrap_pmi.h"
#include "net/pmi.h"

/* PMI is spoken once per process, for its barrier and key space cannot be had again after an MPI library in the same
 * process has used them; rank 0's sockets stay bound for later communicators, and listen while one is made. */
static struct {
    pthread_mutex_t lock;
    weft_unique_id *id; /* NULL: not known yet (base/secret.h) */
    int listen_fds[2];
    int used; /* they have served a communicator */
} pmi_meeting = {.lock = PTHREAD_MUTEX_INITIALIZER, .listen_fds = {-1, -1}};

#define PMI_TEXT_BYTES (2 * WEFT_UNIQUE_ID_BYTES + 1)

static weft_status pmi_publish(const struct wi_bootstrap_settings *s, const struct wi_env *env, struct wi_pmi *pmi,
                               char text[PMI_TEXT_BYTES])
{
    struct wi_id id;
    weft_unique_id packed;
    WI_TRY(wi_id_listen(s, env->one_host, &id, pmi_meeting.listen_fds));
    wi_id_encode(&id, &packed);
    wi_hex_encode((const unsigned char *)packed.bytes, WEFT_UNIQUE_ID_BYTES, text);
    explicit_bzero(&packed, sizeof(packed));
    explicit_bzero(&id, sizeof(id));
    return wi_pmi_put(pmi, "weft-store", text);
}

static weft_status pmi_talk(const struct wi_bootstrap_settings *s, const struct wi_env *env, struct wi_pmi *pmi,
                            char text[PMI_TEXT_BYTES], uint64_t deadline_ns)
{
    WI_TRY(wi_pmi_init(pmi, env->pmi_fd, deadline_ns));
    if (env->rank == 0)
        WI_TRY(pmi_publish(s, env, pmi, text));
    WI_TRY(wi_pmi_barrier(pmi));
    return wi_pmi_get(pmi, "weft-store", text, PMI_TEXT_BYTES);
}

static weft_status pmi_exchange(const struct wi_bootstrap_settings *s, const struct wi_env *env, uint64_t deadline_ns)
{
    struct wi_pmi pmi;
    char text[PMI_TEXT_BYTES] = "";
    weft_unique_id *id = wi_secret_alloc(sizeof(*id));
    weft_status st = id ? pmi_talk(s, env, &pmi, text, deadline_ns) : wi_fail(WEFT_ENOMEM, "no memory for start-up");
    if (st == WEFT_SUCCESS &&
        (strlen(text) != PMI_TEXT_BYTES - 1 || wi_hex_decode(text, WEFT_UNIQUE_ID_BYTES, (unsigned char *)id->bytes)))
        st = wi_fail(WEFT_EPROTO, "PMI: rank 0 published a malformed address");
    explicit_bzero(text, sizeof(text));
    explicit_bzero(&pmi, sizeof(pmi));
    if (st == WEFT_SUCCESS)
        pmi_meeting.id = id;
    else
        wi_secret_free(id);
    return st;
}

/* For a store, which closes them. */
static weft_status listeners_dup(int listen_fds[2])
{
    for (int i = 0; i < 2; i++) {
        if (pmi_meeting.listen_fds[i] < 0)
            continue;
        listen_fds[i] = wi_fd_keep(fcntl(pmi_meeting.listen_fds[i], F_DUPFD_CLOEXEC, 3));
        if (listen_fds[i] >= 0)
            continue;
        weft_status st = wi_fail_errno(errno, "duplicate the store's listening socket");
        if (i > 0 && listen_fds[0] >= 0)
            wi_fd_close(listen_fds[0]);
        listen_fds[0] = listen_fds[1] = -1;
        return st;
    }
    return WEFT_SUCCESS;
}

weft_status wi_boot_pmi_meet(const struct wi_bootstrap_settings *s, const struct wi_env *env,
                             const struct wi_job_key *key, uint64_t deadline_ns, struct wi_boot_config *config,
                             int listen_fds[2])
{
    struct wi_id id;
    WI_TRY(wi_start_lock(&pmi_meeting.lock, "meet by PMI", deadline_ns));
    weft_status st = pmi_meeting.id ? WEFT_SUCCESS : pmi_exchange(s, env, deadline_ns);
    if (st == WEFT_SUCCESS)
        st = wi_id_decode(pmi_meeting.id, &id);
    if (st == WEFT_SUCCESS && env->rank == 0 && pmi_meeting.used++)
        st = wi_id_listen_again(pmi_meeting.listen_fds, deadline_ns);
    if (st == WEFT_SUCCESS)
        st = listeners_dup(listen_fds);
    pthread_mutex_unlock(&pmi_meeting.lock);
    WI_TRY(st);
    wi_id_rendezvous(&id, &config->rendezvous);
    config->rendezvous.interfaces = env->rendezvous.interfaces;
    memcpy(config->job_key, id.secret, sizeof(config->job_key));
    explicit_bzero(&id, sizeof(id));
    config->has_secret = 1;
    config->own_user = env->one_host;
    return wi_job_key_mix(key, config->job_key);
}
