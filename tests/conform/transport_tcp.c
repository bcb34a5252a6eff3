/* transport_tcp.c: the transport suite over loopback TCP, with the real handshake.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "net/auth.h"
#include "transport.h"

extern const struct weft_plugin weft_plugin_tcp;

static struct weft_auth *auth_create(void *impl, int is_server, const void *claim, size_t claim_bytes)
{
    static const unsigned char job_key[32] = "one job, one key, for tests only";
    struct wi_auth_key key;
    (void)impl;
    if (wi_auth_derive(job_key, sizeof job_key, "transport_tcp", "tcp", &key))
        return NULL;
    return wi_auth_create(&key, is_server, claim, claim_bytes);
}

static void with_auth(struct weft_host *host)
{
    host->auth_create = auth_create;
    host->auth_step = wi_auth_step;
    host->auth_destroy = wi_auth_destroy;
    host->auth_session = wi_auth_session;
    host->auth_expect = wi_auth_expect;
}

static const char *const striped[] = {"TCP_SOCKETS=4", "TCP_CHUNK=64K", "TCP_INTERFACES=lo", NULL};
static const char *const tiny[] = {"TCP_SNDBUF=4K", "TCP_RCVBUF=4K", "TCP_EAGER=8K", "TCP_INTERFACES=lo", NULL};
static const char *const shared[] = {"TCP_SHARE=always", "TCP_INTERFACES=lo", NULL};
static const char *const one[] = {"TCP_INTERFACES=lo", NULL};

static const struct tc_fixture fixtures[] = {
    {.name = "tcp", .plugin = &weft_plugin_tcp, .settings = one, .host = with_auth},
    {.name = "tcp, 4 sockets", .plugin = &weft_plugin_tcp, .settings = striped, .host = with_auth},
    {.name = "tcp, shared connections", .plugin = &weft_plugin_tcp, .settings = shared, .host = with_auth},
    {.name = "tcp, 4 KiB buffers", .plugin = &weft_plugin_tcp, .settings = tiny, .host = with_auth},
};

#define TC_MAIN_NAME "transport_tcp"
#include "transport_main.h"
