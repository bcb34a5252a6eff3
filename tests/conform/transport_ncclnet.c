/* transport_ncclnet.c: the transport suite over a network plugin as NCCL loads them (tests/ncclnet/sample.c), for each version of
 * their interface, and over one that has no room, completes late and connects slowly.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/trusted_path.h"
#include "transport.h"

extern const struct weft_plugin weft_plugin;

static char plugin[600], plugin8[600];

__attribute__((constructor)) static void name_plugins(void)
{
    const char *build = getenv("WEFT_BUILDDIR");

    snprintf(plugin, sizeof plugin, "NCCLNET_PLUGIN=%s/.libs/libnccl-net-weftsample.so", build ? build : ".");
    snprintf(plugin8, sizeof plugin8, "NCCLNET_PLUGIN=%s/.libs/libnccl-net-weftsample8.so", build ? build : ".");
}

static void plain(struct weft_host *host)
{
    unsetenv("NNSAMPLE_FAULTS");
    host->path_trusted = wi_path_trusted;
}

/* What real plugins do now and then, all the time. */
static void unwilling(struct weft_host *host)
{
    plain(host);
    setenv("NNSAMPLE_FAULTS", "null_names,refuse=3,late=5,slow_connect=20,max_recvs=8", 1);
}

static const char *const v12[] = {plugin, NULL};
static const char *const v11[] = {plugin, "NCCLNET_MAX_VERSION=11", "NCCLNET_DEVICES=1", "NCCLNET_EAGER=64K", NULL};
static const char *const v10[] = {plugin, "NCCLNET_MAX_VERSION=10", "NCCLNET_DEVICES=sample2,sample0", NULL};
static const char *const v9[] = {plugin, "NCCLNET_MAX_VERSION=9", "NCCLNET_REQUESTS=4", "NCCLNET_EAGER=1K", NULL};
static const char *const v8[] = {plugin8, NULL};
static const char *const v12_unwilling[] = {plugin, "NCCLNET_REQUESTS=32", NULL};

static const struct tc_fixture fixtures[] = {
    {.name = "ncclnet, v12", .plugin = &weft_plugin, .settings = v12, .host = plain, .channels = 1},
    {.name = "ncclnet, v11", .plugin = &weft_plugin, .settings = v11, .host = plain, .channels = 1},
    {.name = "ncclnet, v10", .plugin = &weft_plugin, .settings = v10, .host = plain, .channels = 1},
    {.name = "ncclnet, v9", .plugin = &weft_plugin, .settings = v9, .host = plain, .channels = 1},
    {.name = "ncclnet, v8 without a name", .plugin = &weft_plugin, .settings = v8, .host = plain, .channels = 1},
    {.name = "ncclnet, v12, unwilling",
     .plugin = &weft_plugin,
     .settings = v12_unwilling,
     .host = unwilling,
     .channels = 1},
    {.name = "ncclnet, v8, unwilling", .plugin = &weft_plugin, .settings = v8, .host = unwilling, .channels = 1},
};

#define TC_MAIN_NAME "transport_ncclnet"
#include "transport_main.h"
