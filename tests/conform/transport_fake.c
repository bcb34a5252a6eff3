/* transport_fake.c: the transport suite over a transport that can do the least and asks for the most, with the library's
 * channels above it.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <string.h>

#include "transport.h"

extern const struct weft_plugin weft_plugin, fake_rdma_alone;

static const char *const late[] = {"FAKERDMA_LATE=40", "FAKERDMA_POSTS=5", NULL};
static const char *const roomy[] = {"FAKERDMA_POSTS=64", "FAKERDMA_LATE=0", NULL};
/* Nothing longer than the layer's own buffers can be registered: long messages are staged. */
static const char *const staged[] = {"FAKERDMA_LARGEST=256K", NULL};

static const struct tc_fixture fixtures[] = {
    {.name = "fake", .plugin = &weft_plugin, .threads = 1, .channels = 1},
    {.name = "fake, late", .plugin = &weft_plugin, .settings = late, .threads = 1, .channels = 1},
    {.name = "fake, roomy", .plugin = &weft_plugin, .settings = roomy, .threads = 1, .channels = 1},
    {.name = "fake, staged", .plugin = &weft_plugin, .settings = staged, .threads = 1, .channels = 1},
    {.name = "fake, alone", .plugin = &fake_rdma_alone, .threads = 1}, /* gets and puts without the layer */
};

/* A rank aborts while another one still makes its group: that is a failure of the rank, not of the group. */
static void tc_case_aborted_early(struct tc_rank *r)
{
    char byte = 0;
    struct weft_xfer x;

    if (r->rank > 0)
        tc_group(r);
    wt_sync();
    if (r->rank == 1)
        tc_group_end(r, 1);
    wt_sync();
    if (r->rank == 0) {
        tc_group(r);
        WT_CHECK(tc_wait_failure(r, 10000) != UINT64_MAX);
        WT_CHECK_INT(r->failure.peer, 1);
        WT_CHECK_INT(r->failure.status, WEFT_EPEER);
        WT_CHECK(strstr(r->failure.text, "aborted") != NULL);
        tc_xfer(&x, 1, 0, &byte, 1);
        WT_CHECK_STATUS(r->ops->recv(r->group, &x), WEFT_EPEER);
        WT_CHECK_STATUS(r->ops->send(r->group, &x), WEFT_EPEER);
    }
    wt_sync();
    byte = (char)(7 * r->rank);
    tc_xfer(&x, 2 - r->rank, 0, &byte, 1);
    if (r->rank == 2)
        tc_post_send(r, &x);
    else if (r->rank == 0)
        tc_post_recv(r, &x);
    if (r->rank != 1) {
        tc_wait(r, &x, 1);
        WT_CHECK_INT(x.state, WEFT_SUCCESS);
        WT_CHECK_INT(byte, 14);
    }
    wt_sync();
}

#define TC_OWN_CASES(X) X(aborted_early, 3, "a rank that aborts early fails no group", WEFT_CAP_TWO_SIDED, 0)
#define TC_MAIN_NAME "transport_fake"
#include "transport_main.h"
