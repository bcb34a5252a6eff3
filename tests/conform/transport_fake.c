/* transport_fake.c: the transport suite over a transport that can do the least and asks for the most, with the library's
 * channels above it.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "transport.h"

extern const struct weft_plugin weft_plugin;

static const char *const late[] = {"FAKERDMA_LATE=40", "FAKERDMA_POSTS=5", NULL};
static const char *const roomy[] = {"FAKERDMA_POSTS=64", "FAKERDMA_LATE=0", NULL};
/* Nothing longer than the layer's own buffers can be registered: long messages are staged. */
static const char *const staged[] = {"FAKERDMA_LARGEST=256K", NULL};

static const struct tc_fixture fixtures[] = {
    {.name = "fake", .plugin = &weft_plugin, .threads = 1, .channels = 1},
    {.name = "fake, late", .plugin = &weft_plugin, .settings = late, .threads = 1, .channels = 1},
    {.name = "fake, roomy", .plugin = &weft_plugin, .settings = roomy, .threads = 1, .channels = 1},
    {.name = "fake, staged", .plugin = &weft_plugin, .settings = staged, .threads = 1, .channels = 1},
};

#define TC_MAIN_NAME "transport_fake"
#include "transport_main.h"
