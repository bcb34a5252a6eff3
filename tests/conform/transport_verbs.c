/* transport_verbs.c: the transport suite over RDMA devices, with the library's channels above them and its side channel beside
 * them. It runs in a virtual machine that has them (tests/multi/test_verbs.sh).
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "transport.h"

extern const struct weft_plugin weft_plugin;

static const char *const one[] = {"VERBS_DEVICES=rx0", NULL};
#ifdef VERBS_LONG
/* Everything is tight: nothing travels inside of requests, queues are as short as they may be. */
static const char *const tight[] = {"VERBS_DEVICES=rx0", "VERBS_INLINE=0", "VERBS_DEPTH=16", NULL};
/* Nearly all messages are striped. */
static const char *const rails[] = {"VERBS_DEVICES=rx0,rx2", "VERBS_STRIPE=4K", NULL};
#endif

static const struct tc_fixture fixtures[] = {
    {.name = "verbs", .plugin = &weft_plugin, .settings = one, .channels = 1},
#ifdef VERBS_LONG
    {.name = "verbs, tight", .plugin = &weft_plugin, .settings = tight, .channels = 1},
    {.name = "verbs, 2 rails", .plugin = &weft_plugin, .settings = rails, .channels = 1},
#endif
};

#define TC_MAIN_NAME "transport_verbs"
#include "transport_main.h"
