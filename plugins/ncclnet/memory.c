/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory. NCCL's plugins register for one connection; the library registers for all: it is done when memory is first
 * used on a connection, and undone with the connection or the memory, whichever ends first. */
#include "ncclnet.h"

#include <stdlib.h>
#include <string.h>

#define PAGE ((size_t)4096)

void *nn_memory_new(size_t bytes)
{
    size_t whole = (bytes + PAGE - 1) / PAGE * PAGE;
    void *memory = aligned_alloc(PAGE, whole);

    if (memory)
        memset(memory, 0, whole);
    return memory;
}

struct nn_mem *nn_mem_new(struct nn_endpoint *e, void *ptr, size_t bytes)
{
    struct nn_mem *m = calloc(1, sizeof *m);

    if (!m)
        return NULL;
    m->ptr = ptr;
    m->bytes = bytes;
    m->next = e->mems;
    m->at = &e->mems;
    if (m->next)
        m->next->at = &m->next;
    e->mems = m;
    return m;
}

static void undo(struct nn_endpoint *e, const struct nn_registered *r)
{
    int result = e->lib->dereg_mr(r->link->comm, r->handle);

    if (result != NN_SUCCESS)
        e->host->log(e->host->impl, WEFT_LOG_WARN, "ncclnet.memory", "%s: deregMr: %s", nn_net_name(e->lib),
                     nn_result_name(result));
}

void nn_mem_free(struct nn_endpoint *e, struct nn_mem *m)
{
    if (!m)
        return;
    for (unsigned i = 0; i < m->count; i++)
        undo(e, &m->on[i]);
    *m->at = m->next;
    if (m->next)
        m->next->at = m->at;
    free(m->on);
    free(m);
}

static int grow(struct nn_mem *m)
{
    unsigned capacity = m->capacity ? 2 * m->capacity : 4;
    struct nn_registered *on = realloc(m->on, capacity * sizeof *on);

    if (!on)
        return 0;
    m->on = on;
    m->capacity = capacity;
    return 1;
}

/* Who is used again and again is found at once. */
static void to_front(struct nn_mem *m, unsigned i)
{
    struct nn_registered first = m->on[0];

    m->on[0] = m->on[i];
    m->on[i] = first;
}

int nn_mem_on(struct nn_endpoint *e, struct nn_mem *m, struct nn_link *link, void **handle)
{
    void *made = NULL;
    int result;

    for (unsigned i = 0; i < m->count; i++)
        if (m->on[i].link == link) {
            *handle = m->on[i].handle;
            to_front(m, i);
            return NN_SUCCESS;
        }
    if (m->count == m->capacity && !grow(m))
        return NN_SYSTEM_ERROR;
    result = e->lib->reg_mr(link->comm, m->ptr, m->bytes, NN_POINTER_HOST, &made);
    if (result != NN_SUCCESS)
        return result;
    m->on[m->count] = (struct nn_registered){link, made};
    to_front(m, m->count++);
    *handle = made;
    return NN_SUCCESS;
}

void nn_mem_leave(struct nn_endpoint *e, struct nn_link *link)
{
    for (struct nn_mem *m = e->mems; m; m = m->next)
        for (unsigned i = 0; i < m->count; i++)
            if (m->on[i].link == link) {
                undo(e, &m->on[i]);
                m->on[i] = m->on[--m->count];
                break;
            }
}

weft_status nn_mem_register(void *endpoint, void *ptr, size_t bytes, uint32_t memory, void **mem)
{
    struct nn_endpoint *e = endpoint;
    struct nn_mem *m;

    if (!ptr || !bytes || memory > WEFT_MEMORY_HOST)
        return nn_explain(e, WEFT_EINVAL, "only memory of the host can be registered");
    pthread_mutex_lock(&e->lock);
    m = nn_mem_new(e, ptr, bytes);
    pthread_mutex_unlock(&e->lock);
    if (!m)
        return nn_explain(e, WEFT_ENOMEM, "no memory for a registration");
    *mem = m;
    return WEFT_SUCCESS;
}

void nn_mem_deregister(void *endpoint, void *mem)
{
    struct nn_endpoint *e = endpoint;

    pthread_mutex_lock(&e->lock);
    nn_mem_free(e, mem);
    pthread_mutex_unlock(&e->lock);
}
