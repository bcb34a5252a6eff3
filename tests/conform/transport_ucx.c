/* transport_ucx.c: the transport suite over UCX's shared memory, its TCP, and both.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <stdlib.h>

#include "transport.h"

/* Before UCX is loaded, in the process of the rank. */
static void over_both(struct weft_host *host)
{
    (void)host;
    setenv("UCX_TLS", "posix,cma,tcp,self", 1);
}

static void over_copies(struct weft_host *host)
{
    (void)host;
    setenv("UCX_TLS", "posix,self", 1);
}

static void over_tcp(struct weft_host *host)
{
    (void)host;
    setenv("UCX_TLS", "tcp,self", 1);
    setenv("UCX_NET_DEVICES", "lo", 1);
}

extern const struct weft_plugin weft_plugin;

static const char *const any[] = {"UCX_NETWORK=any", NULL};
static const char *const small[] = {"UCX_NETWORK=any", "UCX_SEGMENT=4K", "UCX_WINDOW=64K", NULL};

static const struct tc_fixture fixtures[] = {
    {.name = "ucx, shared memory", .plugin = &weft_plugin, .settings = any, .host = over_both},
    {.name = "ucx, shared memory by copies", .plugin = &weft_plugin, .settings = any, .host = over_copies},
    {.name = "ucx, tcp", .plugin = &weft_plugin, .settings = any, .host = over_tcp},
    {.name = "ucx, small segments", .plugin = &weft_plugin, .settings = small, .host = over_both},
    {.name = "ucx, small segments, tcp", .plugin = &weft_plugin, .settings = small, .host = over_tcp},
};

#define TC_MAIN_NAME "transport_ucx"
#include "transport_main.h"
