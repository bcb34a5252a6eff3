/* transport_verbs.c: the transport suite over RDMA devices, with the library's channels above them and its side channel beside
 * them. It runs in a virtual machine that has them (tests/multi/test_verbs.sh).
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "transport.h"

extern const struct weft_plugin weft_plugin;

static const char *const one[] = {"VERBS_RAILS=1", NULL};

static const struct tc_fixture fixtures[] = {
    {.name = "verbs", .plugin = &weft_plugin, .settings = one, .channels = 1, .side = 1},
};

#define TC_MAIN_NAME "transport_verbs"
#include "transport_main.h"
