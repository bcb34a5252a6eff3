/* tcp_host.h: a weft_host for tests of the tcp transport alone: a handshake of three messages that compares a shared
 * number instead of proving a key, settings by name, groups without a bootstrap.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef WT_TCP_HOST_H
#define WT_TCP_HOST_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weft/weft_plugin.h>

#include "base/fds.h"
#include "base/process.h"
#include "plugins/tcp/tcp.h"

extern const struct weft_plugin weft_plugin_tcp;
#define WT_TCP ((const struct weft_transport_ops *)weft_plugin_tcp.ops)

static char wt_tcp_explained[512];
static int wt_tcp_logs; /* warnings */

__attribute__((unused, format(printf, 4, 5))) static void wt_tcp_log(void *impl, enum weft_log_level level,
                                                                   const char *event, const char *format, ...)
{
    (void)impl;
    if (!getenv("WT_TCP_LOG")) {
        __atomic_fetch_add(&wt_tcp_logs, level <= WEFT_LOG_WARN, __ATOMIC_RELAXED);
        return;
    }
    va_list ap;
    va_start(ap, format);
    fprintf(stderr, "# %d %s: ", level, event);
    vfprintf(stderr, format, ap);
    fputc('\n', stderr);
    va_end(ap);
}

static uint64_t wt_tcp_skipped_ns;

__attribute__((unused)) static uint64_t wt_tcp_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec +
           __atomic_load_n(&wt_tcp_skipped_ns, __ATOMIC_RELAXED);
}

/* As if so much time had passed, for all that ask this clock. */
__attribute__((unused)) static void wt_tcp_skip(uint64_t ns)
{
    __atomic_fetch_add(&wt_tcp_skipped_ns, ns, __ATOMIC_RELAXED);
}

__attribute__((unused, format(printf, 3, 4))) static void wt_tcp_explain(void *impl, weft_status status,
                                                                       const char *format, ...)
{
    (void)impl;
    (void)status;
    va_list ap;
    va_start(ap, format);
    vsnprintf(wt_tcp_explained, sizeof wt_tcp_explained, format, ap);
    va_end(ap);
}

/* client: [key, nonce, claim] -> ; server: <- [key, nonce, claim]; client: [key] -> */
struct weft_auth {
    int server, stage;
    uint64_t nonce, peer_nonce;
    int (*wanted)(void *arg, const void *claim, size_t claim_bytes);
    void *wanted_arg;
    uint32_t key, claim_bytes;
    unsigned char claim[WEFT_AUTH_CLAIM_MAX];
};
#define WT_HELLO (16 + WEFT_AUTH_CLAIM_MAX)

__attribute__((unused)) static struct weft_auth *wt_tcp_auth_create(void *impl, int is_server, const void *claim,
                                                                  size_t claim_bytes)
{
    struct weft_auth *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    static uint64_t nonces;
    a->nonce = __atomic_add_fetch(&nonces, 1, __ATOMIC_RELAXED) * 0x9e3779b97f4a7c15ull;
    a->server = is_server;
    a->key = *(const uint32_t *)impl;
    a->claim_bytes = (uint32_t)claim_bytes;
    memcpy(a->claim, claim, claim_bytes);
    return a;
}

static size_t wt_tcp_hello(const struct weft_auth *a, unsigned char *out)
{
    memset(out, 0, WT_HELLO);
    memcpy(out, &a->key, 4);
    memcpy(out + 4, &a->claim_bytes, 4);
    memcpy(out + 8, &a->nonce, 8);
    memcpy(out + 16, a->claim, a->claim_bytes);
    return WT_HELLO;
}

static int wt_tcp_read_hello(struct weft_auth *a, const unsigned char *in, void *claim, size_t *claim_bytes)
{
    uint32_t key, bytes;
    memcpy(&key, in, 4);
    memcpy(&bytes, in + 4, 4);
    if (key != a->key || bytes > WEFT_AUTH_CLAIM_MAX || (a->wanted && !a->wanted(a->wanted_arg, in + 16, bytes)))
        return -1;
    memcpy(&a->peer_nonce, in + 8, 8);
    memcpy(a->claim, in + 16, bytes);
    a->claim_bytes = bytes;
    memcpy(claim, a->claim, bytes);
    *claim_bytes = bytes;
    return 0;
}

__attribute__((unused)) static weft_status wt_tcp_auth_step(struct weft_auth *a, const void *in, size_t in_bytes,
                                                          size_t *consumed, void *out, size_t out_capacity,
                                                          size_t *out_bytes, void *claim, size_t *claim_bytes)
{
    (void)out_capacity;
    *consumed = *out_bytes = 0;
    if (!a->server && a->stage == 0) {
        *out_bytes = wt_tcp_hello(a, out);
        a->stage = 1;
        return WEFT_INPROGRESS;
    }
    if (a->server && a->stage == 1) {
        if (in_bytes < 4)
            return WEFT_INPROGRESS;
        *consumed = 4;
        memcpy(claim, a->claim, a->claim_bytes);
        *claim_bytes = a->claim_bytes;
        return memcmp(in, &a->key, 4) ? WEFT_EAUTH : WEFT_SUCCESS;
    }
    if (in_bytes < WT_HELLO)
        return in_bytes >= 4 && memcmp(in, &a->key, 4) ? WEFT_EAUTH : WEFT_INPROGRESS;
    *consumed = WT_HELLO;
    if (a->server)
        *out_bytes = wt_tcp_hello(a, out);
    if (wt_tcp_read_hello(a, in, claim, claim_bytes)) {
        *out_bytes = 0;
        return WEFT_EAUTH;
    }
    a->stage = 1;
    if (a->server)
        return WEFT_INPROGRESS;
    memcpy(out, &a->key, 4);
    *out_bytes = 4;
    return WEFT_SUCCESS;
}

__attribute__((unused)) static void wt_tcp_auth_expect(struct weft_auth *a, int (*wanted)(void *, const void *, size_t), void *arg)
{
    a->wanted = wanted;
    a->wanted_arg = arg;
}

/* Of the nonces of both sides, in an order that both know. */
__attribute__((unused)) static weft_status wt_tcp_auth_session(struct weft_auth *a, const char *label, void *key,
                                                             size_t key_bytes)
{
    uint64_t said[2] = {a->server ? a->peer_nonce : a->nonce, a->server ? a->nonce : a->peer_nonce};
    (void)label;
    for (size_t i = 0; i < key_bytes; i++)
        ((unsigned char *)key)[i] = ((const unsigned char *)said)[i % sizeof said];
    return WEFT_SUCCESS;
}

__attribute__((unused)) static void wt_tcp_auth_destroy(struct weft_auth *a)
{
    free(a);
}

__attribute__((unused)) static void wt_tcp_host_init(struct weft_host *h, uint32_t *key)
{
    *h = (struct weft_host){.bytes = sizeof *h,
                            .impl = key,
                            .log = wt_tcp_log,
                            .now_ns = wt_tcp_now,
                            .explain = wt_tcp_explain,
                            .auth_create = wt_tcp_auth_create,
                            .auth_step = wt_tcp_auth_step,
                            .auth_destroy = wt_tcp_auth_destroy,
                            .auth_session = wt_tcp_auth_session,
                            .auth_expect = wt_tcp_auth_expect,
                            .fd_keep = wi_fd_keep,
                            .fd_close = wi_fd_close,
                            .process_self = wi_process_self,
                            .process_state = wi_process_state};
}

static const char *wt_tcp_share = "auto";

/* What the table's defaults mean, so that tests need no settings module. */
__attribute__((unused)) static void wt_tcp_defaults(struct wi_tcp_settings *s)
{
    *s = (struct wi_tcp_settings){.interfaces = "lo", .family = "auto", .port = "", .share = wt_tcp_share, .keepalive_count = 3,
                                  .half_open = 64, .chunk = 256 << 10, .eager = 256 << 10, .unsent = 512 << 10,
                                  .fast_rate = 500000000,
                                  .user_timeout = 10000000000ull, .keepalive_idle = 5000000000ull,
                                  .keepalive_interval = 2000000000ull, .connect_timeout = 30000000000ull,
                                  .auth_timeout = 2000000000ull, .park_timeout = 60000000000ull};
}

#endif
