/* memory.c: registered memory, and keys of it for peers.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "key.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* ---- Limits ---- */

void vb_explain_register(const struct vb_endpoint *e, int err, size_t bytes, const char *device)
{
    int slurm = getenv("SLURM_JOB_ID") != NULL;
    struct rlimit limit;

    if (err == ENOMEM && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        e->host->explain(
            e->host->impl, WEFT_ENOMEM,
            "verbs: %s does not register %zu bytes: this process may lock %llu KiB of memory (ulimit -l)%s", device,
            bytes, (unsigned long long)limit.rlim_cur >> 10,
            slurm ? "; under Slurm it is slurmd's limit that counts: LimitMEMLOCK=infinity in its unit, and "
                    "PropagateResourceLimitsExcept=MEMLOCK in slurm.conf"
                  : "; raise it in /etc/security/limits.conf, or LimitMEMLOCK of the service that starts ranks");
    else
        e->host->explain(e->host->impl, WEFT_ENOMEM, "verbs: %s does not register %zu bytes: %s", device, bytes,
                         strerror(err));
}

/* 0: it is too much. */
static int count(struct vb_endpoint *e, size_t bytes)
{
    size_t most = e->settings->register_max;
    int fits;

    pthread_mutex_lock(&e->lock);
    fits = !most || (bytes <= most && e->registered <= most - bytes);
    if (fits)
        e->registered += bytes;
    pthread_mutex_unlock(&e->lock);
    return fits;
}

static void uncount(struct vb_endpoint *e, size_t bytes)
{
    pthread_mutex_lock(&e->lock);
    e->registered -= bytes;
    pthread_mutex_unlock(&e->lock);
}

/* ---- Registering ---- */

static void free_mem(struct vb_endpoint *e, struct vb_mem *m)
{
    for (int i = 0; i < e->nports; i++)
        if (m->mr[i])
            ibv_dereg_mr(m->mr[i]);
    free(m);
}

static int register_on(struct vb_endpoint *e, struct vb_mem *m, unsigned access)
{
    for (int i = 0; i < e->nports; i++) {
        m->mr[i] = ibv_reg_mr(e->ports[i].pd, m->at, m->bytes, access);
        if (!m->mr[i]) {
            int err = errno;
            while (i > 0) {
                ibv_dereg_mr(m->mr[--i]);
                m->mr[i] = NULL;
            }
            return err;
        }
    }
    return 0;
}

weft_status vb_register(void *endpoint, void *ptr, size_t bytes, uint32_t memory, void **mem)
{
    const unsigned write = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, read = IBV_ACCESS_REMOTE_READ;
    struct vb_endpoint *e = endpoint;
    unsigned relaxed = e->settings->relaxed ? IBV_ACCESS_RELAXED_ORDERING : 0;
    struct vb_mem *m;
    int err;

    if (memory > WEFT_MEMORY_HOST || !ptr || !bytes)
        return VB_EXPLAIN(e, WEFT_EINVAL, "verbs: only memory of the host is registered");
    if (!count(e, bytes))
        return VB_EXPLAIN(e, WEFT_ENOMEM, "verbs: %zu bytes are more than WEFT_VERBS_REGISTER_MAX leaves", bytes);
    m = calloc(1, sizeof *m);
    if (!m) {
        uncount(e, bytes);
        return VB_EXPLAIN(e, WEFT_ENOMEM, "verbs: no memory for a registration");
    }
    m->at = ptr;
    m->bytes = bytes;
    m->writable = 1;
    err = register_on(e, m, write | read | relaxed);
    if (err == EFAULT || err == EACCES || err == EPERM) { /* of memory that may be read only, to send from */
        m->writable = 0;
        err = register_on(e, m, read | relaxed);
    }
    if (err) {
        uncount(e, bytes);
        free_mem(e, m);
        vb_explain_register(e, err, bytes, e->ports[0].name);
        return WEFT_ENOMEM;
    }
    *mem = m;
    return WEFT_SUCCESS;
}

void vb_deregister(void *endpoint, void *mem)
{
    struct vb_mem *m = mem;

    uncount(endpoint, m->bytes);
    free_mem(endpoint, m);
}

int vb_covered(const struct vb_mem *m, const void *at, size_t bytes)
{
    size_t offset = (size_t)((const unsigned char *)at - (m ? m->at : NULL));

    return !bytes || (m && offset <= m->bytes && bytes <= m->bytes - offset);
}

/* ---- Keys ---- */

/* So that one that was spoilt on its way is not tried: what a card refuses costs the connection. It does not keep a peer from
 * forging one: the card does. */
uint64_t vb_key_check(const struct vb_key *key)
{
    const unsigned char *at = (const unsigned char *)key;
    uint64_t sum = 0xcbf29ce484222325ull;

    for (size_t i = 0; i < offsetof(struct vb_key, check); i++)
        sum = (sum ^ at[i]) * 0x100000001b3ull;
    return sum;
}

weft_status vb_key(void *endpoint, void *mem, void *key, size_t capacity, size_t *bytes)
{
    const struct vb_endpoint *e = endpoint;
    const struct vb_mem *m = mem;
    struct vb_key k = {.nonce = e->nonce, .at = (uint64_t)(uintptr_t)m->at, .bytes = m->bytes};

    if (capacity < sizeof k)
        return VB_EXPLAIN(e, WEFT_EINVAL, "verbs: a key needs %zu bytes", sizeof k);
    for (int i = 0; i < e->nports; i++)
        k.rkey[i] = m->mr[i]->rkey;
    k.check = vb_key_check(&k);
    memcpy(key, &k, sizeof k);
    *bytes = sizeof k;
    return WEFT_SUCCESS;
}
