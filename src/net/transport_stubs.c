/* SPDX-License-Identifier: BSD-3-Clause */
/* Stubs for entries that a plugin leaves out. */
#include "net/transports.h"

#include <string.h>

#include "base/status.h"

static weft_status stub_xfer(void *group, struct weft_xfer *x)
{
    (void)group, (void)x;
    return WEFT_ENOTSUP;
}

static int stub_progress(void *group, struct weft_peer_failure *failure)
{
    (void)group, (void)failure;
    return 0;
}

static int stub_poll_fd(void *group)
{
    (void)group;
    return -1;
}

static int stub_poll_arm(void *group)
{
    (void)group;
    return 0;
}

static weft_status stub_mapped(void *group, struct weft_mapped *mapped)
{
    (void)group, (void)mapped;
    return WEFT_ENOTSUP;
}

static void stub_wake(void *group)
{
    (void)group;
}

static weft_status stub_mem_alloc(void *endpoint, size_t bytes, void **ptr)
{
    (void)endpoint, (void)bytes, (void)ptr;
    return WEFT_ENOTSUP;
}

static weft_status stub_mem_ptr(void *endpoint, void *ptr)
{
    (void)endpoint, (void)ptr;
    return WEFT_ENOTSUP;
}

static weft_status stub_mem_adopt(void *endpoint, void *ptr, size_t bytes, void **adopted, size_t *adopted_bytes)
{
    (void)endpoint, (void)ptr, (void)bytes, (void)adopted, (void)adopted_bytes;
    return WEFT_ENOTSUP;
}

static void stub_mem_describe(void *endpoint, const void *ptr, size_t bytes, struct weft_mem_desc *desc)
{
    (void)endpoint;
    *desc = (struct weft_mem_desc){0, 0, (uint64_t)(uintptr_t)ptr, bytes};
}

static weft_status stub_mem_map(void *group, int peer, const struct weft_mem_desc *desc, void **ptr)
{
    (void)group, (void)peer, (void)desc, (void)ptr;
    return WEFT_ENOTSUP;
}

static weft_status stub_mem_get(void *group, int peer, uint64_t remote, void *local, size_t bytes)
{
    (void)group, (void)peer, (void)remote, (void)local, (void)bytes;
    return WEFT_ENOTSUP;
}

static weft_status stub_mem_put(void *group, int peer, uint64_t remote, const void *local, size_t bytes)
{
    (void)group, (void)peer, (void)remote, (void)local, (void)bytes;
    return WEFT_ENOTSUP;
}

static size_t stub_describe_peer(void *group, int peer, char *text, size_t capacity)
{
    (void)group, (void)peer, (void)text, (void)capacity;
    return 0;
}

static int stub_peek(void *group, int peer, uint32_t chan, int connect, struct weft_op_info *info, size_t *bytes)
{
    (void)group, (void)peer, (void)chan, (void)connect, (void)info, (void)bytes;
    return WEFT_ENOTSUP;
}

static weft_status stub_mem_register(void *endpoint, void *ptr, size_t bytes, uint32_t memory, void **mem)
{
    (void)endpoint, (void)ptr, (void)bytes, (void)memory, (void)mem;
    return WEFT_ENOTSUP;
}

static void stub_mem_ended(void *where, void *mem)
{
    (void)where, (void)mem;
}

static weft_status stub_mem_key(void *endpoint, void *mem, void *key, size_t capacity, size_t *bytes)
{
    (void)endpoint, (void)mem, (void)key, (void)capacity, (void)bytes;
    return WEFT_ENOTSUP;
}

static weft_status stub_mem_import(void *group, int peer, const void *key, size_t bytes, void **remote)
{
    (void)group, (void)peer, (void)key, (void)bytes, (void)remote;
    return WEFT_ENOTSUP;
}

static weft_status stub_rma(void *group, struct weft_rma *r)
{
    (void)group, (void)r;
    return WEFT_ENOTSUP;
}

/* Memory that is touched inside of calls only is quiet between them. */
static weft_status stub_quiesce(void *group, uint64_t deadline_ns)
{
    (void)group, (void)deadline_ns;
    return WEFT_SUCCESS;
}

weft_status wi_transport_complete(const struct weft_plugin *plugin, struct weft_transport_ops *out)
{
    const struct weft_transport_ops *theirs = plugin->ops;
    size_t known = theirs->bytes < sizeof *out ? theirs->bytes : sizeof *out;

    memset(out, 0, sizeof *out);
    memcpy(out, theirs, known - known % sizeof(void *)); /* an entry that `bytes` cuts in two is none */
    out->bytes = sizeof *out;
    if (!out->open || !out->close || !out->address || !out->reachable || !out->group_create || !out->group_destroy)
        return wi_fail(WEFT_EPLUGIN,
                       "transport %s lacks a required entry (open, close, address, reachable, "
                       "group_create, group_destroy)",
                       plugin->name);
#define FILL(entry, stub) out->entry = out->entry ? out->entry : (stub)
    FILL(send, stub_xfer);
    FILL(recv, stub_xfer);
    FILL(progress, stub_progress);
    FILL(poll_fd, stub_poll_fd);
    FILL(poll_arm, stub_poll_arm);
    FILL(mapped, stub_mapped);
    FILL(wake, stub_wake);
    FILL(mem_alloc, stub_mem_alloc);
    FILL(mem_free, stub_mem_ptr);
    FILL(mem_adopt, stub_mem_adopt);
    FILL(mem_release, stub_mem_ptr);
    FILL(mem_describe, stub_mem_describe);
    FILL(mem_map, stub_mem_map);
    FILL(mem_get, stub_mem_get);
    FILL(mem_put, stub_mem_put);
    FILL(describe_peer, stub_describe_peer);
    FILL(peek, stub_peek);
    FILL(mem_register, stub_mem_register);
    FILL(mem_deregister, stub_mem_ended);
    FILL(mem_key, stub_mem_key);
    FILL(mem_import, stub_mem_import);
    FILL(mem_forget, stub_mem_ended);
    FILL(get, stub_rma);
    FILL(put, stub_rma);
    FILL(quiesce, stub_quiesce);
#undef FILL
    return WEFT_SUCCESS;
}
