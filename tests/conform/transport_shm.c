/* transport_shm.c: the transport suite over shared memory, with each way of moving long messages forced.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../../plugins/shm/shm.h"
#include "transport.h"

static const char *const streamed[] = {"SHM_MAP=n", "SHM_CMA=n", NULL};
static const char *const tiny_rings[] = {"SHM_MAP=n", "SHM_CMA=n", "SHM_RING_BYTES=4K", NULL};
static const char *const attached[] = {"SHM_RNDV_BYTES=64", "SHM_MAP=n", NULL};
static const char *const named[] = {"SHM_ARENA=named", NULL};

static const struct tc_fixture fixtures[] = {
    {.name = "shm", .plugin = &weft_plugin_shm},
    {.name = "shm, streamed", .plugin = &weft_plugin_shm, .settings = streamed},
    {.name = "shm, streamed through 4 KiB", .plugin = &weft_plugin_shm, .settings = tiny_rings},
    {.name = "shm, cross-memory attach", .plugin = &weft_plugin_shm, .settings = attached},
    {.name = "shm, arenas in /dev/shm", .plugin = &weft_plugin_shm, .settings = named},
};

#define TC_MAIN_NAME "transport_shm"
#include "transport_main.h"
