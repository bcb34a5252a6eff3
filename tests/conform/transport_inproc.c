/* transport_inproc.c: the transport suite over threads.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../../plugins/inproc/inproc.h"
#include "transport.h"

static const char *const streamed[] = {"INPROC_MAP=n", "INPROC_RING_BYTES=8K", NULL};

static const struct tc_fixture fixtures[] = {
    {.name = "inproc", .plugin = &weft_plugin_inproc, .threads = 1},
    {.name = "inproc, streamed", .plugin = &weft_plugin_inproc, .settings = streamed, .threads = 1},
};

#define TC_MAIN_NAME "transport_inproc"
#include "transport_main.h"
